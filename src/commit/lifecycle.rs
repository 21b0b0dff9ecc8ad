//! Taking sessions away.

use super::Committer;
use super::transaction::Transaction;
use crate::model::{SessionId, SessionKey, Timestamp};
use crate::store::{StoreError, TranscriptNumber};

/// What a deletion took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Deleted {
    /// Sessions.
    pub sessions: u64,
    /// Searchable messages.
    pub messages: u64,
}

impl Committer {
    /// Deletes one session. Gone for every search when this returns; importing it again is refused (D27).
    ///
    /// # Errors
    /// [`StoreError`]: nothing is deleted, unless it is [`StoreError::OutcomeUnknown`].
    pub fn delete_session(&self, id: SessionId, now: Timestamp) -> Result<Deleted, StoreError> {
        self.submit(move |transaction| {
            let found = transaction.tables.transcript(&id)?;
            delete_all(transaction, found.into_iter().collect(), now)
        })
    }

    /// Deletes every window of a key.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn delete_key(&self, key: SessionKey, now: Timestamp) -> Result<Deleted, StoreError> {
        self.submit(move |transaction| {
            let windows = transaction.tables.windows(&key)?;
            delete_all(transaction, windows, now)
        })
    }

    /// Lifts the tombstone of a session deleted on purpose, so that it may be imported again (D27).
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn revive(&self, id: SessionId) -> Result<(), StoreError> {
        self.submit(move |transaction| transaction.tables.set_tombstone(&id, None))
    }

    /// Empties a session for a source that was rewritten: the same id goes on under a new transcript.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn drop_for_replacement(&self, id: SessionId) -> Result<Deleted, StoreError> {
        self.submit(move |transaction| {
            let mut deleted = Deleted::default();
            if let Some(transcript) = transaction.tables.transcript(&id)? {
                remove(transaction, transcript, &mut deleted)?;
            }
            Ok(deleted)
        })
    }
}

fn delete_all(
    transaction: &mut Transaction<'_, '_>,
    transcripts: Vec<TranscriptNumber>,
    now: Timestamp,
) -> Result<Deleted, StoreError> {
    let mut deleted = Deleted::default();
    for transcript in transcripts {
        if let Some(id) = remove(transaction, transcript, &mut deleted)? {
            transaction.tables.set_tombstone(&id, Some(now))?;
        }
    }
    Ok(deleted)
}

/// The one place where sessions go.
fn remove(
    transaction: &mut Transaction<'_, '_>,
    transcript: TranscriptNumber,
    deleted: &mut Deleted,
) -> Result<Option<SessionId>, StoreError> {
    let Some(row) = transaction.session(transcript)?.cloned() else { return Ok(None) };
    transaction.remove_session(transcript, &row)?;
    deleted.sessions += 1;
    deleted.messages += row.documents;
    Ok(Some(row.session_id))
}
