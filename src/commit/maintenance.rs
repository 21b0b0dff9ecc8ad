//! The one background thread of a store: checkpoints, merges, rebuilds. Never on a caller's thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Committer;
use super::checkpoint::CheckpointError;
use super::tuning::Tuning;
use crate::index::Tail;
use crate::store::{PendingReason, SessionRow, SessionState, StoreError, TranscriptNumber};

/// Waits after a session's rebuild failed, then before every further try the last (contract §4.8).
const BACK_OFF: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// What the background thread is told.
#[derive(Debug, Default)]
pub(super) struct Signals {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    stop: bool,
    checkpoint: bool,
    reconcile: bool,
    last_write: Option<Instant>,
    tail_documents: usize,
    /// Imports under way; their sessions are theirs to finish.
    imports: usize,
    /// Why the last checkpoint failed, if it did.
    last_error: Option<String>,
    /// The thread waits for a sign, not for a time.
    asleep: bool,
    /// Grows whenever the thread has done something; those who wait for indexing look again.
    progress: u64,
}

impl Signals {
    /// After a publish: how large the tail is now.
    pub(super) fn note_tail(&self, tail: &Tail, tuning: &Tuning) {
        let documents = tail.num_docs();
        let full = documents >= tuning.checkpoint_documents || tail.len_bytes() >= tuning.checkpoint_bytes;
        let mut state = self.state.lock();
        state.last_write = Some(Instant::now());
        let wakes = (full && !state.checkpoint) || state.asleep;
        state.tail_documents = documents;
        state.checkpoint |= full;
        if wakes {
            self.changed.notify_all();
        }
    }

    fn note_progress(&self) {
        self.state.lock().progress += 1;
        self.changed.notify_all();
    }
}

/// The running background thread of one committer.
#[derive(Debug)]
pub struct Maintenance {
    committer: Arc<Committer>,
    thread: Option<JoinHandle<()>>,
    /// Brings deferred writes to the disk, where there are any.
    syncing: Option<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(committer: Arc<Committer>) -> std::io::Result<Self> {
        let worker = Arc::clone(&committer);
        let thread =
            std::thread::Builder::new().name("sessions-search".into()).spawn(move || Worker::new(worker).run())?;
        let mut started = Self { committer, thread: Some(thread), syncing: None };
        if started.committer.defers() {
            let committer = Arc::clone(&started.committer);
            let syncing = std::thread::Builder::new().name("sessions-search-sync".into());
            started.syncing = Some(syncing.spawn(move || committer.sync_in_time())?);
        }
        Ok(started)
    }

    /// Ends the threads after what they are doing now, with everything acknowledged on disk.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            {
                self.committer.signals.state.lock().stop = true;
            }
            self.committer.signals.changed.notify_all();
            if thread.join().is_err() {
                tracing::error!("the background thread of a store panicked");
            }
        }
        if let Some(syncing) = self.syncing.take() {
            self.committer.stop_syncing();
            if syncing.join().is_err() {
                tracing::error!("the syncing thread of a store panicked");
            }
            if let Err(error) = self.committer.sync() {
                tracing::error!(%error, "what was written last may be lost");
            }
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An import under way.
#[derive(Debug)]
pub struct Importing<'c>(&'c Signals);

impl Drop for Importing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().imports -= 1;
    }
}

