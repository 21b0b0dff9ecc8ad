//! What a reader pins: index, store and sessions of one moment, swapped whole.

use std::sync::Arc;

use parking_lot::RwLock;
use rpds::RedBlackTreeMapSync;

use crate::index::IndexView;
use crate::store::{SessionRow, Snapshot, TranscriptNumber};

/// Every session of a store, by transcript number. Cloning is cheap.
pub type Sessions = RedBlackTreeMapSync<TranscriptNumber, Arc<SessionRow>>;

/// One moment of a store. A reader that holds it sees neither later changes nor half of one.
#[derive(Debug)]
pub struct View {
    /// What can be found.
    pub index: IndexView,
    /// The rows behind it.
    pub snapshot: Snapshot,
    /// Every session.
    pub sessions: Sessions,
    /// How many of them wait for a rebuild.
    pub num_pending: usize,
    /// Grows with every published view.
    pub epoch: u64,
    /// Grows whenever a session comes, goes, or changes in more than its counts.
    pub sessions_epoch: u64,
}

/// The current view. Pinning takes a short lock; searching takes none.
#[derive(Debug)]
pub(super) struct ViewCell(RwLock<Arc<View>>);

impl ViewCell {
    pub(super) fn new(view: View) -> Self {
        Self(RwLock::new(Arc::new(view)))
    }

    pub(super) fn pin(&self) -> Arc<View> {
        Arc::clone(&self.0.read())
    }

    pub(super) fn publish(&self, view: View) {
        let old = std::mem::replace(&mut *self.0.write(), Arc::new(view));
        // Dropped outside the lock: it may be the last to hold a snapshot and many rows.
        drop(old);
    }
}
