//! Leaving behind what is not needed: the transcripts go into a new file, segments with dead documents are rewritten.

use std::time::Duration;

use serde::Serialize;

use super::Committer;
use super::checkpoint::CheckpointError;
use crate::index::{IndexError, IndexFolder};
use crate::store::{StoreError, discard_beside, put_in_place, remove_journal_aside, write_beside};

/// How long readers have to let go of the old file.
const UNPIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What compacting did, in bytes of transcripts and index together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Compacted {
    /// Bytes on disk before.
    pub bytes_before: u64,
    /// Bytes on disk after.
    pub bytes_after: u64,
}

/// Why a store was not compacted. Everything in it stays and is found as before.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// An import, or a search that takes longer than 5 s.
    #[error("the store is in use by {by} of this process; it was not compacted, try again when that is done")]
    InUse {
        /// By what.
        by: &'static str,
    },
    /// The index could not be written.
    #[error("compacting stopped: {0}")]
    Index(#[from] IndexError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CheckpointError> for CompactError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Store(error) => Self::Store(error),
            CheckpointError::Index(error) => Self::Index(error),
        }
    }
}

impl Committer {
    /// Gives back the space of what was deleted, and erases it: from the file of the transcripts, from the segments,
    /// and from an index that was set aside. Writes wait meanwhile; searches only for the moment of the exchange.
    ///
    /// # Errors
    /// [`CompactError`]: everything stays and is found as before. Part of the work may be done; doing it again is safe.
    pub fn compact(&self) -> Result<Compacted, CompactError> {
        if self.is_importing() {
            return Err(CompactError::InUse { by: "an import" });
        }
        let bytes_before = self.len_bytes();
        // What died goes from the segments with a checkpoint, and out of their files with a merge.
        self.checkpoint()?;
        self.purge_index()?;
        if !self.is_rebuilding_index() {
            IndexFolder::remove_set_aside(&self.index_place()).map_err(IndexError::from)?;
        }
        remove_journal_aside(self.location(), self.files())?;
        let pipeline = self.pipeline();
        self.alone(|index, slot, views| {
            let Some(store) = slot.as_ref() else {
                return Err(StoreError::Poisoned { detail: "it could not be opened again yet".into() });
            };
            let written = write_beside(&store.snapshot()?, self.location(), self.files());
            if let Err(error) = written {
                discard_beside(self.location(), self.files());
                return Err(error);
            }
            let replaced = views.replace_unpinned::<StoreError>(UNPIN_TIMEOUT, || {
                put_in_place(self.location(), self.files())?;
                let view = self.reopen(&pipeline, index, slot)?;
                self.note_recovered(&view);
                Ok(view)
            });
            if replaced.is_none() {
                discard_beside(self.location(), self.files());
            }
            Ok(replaced)
        })?
        .ok_or(CompactError::InUse { by: "a search" })?
        .map_err(CompactError::Store)?;
        Ok(Compacted { bytes_before, bytes_after: self.len_bytes() })
    }

    /// Bytes of transcripts and index.
    fn len_bytes(&self) -> u64 {
        let (files, location) = (self.files(), self.location());
        let len = |path: &std::path::Path| files.len_bytes(path).unwrap_or(0);
        let index = location.index();
        let names = files.list(&index).unwrap_or_default();
        len(&location.database()) + names.iter().map(|name| len(&index.join(name))).sum::<u64>()
    }
}
