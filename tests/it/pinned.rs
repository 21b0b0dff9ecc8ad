//! Readers, publishers and a compaction at the cell that holds the view: loom runs `src/commit/pinned.rs`, compiled with
//! its own locks and counters, through every order of their steps.

/// What the cell is built from, in loom's kind.
mod sync {
    pub(super) use loom::sync::Arc;
    use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

    /// Like `parking_lot`'s: no poison.
    #[derive(Debug)]
    pub(super) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap()
        }

        pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap()
        }
    }
}

#[path = "../../src/commit/pinned.rs"]
mod cell;

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use cell::Pinned;

/// A view of two parts that belong together, of a file that can be closed. Parts are read and written without any
/// order of their own: only the cell orders them.
struct Parts {
    index: AtomicUsize,
    store: AtomicUsize,
}

fn parts(moment: usize) -> Parts {
    let parts = Parts { index: AtomicUsize::new(0), store: AtomicUsize::new(0) };
    parts.index.store(moment, Ordering::Relaxed);
    parts.store.store(moment, Ordering::Relaxed);
    parts
}

impl Parts {
    /// The moment it is of.
    fn moment(&self) -> usize {
        let (index, store) = (self.index.load(Ordering::Relaxed), self.store.load(Ordering::Relaxed));
        assert_eq!(index, store, "half of one view and half of another");
        index
    }
}

/// Runs every order of steps, and says how many there were.
fn every_order(run: impl Fn() + Sync + Send + 'static) -> usize {
    static RUNS: Count = Count::new(0);
    let before = RUNS.load(Relaxed);
    loom::model(move || {
        RUNS.fetch_add(1, Relaxed);
        run();
    });
    RUNS.load(Relaxed) - before
}

#[test]
fn a_pinned_view_is_whole_never_older_than_one_before_and_holds_what_was_acknowledged() {
    let orders = every_order(|| {
        let cell = Arc::new(Pinned::new(parts(0)));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writer = {
            let (cell, acknowledged) = (Arc::clone(&cell), Arc::clone(&acknowledged));
            thread::spawn(move || {
                cell.publish(parts(1));
                acknowledged.store(1, Ordering::Release);
                cell.publish(parts(2));
                acknowledged.store(2, Ordering::Release);
            })
        };
        let known = acknowledged.load(Ordering::Acquire);
        let first = cell.pin();
        let moment = first.moment();
        assert!(moment >= known, "what was acknowledged is not seen");
        assert!(cell.pin().moment() >= moment, "a later search sees less");
        assert_eq!(first.moment(), moment, "a pinned view changed");
        writer.join().unwrap();
        assert_eq!(cell.pin().moment(), 2);
    });
    assert!(orders > 10, "{orders}");
}

#[test]
fn nobody_has_the_old_file_pinned_when_a_compaction_puts_the_new_one_in_its_place() {
    let orders = every_order(|| {
        let cell = Arc::new(Pinned::new(parts(1)));
        // The one file that is open; a search reads the one its view is of.
        let open = Arc::new(AtomicUsize::new(1));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (cell, open) = (Arc::clone(&cell), Arc::clone(&open));
                thread::spawn(move || {
                    let view = cell.pin();
                    assert_eq!(open.load(Ordering::Relaxed), view.moment(), "the file was taken from under a search");
                })
            })
            .collect();
        let mut patience = 2;
        let wait = || {
            thread::yield_now();
            patience -= 1;
            patience > 0
        };
        let replaced = cell.replace_alone(wait, || {
            open.store(2, Ordering::Relaxed);
            Ok::<_, Infallible>(parts(2))
        });
        // Refused, the old one stays and is searched.
        let expected = if replaced.is_some() { 2 } else { 1 };
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!((open.load(Ordering::Relaxed), cell.pin().moment()), (expected, expected));
    });
    assert!(orders > 10, "{orders}");
}

#[test]
fn the_last_to_let_an_old_view_go_may_pin_the_new_one() {
    /// Pins the cell when it goes, as a snapshot may that was the last of its store.
    struct PinsWhenDropped(Option<Arc<Pinned<PinsWhenDropped>>>);

    impl Drop for PinsWhenDropped {
        fn drop(&mut self) {
            if let Some(cell) = self.0.take() {
                drop(cell.pin());
            }
        }
    }

    every_order(|| {
        let cell = Arc::new(Pinned::new(PinsWhenDropped(None)));
        cell.publish(PinsWhenDropped(Some(Arc::clone(&cell))));
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || drop(cell.pin()))
        };
        cell.publish(PinsWhenDropped(None));
        reader.join().unwrap();
    });
}
