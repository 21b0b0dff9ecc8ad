//! Rebuilding a pending session's documents from its events, in bounded batches (contract §4.5, design of reconcile).
//!
//! A rebuild writes under a new ordinal that nobody sees until one transaction makes it the session's. It reads a
//! pinned snapshot; the session's revision fences it against rewinds, deletes and replacements meanwhile, and rows
//! appended meanwhile are caught up before it is published.

use std::ops::ControlFlow;

use super::Committer;
use super::append::{StoredMessage, add_document};
use crate::model::Ordinal;
use crate::store::{Death, PendingReason, SessionRow, SessionState, Snapshot, StoreError, TranscriptNumber};
use crate::transcript::TreeScan;

/// Rows of one transaction at most …
const BATCH_ROWS: usize = 512;
/// … and bytes of text.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Rows that publishing catches up with at most (contract §4.8).
const MAX_CATCH_UP_ROWS: u64 = 512;

/// How one attempt ended.
enum Attempt {
    /// The session is ready, gone, or was so before.
    Done,
    /// The session changed under it; what was written is dead.
    Overtaken,
}

impl Committer {
    /// Rebuilds one pending session; a session that is not pending is left alone.
    ///
    /// # Errors
    /// [`StoreError`]: the session stays pending and hidden.
    pub fn rebuild_session(&self, transcript: TranscriptNumber) -> Result<(), StoreError> {
        loop {
            if let Attempt::Done = self.attempt_rebuild(transcript)? {
                return Ok(());
            }
        }
    }

    fn attempt_rebuild(&self, transcript: TranscriptNumber) -> Result<Attempt, StoreError> {
        let snapshot = self.store().snapshot()?;
        let Some(session) = snapshot.session(transcript)? else { return Ok(Attempt::Done) };
        if session.state == SessionState::Ready {
            return Ok(Attempt::Done);
        }
        self.clear_old_documents(transcript, session.revision)?;

        let mut plan = Plan { scan: TreeScan::new(), path: Vec::new(), seen: 0 };
        let revision = session.revision;
        let Some(ordinal) = self.begin_ordinal(transcript, revision)? else { return Ok(Attempt::Overtaken) };
        let mut snapshot = snapshot;
        loop {
            let done = plan.path.len();
            if !plan.extend(&snapshot, transcript)?
                || !self.write_documents(&snapshot, transcript, revision, ordinal, &plan.path[done..])?
            {
                return Ok(Attempt::Overtaken);
            }
            match self.publish_rebuild(transcript, revision, ordinal, plan)? {
                Published::Yes => return Ok(Attempt::Done),
                Published::Overtaken => return Ok(Attempt::Overtaken),
                Published::Behind(unpublished) => plan = *unpublished,
            }
            snapshot = self.store().snapshot()?;
        }
    }

