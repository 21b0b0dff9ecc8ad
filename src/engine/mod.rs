//! The façade: one agent's store, and each way through it on one screen.

mod copies;
mod export;
mod history;
mod import;
mod list;
mod reindex;
mod rendered;
mod replace;
mod search;
mod status;
mod stores;
mod verify;
mod visible_set;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use copies::{BackupError, CompactError, Compacted};
pub use export::{
    ExportError, ExportFormat, ExportOptions, ExportProgress, ExportSummary, ExportedSession, UnreadableEvent,
};
pub use history::{Anchor, HistoryAnswer, HistoryBlock, HistoryError, HistoryMessage, HistoryRequest};
pub use import::{ImportError, ImportFormat, ImportOptions, ImportProgress, ImportSummary, LineReport, SkippedFile};
pub use list::{ListError, ListRequest, SessionList, SessionSummary};
pub use reindex::ReindexRequest;
pub use replace::ReplaceError;
pub use search::{
    Coverage, EmptyReason, Explanation, Hit, HitExplanation, PieceExplanation, SearchAnswer, SearchError, SearchRequest,
};
pub use status::{HeldStatus, PendingSession, StatusReport};
pub use stores::{AskError, Stores};
pub use verify::{Finding, FindingKind, VerifyReport};

use crate::analysis::{Analyzer as _, Analyzers, UnicodeWord};
use crate::commit::{
    AppendRefusal, Appended, CheckpointError, Committer, Deleted, Durability, EventPlace, Maintenance, OpenCommitter,
    PreparedEvent, RekeyRefusal, SessionTarget, Tuning, View,
};
use crate::files::{Files, SystemFiles};
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey, Timestamp};
use crate::store::{DEFAULT_CACHE_BYTES, StoreError, StoreLocation, note_owner};
use crate::transcript::{EventError, Redaction};

/// How an engine is opened. [`OpenOptions::default`] opens what is there and makes nothing.
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Whose sessions.
    pub agent: AgentId,
    /// Make the store when it is missing.
    pub create: bool,
    /// How long to wait for another process that holds the store: 5 s by default.
    pub busy_timeout: Duration,
    /// What an acknowledged write survives: everything, by default.
    pub durability: Durability,
    /// redb's page cache, in bytes: 32 MiB by default.
    pub cache_bytes: usize,
    /// Called with a share from 0 to 1 while the store is repaired after a crash.
    pub repairing: Option<Arc<dyn Fn(f64) + Send + Sync>>,
    /// What a store that is made masks before anything is indexed or shown: the built-in patterns by default. A store
    /// that is there goes on as it was made, until [`Engine::reindex`].
    pub redaction: Redaction,
    /// The analyzer of a store that is made, by its name: `unicode-word` by default, which is SQLite FTS5's, or `cjk`,
    /// which finds any part of a run of Chinese, Japanese, Korean or Thai. A store that is there keeps its own
    /// until [`Engine::reindex`].
    pub analyzer: String,
    /// The analyzers a store may have: the built-in ones by default. A store whose analyzer is none of them is not
    /// opened.
    pub analyzers: Analyzers,
    /// A line about this process for the `owner` file, shown to others that find the store busy.
    pub owner: Option<String>,
    /// What stands in for the disk, for tests.
    #[cfg(feature = "__internal_faults")]
    #[doc(hidden)]
    pub files: Arc<dyn Files>,
    /// The thresholds of the engine, for tests.
    #[cfg(feature = "__internal_faults")]
    #[doc(hidden)]
    pub tuning: Tuning,
}

impl OpenOptions {
    fn committer(&self) -> OpenCommitter {
        #[cfg(feature = "__internal_faults")]
        let tuning = self.tuning.clone();
        #[cfg(not(feature = "__internal_faults"))]
        let tuning = Tuning::default();
        let repairing = self.repairing.clone();
        OpenCommitter {
            files: self.files(),
            tuning,
            repairing: Arc::new(move |share| {
                if let Some(repairing) = &repairing {
                    repairing(share);
                }
            }),
            create: self.create,
            busy_timeout: self.busy_timeout,
            durability: self.durability,
            cache_bytes: self.cache_bytes,
            uuid: *uuid::Uuid::new_v4().as_bytes(),
            redaction: self.redaction.clone(),
            analyzer: self.analyzer.clone(),
            analyzers: self.analyzers.clone(),
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            agent: AgentId::default(),
            create: false,
            busy_timeout: Duration::from_secs(5),
            durability: Durability::Durable,
            cache_bytes: DEFAULT_CACHE_BYTES,
            repairing: None,
            redaction: Redaction::on(),
            analyzer: UnicodeWord.name().to_owned(),
            analyzers: Analyzers::default(),
            owner: None,
            #[cfg(feature = "__internal_faults")]
            files: Arc::new(SystemFiles),
            #[cfg(feature = "__internal_faults")]
            tuning: Tuning::default(),
        }
    }
}

