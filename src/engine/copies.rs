//! Backing a store up while it is open, and giving back the space of what was deleted.

use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreLocation, copy_to};

pub use crate::commit::{CompactError, Compacted};

use super::Engine;

/// Why there is no backup.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is a store at that place.
    #[error("{path} has a store already; nothing was written, name another folder")]
    Exists {
        /// Its folder.
        path: PathBuf,
    },
    /// The store can't be read, or the copy not written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Copies this agent's transcripts, as they are now, into a store of their own under the folder `root`. Appends go
    /// on meanwhile. The copy has no index yet: it is made when the copy is opened. Gives the copy's bytes.
    ///
    /// # Errors
    /// [`BackupError`]: there is no new store under `root`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use sessions_search::{Engine, OpenOptions};
    /// # let folder = tempfile::tempdir()?;
    /// # let mut options = OpenOptions::default();
    /// # options.create = true;
    /// # let engine = Engine::open(&folder.path().join("store"), options)?;
    /// engine.backup(&folder.path().join("backup"))?;
    /// let copy = Engine::open(&folder.path().join("backup"), OpenOptions::default())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, root: &Path) -> Result<u64, BackupError> {
        self.committer.heal()?;
        let location = StoreLocation::new(root, &self.agent);
        let view = self.committer.pin();
        let files = self.committer.files();
        if !copy_to(&view.snapshot, &location, files, *uuid::Uuid::new_v4().as_bytes())? {
            return Err(BackupError::Exists { path: location.folder().to_owned() });
        }
        let bytes = files.len_bytes(&location.database());
        Ok(bytes.map_err(StoreError::io("looking at the copy"))?)
    }

    /// Gives back the space of what was deleted, and erases it from the store's files: transcripts, index, and an index
    /// that was set aside. Takes as long as copying the store. Writes wait meanwhile; searches for a moment at its end.
    ///
    /// What is erased may still stand on the disk's free blocks, in its snapshots and in backups.
    ///
    /// # Errors
    /// [`CompactError`]: everything stays and is found as before; doing it again is safe.
    pub fn compact(&self) -> Result<Compacted, CompactError> {
        self.committer.heal()?;
        self.committer.compact()
    }
}
