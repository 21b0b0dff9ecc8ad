//! Rebuilding a pending session's documents from its events, in bounded batches (contract §4.5, design of reconcile).
//!
//! A rebuild first claims the session with a new ordinal, then writes documents under it that nobody sees, from a
//! pinned snapshot. The last transaction reads what was stored meanwhile, takes away and adds the documents that make
//! the difference, and publishes. So a rebuild ends however fast others write to its session, and whatever they write.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::Committer;
use super::append::{StoredMessage, add_document};
use super::prepare::TextPipeline;
use super::transaction::Transaction;
use crate::model::Ordinal;
use crate::store::{Death, EventRow, PendingReason, SessionRow, SessionState, Snapshot, StoreError, TranscriptNumber};
use crate::transcript::{Head, TreeScan};

/// Which sessions are being rebuilt; a session is by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Rebuilds {
    running: Mutex<BTreeSet<TranscriptNumber>>,
    ended: Condvar,
}

impl Rebuilds {
    fn enter(&self, transcript: TranscriptNumber) -> Running<'_> {
        let mut running = self.running.lock();
        while !running.insert(transcript) {
            self.ended.wait(&mut running);
        }
        Running { all: self, transcript }
    }
}

struct Running<'r> {
    all: &'r Rebuilds,
    transcript: TranscriptNumber,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.all.running.lock().remove(&self.transcript);
        self.all.ended.notify_all();
    }
}

/// The right to write a session's documents: whoever changes its revision or ordinal ends it, and so does opening the
/// store again, which leaves out of the tail what is not published.
#[derive(Debug, Clone, Copy)]
struct Claim {
    transcript: TranscriptNumber,
    revision: u64,
    ordinal: Ordinal,
    opening: u64,
}

impl Claim {
    /// The session, if the claim still holds.
    fn session(self, transaction: &mut Transaction<'_, '_>) -> Result<Option<SessionRow>, StoreError> {
        if transaction.opening != self.opening {
            return Ok(None);
        }
        let session = transaction.session(self.transcript)?;
        Ok(session.filter(|session| self.holds(session)).cloned())
    }

    fn holds(self, session: &SessionRow) -> bool {
        session.revision == self.revision && session.ordinal == self.ordinal && session.state != SessionState::Ready
    }
}

/// How the last transaction of a rebuild ended.
enum Published {
    /// The session is ready; a staged one that came too late is gone.
    Yes,
    /// Too much was stored meanwhile.
    Behind,
    /// The claim is lost.
    Overtaken,
}

/// What a rebuild has done so far.
struct Progress {
    scan: TreeScan,
    /// Rows below are in `scan`.
    seen: u64,
    /// Rows that have their documents, where there is anything to search in them.
    written: BTreeSet<u64>,
}

impl Committer {
    /// Rebuilds one pending session; a session that is not pending is left alone. A staged one takes its place.
    ///
    /// # Errors
    /// [`StoreError`]: the session stays pending and hidden.
    pub fn rebuild_session(&self, transcript: TranscriptNumber) -> Result<(), StoreError> {
        let _running = self.rebuilds.enter(transcript);
        while let Some(claim) = self.claim(transcript)? {
            if self.rebuild_claimed(claim)? {
                break;
            }
        }
        Ok(())
    }

    /// Does it all for one claim. `false`: the claim was lost.
    fn rebuild_claimed(&self, claim: Claim) -> Result<bool, StoreError> {
        if !self.clear_old_documents(claim)? {
            return Ok(false);
        }
        let mut progress = Progress { scan: TreeScan::new(), seen: 0, written: BTreeSet::new() };
        loop {
            let snapshot = self.snapshot()?;
            let Some(session) = snapshot.session(claim.transcript)?.filter(|session| claim.holds(session)) else {
                return Ok(false);
            };
            snapshot.for_each_event(claim.transcript, progress.seen, |seq, row| {
                progress.scan.push(seq, &row.tree);
                Ok(ControlFlow::Continue(()))
            })?;
            progress.seen = session.next_seq;
            let path: BTreeSet<u64> = progress.scan.resolve().path.into_iter().collect();
            let left: Vec<u64> = progress.written.difference(&path).copied().collect();
            let missing: Vec<u64> = path.difference(&progress.written).copied().collect();
            if !self.take_documents(claim, left)? || !self.write_documents(&snapshot, claim, &missing)? {
                return Ok(false);
            }
            drop(snapshot);
            progress.written = path;
            let (outcome, given_back) = self.publish_rebuild(claim, progress)?;
            progress = given_back;
            match outcome {
                Published::Yes => return Ok(true),
                Published::Behind => {}
                Published::Overtaken => return Ok(false),
            }
        }
    }

