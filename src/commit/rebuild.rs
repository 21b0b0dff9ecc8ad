//! Rebuilding a pending session's documents from its events, in bounded batches (contract §4.5, design of reconcile).
//!
//! A rebuild writes under a new ordinal that nobody sees until one transaction makes it the session's. It reads a
//! pinned snapshot; the session's revision fences it against rewinds, deletes and replacements meanwhile, and rows
//! appended meanwhile are caught up before it is published.

use std::ops::ControlFlow;

use super::Committer;
use super::append::{IndexedMessage, add_document};
use super::prepare::SearchableText;
use crate::model::{MessageId, Ordinal, Role, Timestamp};
use crate::store::{Death, SessionRow, SessionState, Snapshot, StoreError, TranscriptNumber};
use crate::transcript::TreeScan;

/// Rows of one transaction at most …
const BATCH_ROWS: usize = 512;
/// … and bytes of text.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How one attempt ended.
enum Attempt {
    /// The session is ready, gone, or was so before.
    Done,
    /// The session changed under it; what was written is dead.
    Overtaken,
}

/// A message read for a batch.
struct Message {
    seq: u64,
    id: MessageId,
    role: Role,
    timestamp: Timestamp,
    text: SearchableText,
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

        let mut scan = TreeScan::new();
        scan_events(&snapshot, transcript, 0, &mut scan)?;
        let mut path = scan.resolve().path;
        let revision = session.revision;
        let Some(ordinal) = self.begin_ordinal(transcript, revision)? else { return Ok(Attempt::Overtaken) };

        let mut seen = session.next_seq;
        let mut snapshot = snapshot;
        let mut done = 0;
        loop {
            if !self.write_documents(&snapshot, transcript, revision, ordinal, &path[done..])? {
                return Ok(Attempt::Overtaken);
            }
            done = path.len();
            // Catch up with what was appended meanwhile, then publish; both are repeated until nothing came between.
            snapshot = self.store().snapshot()?;
            let Some(now) = snapshot.session(transcript)?.filter(|now| now.revision == revision) else {
                return Ok(Attempt::Overtaken);
            };
            if now.next_seq == seen {
                if self.publish_rebuild(transcript, revision, ordinal, seen, &scan)? {
                    return Ok(Attempt::Done);
                }
                continue;
            }
            scan_events(&snapshot, transcript, seen, &mut scan)?;
            seen = now.next_seq;
            let longer = scan.resolve().path;
            if !longer.starts_with(&path) {
                return Ok(Attempt::Overtaken);
            }
            path = longer;
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
            let read = snapshot
                .with_event(transcript, seq, |row| (row.text_bytes > 0).then(|| (row.event(), row.timestamp)))?;
            // An event that can no longer be read is an opaque row: it hides itself, not its session (D8).
            if let Some(Some((Ok(event), timestamp))) = read
                && let Some(text) = self.pipeline().text_of(&event)
                && let Some((id, message)) = event.searchable()
            {
                bytes += text.text.len();
                batch.push(Message { seq, id: id.clone(), role: message.role, timestamp, text });
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
        messages: Vec<Message>,
    ) -> Result<bool, StoreError> {
        self.submit(move |transaction| {
            let Some(mut session) = still(transaction.session(transcript)?, revision, ordinal) else {
                return Ok(false);
            };
            for message in &messages {
                let indexed = IndexedMessage {
                    seq: message.seq,
                    id: &message.id,
                    role: message.role,
                    timestamp: message.timestamp,
                    text: &message.text,
                };
                add_document(transaction, &mut session, transcript, &indexed)?;
            }
            transaction.set_session(transcript, session);
            Ok(true)
        })
    }

    /// Makes the rebuild the session's documents. `false`: something came between.
    fn publish_rebuild(
        &self,
        transcript: TranscriptNumber,
        revision: u64,
        ordinal: Ordinal,
        seen: u64,
        scan: &TreeScan,
    ) -> Result<bool, StoreError> {
        let head = scan.resolve().head;
        self.submit(move |transaction| {
            let Some(mut session) = still(transaction.session(transcript)?, revision, ordinal) else {
                return Ok(false);
            };
            if session.next_seq != seen {
                return Ok(false);
            }
            session.state = SessionState::Ready;
            session.head = Some(head);
            transaction.show_documents(&session);
            transaction.set_session(transcript, session);
            Ok(true)
        })
    }
}

/// The session, if it is still the one the rebuild began with.
fn still(session: Option<&SessionRow>, revision: u64, ordinal: Ordinal) -> Option<SessionRow> {
    session.filter(|s| s.revision == revision && s.ordinal == ordinal && s.state != SessionState::Ready).cloned()
}

fn scan_events(
    snapshot: &Snapshot,
    transcript: TranscriptNumber,
    from: u64,
    scan: &mut TreeScan,
) -> Result<(), StoreError> {
    snapshot.for_each_event(transcript, from, |seq, row| {
        scan.push(seq, &row.tree);
        Ok(ControlFlow::Continue(()))
    })
}
