//! Group commit: writers that come at the same time share one transaction and one fsync.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::checkpoint::IndexState;
use super::maintenance::Signals;
use super::prepare::TextPipeline;
use super::recovery;
use super::transaction::{Effects, Transaction};
use super::view::{View, ViewCell};
use crate::analysis::Analyzer;
use crate::store::{Durability, Store, StoreError, StoreLocation, StoreOptions};
use crate::transcript::Redaction;

/// How a committer is opened.
#[derive(Debug, Clone)]
pub struct OpenCommitter {
    /// Make the store when it is missing.
    pub create: bool,
    /// How long to wait for another process.
    pub busy_timeout: Duration,
    /// redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// 16 random bytes, used when the store is made.
    pub uuid: [u8; 16],
    /// What a store that is made redacts. One that is there knows what it was made with.
    pub redaction: Redaction,
}

/// Outcome of one queued write, filled in by whoever leads its group.
type Slot<R> = Arc<Mutex<Option<Result<R, StoreError>>>>;

/// One queued write: run inside the transaction, then told how the commit ended.
trait Queued: Send {
    fn run(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), StoreError>;
    fn settle(&mut self, outcome: Result<(), StoreError>);
}

struct Write<F, R> {
    write: Option<F>,
    result: Option<R>,
    slot: Slot<R>,
}

impl<F, R> Queued for Write<F, R>
where
    F: FnOnce(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send,
    R: Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_, '_>) -> Result<(), StoreError> {
        if let Some(write) = self.write.take() {
            self.result = Some(write(transaction)?);
        }
        Ok(())
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
    store: Store,
    pipeline: TextPipeline,
    view: ViewCell,
    queue: Mutex<Vec<Box<dyn Queued>>>,
    writing: Mutex<()>,
    /// Held by whoever works on the index; appends never take it.
    pub(super) index: Mutex<IndexState>,
    pub(super) signals: Signals,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Committer {
    /// Opens a store and brings everything it holds into view.
    ///
    /// # Errors
    /// [`StoreError`], as [`Store::open`] says. Whatever is wrong with the index is no error: it is rebuilt.
    pub fn open(
        location: StoreLocation,
        options: &OpenCommitter,
        analyzer: Arc<dyn Analyzer>,
        repairing: impl Fn(f64) + 'static,
    ) -> Result<Self, StoreError> {
        let mut pipeline = TextPipeline::new(Arc::clone(&analyzer), options.redaction.clone())?;
        let store_options = StoreOptions {
            create: options.create,
            busy_timeout: options.busy_timeout,
            cache_bytes: options.cache_bytes,
            schema: pipeline.schema(),
            uuid: options.uuid,
        };
        let store = Store::open(location, &store_options, repairing)?;
        let chosen = store.snapshot()?.schema()?.redaction_choice;
        if chosen != options.redaction {
            pipeline = TextPipeline::new(analyzer, chosen)?;
        }
        recovery::adopt_schema(&store, &pipeline)?;
        let (index, view) = recovery::recover(&store, &pipeline)?;
        Ok(Self {
            store,
            pipeline,
            view: ViewCell::new(view),
            queue: Mutex::default(),
            writing: Mutex::default(),
            index: Mutex::new(index),
            signals: Signals::default(),
        })
    }

    /// The current view.
    #[must_use]
    pub fn pin(&self) -> Arc<View> {
        self.view.pin()
    }

    /// The store, for what reads beside the view.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How texts become tokens here.
    #[must_use]
    pub fn pipeline(&self) -> &TextPipeline {
        &self.pipeline
    }

    /// Runs `write` in a transaction, commits and publishes before it returns. Writes of other threads may share
    /// the transaction; an error of the store fails all of them alike.
    pub(super) fn submit<R: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Transaction<'_, '_>) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let slot: Slot<R> = Arc::default();
        self.queue.lock().push(Box::new(Write { write: Some(write), result: None, slot: Arc::clone(&slot) }));
        loop {
            let writing = self.writing.lock();
            if let Some(outcome) = slot.lock().take() {
                return outcome;
            }
            let mut group = {
                let mut queue = self.queue.lock();
                let size = queue.len().min(MAX_GROUP);
                queue.drain(..size).collect::<Vec<_>>()
            };
            let outcome = self.commit_group(&mut group);
            for write in &mut group {
                write.settle(outcome.clone());
            }
            drop(writing);
        }
    }

    fn commit_group(&self, group: &mut [Box<dyn Queued>]) -> Result<(), StoreError> {
        let effects = self.store.write(Durability::Immediate, |tables| -> Result<Effects, StoreError> {
            let mut transaction = Transaction::begin(tables)?;
            for write in group.iter_mut() {
                write.run(&mut transaction)?;
            }
            transaction.finish()
        })?;
        self.publish(effects)
    }

    /// Shows what was committed. The caller holds `writing`.
    fn publish(&self, mut effects: Effects) -> Result<(), StoreError> {
        let old = self.view.pin();
        let mut index = old.index.clone();
        let mut sessions = old.sessions.clone();
        for (transcript, row) in effects.sessions.drain(..) {
            sessions.set(transcript, row);
        }
        effects.apply(&mut index);
        let snapshot = self.store.snapshot()?;
        self.signals.note_tail(&index.tail);
        self.view.publish(View { index, snapshot, sessions });
        Ok(())
    }

    /// Shows a change of the index that no transaction brings: new segments, a drained tail.
    pub(super) fn publish_index(&self, change: impl FnOnce(&mut crate::index::IndexView)) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        let old = self.view.pin();
        let mut index = old.index.clone();
        change(&mut index);
        let view = View { index, snapshot: self.store.snapshot()?, sessions: old.sessions.clone() };
        self.view.publish(view);
        Ok(())
    }
}
