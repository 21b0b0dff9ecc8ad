//! Listing sessions.

use std::sync::Arc;

use serde::Serialize;

use crate::access::bounds::num_that_fit;
use crate::access::stages::Bounded;
use crate::limits::{DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT, MAX_TOOL_RESULT_BYTES};
use crate::model::{AgentId, SessionId, SessionKey, Timestamp};
use crate::store::{SessionRow, StoreError};
use crate::transcript::Redactor;

use super::Engine;

/// Which sessions. [`ListRequest::default`] lists the newest active ones.
#[derive(Debug, Clone)]
pub struct ListRequest {
    /// Archived sessions instead of active ones.
    pub archived: bool,
    /// Sessions at most: 50 by default.
    pub limit: usize,
    /// Sessions to pass over first.
    pub offset: usize,
    /// Only these kinds: `main`, `group`, `cron`, `hook`, `node`, `other`.
    pub kinds: Option<Vec<String>>,
    /// Only sessions of exactly this label.
    pub label: Option<String>,
    /// Only sessions active at this time or later.
    pub active_since: Option<Timestamp>,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { archived: false, limit: DEFAULT_LIST_LIMIT, offset: 0, kinds: None, label: None, active_since: None }
    }
}

impl ListRequest {
    /// Whether the request is within its bounds, which no store is needed to tell. [`Engine::sessions`] asks the same.
    ///
    /// # Errors
    /// [`ListError::Limit`].
    pub fn check(&self) -> Result<(), ListError> {
        if (1..=MAX_LIST_LIMIT).contains(&self.limit) { Ok(()) } else { Err(ListError::Limit) }
    }
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A limit out of range. Never clamped.
    #[error("limit must be a positive integer, at most {MAX_LIST_LIMIT}")]
    Limit,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One session of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// The key.
    pub session_key: SessionKey,
    /// The window.
    pub session_id: SessionId,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// What kind of conversation the key names: `main`, `group`, `cron`, `hook`, `node` or `other`.
    pub kind: &'static str,
    /// Last activity; 0 when unknown.
    pub updated_at: Timestamp,
    /// Searchable messages.
    pub messages: u64,
    /// The session that spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SessionKey>,
    /// Its explicit parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_key: Option<SessionKey>,
    /// Whether it is archived.
    pub archived: bool,
}

/// Sessions, newest activity first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionList {
    /// Rows in this answer.
    pub count: usize,
    /// The rows.
    pub sessions: Vec<SessionSummary>,
    /// The offset of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    #[serde(skip)]
    offset: usize,
}

impl SessionList {
    /// What a request asks for of these sessions.
    pub(super) fn of<'r>(
        rows: impl IntoIterator<Item = &'r Arc<SessionRow>>,
        request: &ListRequest,
        redactor: &Redactor,
    ) -> Self {
        // A label is compared as it is shown: no filter may confirm what is masked.
        let shown = |row: &SessionRow| row.label().map(|label| redactor.redact(label).into_owned());
        let is_asked = |row: &SessionRow| {
            row.facts.archived == request.archived
                && request.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|kind| kind == row.session_key.kind()))
                && request.active_since.is_none_or(|since| row.updated_at >= since)
                && request.label.as_ref().is_none_or(|label| shown(row).as_ref() == Some(label))
        };
        let mut rows: Vec<_> = rows.into_iter().filter(|row| is_asked(row)).collect();
        rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.session_id.cmp(&b.session_id)));
        let num_rows = rows.len();
        let sessions = rows.into_iter().skip(request.offset).take(request.limit).map(|row| SessionSummary {
            session_key: row.session_key.clone(),
            session_id: row.session_id.clone(),
            label: shown(row),
            kind: row.session_key.kind(),
            updated_at: row.updated_at,
            messages: row.documents,
            spawned_by: row.facts.spawned_by.clone(),
            parent_session_key: row.facts.parent.clone(),
            archived: row.facts.archived,
        });
        Self::page(sessions.collect(), request.offset, num_rows)
    }

    /// One list from those of several agents, each with all its sessions from the first on.
    pub(super) fn merge(lists: Vec<(AgentId, Self)>, request: &ListRequest) -> Self {
        let more_rows = lists.iter().any(|(_, list)| list.next_offset.is_some());
        let mut rows: Vec<(AgentId, SessionSummary)> = Vec::new();
        for (agent, list) in lists {
            rows.extend(list.sessions.into_iter().map(|row| (agent.clone(), row)));
        }
        rows.sort_by(|(agent_a, a), (agent_b, b)| {
            let by_time = b.updated_at.cmp(&a.updated_at);
            by_time.then_with(|| a.session_id.cmp(&b.session_id)).then_with(|| agent_a.cmp(agent_b))
        });
        let num_rows = rows.len() + usize::from(more_rows);
        let page = rows.into_iter().skip(request.offset).take(request.limit).map(|(_, row)| row);
        Self::page(page.collect(), request.offset, num_rows)
    }

    fn page(sessions: Vec<SessionSummary>, offset: usize, num_rows: usize) -> Self {
        let next = offset.saturating_add(sessions.len());
        let next_offset = (!sessions.is_empty() && next < num_rows).then_some(next);
        Self { count: sessions.len(), sessions, next_offset, offset }
    }
}

impl Bounded for SessionList {
    fn cut(&mut self) {
        let kept = num_that_fit(&self.sessions, MAX_TOOL_RESULT_BYTES);
        if kept < self.sessions.len() {
            self.sessions.truncate(kept);
            self.count = kept;
            // A row too large for any page is passed over, or paging would never get past it.
            self.next_offset = Some(self.offset.saturating_add(kept.max(1)));
        }
    }
}

impl Engine {
    /// Lists sessions, newest activity first.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn sessions(&self, request: &ListRequest) -> Result<SessionList, ListError> {
        request.check()?;
        let view = self.committer.pin();
        Ok(SessionList::of(view.sessions.iter(), request, view.pipeline.redactor()))
    }
}
