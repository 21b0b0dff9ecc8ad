//! The only place that knows both store and index, and the only one that decides durability.
//!
//! Every change is one redb transaction: *prepare* (parse, redact, analyse, outside of it), *decide* (commit), *publish*
//! (a new view, before the call returns). What redb has not made durable never becomes searchable.

mod append;
mod checkpoint;
mod committer;
mod lifecycle;
mod maintenance;
mod prepare;
mod rebuild;
mod recovery;
mod reindex;
mod transaction;
mod tuning;
mod view;

pub use append::{AppendRefusal, Appended, EventPlace, ImportBatch, SessionTarget};
pub use checkpoint::CheckpointError;
pub use committer::{Committer, OpenCommitter};
pub use lifecycle::{Deleted, RekeyRefusal};
pub use maintenance::Maintenance;
pub use prepare::PreparedEvent;
pub use tuning::Tuning;
pub use view::View;