    /// Gives a pending session its new ordinal and hides it. `None`: it is not pending.
    fn claim(&self, transcript: TranscriptNumber) -> Result<Option<Claim>, StoreError> {
        self.submit(move |transaction| {
            let session = transaction.session(transcript)?.filter(|s| s.state != SessionState::Ready).cloned();
            let Some(mut session) = session else { return Ok(None) };
            // A bulk import that could not show it, or an attempt that was overtaken or that a crash ended, left
            // documents under the ordinal before.
            transaction.put_death(&Death::Ordinal(session.ordinal))?;
            session.ordinal = transaction.next_ordinal();
            // From here on its documents come by the tail, whatever it waited for.
            if !matches!(session.state, SessionState::Staged { .. }) {
                session.state = SessionState::Pending(PendingReason::Rebuild);
            }
            session.documents = 0;
            session.tokens = 0;
            transaction.hide_unborn(session.ordinal);
            let opening = transaction.opening;
            let claim = Claim { transcript, revision: session.revision, ordinal: session.ordinal, opening };
            transaction.set_session(transcript, session);
            Ok(Some(claim))
        })
    }

    /// Removes the document rows of the ordinal that was killed when the session became pending, and of earlier
    /// attempts. `false`: the claim is lost.
    fn clear_old_documents(&self, claim: Claim) -> Result<bool, StoreError> {
        let rows = self.tuning().session_batch_rows;
        loop {
            let cleared = self.submit(move |transaction| {
                if claim.session(transaction)?.is_none() {
                    return Ok(None);
                }
                let active = transaction.tables.active_at_most(claim.transcript, rows)?;
                for &(seq, number) in &active {
                    transaction.tables.remove_document(number)?;
                    transaction.tables.set_active(claim.transcript, seq, None)?;
                }
                Ok(Some(active.len()))
            })?;
            match cleared {
                None => return Ok(false),
                Some(cleared) if cleared < rows => return Ok(true),
                Some(_) => {}
            }
        }
    }

    /// Writes the documents of these rows. `false`: the claim is lost.
    fn write_documents(&self, snapshot: &Snapshot, claim: Claim, seqs: &[u64]) -> Result<bool, StoreError> {
        let (tuning, pipeline) = (self.tuning(), self.pipeline());
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (i, &seq) in seqs.iter().enumerate() {
            let read = |row: EventRow<'_>| StoredMessage::read(&row, seq, &pipeline);
            if let Some(message) = snapshot.with_event(claim.transcript, seq, read)?.flatten() {
                bytes += message.text.text.len();
                batch.push(message);
            }
            let full = batch.len() >= tuning.session_batch_rows || bytes >= tuning.session_batch_bytes;
            if (full || i + 1 == seqs.len()) && !batch.is_empty() {
                if !self.write_batch(claim, std::mem::take(&mut batch))? {
                    return Ok(false);
                }
                bytes = 0;
            }
        }
        Ok(true)
    }

