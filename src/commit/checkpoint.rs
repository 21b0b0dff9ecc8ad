//! Checkpoints: from the tail into segments, so that redb and index agree whatever happens in between.
//!
//! 1. *Intent*: one durable transaction notes {n, W, D}: checkpoint number, first document not in the index, first
//!    death not applied. The tail is frozen with it; it is still searched.
//! 2. *Commit*: tantivy deletes what died, adds the frozen documents, commits with the same numbers as payload.
//! 3. *Publish*: a view with the new segments and without the frozen tail.
//! 4. *Confirmation*: rides on the next intent; until then recovery accepts the intent.

use std::ops::ControlFlow;

use super::Committer;
use super::prepare::TextPipeline;
use super::recovery::{self, Opened};
use super::transaction::Bulk;
use crate::analysis::TokenText;
use crate::index::{DocFacts, IndexError, IndexFolder, IndexView, Payload, Tail};
use crate::model::DocNumber;
use crate::store::{
    Death, DocumentRow, IndexNote, IndexNotes, PendingReason, SessionState, StoreError, TranscriptNumber,
};

/// The index side of a committer, worked on by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    /// The folder; `None` until the first checkpoint of a new store.
    pub(super) folder: Option<IndexFolder>,
    /// What the folder's last commit covers.
    pub(super) covered: IndexNote,
    /// Sessions of a bulk import whose documents are in the writer, not committed yet.
    pub(super) bulk: Vec<TranscriptNumber>,
    /// Documents of these.
    pub(super) num_bulk_documents: usize,
    /// Set while it is worked on; what a panic leaves set is settled first, like a failure.
    pub(super) working: bool,
    /// Set by a failure until it is known what the folder holds.
    pub(super) unsettled: bool,
    /// While the index is rebuilt: the first document number that the rebuild need not reach.
    pub(super) rebuild_until: Option<u64>,
}

impl IndexState {
    /// The sessions of a bulk import whose documents the writer holds; they are nobody's then.
    fn take_bulk(&mut self) -> Vec<TranscriptNumber> {
        self.num_bulk_documents = 0;
        std::mem::take(&mut self.bulk)
    }
}

