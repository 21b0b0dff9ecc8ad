//! When a write is on disk: before it returns, or a little later.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Committer;
use super::tuning::Tuning;
use crate::store::{Durability as Commit, StoreError};

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Everything: it is on disk when the call returns.
    #[default]
    Durable,
    /// All but the end of the process, a failure of the disk and of the power shortly afterwards: then at most the last 64
    /// transactions are lost, none of them older than 100 ms. Those are always the newest ones, whole, so that what
    /// is left is the store as it was a moment ago. [`Engine::close`](crate::Engine::close) loses nothing.
    Relaxed,
}

/// Transactions that are acknowledged and not on disk yet.
#[derive(Debug, Default)]
struct State {
    transactions: usize,
    /// When the oldest of them was committed.
    since: Option<Instant>,
    stop: bool,
}

/// Decides for every transaction whether it waits for the disk, and knows which do not.
#[derive(Debug)]
pub(super) struct Deferral {
    durability: Durability,
    max_transactions: usize,
    max_age: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Deferral {
    pub(super) fn new(durability: Durability, tuning: &Tuning) -> Self {
        let (max_transactions, max_age) = (tuning.max_deferred_transactions, tuning.max_deferred_age);
        Self { durability, max_transactions, max_age, state: Mutex::default(), changed: Condvar::new() }
    }

    /// How the next transaction is committed. `durably`: whatever was promised, it must be on disk when it returns.
    pub(super) fn next(&self, durably: bool) -> Commit {
        if durably || self.durability == Durability::Durable {
            return Commit::Immediate;
        }
        let state = self.state.lock();
        let late = state.since.is_some_and(|since| since.elapsed() >= self.max_age / 2);
        if late || state.transactions >= self.max_transactions { Commit::Immediate } else { Commit::Deferred }
    }

    /// A transaction was committed so; an immediate one takes all before it along.
    pub(super) fn committed(&self, commit: Commit) {
        if self.durability == Durability::Durable {
            return;
        }
        let mut state = self.state.lock();
        match commit {
            Commit::Immediate => (state.transactions, state.since) = (0, None),
            Commit::Deferred => {
                state.transactions += 1;
                if state.since.is_none() {
                    state.since = Some(Instant::now());
                    self.changed.notify_all();
                }
            }
        }
    }

    /// The store was opened again: what was not on disk is lost, and nothing waits for it.
    pub(super) fn start_over(&self) {
        self.committed(Commit::Immediate);
    }

    fn is_waiting(&self) -> bool {
        self.state.lock().since.is_some()
    }

    /// Waits until something has waited for half its time: the other half is for the disk. `false`: there is nothing
    /// more to come.
    fn wait_until_due(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return false;
            }
            let left = state.since.map(|since| (self.max_age / 2).saturating_sub(since.elapsed()));
            match left {
                None => self.changed.wait(&mut state),
                Some(Duration::ZERO) => return true,
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
            }
        }
    }
}

impl Committer {
    /// Whether a thread has to call [`Committer::sync_in_time`].
    pub(super) fn defers(&self) -> bool {
        self.deferral.durability == Durability::Relaxed
    }

    /// Brings every deferred transaction to the disk in time, until [`Committer::stop_syncing`].
    pub(super) fn sync_in_time(&self) {
        while self.deferral.wait_until_due() {
            // Where the disk fails it is opened again, and what was not on it is lost.
            if let Err(error) = self.heal().and_then(|()| self.sync()) {
                tracing::warn!(%error, "writes could not be brought to the disk yet");
                std::thread::sleep(self.deferral.max_age);
            }
        }
    }

    pub(super) fn stop_syncing(&self) {
        self.deferral.state.lock().stop = true;
        self.deferral.changed.notify_all();
    }

    /// Waits until everything acknowledged is on disk.
    ///
    /// # Errors
    /// [`StoreError`]: what was acknowledged last may be lost.
    pub fn sync(&self) -> Result<(), StoreError> {
        if self.deferral.is_waiting() { self.submit_durably(|_| Ok(())) } else { Ok(()) }
    }
}
