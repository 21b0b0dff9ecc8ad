//! The cell that readers pin the current value of. Nothing of it knows what a view is: `tests/it/pinned.rs` compiles this
//! file once more with loom's locks in place of ours, and runs it through every order of steps.

use super::sync::{Arc, RwLock};

/// The current value. Pinning takes a short lock; what is done with the pinned value takes none.
#[derive(Debug)]
pub(super) struct Pinned<T>(RwLock<Arc<T>>);

impl<T> Pinned<T> {
    pub(super) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub(super) fn pin(&self) -> Arc<T> {
        Arc::clone(&*self.0.read())
    }

    /// Puts another value in place. Who has the old one pinned keeps it.
    pub(super) fn publish(&self, value: T) {
        let old = std::mem::replace(&mut *self.0.write(), Arc::new(value));
        // Dropped outside the lock: it may be the last to hold a snapshot and many rows.
        drop(old);
    }

    /// Puts another value in place once nobody has the present one pinned; those who come meanwhile wait. `None`: it was
    /// still pinned when `wait` said `false`, and `replacement` was not asked for.
    pub(super) fn replace_alone<E>(
        &self,
        mut wait: impl FnMut() -> bool,
        replacement: impl FnOnce() -> Result<T, E>,
    ) -> Option<Result<(), E>> {
        let mut current = self.0.write();
        while Arc::strong_count(&*current) > 1 {
            if !wait() {
                return None;
            }
        }
        Some(replacement().map(|value| *current = Arc::new(value)))
    }
}
