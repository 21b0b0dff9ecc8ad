//! Group commit: writers that come at the same time share one transaction and one fsync.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::checkpoint::IndexState;
use super::durability::{self, Deferral};
use super::maintenance::Signals;
use super::prepare::TextPipeline;
use super::rebuild::Rebuilds;
use super::recovery;
use super::transaction::{Effects, Transaction};
use super::tuning::Tuning;
use super::view::{View, ViewCell};
use crate::analysis::Analyzers;
use crate::files::Files;
use crate::index::IndexPlace;
use crate::store::{FileHealth, Snapshot, Store, StoreError, StoreLocation, StoreOptions};
use crate::transcript::Redaction;

/// How a committer is opened.
#[derive(Clone)]
pub struct OpenCommitter {
    /// The way to the disk.
    pub files: Arc<dyn Files>,
    /// Make the store when it is missing.
    pub create: bool,
    /// How long to wait for another process.
    pub busy_timeout: Duration,
    /// redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// 16 random bytes, used when the store is made.
    pub uuid: [u8; 16],
    /// What an acknowledged write survives.
    pub durability: durability::Durability,
    /// Called with a share from 0 to 1 while the file is repaired.
    pub repairing: Arc<dyn Fn(f64) + Send + Sync>,
    /// Thresholds.
    pub tuning: Tuning,
    /// What a store that is made redacts. One that is there knows what it was made with.
    pub redaction: Redaction,
    /// The name of the analyzer of a store that is made.
    pub analyzer: String,
    /// The analyzers a store may have.
    pub analyzers: Analyzers,
}

/// Outcome of one queued write, filled in by whoever leads its group.
type Slot<R> = Arc<Mutex<Option<Result<R, StoreError>>>>;

/// One queued write: run inside the transaction, then told how the commit ended.
/// It may be run again, where another one of its group failed.
trait Queued: Send {
    fn run(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), StoreError>;
    /// Whether it must be on disk when it returns, whatever was promised for others.
    fn durably(&self) -> bool;
    fn settle(&mut self, outcome: Result<(), StoreError>);
}

struct Write<F, R> {
    write: F,
    durably: bool,
    result: Option<R>,
    slot: Slot<R>,
}

impl<F, R> Queued for Write<F, R>
where
    F: FnMut(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send,
    R: Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), StoreError> {
        self.result = Some((self.write)(transaction)?);
        Ok(())
    }

    fn durably(&self) -> bool {
        self.durably
    }

    fn settle(&mut self, outcome: Result<(), StoreError>) {
        let result = match (outcome, self.result.take()) {
            (Ok(()), Some(result)) => Ok(result),
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(StoreError::Poisoned { detail: "the write was not run".into() }),
        };
        *self.slot.lock() = Some(result);
    }
}

/// Most writes that share one transaction; bounds how long the first of them waits.
const MAX_GROUP: usize = 256;

/// The writing side of one store.
pub struct Committer {
    location: StoreLocation,
    options: OpenCommitter,
    /// Held by whoever works on the index; appends never take it. Goes before the store, whose lock covers the index too.
    pub(super) index: Mutex<IndexState>,
    /// `None` only when opening it again after a failure has failed too.
    store: RwLock<Option<Store>>,
    health: Arc<FileHealth>,
    reopening: Mutex<Reopening>,
    /// How often the store has been opened again. Changed under `writing`.
    reopened: AtomicU64,
    view: ViewCell,
    pub(super) deferral: Deferral,
    queue: Mutex<Vec<Box<dyn Queued>>>,
    writing: Mutex<()>,
    pub(super) signals: Signals,
    pub(super) rebuilds: Rebuilds,
}

/// What is known of attempts to open the store again.
#[derive(Debug, Default)]
struct Reopening {
    last: Option<Instant>,
    /// What the last attempt met, if it failed.
    failure: Option<StoreError>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("location", &self.location).finish_non_exhaustive()
    }
}

impl Committer {
    /// Opens a store and brings everything it holds into view.
    ///
    /// # Errors
    /// [`StoreError`], as [`Store::open`] says. Whatever is wrong with the index is no error: it is rebuilt.
    pub fn open(location: StoreLocation, options: OpenCommitter) -> Result<Self, StoreError> {
        let health = Arc::<FileHealth>::default();
        let for_new = TextPipeline::named(&options.analyzers, &options.analyzer, options.redaction.clone())?;
        let store = open_store(&location, &options, &for_new, &health, options.create)?;
        let schema = store.snapshot()?.schema()?;
        let pipeline = Arc::new(TextPipeline::of_schema(&options.analyzers, schema)?);
        recovery::adopt_schema(&store, &pipeline)?;
        let (index, view) = recovery::recover(&store, index_place(&location, &options), &pipeline, &options.tuning)?;
        let deferral = Deferral::new(options.durability, &options.tuning);
        Ok(Self {
            location,
            options,
            deferral,
            store: RwLock::new(Some(store)),
            health,
            reopening: Mutex::default(),
            reopened: AtomicU64::new(0),
            view: ViewCell::new(view),
            queue: Mutex::default(),
            writing: Mutex::default(),
            index: Mutex::new(index),
            signals: Signals::default(),
            rebuilds: Rebuilds::default(),
        })
    }

