//! Embedded search over AI agents' conversation transcripts.

mod access;
mod analysis;
mod commit;
mod engine;
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
pub use analysis::{Analyzer, Phrase, PhraseTerm, TermMatch, Token, UnicodeWord};
pub use commit::{AppendRefusal, CheckpointError, Deleted, EventPlace, RekeyRefusal};
pub use engine::{
    Anchor, AppendError, AppendRequest, AskError, Coverage, DeleteError, EmptyReason, Engine, Explanation,
    HistoryAnswer, HistoryBlock, HistoryError, HistoryMessage, HistoryRequest, Hit, HitExplanation, ImportError,
    ImportFormat, ImportOptions, ImportProgress, ImportSummary, LineError, LineReport, ListError, ListRequest,
    OpenOptions, PendingSession, PieceExplanation, RekeyError, SearchAnswer, SearchError, SearchRequest, SessionList,
    SessionSummary, SkippedFile, StatusReport, Stores,
};
pub use model::{
    AgentId, IdError, KeyAliases, KeyForm, MessageId, Role, SessionFacts, SessionId, SessionKey, TimeError, Timestamp,
};
pub use search::Order;
pub use search::query::QueryError;
pub use store::StoreError;
pub use transcript::EventError;

/// What this package's own tests and benches reach; no part of the public interface.
#[doc(hidden)]
pub mod __internal {
    pub mod access {
        pub use crate::access::resolve::{Catalogue, Resolved};
        pub use crate::access::rules::{Lineage, Reach, Target};
    }
    pub use crate::model::*;
    pub use crate::search::{bm25, excerpt, instances, phrase_set, query};
    pub use crate::transcript::*;
    pub mod import {
        pub use crate::import::*;
    }
}

/// The README's examples, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
