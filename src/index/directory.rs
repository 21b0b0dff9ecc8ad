//! tantivy's folder with two promises more: a new `meta.json` is durable before old files go, and files are private.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, WatchCallback, WatchHandle, WritePtr,
};

/// Wraps [`MmapDirectory`].
#[derive(Clone)]
pub(super) struct DurableDirectory {
    inner: MmapDirectory,
    root: PathBuf,
}

impl DurableDirectory {
    pub(super) fn open(root: &Path) -> Result<Self, tantivy::directory::error::OpenDirectoryError> {
        Ok(Self { inner: MmapDirectory::open(root)?, root: root.to_owned() })
    }
}

impl fmt::Debug for DurableDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableDirectory").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Directory for DurableDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.inner.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self.inner.open_write(path)?;
        make_private(&self.root.join(path)).map_err(|e| OpenWriteError::wrap_io_error(e, path.to_owned()))?;
        Ok(file)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.inner.atomic_write(path, data)?;
        // tantivy renames without this and then deletes the files of replaced segments: after a power failure the old
        // meta.json could come back and name files that are gone.
        self.inner.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let held = self.inner.acquire_lock(lock)?;
        make_private(&self.root.join(&lock.filepath)).map_err(LockError::wrap_io_error)?;
        Ok(held)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(callback)
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
