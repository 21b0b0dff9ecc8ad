//! tantivy's folder over [`Files`], with two promises more: a new `meta.json` is durable before old files go, and a
//! closed [`Gate`] ends every change at once, whatever threads are still at work behind it.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard};
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};

use crate::files::{Content, Files, NewFile};

/// The file whose replacement is tantivy's commit.
const META: &str = "meta.json";
/// How the name of a file ends that is to replace another.
const REPLACEMENT: &str = ".new";

/// Lets changes of the folder through until it is closed. An abandoned merge goes on in its thread until it meets a
/// closed gate; without one it could write into a folder that somebody else has opened since.
#[derive(Debug, Default)]
pub(super) struct Gate(RwLock<bool>);

impl Gate {
    /// Held while a change is made.
    fn pass(&self) -> io::Result<RwLockReadGuard<'_, bool>> {
        let closed = self.0.read();
        if *closed { Err(io::Error::other("this writer of the index has been let go")) } else { Ok(closed) }
    }

    /// Waits for the changes under way; later ones fail.
    pub(super) fn close(&self) {
        *self.0.write() = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.0.read()
    }
}

/// The folder of an index.
#[derive(Clone)]
pub(super) struct FilesDirectory {
    files: Arc<dyn Files>,
    root: PathBuf,
    gate: Arc<Gate>,
    /// Maps files of the disk; made when the first is.
    mapped: Arc<OnceLock<MmapDirectory>>,
}

impl FilesDirectory {
    pub(super) fn new(files: Arc<dyn Files>, root: &Path, gate: Arc<Gate>) -> Self {
        Self { files, root: root.to_owned(), gate, mapped: Arc::default() }
    }

    /// Removes what a writer that came to no good end has left; `needed` says what the last commit consists of. The
    /// caller holds the writer's lock. A left file is more than waste: the next commit may want its name.
    pub(super) fn remove_leftovers(&self, needed: &HashSet<PathBuf>) -> io::Result<()> {
        for name in self.files.list(&self.root)? {
            let is_left = match name.to_str() {
                Some(text) if text.starts_with('.') => text.ends_with(REPLACEMENT),
                _ => name != Path::new(META) && !needed.contains(&name),
            };
            if is_left && let Err(error) = self.files.remove_file(&self.root.join(&name)) {
                tracing::debug!(%error, name = %name.display(), "a file of an earlier writer of the index stays");
            }
        }
        Ok(())
    }

    fn map(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        if self.mapped.get().is_none() {
            let opened = MmapDirectory::open(&self.root)
                .map_err(|error| OpenReadError::wrap_io_error(io::Error::other(error), path.to_owned()))?;
            // Another thread may have been first; both map the same files.
            let _ = self.mapped.set(opened);
        }
        match self.mapped.get() {
            Some(mapped) => mapped.get_file_handle(path),
            None => Err(OpenReadError::FileDoesNotExist(path.to_owned())),
        }
    }
}

/// A name no other replacement has, of this process or another.
fn replacement(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".{name}.{}-{}{REPLACEMENT}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl fmt::Debug for FilesDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesDirectory").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Directory for FilesDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        match self.files.content(&self.root.join(path)).map_err(|error| read_error(error, path))? {
            Content::OnDisk => self.map(path),
            #[cfg(feature = "__internal_faults")]
            Content::StandIn(bytes) => Ok(Arc::new(tantivy::directory::OwnedBytes::new(bytes))),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        let removed = self.gate.pass().and_then(|_pass| self.files.remove_file(&self.root.join(path)));
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(&self.root.join(path)).map_err(|error| read_error(error, path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let created = self.gate.pass().and_then(|_pass| self.files.create(&self.root.join(path)));
        let file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(GatedFile { file, gate: Arc::clone(&self.gate) })))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.read(&self.root.join(path)).map_err(|error| read_error(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let _pass = self.gate.pass()?;
        let name = path.to_str().unwrap_or("file");
        let new = self.root.join(replacement(name));
        let written = self.files.create(&new).and_then(|mut file| {
            file.write_all(data)?;
            file.sync()
        });
        if let Err(error) = written.and_then(|()| self.files.rename(&new, &self.root.join(path))) {
            // What can't be removed now is removed by the next writer.
            let _ = self.files.remove_file(&new);
            return Err(error);
        }
        if name == META {
            // tantivy goes on to delete the files of replaced segments: without this the old meta.json could come back
            // after a power failure and name files that are gone.
            self.files.sync_folder(&self.root)?;
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_folder(&self.root)
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let taken = self.files.lock(&self.root.join(&lock.filepath), lock.is_blocking);
        match taken.map_err(LockError::wrap_io_error)? {
            Some(lock) => Ok(DirectoryLock::from(Box::new(lock))),
            None => Err(LockError::LockBusy),
        }
    }

    fn watch(&self, _callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        // Nobody reloads by watching: whoever commits publishes.
        Ok(WatchHandle::empty())
    }
}

fn read_error(error: io::Error, path: &Path) -> OpenReadError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
        _ => OpenReadError::wrap_io_error(error, path.to_owned()),
    }
}

struct GatedFile {
    file: Box<dyn NewFile>,
    gate: Arc<Gate>,
}

impl Write for GatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _pass = self.gate.pass()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl TerminatingWrite for GatedFile {
    fn terminate_ref(&mut self, _token: AntiCallToken) -> io::Result<()> {
        let _pass = self.gate.pass()?;
        self.file.sync()
    }
}
