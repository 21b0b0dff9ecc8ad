//! Embedded search over AI agents' conversation transcripts.

mod analysis;
mod import;
pub mod limits;
mod model;
mod transcript;

pub use analysis::{Analyzer, Phrase, PhraseTerm, TermMatch, Token};
pub use model::{AgentId, IdError, MessageId, Role, SessionFacts, SessionId, SessionKey, TimeError, Timestamp};

#[doc(hidden)]
pub mod __internal {
    //! What integration tests and benches reach into. No promise of any kind.

    pub use crate::model::*;
    pub use crate::transcript::*;
    pub mod import {
        pub use crate::import::*;
    }
}
