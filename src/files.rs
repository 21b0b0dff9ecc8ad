//! File operations of a store, behind one trait: the only door to the disk for transcripts and index alike.
//!
//! [`SystemFiles`] is the real disk. Tests put their own in its place (feature `__internal_faults`), to lose what was
//! not synced, to fail any call, to delay it; `store` and `index` adapt whatever is given to redb and tantivy.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The operations a store needs of its folder. Files are private to their owner. A new name, a rename or a removal is
/// durable once [`Files::sync_folder`] of its folder has returned, a file's content once its own `sync` has.
pub trait Files: fmt::Debug + Send + Sync {
    /// Makes a folder and those above it that are missing.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Whether there is something at `path`.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Length of a file.
    fn len_bytes(&self, path: &Path) -> io::Result<u64>;
    /// When a file was last written, in nanoseconds since 1970. A stand-in need not know.
    fn modified_nanos(&self, path: &Path) -> io::Result<u128> {
        Err(io::Error::new(io::ErrorKind::Unsupported, path.display().to_string()))
    }
    /// A whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Gives a file or folder another name. A file of that name is replaced, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Who has it open or mapped keeps it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder and everything in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a file that must not be there yet, to be written from start to end.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Opens a file for reading and writing anywhere, and makes it where `create` says so.
    fn open(&self, path: &Path, create: bool) -> io::Result<OpenedFile>;
    /// What tells an opened file from another that has its name later. `None`: such a thing does not happen here.
    fn identity(&self, file: &OpenedFile) -> io::Result<Option<FileIdentity>> {
        let _ = file;
        Ok(None)
    }
    /// Whether a file with this identity is still the one at `path`.
    fn is_at(&self, identity: Option<FileIdentity>, path: &Path) -> io::Result<bool> {
        let _ = (identity, path);
        Ok(true)
    }
    /// A file that is complete and will not change, for reading.
    fn content(&self, path: &Path) -> io::Result<Content>;
    /// Locks a file, which is made if missing, until the lock is dropped. `None`: somebody else has it.
    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<FileLock>>;
}

/// Device and number of a file.
pub type FileIdentity = (u64, u64);

/// A file being written from start to end.
pub trait NewFile: Write + Send + Sync {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file for reading and writing anywhere.
#[derive(Debug)]
pub enum OpenedFile {
    /// Of the operating system, with its locks.
    System(File),
    /// Of a stand-in for it.
    #[cfg(feature = "__internal_faults")]
    StandIn(Box<dyn RandomFile>),
}

/// What a stand-in gives for a file that is read and written anywhere.
#[cfg(feature = "__internal_faults")]
pub trait RandomFile: fmt::Debug + Send + Sync {
    /// Its length.
    fn len_bytes(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset` on, or fails.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`, or fails.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Cuts, or fills up with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes the file for this handle alone. `false`: another handle has it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Lets go of it.
    fn unlock(&self) -> io::Result<()>;
}

/// A complete file for reading.
#[derive(Debug)]
pub enum Content {
    /// To be mapped from its path.
    OnDisk,
    /// These bytes.
    #[cfg(feature = "__internal_faults")]
    StandIn(std::sync::Arc<[u8]>),
}

/// A lock; dropping it lets go.
pub struct FileLock(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl FileLock {
    /// Holds `guard` for as long as the lock lives.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileLock")
    }
}

/// The disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700);
        }
        builder.create(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        #[cfg(unix)]
        File::open(path)?.sync_all()?;
        // Elsewhere a folder can't be synced, and its names are durable with the files.
        #[cfg(not(unix))]
        let _ = path;
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn len_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn modified_nanos(&self, path: &Path) -> io::Result<u128> {
        let since_1970 = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH);
        since_1970.map(|time| time.as_nanos()).map_err(io::Error::other)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(SystemFile(private().write(true).create_new(true).open(path)?)))
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<OpenedFile> {
        private().read(true).write(true).create(create).open(path).map(OpenedFile::System)
    }

    #[cfg(unix)]
    fn identity(&self, file: &OpenedFile) -> io::Result<Option<FileIdentity>> {
        match file {
            OpenedFile::System(file) => file.metadata().map(|metadata| Some(identity_of(&metadata))),
            #[cfg(feature = "__internal_faults")]
            OpenedFile::StandIn(_) => Ok(None),
        }
    }

    #[cfg(unix)]
    fn is_at(&self, identity: Option<FileIdentity>, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(identity.is_none_or(|identity| identity == identity_of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn content(&self, _path: &Path) -> io::Result<Content> {
        Ok(Content::OnDisk)
    }

    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<FileLock>> {
        let file = private().write(true).create(true).truncate(false).open(path)?;
        if wait {
            file.lock()?;
            return Ok(Some(FileLock::new(file)));
        }
        match file.try_lock() {
            Ok(()) => Ok(Some(FileLock::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(unix)]
fn identity_of(metadata: &fs::Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

struct SystemFile(File);

impl Write for SystemFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for SystemFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
