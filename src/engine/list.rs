//! Listing sessions.

use serde::Serialize;

use crate::limits::{DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT};
use crate::model::{SessionId, SessionKey, Timestamp};
use crate::store::StoreError;

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
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { archived: false, limit: DEFAULT_LIST_LIMIT, offset: 0 }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionList {
    /// Rows in this answer.
    pub count: usize,
    /// The rows.
    pub sessions: Vec<SessionSummary>,
}

impl Engine {
    /// Lists sessions, newest activity first.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn sessions(&self, request: &ListRequest) -> Result<SessionList, ListError> {
        request.check()?;
        let view = self.committer.pin();
        let mut rows: Vec<_> = view.sessions.iter().filter(|row| row.facts.archived == request.archived).collect();
        rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.session_id.cmp(&b.session_id)));
        let sessions: Vec<SessionSummary> = rows
            .into_iter()
            .skip(request.offset)
            .take(request.limit)
            .map(|row| SessionSummary {
                session_key: row.session_key.clone(),
                session_id: row.session_id.clone(),
                label: row.label().map(str::to_owned),
                kind: row.session_key.kind(),
                updated_at: row.updated_at,
                messages: row.documents,
                spawned_by: row.facts.spawned_by.clone(),
                parent_session_key: row.facts.parent.clone(),
                archived: row.facts.archived,
            })
            .collect();
        Ok(SessionList { count: sessions.len(), sessions })
    }
}