impl OpenOptions {
    fn files(&self) -> Arc<dyn Files> {
        #[cfg(feature = "__internal_faults")]
        return Arc::clone(&self.files);
        #[cfg(not(feature = "__internal_faults"))]
        Arc::new(SystemFiles)
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions").field("agent", &self.agent).field("create", &self.create).finish_non_exhaustive()
    }
}

/// One agent's transcripts, open for reading and writing.
///
/// Every method blocks and may be called from any thread. Readers never wait for writers.
///
/// ```
/// use sessions_search::{AppendRequest, Engine, OpenOptions, SearchRequest, SessionKey, Timestamp};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// let mut options = OpenOptions::default();
/// options.create = true;
/// let engine = Engine::open(root, options)?;
///
/// let now = Timestamp::parse_iso("2026-07-01T08:00:00Z")?;
/// let line = r#"{"type":"message","id":"k1","message":{"role":"user","content":"where is the otter map?"}}"#;
/// let key = SessionKey::parse("agent:main:main")?;
/// engine.append(AppendRequest::new(key, vec![line.into()]), now)?;
///
/// let answer = engine.search(&SearchRequest::new("Otter MAP"))?;
/// assert_eq!(answer.results[0].message_id.as_str(), "k1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Engine {
    // Stopped before the committer goes: the thread holds it too.
    maintenance: Maintenance,
    committer: Arc<Committer>,
    agent: AgentId,
    root: PathBuf,
    options: OpenOptions,
    key_scopes: search::KeyScopes,
}

/// Events for one session. [`AppendRequest::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AppendRequest {
    /// The session key; made when it is new.
    pub session_key: SessionKey,
    /// The window; without it the key's current one, else a new UUID.
    pub session_id: Option<SessionId>,
    /// Naming and lineage; what is given replaces what is stored.
    pub facts: SessionFacts,
    /// The lines, one event each, in the shape of OpenClaw's JSONL.
    pub lines: Vec<Vec<u8>>,
}

impl AppendRequest {
    /// Events for the current window of a key.
    #[must_use]
    pub fn new(session_key: SessionKey, lines: Vec<Vec<u8>>) -> Self {
        Self { session_key, session_id: None, facts: SessionFacts::default(), lines }
    }
}

/// Why one line of an append was not stored; the others are not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is no event.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The store refused it.
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
}