    /// The current view.
    #[must_use]
    pub fn pin(&self) -> Arc<View> {
        self.view.pin()
    }

    /// Where the store is.
    #[must_use]
    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// The way to the disk.
    #[must_use]
    pub fn files(&self) -> &dyn Files {
        &*self.options.files
    }

    /// The thresholds in force.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.options.tuning
    }

    /// How texts become tokens here.
    #[must_use]
    pub fn pipeline(&self) -> Arc<TextPipeline> {
        Arc::clone(&self.pin().pipeline)
    }

    pub(super) fn index_place(&self) -> IndexPlace {
        index_place(&self.location, &self.options)
    }

    pub(super) fn with_store<R, E: From<StoreError>>(&self, with: impl FnOnce(&Store) -> Result<R, E>) -> Result<R, E> {
        match &*self.store.read() {
            Some(store) => with(store),
            None => Err(StoreError::Poisoned { detail: "it could not be opened again yet".into() }.into()),
        }
    }

    /// Pins what is committed now, for what reads beside the view.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.with_store(Store::snapshot)
    }

    pub(super) fn uuid(&self) -> Result<[u8; 16], StoreError> {
        self.with_store(|store| Ok(store.uuid()))
    }

    /// Whether the disk has failed since the store was opened: the database refuses further work, and what it shows
    /// may be behind what it holds.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.health.has_failed()
    }

    /// After a failure of the disk: opens the store again, with everything it holds, at most once in
    /// [`Tuning::reopen_interval`]. Called at the start of every operation, before any of this type's locks is taken.
    ///
    /// # Errors
    /// What the last attempt met. Until one succeeds nothing can be written, and little read.
    pub fn heal(&self) -> Result<(), StoreError> {
        if !self.is_poisoned() {
            return Ok(());
        }
        let mut reopening = self.reopening.lock();
        if !self.is_poisoned() {
            return Ok(());
        }
        if reopening.last.is_some_and(|last| last.elapsed() < self.tuning().reopen_interval) {
            let detail = reopening.failure.as_ref().map_or_else(|| "the disk failed".into(), ToString::to_string);
            return Err(StoreError::Poisoned { detail });
        }
        reopening.last = Some(Instant::now());
        // Nobody is left inside who could change anything: neither index worker nor writer nor reader of the handle.
        let mut index = self.index.lock();
        let _writing = self.writing.lock();
        let mut slot = self.store.write();
        let opened = self.reopen(&self.pipeline(), &mut index, &mut slot).map(|view| self.show_recovered(view));
        match &opened {
            Ok(()) => {
                tracing::info!("the store was opened again after a failure of the disk");
                reopening.failure = None;
            }
            Err(error) => {
                tracing::warn!(%error, "the store could not be opened again");
                reopening.failure = Some(error.clone());
            }
        }
        opened
    }

    /// Opens the store's file anew and recovers from what is in it. The caller has stopped everybody else, and shows
    /// the view. After an error nothing can be written until [`Self::heal`] succeeds.
    pub(super) fn reopen(
        &self,
        pipeline: &Arc<TextPipeline>,
        index: &mut IndexState,
        slot: &mut Option<Store>,
    ) -> Result<View, StoreError> {
        // Let go before the same files are opened anew: the locks on them are these handles'.
        *slot = None;
        index.folder = None;
        let opened = open_store(&self.location, &self.options, pipeline, &self.health, false).and_then(|store| {
            let schema = store.snapshot()?.schema()?;
            let pipeline = if schema == pipeline.schema() {
                Arc::clone(pipeline)
            } else {
                Arc::new(TextPipeline::of_schema(&self.options.analyzers, schema)?)
            };
            recovery::adopt_schema(&store, &pipeline)?;
            Ok((recovery::recover(&store, self.index_place(), &pipeline, self.tuning())?, store))
        });
        match opened {
            Ok(((state, view), store)) => {
                *index = state;
                *slot = Some(store);
                Ok(view)
            }
            Err(error) => {
                self.health.note_failure();
                index.unsettled = true;
                Err(error)
            }
        }
    }

    /// Runs `work` with the index, the store and the view to itself: nobody writes, and nobody reads an older state.
    pub(super) fn alone<R>(
        &self,
        work: impl FnOnce(&mut IndexState, &mut Option<Store>, &ViewCell) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let mut index = self.index.lock();
        let _writing = self.writing.lock();
        let mut slot = self.store.write();
        work(&mut index, &mut slot, &self.view)
    }

    /// Shows what recovery has read anew. The caller holds `writing`. Whoever was writing a session's documents has lost
    /// the right to.
    pub(super) fn show_recovered(&self, view: View) {
        self.note_recovered(&view);
        self.view.publish(view);
    }

    /// The same where somebody else shows it.
    pub(super) fn note_recovered(&self, view: &View) {
        self.signals.note_tail(&view.index.tail, self.tuning());
        self.reopened.fetch_add(1, Ordering::Relaxed);
        self.deferral.start_over();
    }

    /// Keeps writers out until the result is dropped.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// Something may be on disk that is not in view: the store is opened again by the next operation.
    pub(super) fn note_failure(&self) {
        self.health.note_failure();
    }

    /// The analyzers this store may have.
    pub(super) fn analyzers(&self) -> &Analyzers {
        &self.options.analyzers
    }

    /// Runs `write` in a transaction, commits and publishes before it returns. Writes of other threads may share
    /// the transaction; a failure of the disk fails all of them alike, any other error its own write alone.
    pub(super) fn submit<R: Send + 'static>(
        &self,
        write: impl FnMut(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.queue(write, false)
    }

    /// The same, on disk when it returns even where writes may be deferred: what the index is about to be told, for one.
    pub(super) fn submit_durably<R: Send + 'static>(
        &self,
        write: impl FnMut(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.queue(write, true)
    }

    fn queue<R: Send + 'static>(
        &self,
        write: impl FnMut(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send + 'static,
        durably: bool,
    ) -> Result<R, StoreError> {
        let slot: Slot<R> = Arc::default();
        self.queue.lock().push(Box::new(Write { write, durably, result: None, slot: Arc::clone(&slot) }));
        loop {
            let writing = self.writing.lock();
            if let Some(outcome) = slot.lock().take() {
                return outcome;
            }
            let group = {
                let mut queue = self.queue.lock();
                let size = queue.len().min(MAX_GROUP);
                queue.drain(..size).collect::<Vec<_>>()
            };
            self.commit_group(group);
            drop(writing);
        }
    }

    /// Commits a group and tells each of its writes how that ended. The caller holds `writing`.
    fn commit_group(&self, group: Vec<Box<dyn Queued>>) {
        let mut group = Group { writes: group, committer: self };
        while !group.writes.is_empty() {
            if self.is_poisoned() {
                let detail = "the disk failed".into();
                return group.settle(Err(StoreError::Poisoned { detail }));
            }
            let mut at = 0;
            let commit = self.deferral.next(group.writes.iter().any(|write| write.durably()));
            let committed = self.with_store(|store| {
                store.write(commit, |tables| -> Result<Effects, StoreError> {
                    let opening = self.reopened.load(Ordering::Relaxed);
                    let mut transaction = Transaction::begin(tables, opening, self.pipeline())?;
                    for (i, write) in group.writes.iter_mut().enumerate() {
                        at = i;
                        write.run(&mut transaction)?;
                    }
                    at = usize::MAX;
                    transaction.finish()
                })
            });
            match committed {
                Err(error) if at != usize::MAX && !error.poisons() && !self.is_poisoned() => {
                    // The transaction is rolled back; without the one that failed the others may go on.
                    group.writes.remove(at).settle(Err(error));
                }
                Err(error) => {
                    if error.poisons() {
                        self.health.note_failure();
                    }
                    group.settle(Err(error));
                }
                Ok(effects) => {
                    self.deferral.committed(commit);
                    group.settle(self.publish(effects));
                }
            }
        }
    }

    /// Shows what was committed. The caller holds `writing`.
    fn publish(&self, mut effects: Effects) -> Result<(), StoreError> {
        let snapshot = self.snapshot().map_err(|error| {
            // It is stored and can't be shown: only what is opened anew tells the truth again.
            self.health.note_failure();
            StoreError::OutcomeUnknown { detail: format!("stored, but it can't be read back: {error}") }
        })?;
        let old = self.view.pin();
        let mut index = old.index.clone();
        let mut sessions = old.sessions.clone();
        for (transcript, row) in effects.sessions.drain(..) {
            sessions.set(transcript, row);
        }
        effects.apply(&mut index);
        self.signals.note_tail(&index.tail, self.tuning());
        self.view.publish(View { index, snapshot, sessions, pipeline: Arc::clone(&old.pipeline) });
        Ok(())
    }

    /// Shows a change of the index that no transaction brings: new segments, a drained tail.
    pub(super) fn publish_index(&self, change: impl FnOnce(&mut crate::index::IndexView)) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        let snapshot = self.snapshot()?;
        let old = self.view.pin();
        let mut index = old.index.clone();
        change(&mut index);
        let (sessions, pipeline) = (old.sessions.clone(), Arc::clone(&old.pipeline));
        self.view.publish(View { index, snapshot, sessions, pipeline });
        Ok(())
    }
}

