//! Words shared by every layer: ids, times, roles, session facts. No I/O, no engine.

mod ids;
mod role;
mod session;
mod session_key;
mod text_source;
mod timestamp;

pub use ids::{AgentId, DocNumber, EventSeq, IdError, MessageId, Ordinal, SessionId, SessionKey, is_js_space};
pub use role::Role;
pub use session::SessionFacts;
pub use session_key::{KeyAliases, KeyForm};
pub use text_source::{DocumentText, TextSource, TextSourceError};
pub use timestamp::{TimeError, Timestamp};
