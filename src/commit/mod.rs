//! The only place that knows both store and index, and the only one that decides durability.
//!
//! Every change is one redb transaction: *prepare* (parse, redact, analyse, outside of it), *decide* (commit), *publish*
//! (a new view, before the call returns). What redb has not made durable never becomes searchable.

mod append;
mod checkpoint;
mod committer;
mod compact;
mod durability;
mod lifecycle;
mod maintenance;
mod pinned;
mod prepare;
mod rebuild;
mod recovery;
mod reindex;
mod transaction;
mod tuning;
mod verify;
mod view;

/// What `pinned` is built from.
mod sync {
    pub(super) use std::sync::Arc;

    pub(super) use parking_lot::RwLock;
}

pub use append::{AppendRefusal, Appended, EventPlace, ImportBatch, SessionTarget, first_conflict};
pub use checkpoint::CheckpointError;
pub use committer::{Committer, OpenCommitter};
pub use compact::{CompactError, Compacted};
pub use durability::Durability;
pub use lifecycle::{Deleted, RekeyRefusal};
pub use maintenance::Maintenance;
pub use prepare::PreparedEvent;
pub use tuning::Tuning;
pub use verify::{Finding, FindingKind, Findings, verify};
pub use view::{Sessions, View};