    /// Takes away the documents of rows that left the path while they were written. `false`: the claim is lost.
    fn take_documents(&self, claim: Claim, seqs: Vec<u64>) -> Result<bool, StoreError> {
        for batch in seqs.chunks(self.tuning().session_batch_rows) {
            let batch = batch.to_vec();
            let held = self.submit(move |transaction| {
                let Some(mut session) = claim.session(transaction)? else { return Ok(false) };
                take(transaction, &mut session, claim.transcript, &batch)?;
                transaction.set_session(claim.transcript, session);
                Ok(true)
            })?;
            if !held {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_batch(&self, claim: Claim, messages: Vec<StoredMessage>) -> Result<bool, StoreError> {
        self.submit(move |transaction| {
            let Some(mut session) = claim.session(transaction)? else { return Ok(false) };
            for message in &messages {
                add_document(transaction, &mut session, claim.transcript, &message.indexed())?;
            }
            transaction.set_session(claim.transcript, session);
            Ok(true)
        })
    }

    /// Takes in what was stored since `progress`, and makes the rebuild the session's documents.
    fn publish_rebuild(&self, claim: Claim, progress: Progress) -> Result<(Published, Progress), StoreError> {
        let pipeline = self.pipeline();
        let progress = Arc::new(progress);
        let (shared, transcript) = (Arc::clone(&progress), claim.transcript);
        let (rows, bytes) = (self.tuning().session_batch_rows, self.tuning().session_batch_bytes);
        let outcome = self.submit(move |transaction| {
            let Some(session) = claim.session(transaction)? else { return Ok(Published::Overtaken) };
            Finish { transaction, pipeline: &pipeline, session, transcript, rows, bytes }.run(&shared)
        })?;
        // The write is gone with its outcome, so this is the only owner; else the rows are read again.
        let progress = Arc::try_unwrap(progress).unwrap_or_else(|shared| Progress {
            scan: shared.scan.clone(),
            seen: shared.seen,
            written: shared.written.clone(),
        });
        Ok((outcome, progress))
    }
}

/// Takes away the documents of these rows.
fn take(
    transaction: &mut Transaction<'_, '_>,
    session: &mut SessionRow,
    transcript: TranscriptNumber,
    seqs: &[u64],
) -> Result<(), StoreError> {
    let mut dead = Vec::new();
    for &seq in seqs {
        if let Some(number) = transaction.tables.active_document(transcript, seq)? {
            transaction.kill_document(session, transcript, seq, number)?;
            dead.push(number);
        }
    }
    if dead.is_empty() {
        return Ok(());
    }
    transaction.put_death(&Death::Documents { ordinal: session.ordinal, numbers: dead })
}

/// The last transaction of a rebuild. It reads at most `rows` rows stored meanwhile, and changes as many documents, of
/// at most `bytes` of text; where there is more to do another round comes before it.
struct Finish<'f, 'a, 't> {
    transaction: &'f mut Transaction<'a, 't>,
    pipeline: &'f TextPipeline,
    session: SessionRow,
    transcript: TranscriptNumber,
    rows: usize,
    bytes: usize,
}

impl Finish<'_, '_, '_> {
    fn run(mut self, progress: &Progress) -> Result<Published, StoreError> {
        let head = if self.session.next_seq == progress.seen {
            progress.scan.resolve().head
        } else {
            match self.catch_up(progress)? {
                Some(head) => head,
                None => return Ok(Published::Behind),
            }
        };
        let is_staged = matches!(self.session.state, SessionState::Staged { .. });
        if is_staged && !self.transaction.take_place(self.transcript, &mut self.session)? {
            self.transaction.remove_session(self.transcript, &self.session)?;
            return Ok(Published::Yes);
        }
        self.session.state = SessionState::Ready;
        self.session.head = Some(head);
        self.transaction.show_documents(&self.session);
        self.transaction.set_session(self.transcript, self.session);
        Ok(Published::Yes)
    }

    /// `None`: too much was stored meanwhile, and nothing is changed.
    fn catch_up(&mut self, progress: &Progress) -> Result<Option<Head>, StoreError> {
        if self.session.next_seq - progress.seen > self.rows as u64 {
            return Ok(None);
        }
        let mut scan = progress.scan.clone();
        let mut bytes = 0;
        self.transaction.tables.for_each_event(self.transcript, progress.seen, |seq, row| {
            scan.push(seq, &row.tree);
            bytes += row.text_bytes as usize;
            Ok(())
        })?;
        let resolution = scan.resolve();
        let path: BTreeSet<u64> = resolution.path.into_iter().collect();
        let left: Vec<u64> = progress.written.difference(&path).copied().collect();
        let joined: Vec<u64> = path.difference(&progress.written).copied().collect();
        if left.len() + joined.len() > self.rows || bytes > self.bytes {
            return Ok(None);
        }
        take(self.transaction, &mut self.session, self.transcript, &left)?;
        for seq in joined {
            let read = |row: EventRow<'_>| StoredMessage::read(&row, seq, self.pipeline);
            if let Some(message) = self.transaction.tables.with_event(self.transcript, seq, read)?.flatten() {
                add_document(self.transaction, &mut self.session, self.transcript, &message.indexed())?;
            }
        }
        Ok(Some(resolution.head))
    }
}

#[cfg(test)]
mod tests {
    use super::super::append::SessionTarget;
    use super::super::committer::tests::open;
    use super::super::prepare::PreparedEvent;
    use super::super::tuning::Tuning;
    use super::*;
    use crate::model::{SessionFacts, SessionId, SessionKey, Timestamp};

    fn append(committer: &Committer, lines: &[String]) {
        let id = SessionId::parse("s").unwrap();
        let target = SessionTarget {
            key: SessionKey::parse("agent:main:s").unwrap(),
            id: Some(id.clone()),
            new_id: id,
            facts: SessionFacts::default(),
            current: true,
        };
        let pipeline = committer.pipeline();
        let events = lines.iter().map(|line| PreparedEvent::new(&pipeline, line.clone().into_bytes()).unwrap());
        for outcome in committer.append(target, events.collect(), Timestamp::UNKNOWN).unwrap().unwrap() {
            outcome.unwrap();
        }
    }

