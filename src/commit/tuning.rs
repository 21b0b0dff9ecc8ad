//! Every threshold at which the engine does something. Tests make them small, to meet every state with little data.

use std::time::Duration;

use crate::limits::{SYNC_RESOLVE_BYTES, SYNC_RESOLVE_EVENTS};
use crate::store::JournalOptions;

/// [`Tuning::default`] is what the product runs with.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// A tail of this many documents …
    pub checkpoint_documents: usize,
    /// … or bytes is written into the index.
    pub checkpoint_bytes: usize,
    /// A tail at rest or at close is written from this many documents on; a smaller one is replayed at the next open.
    pub idle_checkpoint_documents: usize,
    /// Without a write for this long a store is at rest.
    pub idle: Duration,
    /// A tail of this many documents …
    pub max_tail_documents: usize,
    /// … or bytes takes no more.
    pub max_tail_bytes: usize,
    /// How long a write waits for room in the tail.
    pub room_timeout: Duration,
    /// A rewind is resolved at once in a session of at most this many events … (D17)
    pub sync_resolve_events: u64,
    /// … and bytes.
    pub sync_resolve_bytes: u64,
    /// A session's rebuild writes at most this many rows in one transaction …
    pub session_batch_rows: usize,
    /// … and bytes of text.
    pub session_batch_bytes: usize,
    /// Documents of one batch of an index rebuild.
    pub index_batch_documents: usize,
    /// An import of at least this many bytes of files brings new sessions straight to the index, past the tail …
    pub bulk_bytes: u64,
    /// … and commits the index every so many documents: what a crash can cost is bounded.
    pub bulk_checkpoint_documents: usize,
    /// More documents than this after the last checkpoint are a rebuild, never a tail: an open must not take long.
    pub max_replay_documents: usize,
    /// So many segments of about a size are merged into one.
    pub merge_segments: usize,
    /// How often running merges are looked at.
    pub merge_poll: Duration,
    /// With [`Durability::Relaxed`](super::Durability) so many transactions are not on disk yet …
    pub max_deferred_transactions: usize,
    /// … and none that is older than this.
    pub max_deferred_age: Duration,
    /// When a journal is made, and how large.
    pub journal: JournalOptions,
    /// After a failure of the disk the store's file is opened again at most this often.
    pub reopen_interval: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            checkpoint_documents: 4_096,
            checkpoint_bytes: 8 * 1024 * 1024,
            idle_checkpoint_documents: 512,
            idle: Duration::from_secs(2),
            max_tail_documents: 65_536,
            max_tail_bytes: 256 * 1024 * 1024,
            room_timeout: Duration::from_secs(5),
            sync_resolve_events: SYNC_RESOLVE_EVENTS,
            sync_resolve_bytes: SYNC_RESOLVE_BYTES,
            session_batch_rows: 512,
            session_batch_bytes: 4 * 1024 * 1024,
            index_batch_documents: 65_536,
            bulk_bytes: 4 * 1024 * 1024,
            bulk_checkpoint_documents: 65_536,
            max_replay_documents: 4_096,
            merge_segments: 8,
            merge_poll: Duration::from_millis(100),
            max_deferred_transactions: 64,
            max_deferred_age: Duration::from_millis(100),
            journal: JournalOptions::default(),
            reopen_interval: Duration::from_secs(1),
        }
    }
}