/// Why an append stored nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The session refuses the append.
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    /// Incognito sessions are never stored (D19).
    #[error("{key} is an incognito session: its messages are never stored")]
    Incognito {
        /// The key.
        key: SessionKey,
    },
    /// The key is one of another agent than this store's.
    #[error("{key} is no key of agent {agent}; nothing was stored")]
    OtherAgent {
        /// The key.
        key: SessionKey,
        /// Whose store this is.
        agent: AgentId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nothing was deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// No such session.
    #[error("no session {given:?} in this store; nothing was deleted")]
    UnknownSession {
        /// The key or id as given.
        given: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Opens, and where asked makes, the store of one agent under `root`.
    ///
    /// # Errors
    /// [`StoreError::Missing`] where there is none and none is to be made, [`StoreError::Busy`] while another process
    /// holds it, and what reading it can meet.
    pub fn open(root: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        let location = StoreLocation::new(root, &options.agent);
        let committer = Committer::open(location, options.committer())?;
        if let Some(owner) = &options.owner {
            note_owner(committer.location(), committer.files(), owner);
        }
        let committer = Arc::new(committer);
        let maintenance = Maintenance::start(Arc::clone(&committer))
            .map_err(StoreError::io("starting the store's background thread"))?;
        if committer.has_pending() {
            committer.request_reconcile();
        }
        Ok(Self {
            maintenance,
            committer,
            agent: options.agent.clone(),
            root: root.to_owned(),
            options,
            key_scopes: search::KeyScopes::default(),
        })
    }

    /// The store of another agent under the same root. A new one analyses and redacts as this one does.
    fn open_sibling(&self, agent: AgentId) -> Result<Self, StoreError> {
        let (analyzer, redaction) = (self.analyzer().to_owned(), self.redaction());
        Self::open(&self.root, OpenOptions { agent, create: true, analyzer, redaction, ..self.options.clone() })
    }

    /// What this store masks, as chosen when it was made or reindexed.
    #[must_use]
    pub fn redaction(&self) -> Redaction {
        self.committer.pipeline().redaction().clone()
    }

    /// The name of the analyzer that makes words of this store's texts.
    #[must_use]
    pub fn analyzer(&self) -> &'static str {
        self.committer.pipeline().analyzer().name()
    }

    /// Reads one pinned view; where the disk has failed, after the store was opened again.
    fn read<R, E: From<StoreError>>(&self, read: impl Fn(&View) -> Result<R, E>) -> Result<R, E> {
        // The view may still have what is asked for where the store can't be opened again now.
        let _ = self.committer.heal();
        let result = read(&self.committer.pin());
        if result.is_ok() || !self.committer.is_poisoned() {
            return result;
        }
        self.committer.heal()?;
        read(&self.committer.pin())
    }

    /// Whose sessions these are.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The folder that holds transcripts and index.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.committer.location().folder().to_owned()
    }

    /// Stores events in one transaction: on disk, and searchable, when this returns. `now` is the time given to
    /// events that state none (D9). One result a line, in order.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of the call was stored, unless the store's outcome is unknown.
    pub fn append(
        &self,
        request: AppendRequest,
        now: Timestamp,
    ) -> Result<Vec<Result<EventPlace, LineError>>, AppendError> {
        let mut request = request;
        if request.session_key.is_incognito() {
            return Err(AppendError::Incognito { key: request.session_key });
        }
        if request.session_key.as_str() == "main" {
            // The alias is accepted, and never stored as such (contract §1.3).
            request.session_key = SessionKey::parse(&format!("agent:{}:main", self.agent))
                .unwrap_or_else(|_| unreachable!("an agent id makes a key"));
        }
        if let Some(agent) = request.session_key.agent_part()
            && agent != self.agent.as_str()
        {
            let (key, agent) = (request.session_key.clone(), self.agent.clone());
            return Err(AppendError::OtherAgent { key, agent });
        }
        let pipeline = self.committer.pipeline();
        let mut results: Vec<Option<Result<EventPlace, LineError>>> = Vec::with_capacity(request.lines.len());
        let mut prepared = Vec::with_capacity(request.lines.len());
        for line in request.lines {
            match PreparedEvent::new(&pipeline, line) {
                Ok(event) => {
                    prepared.push(event);
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error.into()))),
            }
        }
        let mut stored = Vec::new().into_iter();
        if !prepared.is_empty() {
            let target = SessionTarget {
                key: request.session_key,
                current: request.session_id.is_some(),
                id: request.session_id,
                new_id: new_session_id(),
                facts: request.facts,
            };
            self.committer.heal()?;
            stored = self.committer.append(target, prepared, now)??.into_iter();
        }
        Ok(results
            .into_iter()
            .filter_map(|known| {
                known.or_else(|| {
                    stored.next().map(|outcome| match outcome {
                        Ok(Appended::Stored(place) | Appended::Known(place)) => Ok(place),
                        Err(refusal) => Err(refusal.into()),
                    })
                })
            })
            .collect())
    }

    /// Waits until no session is hidden for being rebuilt, at most `timeout`. Tells whether that is so.
    #[must_use = "`false` means that answers may still be incomplete"]
    pub fn wait_for_indexing(&self, timeout: Duration) -> bool {
        self.committer.wait_for_indexing(timeout)
    }

    /// Writes what is only in memory of the index into it, now. Happens by itself in the background.
    ///
    /// # Errors
    /// [`CheckpointError`]: everything stays searchable, and a later attempt starts over.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        self.committer.heal()?;
        self.committer.checkpoint().map(|_| ())
    }

    /// Ends background work and leaves the index so that the next open is quick. Dropping an engine is safe too; then
    /// the next open replays more.
    ///
    /// # Errors
    /// [`CheckpointError`]: the last checkpoint did not succeed. Nothing is lost, the next open replays more; but with
    /// [`Durability::Relaxed`] and a disk that fails, what was written last may be.
    pub fn close(mut self) -> Result<(), CheckpointError> {
        self.maintenance.stop();
        self.committer.checkpoint_for_close()
    }

    /// Deletes one session. Gone for every search when this returns; importing it again is refused (D27).
    ///
    /// # Errors
    /// [`DeleteError`]: nothing was deleted, unless the store's outcome is unknown.
    pub fn delete_session(&self, id: &SessionId, now: Timestamp) -> Result<Deleted, DeleteError> {
        self.committer.heal()?;
        let deleted = self.committer.delete_session(id.clone(), now)?;
        something(deleted, id.as_str())
    }

    /// Deletes every window of a key.
    ///
    /// # Errors
    /// As [`Engine::delete_session`].
    pub fn delete_key(&self, key: &SessionKey, now: Timestamp) -> Result<Deleted, DeleteError> {
        self.committer.heal()?;
        let deleted = self.committer.delete_key(key.clone(), now)?;
        something(deleted, key.as_str())
    }
}

