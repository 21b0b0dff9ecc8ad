//! Taking sessions away.

use super::Committer;
use super::transaction::Transaction;
use crate::commit::append::merge_facts;
use crate::model::{SessionFacts, SessionId, SessionKey, Timestamp};
use crate::store::{SessionRow, SessionState, SourceRow, StoreError, TranscriptNumber};
use crate::transcript::Head;

/// What a deletion took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Deleted {
    /// Sessions.
    pub sessions: u64,
    /// Searchable messages.
    pub messages: u64,
}

/// Why a key was not changed. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RekeyRefusal {
    /// No session has the key.
    #[error("no session has the key {key}; nothing was changed")]
    UnknownKey {
        /// The key.
        key: SessionKey,
    },
    /// Another conversation has the new key.
    #[error("{key} is the key of other sessions already; nothing was changed")]
    Taken {
        /// The key.
        key: SessionKey,
    },
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

    /// Deletes every session whose last activity is known and lies before `before`.
    ///
    /// # Errors
    /// As [`Committer::delete_session`]; what was deleted before stays deleted.
    pub fn prune(&self, before: Timestamp, now: Timestamp) -> Result<Deleted, StoreError> {
        let old: Vec<SessionId> = self
            .pin()
            .sessions
            .iter()
            .filter(|row| row.updated_at.is_known() && row.updated_at < before)
            .map(|row| row.session_id.clone())
            .collect();
        let mut deleted = Deleted::default();
        for id in old {
            // One transaction a session: none holds up others for long, and a session active again meanwhile is kept.
            let one = self.submit(move |transaction| {
                let Some(transcript) = transaction.tables.transcript(&id)? else { return Ok(Deleted::default()) };
                let still_old = transaction.session(transcript)?.is_some_and(|row| row.updated_at < before);
                delete_all(transaction, if still_old { vec![transcript] } else { Vec::new() }, now)
            })?;
            deleted.sessions += one.sessions;
            deleted.messages += one.messages;
        }
        Ok(deleted)
    }

    /// Gives every window of `old` the key `new`. No index work: documents know their session, not its key.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn rekey(&self, old: SessionKey, new: SessionKey) -> Result<Result<u64, RekeyRefusal>, StoreError> {
        self.submit(move |transaction| {
            let windows = transaction.tables.windows(&old)?;
            if windows.is_empty() {
                return Ok(Err(RekeyRefusal::UnknownKey { key: old.clone() }));
            }
            if old == new {
                return Ok(Ok(windows.len() as u64));
            }
            if !transaction.tables.windows(&new)?.is_empty() {
                return Ok(Err(RekeyRefusal::Taken { key: new.clone() }));
            }
            let current = transaction.tables.current_window(&old)?;
            for &transcript in &windows {
                let Some(mut row) = transaction.session(transcript)?.cloned() else { continue };
                transaction.tables.remove_window(transcript, &old)?;
                transaction.tables.add_window(transcript, &new, current == Some(transcript))?;
                row.session_key = new.clone();
                transaction.set_session(transcript, row);
            }
            Ok(Ok(windows.len() as u64))
        })
    }

    /// Archives every window of a key, or takes that back. Archived sessions leave listings and stay searchable.
    /// Gives the number of windows.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn set_archived(&self, key: SessionKey, archived: bool) -> Result<u64, StoreError> {
        self.submit(move |transaction| {
            let windows = transaction.tables.windows(&key)?;
            for &transcript in &windows {
                let Some(mut row) = transaction.session(transcript)?.cloned() else { continue };
                row.facts.archived = archived;
                transaction.set_session(transcript, row);
            }
            Ok(windows.len() as u64)
        })
    }

    /// Lifts the tombstone of a session deleted on purpose, so that it may be imported again (D27).
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn revive(&self, id: SessionId) -> Result<(), StoreError> {
        self.submit(move |transaction| transaction.tables.set_tombstone(&id, None))
    }
}

/// A replacement of a session, for whoever reads its source anew.
impl Committer {
    /// Begins a session under the id of one that is stored, seen by nobody until [`Committer::rebuild_session`] puts it
    /// in that one's place, in one transaction. `None`: there is no session of that id, or it holds another number of
    /// events. The next open drops what did not get that far.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn stage(
        &self,
        id: SessionId,
        events: u64,
        facts: SessionFacts,
        now: Timestamp,
    ) -> Result<Option<TranscriptNumber>, StoreError> {
        self.submit(move |transaction| {
            let Some(replaces) = transaction.tables.transcript(&id)? else { return Ok(None) };
            let Some(old) = transaction.session(replaces)?.filter(|old| old.next_seq == events).cloned() else {
                return Ok(None);
            };
            let ordinal = transaction.next_ordinal();
            transaction.hide_unborn(ordinal);
            let mut row = SessionRow {
                created_at: now,
                updated_at: facts.updated_at.unwrap_or(Timestamp::UNKNOWN),
                title: None,
                state: SessionState::Staged { replaces, events },
                ordinal,
                head: Some(Head::default()),
                next_seq: 0,
                event_bytes: 0,
                documents: 0,
                tokens: 0,
                revision: 0,
                ..old
            };
            merge_facts(&mut row.facts, &facts);
            Ok(Some(transaction.stage_session(row)))
        })
    }

    /// Drops what [`Committer::stage`] began.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn drop_staged(&self, transcript: TranscriptNumber) -> Result<(), StoreError> {
        self.submit(move |transaction| {
            let staged = transaction.session(transcript)?.cloned();
            match staged.filter(|row| matches!(row.state, SessionState::Staged { .. })) {
                Some(row) => transaction.remove_session(transcript, &row),
                None => Ok(()),
            }
        })
    }

    /// After a source was read anew: notes how far, removes the sessions that it holds no more, if they hold as many
    /// events as is said, and forgets how far other files had been read.
    ///
    /// # Errors
    /// As [`Committer::delete_session`].
    pub fn end_replacement(
        &self,
        sources: Vec<(String, SourceRow)>,
        gone: Vec<(String, SessionId, u64)>,
        others: Vec<String>,
    ) -> Result<(), StoreError> {
        self.submit(move |transaction| {
            for (name, row) in &sources {
                transaction.tables.put_source(name, row)?;
            }
            for (name, id, events) in &gone {
                if let Some(transcript) = transaction.tables.transcript(id)?
                    && let Some(row) = transaction.session(transcript)?.filter(|row| row.next_seq == *events).cloned()
                {
                    transaction.remove_session(transcript, &row)?;
                    transaction.tables.remove_source(name)?;
                }
            }
            others.iter().try_for_each(|name| transaction.tables.remove_source(name))
        })
    }
}

/// Takes everything out of a session but its key, names and lineage. It has another number then, so that whoever was
/// writing its documents has lost the right to.
pub(super) fn begin_anew(
    transaction: &mut Transaction<'_, '_>,
    transcript: TranscriptNumber,
    row: SessionRow,
    updated_at: Timestamp,
) -> Result<TranscriptNumber, StoreError> {
    let is_current = transaction.tables.current_window(&row.session_key)? == Some(transcript);
    transaction.remove_session(transcript, &row)?;
    let fresh = SessionRow {
        updated_at,
        title: None,
        state: SessionState::Ready,
        ordinal: transaction.next_ordinal(),
        head: Some(Head::default()),
        next_seq: 0,
        event_bytes: 0,
        documents: 0,
        tokens: 0,
        revision: 0,
        ..row
    };
    transaction.add_session(fresh, is_current)
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
