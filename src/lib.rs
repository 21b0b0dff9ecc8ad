//! Embedded search over AI agents' conversation transcripts: what SQLite FTS5 would answer, without SQLite.
//!
//! An [`Engine`] is one agent's store: the transcripts in a redb file, and a tantivy index derived from them. It takes
//! events one by one or whole files, and finds words in what users and assistants said.
//!
//! # The way of the data
//!
//! **In.** A *line* of a transcript (one JSON object, in the shape of OpenClaw's JSONL) is an *event*. Its `parentId`
//! gives it a place in the session's tree; only what stands on the *active branch* is searched, so that what was rewound
//! is not found. A user's or assistant's message yields *searchable text*, the analyzer makes *tokens* of it, and all of
//! that goes to disk in one transaction. When [`Engine::append`] returns, the event is on disk and the next search finds
//! it. Later a background thread moves what is in memory of the index into its files; no caller waits for that.
//!
//! **Out.** A *query* is split at white space into *pieces*; each is a phrase, and all must stand in one message. The
//! hits get FTS5's bm25, the best become excerpts, and [`Engine::history`] opens the conversation around one.
//!
//! ```
//! use sessions_search::{AppendRequest, Engine, HistoryRequest, OpenOptions, SearchRequest, SessionKey, Timestamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! let mut options = OpenOptions::default();
//! options.create = true; // without it a missing store is an error, and nothing is made
//! let engine = Engine::open(root, options)?;
//!
//! // A conversation with one rewind: the answer about the lake was taken back.
//! let lines = [
//!     r#"{"type":"message","id":"k1","parentId":null,"message":{"role":"user","content":"Where is the otter map?"}}"#,
//!     r#"{"type":"message","id":"k2","parentId":"k1","message":{"role":"assistant","content":"In the lake folder."}}"#,
//!     r#"{"type":"leaf","id":"k3","parentId":"k2","targetId":"k1"}"#,
//!     r#"{"type":"message","id":"k4","parentId":"k1","message":{"role":"assistant","content":"The map is in the river folder."}}"#,
//! ];
//! let request = AppendRequest::new(SessionKey::parse("agent:main:main")?, lines.map(Vec::from).into());
//! let now = Timestamp::parse_iso("2026-05-11T08:00:00Z")?; // the library never asks the clock
//! for (line, stored) in lines.iter().zip(engine.append(request, now)?) {
//!     let place = stored?; // or why this one line was refused; the others are stored
//!     assert!(line.contains(place.message_id.as_ref().map_or("", |id| id.as_str())));
//! }
//!
//! // Every piece must stand in one message. Case and accents do not count.
//! let answer = engine.search(&SearchRequest::new("MAP river-folder"))?;
//! let hit = &answer.results[0];
//! assert_eq!((hit.message_id.as_str(), hit.session_key.as_str()), ("k4", "agent:main:main"));
//! assert_eq!(hit.snippet, "The map is in the river folder.");
//! assert_eq!(&hit.snippet[hit.highlights[0].clone()], "map");
//!
//! // The branch that was left is not found, and the answer says why it is empty.
//! let nothing = engine.search(&SearchRequest::new("lake"))?;
//! assert_eq!(nothing.reason, Some(sessions_search::EmptyReason::NoMatch));
//!
//! // The conversation around the hit.
//! let mut request = HistoryRequest::new(hit.session_key.as_str());
//! request.message_id = Some(hit.message_id.as_str().to_owned());
//! let page = engine.history(&request)?;
//! let texts: Vec<&str> = page.messages.iter().map(|message| message.text.as_str()).collect();
//! assert_eq!(texts, ["Where is the otter map?", "The map is in the river folder."]);
//!
//! engine.close()?; // not needed, but the next open is quicker
//! # Ok(())
//! # }
//! ```
//!
//! # On a session's eyes
//!
//! [`Stores`] answers an agent's session by what it may see: by default itself and what it spawned. Who asks is a value
//! that you make, and nothing of a request can widen it.
//!
//! ```
//! # use sessions_search::{AppendRequest, Engine, OpenOptions, SessionKey, Timestamp};
//! use sessions_search::{EmptyReason, Requester, SearchRequest, Stores, Visibility};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! # let mut options = OpenOptions::default();
//! # options.create = true;
//! # let engine = Engine::open(root, options)?;
//! # let line = br#"{"type":"message","id":"k1","message":{"role":"user","content":"Where is the otter map?"}}"#;
//! # let request = AppendRequest::new(SessionKey::parse("agent:main:main")?, vec![line.to_vec()]);
//! # engine.append(request, Timestamp::parse_iso("2026-05-11T08:00:00Z")?)?;
//! # engine.close()?;
//! let stores = Stores::new(root, OpenOptions::default()); // opens what it needs, makes nothing
//! let bo = Requester::new("agent:main:telegram:direct:bo", None)?;
//!
//! let answer = stores.search_as(&bo, &SearchRequest::new("otter"))?;
//! assert_eq!(answer.reason, Some(EmptyReason::NoVisibleSessions)); // the map is of agent:main:main
//!
//! let everything_of_main = bo.with_visibility(Visibility::Agent);
//! let answer = stores.search_as(&everything_of_main, &SearchRequest::new("otter"))?;
//! assert_eq!(answer.results[0].message_id.as_str(), "k1");
//! # Ok(())
//! # }
//! ```
//!
//! # Transcripts of a format of your own
//!
//! A store takes any events in the shape of OpenClaw's lines. To bring in another format, write each message as such a line,
//! with an id that is the same whenever it is read again: what is there is known, not doubled.
//!
//! ```
//! # use sessions_search::{AppendRequest, Engine, OpenOptions, SearchRequest, SessionKey, Timestamp};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! # let mut options = OpenOptions::default();
//! # options.create = true;
//! # let engine = Engine::open(root, options)?;
//! let chat = "ann: Where is the otter map?\nbot: In the river folder.\n";
//! let import = |now| -> Result<(), Box<dyn std::error::Error>> {
//!     let mut lines = Vec::new();
//!     for (number, line) in chat.lines().enumerate() {
//!         let (who, text) = line.split_once(": ").ok_or("no name before the text")?;
//!         let role = if who == "bot" { "assistant" } else { "user" };
//!         let message = serde_json::json!({"role": role, "content": text});
//!         lines.push(serde_json::json!({"type": "message", "id": format!("line-{number}"), "message": message}));
//!     }
//!     let lines = lines.iter().map(|line| line.to_string().into_bytes()).collect();
//!     let request = AppendRequest::new(SessionKey::parse("agent:main:chat:ann")?, lines);
//!     for stored in engine.append(request, now)? {
//!         stored?;
//!     }
//!     Ok(())
//! };
//! let now = Timestamp::parse_iso("2026-05-11T08:00:00Z")?;
//! import(now)?;
//! import(now)?; // again
//! assert_eq!(engine.status()?.events, 2);
//! assert_eq!(engine.search(&SearchRequest::new("river"))?.results.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A format that [`Engine::import`] reads by itself is a file in `src/import/`; ARCHITECTURE.md tells where.
//!
//! # Where to go on
//!
//! | to | see |
//! | --- | --- |
//! | read transcripts from files | [`Engine::import`], [`ImportOptions`], and the account it gives: [`ImportSummary`] |
//! | search by session, role, time, prefix, page | [`SearchRequest`]; the answer is a [`SearchAnswer`] |
//! | see why a hit scores as it does | [`SearchRequest::explain`], [`Explanation`] |
//! | find parts of Chinese, Japanese, Korean, Thai | [`OpenOptions::analyzer`], [`Cjk`]; an [`Analyzer`] of one's own |
//! | write sessions out: lines, Markdown, HTML | [`Engine::export`], [`Engine::export_session`] |
//! | list, rename, archive, delete sessions | [`Engine::sessions`], [`Engine::rekey`], [`Engine::set_archived`], [`Engine::delete_key`], [`Engine::prune`] |
//! | index with another analyzer or redaction | [`Engine::reindex`] |
//! | know what a store holds and what waits | [`Engine::status`], [`Engine::wait_for_indexing`] |
//! | answer a session by what it may see, over several agents | [`Stores`], [`Requester`], [`Answer`] |
//! | give a model its tools, or a gateway its method | [`tools`] |
//! | know every bound | [`limits`] |
//!
//! # Threads, processes, time
//!
//! An engine is `Send + Sync` and its methods block; share it in an `Arc`, and under an async runtime call it where blocking
//! is allowed. Readers never wait for writers: a search works on one moment of the store. Appends that come at the same
//! time share one fsync. One process holds a store at a time; others get [`StoreError::Busy`] after
//! [`OpenOptions::busy_timeout`].
//!
//! The library reads no wall clock, no environment and no current folder, and prints nothing. Times are [`Timestamp`]s that
//! callers give.
//!
//! # Errors
//!
//! One type per operation, each with the [`StoreError`] that may lie below it. An answer that is empty is no error: it
//! carries its [`EmptyReason`]. [`StoreError::OutcomeUnknown`] is the one case in which a failed write may be on disk all
//! the same; open the store again to know.
//!
//! # Secrets
//!
//! What looks like a credential is masked before a message is indexed, so no excerpt shows it and no search confirms it;
//! history masks the same. [`OpenOptions::redaction`] decides when a store is made, and the store keeps that
//! [`Redaction`]. The stored transcript stays as it is.
//!
//! # Features
//!
//! `cli`, on by default, is the program and what only it needs. A library user turns it off:
//! `default-features = false`. `openclaw-sqlite` imports OpenClaw's own SQLite store too, and links SQLite for it.

