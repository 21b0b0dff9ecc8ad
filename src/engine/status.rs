//! What a store holds, what it uses, and what waits.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::commit::View;
use crate::files::{Files, SystemFiles};
use crate::model::AgentId;
use crate::store::{SessionState, StoreError, StoreLocation};

use super::Engine;

/// A session that waits for a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingSession {
    /// Its id.
    pub session_id: String,
    /// `import`, `rewind`, `rebuild` or `unreadable`.
    pub reason: &'static str,
    /// Its events.
    pub events: u64,
    /// Messages that its rebuild has indexed so far.
    pub documents: u64,
}

/// The state of one agent's store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct StatusReport {
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
    /// Messages that can be found.
    pub documents: u64,
    /// Bytes on disk, by part.
    pub bytes: BTreeMap<&'static str, u64>,
    /// First document number that is not in the index.
    pub watermark: u64,
    /// Documents after the last checkpoint, in memory.
    pub tail: u64,
    /// Sessions that wait.
    pub pending: Vec<PendingSession>,
    /// How texts become words.
    pub analyzer: String,
    /// Versions of analyzer and redaction, as the index was made with.
    pub schema: String,
}

/// What can be told from outside while another process holds the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeldStatus {
    /// Who holds it.
    pub holder: String,
    /// Bytes on disk, by part.
    pub bytes: BTreeMap<&'static str, u64>,
}

impl HeldStatus {
    /// Looks at the files alone.
    #[must_use]
    pub fn new(root: &Path, agent: &AgentId, holder: &str) -> Self {
        Self { holder: holder.to_owned(), bytes: sizes(&SystemFiles, &StoreLocation::new(root, agent)) }
    }
}

impl Engine {
    /// Counts and sizes.
    ///
    /// # Errors
    /// [`StoreError`] when the store can't be read.
    pub fn status(&self) -> Result<StatusReport, StoreError> {
        self.read(|view| self.status_of(view))
    }

    fn status_of(&self, view: &View) -> Result<StatusReport, StoreError> {
        let counters = view.snapshot.counters()?;
        let schema = view.snapshot.schema()?;
        let pending = view
            .sessions
            .iter()
            .filter_map(|row| match row.state {
                SessionState::Ready => None,
                SessionState::Pending(reason) => Some(PendingSession {
                    session_id: row.session_id.as_str().to_owned(),
                    reason: reason.as_str(),
                    events: row.next_seq,
                    documents: row.documents,
                }),
            })
            .collect();
        Ok(StatusReport {
            sessions: view.sessions.len() as u64,
            events: counters.events,
            documents: view.index.num_documents,
            bytes: sizes(self.committer.files(), self.committer.location()),
            watermark: view.index.watermark,
            tail: (view.index.frozen.num_docs() + view.index.tail.num_docs()) as u64,
            pending,
            schema: format!("{}/{} redaction {}", schema.analyzer, schema.analyzer_version, schema.redaction),
            analyzer: schema.analyzer,
        })
    }
}

fn sizes(files: &dyn Files, location: &StoreLocation) -> BTreeMap<&'static str, u64> {
    let index = location.index();
    let len = |path: &Path| files.len_bytes(path).unwrap_or(0);
    let of_index = files.list(&index).unwrap_or_default().iter().map(|name| len(&index.join(name))).sum();
    let journal = len(&location.journal()) + len(&location.journal_aside());
    BTreeMap::from([("transcripts", len(&location.database())), ("journal", journal), ("index", of_index)])
}