/// Why a session's key or its archiving was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RekeyError {
    /// The keys don't allow it.
    #[error(transparent)]
    Refused(#[from] RekeyRefusal),
    /// Incognito sessions are never stored (D19).
    #[error("{key} is an incognito key: no stored session can have it")]
    Incognito {
        /// The key.
        key: SessionKey,
    },
    /// The new key is one of another agent than this store's.
    #[error("{key} is no key of agent {agent}; nothing was changed")]
    OtherAgent {
        /// The key.
        key: SessionKey,
        /// Whose store this is.
        agent: AgentId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Gives every window of `old` the key `new`; the next search shows it. Gives the number of windows.
    ///
    /// # Errors
    /// [`RekeyError`]: nothing was changed.
    pub fn rekey(&self, old: &SessionKey, new: &SessionKey) -> Result<u64, RekeyError> {
        if new.is_incognito() {
            return Err(RekeyError::Incognito { key: new.clone() });
        }
        if new.agent_part().is_some_and(|agent| agent != self.agent.as_str()) {
            return Err(RekeyError::OtherAgent { key: new.clone(), agent: self.agent.clone() });
        }
        self.committer.heal()?;
        Ok(self.committer.rekey(old.clone(), new.clone())??)
    }

    /// Archives every window of a key, or takes that back: archived sessions leave listings and stay searchable. Gives
    /// the number of windows.
    ///
    /// # Errors
    /// [`RekeyError`]: nothing was changed.
    pub fn set_archived(&self, key: &SessionKey, archived: bool) -> Result<u64, RekeyError> {
        self.committer.heal()?;
        match self.committer.set_archived(key.clone(), archived)? {
            0 => Err(RekeyRefusal::UnknownKey { key: key.clone() }.into()),
            windows => Ok(windows),
        }
    }

    /// Deletes every session whose last activity is known and lies before `before`.
    ///
    /// # Errors
    /// [`StoreError`]: what was deleted before stays deleted.
    pub fn prune(&self, before: Timestamp, now: Timestamp) -> Result<Deleted, StoreError> {
        self.committer.heal()?;
        self.committer.prune(before, now)
    }
}

fn something(deleted: Deleted, given: &str) -> Result<Deleted, DeleteError> {
    if deleted.sessions == 0 { Err(DeleteError::UnknownSession { given: given.to_owned() }) } else { Ok(deleted) }
}

fn new_session_id() -> SessionId {
    let text = uuid::Uuid::new_v4().to_string();
    // A UUID is never blank and never long.
    SessionId::parse(&text).unwrap_or_else(|_| unreachable!("a UUID is a session id"))
}

#[cfg(test)]
mod pruning_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability as Commit, FileHealth, Store, StoreOptions};

    fn searched(engine: &Engine, query: &str) -> usize {
        assert!(engine.wait_for_indexing(Duration::from_secs(60)));
        engine.search(&SearchRequest::new(query)).unwrap().results.len()
    }

    #[test]
    fn other_rules_than_a_store_was_made_with_rebuild_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = OpenOptions { create: true, redaction: Redaction::off(), ..OpenOptions::default() };
        let engine = Engine::open(folder.path(), options.clone()).unwrap();
        let line = r#"{"type":"message","id":"k1","message":{"role":"user","content":"river token=otterotter"}}"#;
        let key = SessionKey::parse("agent:main:main").unwrap();
        engine.append(AppendRequest::new(key, vec![line.into()]), Timestamp::from_millis(1).unwrap()).unwrap();
        assert_eq!((searched(&engine, "otterotter"), searched(&engine, "river")), (1, 1));
        engine.checkpoint().unwrap();
        let mut schema = engine.committer.snapshot().unwrap().schema().unwrap();
        engine.close().unwrap();

        // As an older version with fewer rules left it.
        schema.redaction = "0-older".into();
        schema.redaction_choice = Redaction::on();
        let open = StoreOptions {
            files: Arc::new(SystemFiles),
            create: false,
            busy_timeout: Duration::ZERO,
            cache_bytes: DEFAULT_CACHE_BYTES,
            journal: None,
            schema: schema.clone(),
            uuid: [0; 16],
        };
        let location = StoreLocation::new(folder.path(), &AgentId::default());
        let store = Store::open(&location, &open, &Arc::<FileHealth>::default(), Arc::new(|_| ())).unwrap();
        store.write(Commit::Immediate, |tables| tables.set_schema(&schema)).unwrap();
        drop(store);

        options.create = false;
        let engine = Engine::open(folder.path(), options).unwrap();
        assert!(engine.redaction().is_on());
        let answer = engine.search(&SearchRequest::new("otterotter")).unwrap();
        assert!(answer.results.is_empty(), "nothing made by old rules is shown");
        assert_eq!((searched(&engine, "otterotter"), searched(&engine, "river")), (0, 1));
        assert_eq!(engine.status().unwrap().pending, []);
    }
}
