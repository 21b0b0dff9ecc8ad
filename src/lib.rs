//! Embedded search over AI agents' conversation transcripts.

mod analysis;
pub mod limits;
mod model;

pub use analysis::{Analyzer, Phrase, PhraseTerm, TermMatch, Token};
pub use model::{AgentId, IdError, MessageId, Role, SessionFacts, SessionId, SessionKey, TimeError, Timestamp};
