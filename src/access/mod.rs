//! Who may see what: pure rules over session keys and stored lineage. No store, no index, no I/O.
//!
//! [`Requester`] is who asks and under which settings, [`rules`] judges one session, [`resolve`] what a text names to
//! that requester, [`stages`] makes an answer pass every step, [`bounds`] cuts it. What is hidden may change nothing but
//! scores: no rule here looks at a session that it then hides, except to hide it.

mod allow;
pub mod bounds;
mod requester;
pub mod resolve;
pub mod rules;
pub mod stages;

pub use allow::AgentToAgent;
pub use requester::{Requester, RequesterError, SandboxClamp, Visibility};