impl Committer {
    /// Keeps the background from rebuilding sessions that an import is filling, until the result is dropped.
    #[must_use]
    pub fn begin_import(&self) -> Importing<'_> {
        self.signals.state.lock().imports += 1;
        Importing(&self.signals)
    }

    /// Whether an import is under way.
    pub(super) fn is_importing(&self) -> bool {
        self.signals.state.lock().imports > 0
    }

    /// Waits while the tail is as large as it may be. The index decides nothing about what is stored, but memory has
    /// an end.
    ///
    /// # Errors
    /// [`StoreError::IndexBehind`] after [`Tuning::room_timeout`].
    pub(super) fn wait_for_room(&self) -> Result<(), StoreError> {
        let tuning = self.tuning();
        let is_full = || {
            let view = self.pin();
            let (frozen, tail) = (&view.index.frozen, &view.index.tail);
            frozen.num_docs() + tail.num_docs() >= tuning.max_tail_documents
                || frozen.len_bytes() + tail.len_bytes() >= tuning.max_tail_bytes
        };
        if !is_full() {
            return Ok(());
        }
        let deadline = Instant::now() + tuning.room_timeout;
        let mut state = self.signals.state.lock();
        state.checkpoint = true;
        self.signals.changed.notify_all();
        while is_full() {
            if self.signals.changed.wait_until(&mut state, deadline).timed_out() {
                let cause = state.last_error.clone().unwrap_or_else(|| "its checkpoint takes too long".into());
                return Err(StoreError::IndexBehind { cause });
            }
        }
        Ok(())
    }

    /// Asks for the rebuild of what is pending; returns at once.
    pub fn request_reconcile(&self) {
        self.signals.state.lock().reconcile = true;
        self.signals.changed.notify_all();
    }

    /// Waits until nothing is pending and the index is complete, at most `timeout`. Tells whether that is so.
    pub fn wait_for_indexing(&self, timeout: Duration) -> bool {
        // A century is for ever, and an instant can hold it.
        let deadline = Instant::now() + timeout.min(Duration::from_secs(100 * 365 * 86_400));
        // Where it fails the background thread tries on.
        let _ = self.heal();
        self.request_reconcile();
        let mut state = self.signals.state.lock();
        loop {
            if !self.has_pending() {
                return true;
            }
            if self.signals.changed.wait_until(&mut state, deadline).timed_out() {
                return !self.has_pending();
            }
        }
    }

    /// Whether a search could miss something now.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        let view = self.pin();
        view.index.rebuilding || view.sessions.num_pending() > 0
    }

    /// Writes what a close should not leave to the next open.
    ///
    /// # Errors
    /// [`CheckpointError`]: the tail is replayed at the next open instead.
    pub fn checkpoint_for_close(&self) -> Result<(), CheckpointError> {
        self.sync()?;
        let view = self.pin();
        if view.index.tail.num_docs() + view.index.frozen.num_docs() >= self.tuning().idle_checkpoint_documents {
            drop(view);
            self.checkpoint()?;
        }
        if let Some(folder) = &mut self.index.lock().folder {
            folder.release_writer();
        }
        Ok(())
    }
}

/// What the thread should do next.
#[derive(Debug, Clone, Copy)]
enum Task {
    Stop,
    RebuildIndex,
    Checkpoint,
    Reconcile,
    Merges { release: bool },
}

/// The state of the thread itself.
struct Worker {
    committer: Arc<Committer>,
    merging: bool,
    /// The last write after which everything was put in order.
    rested_after: Option<Instant>,
    failures: HashMap<TranscriptNumber, (usize, Instant)>,
    index_failures: usize,
}

impl Worker {
    fn new(committer: Arc<Committer>) -> Self {
        Self { committer, merging: false, rested_after: None, failures: HashMap::new(), index_failures: 0 }
    }

    fn run(mut self) {
        loop {
            let task = self.next();
            if matches!(task, Task::Stop) {
                return;
            }
            // A damaged index can make its reader panic. The thread must live on, and the index must go.
            let work = std::panic::AssertUnwindSafe(|| self.work(&task));
            if std::panic::catch_unwind(work).is_err() {
                self.recover_from_panic(&task);
            }
            self.committer.signals.note_progress();
        }
    }

    fn recover_from_panic(&mut self, task: &Task) {
        tracing::error!(?task, "background work on a store panicked");
        match task {
            Task::Reconcile => self.committer.signals.state.lock().reconcile = true,
            Task::Stop => {}
            Task::RebuildIndex | Task::Checkpoint | Task::Merges { .. } => {
                if let Err(error) = self.committer.discard_index() {
                    tracing::error!(%error, "the damaged index could not be set aside");
                }
            }
        }
        self.back_off_index();
    }

    fn work(&mut self, task: &Task) {
        // Where it fails the task fails too, and is tried again later.
        let _ = self.committer.heal();
        match task {
            Task::Stop => {}
            Task::RebuildIndex => self.rebuild_index(),
            Task::Checkpoint => self.checkpoint(),
            Task::Reconcile => self.reconcile(),
            Task::Merges { release } => self.tend_merges(*release),
        }
    }

