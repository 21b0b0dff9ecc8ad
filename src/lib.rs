//! Embedded search over AI agents' conversation transcripts.

mod analysis;
pub mod limits;
mod model;
mod search;

pub use analysis::{Analyzer, Phrase, PhraseTerm, TermMatch, Token, UnicodeWord};
pub use model::{AgentId, IdError, MessageId, Role, SessionFacts, SessionId, SessionKey, TimeError, Timestamp};

/// What this package's own tests and benches reach; no part of the public interface.
#[doc(hidden)]
pub mod __internal {
    pub use crate::model::{DocNumber, DocumentText, EventSeq, Ordinal, TextSource, TextSourceError, is_js_space};
    pub use crate::search::{bm25, excerpt, instances, phrase_set, query};
}