    fn message(n: usize) -> String {
        format!(r#"{{"type":"message","id":"m{n}","message":{{"role":"user","content":"otter {n}"}}}}"#)
    }

    /// A session of `n` messages that is hidden after a rewind to its `kept` first ones.
    fn hidden(committer: &Committer, n: usize, kept: usize) -> TranscriptNumber {
        append(committer, &(1..=n).map(message).collect::<Vec<_>>());
        append(committer, &[format!(r#"{{"type":"leaf","id":"l","parentId":"m{n}","targetId":"m{kept}"}}"#)]);
        let transcript = TranscriptNumber(0);
        assert_ne!(committer.pin().sessions.get(transcript).unwrap().state, SessionState::Ready);
        transcript
    }

    fn small() -> Tuning {
        Tuning { sync_resolve_events: 5, session_batch_rows: 3, index_batch_documents: 4, ..Tuning::default() }
    }

    /// The numbers of the documents that can be found.
    fn visible(committer: &Committer) -> usize {
        use crate::index::Part;
        fn alive(part: &impl Part) -> usize {
            (0..part.num_docs()).filter(|&doc| !part.dead().contains(doc)).count()
        }
        let view = committer.pin();
        assert!(!view.index.rebuilding);
        let segments: usize = view.index.segments().map(|segment| alive(&segment.unwrap())).sum();
        let visible = segments + view.index.runs().map(|run| alive(&run)).sum::<usize>();
        assert_eq!(visible as u64, view.index.num_documents);
        visible
    }

    #[test]
    fn documents_of_a_rebuild_under_way_outlive_the_loss_of_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), small());
        let transcript = hidden(&committer, 12, 10);
        let claim = committer.claim(transcript).unwrap().unwrap();
        assert!(committer.clear_old_documents(claim).unwrap());
        let snapshot = committer.snapshot().unwrap();
        assert!(committer.write_documents(&snapshot, claim, &(0..7).collect::<Vec<_>>()).unwrap());
        drop(snapshot);
        // Now the index is lost, noticed, and rebuilt, before the session's rebuild goes on.
        committer.checkpoint().unwrap();
        std::fs::remove_dir_all(committer.location().index()).unwrap();
        committer.index.lock().unsettled = true;
        while committer.rebuild_index_batch().unwrap() {}
        let mut scan = TreeScan::new();
        committer
            .snapshot()
            .unwrap()
            .for_each_event(transcript, 0, |seq, row| {
                scan.push(seq, &row.tree);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        let snapshot = committer.snapshot().unwrap();
        assert!(committer.write_documents(&snapshot, claim, &[7, 8, 9]).unwrap());
        let progress = Progress { scan, seen: 13, written: (0..10).collect() };
        assert!(matches!(committer.publish_rebuild(claim, progress).unwrap().0, Published::Yes));
        assert_eq!(visible(&committer), 10);
    }

    #[test]
    fn two_rebuilds_of_one_session_at_once_leave_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), small());
        let transcript = hidden(&committer, 40, 35);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let committer = Arc::clone(&committer);
                std::thread::spawn(move || committer.rebuild_session(transcript).unwrap())
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(visible(&committer), 35);
    }

    #[test]
    fn a_claim_on_a_session_that_is_ready_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), small());
        append(&committer, &[message(1)]);
        assert!(committer.claim(TranscriptNumber(0)).unwrap().is_none());
        assert_eq!(visible(&committer), 1);
    }

    #[test]
    fn a_rebuild_takes_in_what_was_stored_and_rewound_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let committer = open(folder.path(), small());
        let transcript = hidden(&committer, 12, 10);
        let claim = committer.claim(transcript).unwrap().unwrap();
        assert!(committer.clear_old_documents(claim).unwrap());
        let mut scan = TreeScan::new();
        let snapshot = committer.snapshot().unwrap();
        snapshot
            .for_each_event(transcript, 0, |seq, row| {
                scan.push(seq, &row.tree);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert!(committer.write_documents(&snapshot, claim, &(0..10).collect::<Vec<_>>()).unwrap());
        // One message less, and one more.
        append(&committer, &[r#"{"type":"leaf","id":"l2","parentId":"m10","targetId":"m9"}"#.to_owned(), message(13)]);
        let progress = Progress { scan, seen: 13, written: (0..10).collect() };
        assert!(matches!(committer.publish_rebuild(claim, progress).unwrap().0, Published::Yes));
        assert_eq!(visible(&committer), 10);
        // Far more than one transaction may take in: first behind, then ready after all.
        append(&committer, &[r#"{"type":"leaf","id":"l3","parentId":"m13","targetId":"m2"}"#.to_owned()]);
        append(&committer, &(20..40).map(message).collect::<Vec<_>>());
        committer.rebuild_session(transcript).unwrap();
        assert_eq!(visible(&committer), 22);
    }
}