    /// Removes the document rows of the ordinal that was killed when the session became pending, and of earlier
    /// attempts.
    fn clear_old_documents(&self, transcript: TranscriptNumber, revision: u64) -> Result<(), StoreError> {
        loop {
            let more = self.submit(move |transaction| {
                let current = transaction.session(transcript)?.is_some_and(|s| s.revision == revision);
                if !current {
                    return Ok(false);
                }
                let active = transaction.tables.active_at_most(transcript, BATCH_ROWS)?;
                for &(seq, number) in &active {
                    transaction.tables.remove_document(number)?;
                    transaction.tables.set_active(transcript, seq, None)?;
                }
                Ok(active.len() == BATCH_ROWS)
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Gives out the new ordinal and hides it. `None`: the session changed.
    fn begin_ordinal(&self, transcript: TranscriptNumber, revision: u64) -> Result<Option<Ordinal>, StoreError> {
        self.submit(move |transaction| {
            let session = transaction.session(transcript)?;
            let Some(mut session) = session.filter(|s| s.revision == revision).cloned() else { return Ok(None) };
            // An attempt that was overtaken, or that a crash ended, leaves documents under the ordinal before.
            transaction.put_death(&Death::Ordinal(session.ordinal))?;
            session.ordinal = transaction.next_ordinal();
            // From here on its documents come by the tail, whatever it waited for.
            session.state = SessionState::Pending(PendingReason::Rebuild);
            session.documents = 0;
            session.tokens = 0;
            transaction.hide_unborn(session.ordinal);
            let ordinal = session.ordinal;
            transaction.set_session(transcript, session);
            Ok(Some(ordinal))
        })
    }

    /// Writes the documents of `path`. `false`: the session changed.
    fn write_documents(
        &self,
        snapshot: &Snapshot,
        transcript: TranscriptNumber,
        revision: u64,
        ordinal: Ordinal,
        path: &[u64],
    ) -> Result<bool, StoreError> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut rows = 0;
        for (i, &seq) in path.iter().enumerate() {
            rows += 1;
            let read = snapshot.with_event(transcript, seq, |row| StoredMessage::read(&row, seq, self.pipeline()))?;
            if let Some(Some(message)) = read {
                bytes += message.text.text.len();
                batch.push(message);
            }
            if rows >= BATCH_ROWS || bytes >= BATCH_BYTES || i + 1 == path.len() {
                let messages = std::mem::take(&mut batch);
                if !messages.is_empty() && !self.write_batch(transcript, revision, ordinal, messages)? {
                    return Ok(false);
                }
                (bytes, rows) = (0, 0);
            }
        }
        Ok(true)
    }

    fn write_batch(
        &self,
        transcript: TranscriptNumber,
        revision: u64,
        ordinal: Ordinal,
        messages: Vec<StoredMessage>,
    ) -> Result<bool, StoreError> {
        self.submit(move |transaction| {
            let Some(mut session) = still(transaction.session(transcript)?, revision, ordinal) else {
                return Ok(false);
            };
            for message in &messages {
                add_document(transaction, &mut session, transcript, &message.indexed())?;
            }
            transaction.set_session(transcript, session);
            Ok(true)
        })
    }

    /// Makes the rebuild the session's documents. A few rows appended meanwhile are caught up in the same transaction,
    /// so that a session under sustained writes gets ready too.
    fn publish_rebuild(
        &self,
        transcript: TranscriptNumber,
        revision: u64,
        ordinal: Ordinal,
        mut plan: Plan,
    ) -> Result<Published, StoreError> {
        let pipeline = self.pipeline().clone();
        self.submit(move |transaction| {
            let Some(mut session) = still(transaction.session(transcript)?, revision, ordinal) else {
                return Ok(Published::Overtaken);
            };
            if session.next_seq - plan.seen > MAX_CATCH_UP_ROWS {
                return Ok(Published::Behind(Box::new(plan)));
            }
            let Plan { scan, path, seen } = &mut plan;
            transaction.tables.for_each_event(transcript, *seen, |seq, row| {
                scan.push(seq, &row.tree);
                Ok(())
            })?;
            let resolution = scan.resolve();
            if !resolution.path.starts_with(path) {
                return Ok(Published::Overtaken);
            }
            for &seq in &resolution.path[path.len()..] {
                let message =
                    transaction.tables.with_event(transcript, seq, |row| StoredMessage::read(&row, seq, &pipeline))?;
                if let Some(Some(message)) = message {
                    add_document(transaction, &mut session, transcript, &message.indexed())?;
                }
            }
            session.state = SessionState::Ready;
            session.head = Some(resolution.head);
            transaction.show_documents(&session);
            transaction.set_session(transcript, session);
            Ok(Published::Yes)
        })
    }
}

/// Which rows become documents, as far as they have been looked at.
struct Plan {
    scan: TreeScan,
    path: Vec<u64>,
    /// First seq not looked at.
    seen: u64,
}

impl Plan {
    /// Looks at the rows appended since. `false`: they change the path otherwise than at its end.
    fn extend(&mut self, snapshot: &Snapshot, transcript: TranscriptNumber) -> Result<bool, StoreError> {
        let (scan, seen) = (&mut self.scan, &mut self.seen);
        snapshot.for_each_event(transcript, *seen, |seq, row| {
            scan.push(seq, &row.tree);
            *seen = seq + 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let path = self.scan.resolve().path;
        let longer = path.starts_with(&self.path);
        self.path = path;
        Ok(longer)
    }
}

/// How publishing a rebuild ended.
enum Published {
    Yes,
    /// The session changed; the attempt is void.
    Overtaken,
    /// Too many rows came meanwhile to catch up in one transaction.
    Behind(Box<Plan>),
}

/// The session, if it is still the one the rebuild began with.
fn still(session: Option<&SessionRow>, revision: u64, ordinal: Ordinal) -> Option<SessionRow> {
    session.filter(|s| s.revision == revision && s.ordinal == ordinal && s.state != SessionState::Ready).cloned()
}