    fn next(&mut self) -> Task {
        let rebuilding = self.committer.is_rebuilding_index();
        let signals = &self.committer.signals;
        let mut state = signals.state.lock();
        loop {
            if state.stop {
                return Task::Stop;
            }
            if rebuilding {
                return Task::RebuildIndex;
            }
            if std::mem::take(&mut state.checkpoint) {
                return Task::Checkpoint;
            }
            if std::mem::take(&mut state.reconcile) {
                return Task::Reconcile;
            }
            let until_rest = state
                .last_write
                .filter(|_| state.last_write != self.rested_after)
                .map(|at| self.committer.tuning().idle.saturating_sub(at.elapsed()));
            if until_rest.is_some_and(|wait| wait.is_zero()) {
                if state.tail_documents >= self.committer.tuning().idle_checkpoint_documents {
                    state.tail_documents = 0;
                    return Task::Checkpoint;
                }
                if !self.merging {
                    self.rested_after = state.last_write;
                    return Task::Merges { release: true };
                }
            }
            let wait = if self.merging { Some(self.committer.tuning().merge_poll) } else { until_rest };
            match wait {
                None => {
                    state.asleep = true;
                    signals.changed.wait(&mut state);
                    state.asleep = false;
                }
                Some(wait) => {
                    if signals.changed.wait_for(&mut state, wait).timed_out() && self.merging {
                        return Task::Merges { release: false };
                    }
                }
            }
        }
    }

    fn checkpoint(&mut self) {
        match self.committer.checkpoint() {
            Ok(_) => {
                self.index_failures = 0;
                self.committer.signals.state.lock().last_error = None;
            }
            Err(error) => {
                tracing::warn!(%error, "checkpoint failed");
                self.committer.signals.state.lock().last_error = Some(error.to_string());
                self.back_off_index();
                self.committer.signals.state.lock().checkpoint = true;
            }
        }
        self.tend_merges(false);
    }

    fn rebuild_index(&mut self) {
        match self.committer.rebuild_index_batch() {
            Ok(_) => self.index_failures = 0,
            Err(error) => {
                tracing::warn!(%error, "rebuilding the index failed");
                self.back_off_index();
            }
        }
    }

    fn back_off_index(&mut self) {
        let wait = BACK_OFF[self.index_failures.min(BACK_OFF.len() - 1)];
        self.index_failures += 1;
        self.sleep(wait);
    }

    /// Sleeps, unless asked to stop.
    fn sleep(&self, wait: Duration) {
        let signals = &self.committer.signals;
        let deadline = Instant::now() + wait;
        let mut state = signals.state.lock();
        while !state.stop && !signals.changed.wait_until(&mut state, deadline).timed_out() {}
    }

    fn tend_merges(&mut self, release: bool) {
        match self.committer.tend_merges(release) {
            Ok(merging) => {
                self.merging = merging;
                if release && merging {
                    // The writer is needed until they end; then it is let go.
                    self.rested_after = None;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "merged segments could not be opened");
                self.merging = false;
            }
        }
    }

    /// Rebuilds every pending session, one after the other. One that fails is tried again later and holds up no other.
    fn reconcile(&mut self) {
        let pending = match self.committer.pin().snapshot.pending() {
            Ok(pending) => pending,
            Err(error) => {
                tracing::warn!(%error, "pending sessions could not be listed");
                self.sleep(BACK_OFF[BACK_OFF.len() - 1]);
                self.committer.signals.state.lock().reconcile = true;
                return;
            }
        };
        self.failures.retain(|transcript, _| pending.contains(transcript));
        let mut retry_in: Option<Duration> = None;
        for transcript in pending {
            let importing = {
                let state = self.committer.signals.state.lock();
                if state.stop {
                    return;
                }
                state.imports > 0
            };
            let waits_for_import =
                |session: &Arc<SessionRow>| session.state == SessionState::Pending(PendingReason::Import);
            if importing && self.committer.pin().sessions.get(transcript).is_some_and(waits_for_import) {
                continue;
            }
            let (failures, next_try) = self.failures.get(&transcript).copied().unwrap_or((0, Instant::now()));
            let wait = next_try.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                retry_in = Some(retry_in.map_or(wait, |least| least.min(wait)));
                continue;
            }
            match self.committer.rebuild_session(transcript) {
                Ok(()) => {
                    self.failures.remove(&transcript);
                }
                Err(error) => {
                    tracing::warn!(%error, ?transcript, "rebuilding a session failed");
                    let wait = BACK_OFF[failures.min(BACK_OFF.len() - 1)];
                    self.failures.insert(transcript, (failures + 1, Instant::now() + wait));
                    retry_in = Some(retry_in.map_or(wait, |least| least.min(wait)));
                }
            }
            self.committer.signals.note_progress();
        }
        if let Some(wait) = retry_in {
            self.sleep(wait);
            self.committer.signals.state.lock().reconcile = true;
        }
    }
}