/// The writes of one transaction. All of them hear of its end, even where the thread that leads them panics.
struct Group<'c> {
    writes: Vec<Box<dyn Queued>>,
    committer: &'c Committer,
}

impl Group<'_> {
    fn settle(&mut self, outcome: Result<(), StoreError>) {
        for mut write in self.writes.drain(..) {
            write.settle(outcome.clone());
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.writes.is_empty() {
            self.committer.health.note_failure();
            self.settle(Err(StoreError::OutcomeUnknown { detail: "the thread that wrote it panicked".into() }));
        }
    }
}

/// Opens the store; one that is made is made for `pipeline`.
fn open_store(
    location: &StoreLocation,
    options: &OpenCommitter,
    pipeline: &TextPipeline,
    health: &Arc<FileHealth>,
    create: bool,
) -> Result<Store, StoreError> {
    let store_options = StoreOptions {
        files: Arc::clone(&options.files),
        create,
        busy_timeout: options.busy_timeout,
        cache_bytes: options.cache_bytes,
        journal: Some(options.tuning.journal),
        schema: pipeline.schema(),
        uuid: options.uuid,
    };
    Store::open(location, &store_options, health, Arc::clone(&options.repairing))
}

pub(super) fn index_place(location: &StoreLocation, options: &OpenCommitter) -> IndexPlace {
    IndexPlace {
        files: Arc::clone(&options.files),
        path: location.index(),
        merge_segments: options.tuning.merge_segments,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::analysis::{Analyzer as _, UnicodeWord};
    use crate::files::SystemFiles;
    use crate::model::{AgentId, SessionId, Timestamp};

    pub(in crate::commit) fn open(root: &std::path::Path, tuning: Tuning) -> Arc<Committer> {
        let options = OpenCommitter {
            files: Arc::new(SystemFiles),
            create: true,
            busy_timeout: Duration::from_secs(1),
            cache_bytes: 1024 * 1024,
            uuid: [7; 16],
            repairing: Arc::new(|_| {}),
            tuning,
            durability: durability::Durability::Durable,
            redaction: Redaction::off(),
            analyzer: UnicodeWord.name().to_owned(),
            analyzers: Analyzers::default(),
        };
        Arc::new(Committer::open(StoreLocation::new(root, &AgentId::default()), options).unwrap())
    }

    fn id(n: usize) -> SessionId {
        SessionId::parse(&format!("s{n}")).unwrap()
    }

    /// Three writes in one group; the second ends with `end`. Gives how each thread came out.
    fn group(
        committer: &Arc<Committer>,
        end: fn() -> Result<(), StoreError>,
    ) -> Vec<std::thread::Result<Result<(), StoreError>>> {
        let writing = committer.writing.lock();
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let theirs = Arc::clone(committer);
                let thread = std::thread::spawn(move || {
                    theirs.submit(move |transaction| {
                        transaction.tables.set_tombstone(&id(n), Some(Timestamp::UNKNOWN))?;
                        if n == 1 { end() } else { Ok(()) }
                    })
                });
                while committer.queue.lock().len() <= n {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        drop(writing);
        threads.into_iter().map(std::thread::JoinHandle::join).collect()
    }

    fn stored(committer: &Committer) -> Vec<bool> {
        let snapshot = committer.snapshot().unwrap();
        (0..3).map(|n| snapshot.tombstone(&id(n)).unwrap().is_some()).collect()
    }

    #[test]
    fn a_write_that_fails_by_itself_fails_no_other_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), Tuning::default());
        let outcomes = group(&committer, || Err(StoreError::TooLarge { bytes: 1 }));
        let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        assert!(matches!(outcomes.as_slice(), [Ok(()), Err(StoreError::TooLarge { .. }), Ok(())]), "{outcomes:?}");
        assert_eq!(stored(&committer), [true, false, true]);
    }

    #[test]
    fn a_panic_in_a_group_leaves_nobody_waiting_and_nothing_half_stored() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), Tuning::default());
        let outcomes = group(&committer, || panic!("meant to"));
        let panicked = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(panicked, 1, "the thread that led");
        for outcome in outcomes.into_iter().flatten() {
            assert!(matches!(outcome, Err(StoreError::OutcomeUnknown { .. } | StoreError::Poisoned { .. })));
        }
        committer.heal().unwrap();
        assert_eq!(stored(&committer), [false; 3]);
        let outcomes = group(&committer, || Ok(()));
        assert!(outcomes.into_iter().all(|outcome| outcome.unwrap().is_ok()));
        assert_eq!(stored(&committer), [true; 3]);
    }
}