mod access;
mod analysis;
mod commit;
mod engine;
mod export;
mod files;
mod import;
mod index;
pub mod limits;
mod model;
mod search;
mod store;
pub mod tools;
mod transcript;

pub use access::resolve::Refusal;
pub use access::rules::Denial;
pub use access::stages::Answer;
pub use access::{AgentToAgent, Requester, RequesterError, SandboxClamp, Visibility};
pub use analysis::{
    Analyzer, AnalyzerNameTaken, Analyzers, Cjk, ExcerptUnit, Phrase, PhraseTerm, TermMatch, Token, UnicodeWord,
};
pub use commit::{AppendRefusal, CheckpointError, Deleted, Durability, EventPlace, RekeyRefusal};
pub use engine::{
    Anchor, AppendError, AppendRequest, AskError, BackupError, CompactError, Compacted, Coverage, DeleteError,
    EmptyReason, Engine, Explanation, ExportError, ExportFormat, ExportOptions, ExportProgress, ExportSummary,
    ExportedSession, Finding, FindingKind, HeldStatus, HistoryAnswer, HistoryBlock, HistoryError, HistoryMessage,
    HistoryRequest, Hit, HitExplanation, ImportError, ImportFormat, ImportOptions, ImportPreview, ImportProgress,
    ImportSummary, LineError, LineReport, ListError, ListRequest, OpenOptions, PendingSession, PieceExplanation,
    PreviewPlace, ReindexRequest, RekeyError, ReplaceError, SearchAnswer, SearchError, SearchRequest, SessionList,
    SessionSummary, SkippedFile, StatusReport, Stores, UnreadableEvent, VerifyReport,
};
pub use import::ImportError as ImportFilesError;
pub use model::{
    AgentId, IdError, KeyAliases, KeyForm, MessageId, Role, SessionFacts, SessionId, SessionKey, TimeError, Timestamp,
};
pub use search::Order;
pub use search::query::QueryError;
pub use store::StoreError;
pub use transcript::{EventError, Redaction, RejectedPattern};

/// What this package's own tests and benches reach; no part of the public interface.
#[doc(hidden)]
pub mod __internal {
    pub mod access {
        pub use crate::access::resolve::{Catalogue, Resolved};
        pub use crate::access::rules::{Lineage, Reach, Target};
    }
    pub use crate::analysis::TokenText;
    pub use crate::model::*;
    pub use crate::search::{bm25, excerpt, instances, phrase_set, query};
    pub use crate::transcript::*;
    pub mod import {
        pub use crate::import::*;
    }
    pub mod index {
        pub use crate::index::{DocFacts, GroupedText, IndexView, Run};
    }
    pub mod store {
        pub use crate::store::{
            Counters, Death, DocumentRow, EventRow, IndexNote, IndexNotes, PendingReason, SchemaRow, SessionRow,
            SessionState, SourceRow, Statistics, TranscriptNumber, encode_row,
        };
    }
    /// What stands in for the disk, and the thresholds of the engine.
    #[cfg(feature = "__internal_faults")]
    pub mod faults {
        pub use crate::commit::Tuning;
        pub use crate::files::*;
        pub use crate::store::JournalOptions;
    }
}

/// The README's examples, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
