//! Putting other events in the place of everything a session holds: a compaction, a trim, a repair.

use super::{Engine, LineError};
use crate::commit::{Appended, EventPlace, PreparedEvent, first_conflict};
use crate::model::{SessionId, Timestamp};
use crate::store::StoreError;

/// Why a session was not replaced. It is as it was, unless the store's outcome is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// No such session.
    #[error("no session {id} in this store; nothing was replaced")]
    UnknownSession {
        /// The id as given.
        id: SessionId,
    },
    /// A line can't be stored, and nothing is replaced by less than what was given.
    #[error("line {line}: {error}; nothing was replaced")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        error: LineError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Puts `lines`, in order, in the place of everything a session holds, in one transaction. When this returns nothing
    /// of the old can be found, and all of the new, up to 4,000 events and 4 MiB, old and new together; a larger session
    /// is hidden until it is rebuilt in the background. Key, names, lineage and the time of the last activity stay. The
    /// lines are taken as they are, like those of a file: no parent is changed. One place a line.
    ///
    /// # Errors
    /// [`ReplaceError`].
    pub fn replace(
        &self,
        id: &SessionId,
        lines: Vec<Vec<u8>>,
        now: Timestamp,
    ) -> Result<Vec<EventPlace>, ReplaceError> {
        let pipeline = self.committer.pipeline();
        let mut prepared = Vec::with_capacity(lines.len());
        for (i, line) in lines.into_iter().enumerate() {
            let event = PreparedEvent::new(&pipeline, line);
            prepared.push(event.map_err(|error| ReplaceError::Line { line: i + 1, error: error.into() })?);
        }
        if let Some((i, refusal)) = first_conflict(&prepared) {
            return Err(ReplaceError::Line { line: i + 1, error: refusal.into() });
        }
        self.committer.heal()?;
        let Some(outcomes) = self.committer.replace(id.clone(), prepared, now)? else {
            return Err(ReplaceError::UnknownSession { id: id.clone() });
        };
        let places = outcomes.into_iter().enumerate().map(|(i, outcome)| match outcome {
            Ok(Appended::Stored(place) | Appended::Known(place)) => Ok(place),
            Err(refusal) => Err(ReplaceError::Line { line: i + 1, error: refusal.into() }),
        });
        places.collect()
    }
}