/// Why a checkpoint did not happen. The tail stays, is still searched, and is tried again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CheckpointError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl Committer {
    /// Works on the index; after an error or a panic nothing else is done before it is known what the folder really
    /// holds.
    fn with_index<R>(
        &self,
        work: impl FnOnce(&mut IndexState) -> Result<R, CheckpointError>,
    ) -> Result<R, CheckpointError> {
        let mut state = self.index.lock();
        if state.unsettled || state.working {
            self.settle_folder(&mut state)?;
        }
        state.working = true;
        let result = work(&mut state);
        state.working = false;
        if result.is_err() {
            state.unsettled = true;
            if let Err(error) = self.settle_folder(&mut state) {
                tracing::warn!(%error, "what the index holds is not known yet");
            }
        }
        result
    }

    /// Commits documents of a bulk import and hands them to the index writer. Both under the index lock: a checkpoint
    /// in between would claim to cover documents that the writer has not got.
    pub(super) fn add_bulk<R>(
        &self,
        commit: impl FnOnce() -> Result<(R, Bulk), StoreError>,
    ) -> Result<R, CheckpointError> {
        self.with_index(|state| {
            let (result, bulk) = commit()?;
            // While the index is rebuilt, or a frozen tail waits whose note says nothing of these documents, what is
            // stored is rebuilt session by session.
            if state.rebuild_until.is_some() || self.pin().index.frozen.num_docs() > 0 {
                return Ok(result);
            }
            let mut add = || -> Result<(), IndexError> {
                let folder = match &mut state.folder {
                    Some(folder) => folder,
                    None => state.folder.insert(IndexFolder::create(&self.index_place())?),
                };
                folder.begin(true)?;
                bulk.documents.iter().try_for_each(|(facts, tokens)| folder.add(facts, tokens))
            };
            if let Err(error) = add() {
                tracing::warn!(%error, "the index writer failed; imported sessions are rebuilt one by one");
                state.unsettled = true;
                return Ok(result);
            }
            state.bulk.extend(bulk.sessions);
            state.num_bulk_documents += bulk.documents.len();
            if state.num_bulk_documents >= self.tuning().bulk_checkpoint_documents {
                self.publish_bulk(state)?;
            }
            Ok(result)
        })
    }

    /// Commits what a bulk import added to the index and shows its sessions. What could not be shown stays pending
    /// and is rebuilt by itself.
    ///
    /// # Errors
    /// [`CheckpointError`]: the sessions stay pending.
    pub fn finish_bulk(&self) -> Result<(), CheckpointError> {
        self.with_index(|state| self.publish_bulk(state))
    }

    fn publish_bulk(&self, state: &mut IndexState) -> Result<(), CheckpointError> {
        if state.bulk.is_empty() {
            return Ok(());
        }
        self.write_checkpoint(state)?;
        let sessions = state.take_bulk();
        self.submit(move |transaction| {
            for &transcript in &sessions {
                let Some(mut session) = transaction.session(transcript)?.cloned() else { continue };
                // A session that needs resolving, or got a message beside the import, is rebuilt instead.
                let is_whole = session.state == SessionState::Pending(PendingReason::Import) && session.revision == 0;
                if is_whole {
                    session.state = SessionState::Ready;
                    transaction.show_documents(&session);
                    transaction.set_session(transcript, session);
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Writes the tail into the index. `false`: there was nothing to do.
    ///
    /// # Errors
    /// [`CheckpointError`]: everything stays searchable, and the next attempt starts over.
    pub fn checkpoint(&self) -> Result<bool, CheckpointError> {
        self.with_index(|state| {
            let view = self.pin();
            let nothing = view.index.tail.num_docs() == 0 && view.index.frozen.num_docs() == 0;
            if state.rebuild_until.is_some() || nothing && view.index.hidden.is_empty() {
                return Ok(false);
            }
            drop(view);
            self.write_checkpoint(state)?;
            Ok(true)
        })
    }

    fn write_checkpoint(&self, state: &mut IndexState) -> Result<(), CheckpointError> {
        // A frozen tail of a failed attempt is written first: there is one frozen tail at a time.
        let refreeze = self.pin().index.frozen.num_docs() == 0;
        let intent = self.write_intent(state.covered, refreeze)?;
        let view = self.pin();
        let deaths = view.snapshot.deaths(state.covered.deaths)?;
        let folder = match &mut state.folder {
            Some(folder) => folder,
            None => state.folder.insert(IndexFolder::create(&self.index_place())?),
        };
        folder.begin(false)?;
        let pipeline = self.pipeline();
        for facts in view.index.frozen.runs().iter().flat_map(|run| run.docs()) {
            // A document without a row was killed after it was frozen.
            let tokens =
                view.snapshot.with_document(facts.number, |row| TokenText::new(pipeline.analyzer(), row.text))?;
            if let Some(tokens) = tokens {
                folder.add(facts, &tokens)?;
            }
        }
        // After the additions: a frozen document may be dead already.
        for (_, death) in deaths.iter().filter(|(number, _)| *number < intent.deaths) {
            match death {
                Death::Ordinal(ordinal) => folder.delete_ordinal(*ordinal)?,
                Death::Documents { ordinal, numbers } => {
                    for number in numbers {
                        folder.delete_document(DocNumber(*number), *ordinal)?;
                    }
                }
            }
        }
        folder.commit(&payload(self.uuid()?, &self.pipeline(), &intent))?;
        let segments = folder.segments().to_vec();
        self.publish_index(|index| {
            index.segments = segments;
            index.watermark = intent.documents;
            index.frozen = Tail::default();
            forget(index, &deaths, intent.deaths);
        })?;
        state.covered = intent;
        if let Some(folder) = &mut state.folder {
            folder.start_merges()?;
        }
        Ok(())
    }

    /// Notes the confirmed checkpoint and the one that begins, and freezes the tail in the same transaction. It takes to
    /// the disk whatever was deferred: the index must hold nothing that redb may still lose.
    fn write_intent(&self, covered: IndexNote, freeze: bool) -> Result<IndexNote, StoreError> {
        self.submit_durably(move |transaction| {
            let notes = transaction.tables.index_notes()?;
            let last = notes.intent.map_or(0, |note| note.checkpoint).max(covered.checkpoint);
            let checkpoint = last + 1;
            let intent = match notes.intent.filter(|_| !freeze) {
                // A frozen tail that is tried again ends where its first intent said. Later deaths are left for the
                // next checkpoint: they may concern documents that stay in the tail.
                Some(earlier) => IndexNote { checkpoint, ..earlier },
                None => IndexNote {
                    checkpoint,
                    documents: transaction.counters.next_document,
                    deaths: transaction.counters.next_death,
                },
            };
            let confirmed = (covered.checkpoint > 0).then_some(covered);
            transaction.tables.set_index_notes(&IndexNotes { confirmed, intent: Some(intent) })?;
            transaction.tables.clear_deaths_below(covered.deaths)?;
            if freeze {
                transaction.freeze_tail();
            }
            Ok(intent)
        })
    }

    /// After a failure: looks at what the folder really holds. Where that is of no use everything is hidden until the
    /// index is rebuilt from the store.
    fn settle_folder(&self, state: &mut IndexState) -> Result<(), CheckpointError> {
        // What was not committed goes with the writer; the sessions of a bulk import are rebuilt one by one.
        state.folder = None;
        state.take_bulk();
        let snapshot = self.snapshot()?;
        let place = self.index_place();
        match recovery::open_folder(&place, self.uuid()?, &self.pipeline(), snapshot.index_notes()?) {
            Opened::Usable(folder, note) if state.rebuild_until.is_some() => {
                state.folder = Some(*folder);
                state.covered = note;
            }
            Opened::Usable(folder, note) => {
                let deaths = snapshot.deaths(0)?;
                let arrived = note != state.covered;
                let segments = folder.segments().to_vec();
                self.publish_index(|index| {
                    index.segments = segments;
                    index.watermark = note.documents;
                    if arrived {
                        index.frozen = Tail::default();
                        forget(index, &deaths, note.deaths);
                    }
                })?;
                state.folder = Some(*folder);
                state.covered = note;
            }
            Opened::Nothing if state.covered.checkpoint == 0 => {}
            Opened::Nothing => self.begin_index_rebuild(state)?,
            Opened::Unusable(reason) => {
                tracing::warn!(reason, "the index is set aside and rebuilt from the transcripts");
                self.begin_index_rebuild(state)?;
                IndexFolder::set_aside(&place).map_err(IndexError::from)?;
            }
        }
        state.unsettled = false;
        state.working = false;
        Ok(())
    }

    /// Gives up what the index holds: everything is hidden until it is rebuilt from the store.
    fn begin_index_rebuild(&self, state: &mut IndexState) -> Result<(), CheckpointError> {
        if state.rebuild_until.is_none() {
            let until = self.submit(|transaction| {
                transaction.freeze_tail();
                Ok(transaction.counters.next_document)
            })?;
            self.publish_index(|index| {
                index.segments = Vec::new();
                index.watermark = 0;
                index.frozen = Tail::default();
                index.rebuilding = true;
            })?;
            state.rebuild_until = Some(until);
        }
        state.covered = IndexNote::default();
        Ok(())
    }

    /// The index gave something impossible: it is set aside and rebuilt from the store, and nothing is found meanwhile.
    ///
    /// # Errors
    /// [`CheckpointError`] when it can't be set aside.
    pub fn discard_index(&self) -> Result<(), CheckpointError> {
        // Not through `with_index`: to settle what the folder holds is to open what is damaged.
        let mut state = self.index.lock();
        state.unsettled = true;
        state.folder = None;
        state.take_bulk();
        self.begin_index_rebuild(&mut state)?;
        IndexFolder::set_aside(&self.index_place()).map_err(IndexError::from)?;
        state.unsettled = false;
        state.working = false;
        drop(state);
        self.request_reconcile();
        Ok(())
    }

    /// Does one durable batch of an index rebuild. `false`: none is under way.
    ///
    /// # Errors
    /// [`CheckpointError`]: what is done stays done; the next call goes on.
    pub fn rebuild_index_batch(&self) -> Result<bool, CheckpointError> {
        self.with_index(|state| {
            let Some(until) = state.rebuild_until else { return Ok(false) };
            if state.folder.is_none() || state.covered.documents < until {
                self.write_rebuild_batch(state, until)?;
            }
            if state.covered.documents >= until {
                self.publish_index_rebuild(state)?;
            }
            Ok(true)
        })
    }

    fn write_rebuild_batch(&self, state: &mut IndexState, until: u64) -> Result<(), CheckpointError> {
        let view = self.pin();
        let folder = match &mut state.folder {
            Some(folder) => folder,
            None => state.folder.insert(IndexFolder::create(&self.index_place())?),
        };
        folder.begin(true)?;
        let mut next = until;
        let mut added = 0;
        let mut failed = None;
        view.snapshot.for_each_document(state.covered.documents, |number, row| {
            if number.0 >= until {
                return Ok(ControlFlow::Break(()));
            }
            if added == self.tuning().index_batch_documents {
                next = number.0;
                return Ok(ControlFlow::Break(()));
            }
            // Those of a session that is being rebuilt are hidden, and shown when it is ready. Those of a bulk import
            // that did not end are never shown.
            let wanted = match view.sessions.get(row.transcript) {
                Some(session) => {
                    session.ordinal == row.ordinal && session.state != SessionState::Pending(PendingReason::Import)
                }
                // Staged: shown when it takes its place.
                None => view.snapshot.session(row.transcript)?.is_some_and(|session| session.ordinal == row.ordinal),
            };
            if wanted {
                added += 1;
                let tokens = TokenText::new(view.pipeline.analyzer(), row.text);
                if let Err(error) = folder.add(&facts_of(number, &row), &tokens) {
                    failed = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let covered = state.covered;
        let intent = self.submit_durably(move |transaction| {
            let notes = transaction.tables.index_notes()?;
            let last = notes.intent.map_or(0, |note| note.checkpoint).max(covered.checkpoint);
            // Deaths are left for the first checkpoint after the rebuild: what is dead was not added.
            let intent = IndexNote { checkpoint: last + 1, documents: next, deaths: covered.deaths };
            let confirmed = (covered.checkpoint > 0).then_some(covered);
            transaction.tables.set_index_notes(&IndexNotes { confirmed, intent: Some(intent) })?;
            Ok(intent)
        })?;
        folder.commit(&payload(self.uuid()?, &self.pipeline(), &intent))?;
        state.covered = intent;
        Ok(())
    }

    /// Shows an index that the rebuild has completed.
    fn publish_index_rebuild(&self, state: &mut IndexState) -> Result<(), CheckpointError> {
        let Some(folder) = &mut state.folder else { return Ok(()) };
        let (segments, watermark) = (folder.segments().to_vec(), state.covered.documents);
        self.publish_index(|index| {
            index.segments = segments;
            index.watermark = watermark;
            index.rebuilding = false;
        })?;
        state.rebuild_until = None;
        folder.start_merges()?;
        if let Err(error) = IndexFolder::remove_set_aside(&self.index_place()) {
            tracing::warn!(%error, "an old index could not be removed");
        }
        Ok(())
    }

    /// Takes in merges that have ended; without any, and with `release`, lets the writer go. Tells whether merges
    /// still run.
    ///
    /// # Errors
    /// [`CheckpointError`] when merged segments can't be opened.
    pub(super) fn tend_merges(&self, release: bool) -> Result<bool, CheckpointError> {
        self.with_index(|state| {
            let Some(folder) = &mut state.folder else { return Ok(false) };
            if folder.collect_merges()? {
                folder.start_merges()?;
                let segments = folder.segments().to_vec();
                if state.rebuild_until.is_none() {
                    self.publish_index(|index| index.segments = segments)?;
                }
            }
            if release && !folder.is_merging() {
                folder.release_writer();
            }
            Ok(folder.is_merging())
        })
    }

    /// Rewrites the segments without what is deleted in them, and shows the new ones.
    pub(super) fn purge_index(&self) -> Result<(), CheckpointError> {
        self.with_index(|state| {
            let Some(folder) = &mut state.folder else { return Ok(()) };
            folder.purge()?;
            let segments = folder.segments().to_vec();
            if state.rebuild_until.is_none() {
                self.publish_index(|index| index.segments = segments)?;
            }
            folder.release_writer();
            Ok(())
        })
    }

    /// Whether the index is being rebuilt.
    #[must_use]
    pub fn is_rebuilding_index(&self) -> bool {
        self.pin().index.rebuilding
    }
}

/// What a commit with this note says of itself.
pub(super) fn payload(store: [u8; 16], pipeline: &TextPipeline, note: &IndexNote) -> Payload {
    let schema = pipeline.schema();
    Payload {
        store: store.iter().map(|byte| format!("{byte:02x}")).collect(),
        schema: Payload::schema_of(&schema.analyzer, schema.analyzer_version, &schema.redaction),
        checkpoint: note.checkpoint,
        documents: note.documents,
        deaths: note.deaths,
    }
}

/// The facts the index keeps of a document row.
pub(super) fn facts_of(number: DocNumber, row: &DocumentRow<'_>) -> DocFacts {
    DocFacts { number, ordinal: row.ordinal, timestamp: row.timestamp, role: row.role, length: row.length }
}

/// Applied deaths need not be hidden any longer.
fn forget(index: &mut IndexView, deaths: &[(u64, Death)], below: u64) {
    for (_, death) in deaths.iter().filter(|(number, _)| *number < below) {
        match death {
            Death::Ordinal(ordinal) => index.hidden.show_ordinal(*ordinal),
            Death::Documents { numbers, .. } => {
                numbers.iter().for_each(|number| index.hidden.forget_document(DocNumber(*number)));
            }
        }
    }
}
