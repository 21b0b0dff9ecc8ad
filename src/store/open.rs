//! Opening one agent's store: folders, permissions, the lock, the format check.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redb::{Builder, Database, ReadableDatabase as _};

use super::backend::{Backend, FileHealth};
use super::error::guarded;
use super::journal::{JournalOptions, JournalPlace};
use super::rows::{self, Counters, IndexNotes, SchemaRow, Statistics};
use super::{Snapshot, StoreError, tables};
use crate::files::{Files, OpenedFile};
use crate::model::AgentId;

/// redb's page cache, in bytes. Its own default of 1 GiB is far too much for a library.
pub(crate) const DEFAULT_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// How often a store that is held is tried again.
const BUSY_POLL: Duration = Duration::from_millis(10);

/// Where one agent's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLocation {
    folder: PathBuf,
}

impl StoreLocation {
    /// `<root>/agents/<agent>/`.
    #[must_use]
    pub fn new(root: &Path, agent: &AgentId) -> Self {
        Self { folder: root.join("agents").join(agent.as_str()) }
    }

    /// The agent's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The transcripts.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.folder.join("transcripts.redb")
    }

    /// The derived index.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.folder.join("index")
    }

    /// What was committed and may not be in the transcripts' file yet.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// A journal that was found to be of another file.
    #[must_use]
    pub fn journal_aside(&self) -> PathBuf {
        self.folder.join("journal.aside")
    }

    /// Who holds the store, advisory.
    #[must_use]
    pub fn owner(&self) -> PathBuf {
        self.folder.join("owner")
    }

    /// A store in the making; it gets its name when it is complete.
    pub(super) fn new_database(&self) -> PathBuf {
        self.folder.join("transcripts.redb.new")
    }

    /// Makes the names of the agent's folder and those above it durable, up to the one that holds the root. One that
    /// may not be read can't be synced; it was there before us.
    pub(super) fn sync_folders_above(&self, files: &dyn Files) -> Result<(), StoreError> {
        for folder in self.folder.ancestors().take(4) {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            match files.sync_folder(folder) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(StoreError::io(format!("syncing the folder {}", folder.display()))(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The holder as its `owner` file says, for messages.
    #[must_use]
    pub fn holder(&self, files: &dyn Files) -> Option<String> {
        let mut bytes = files.read(&self.owner()).ok()?;
        bytes.truncate(256);
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The way to the disk.
    pub files: Arc<dyn Files>,
    /// Make the store when it is missing.
    pub create: bool,
    /// How long to wait for another process, like SQLite's busy timeout.
    pub busy_timeout: Duration,
    /// redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// Whether and when commits go through a journal.
    pub journal: Option<JournalOptions>,
    /// The schema a new store is made with.
    pub schema: SchemaRow,
    /// 16 random bytes for a new store.
    pub uuid: [u8; 16],
}

/// One agent's transcripts, open in this process alone.
#[derive(Debug)]
pub struct Store {
    pub(super) database: Database,
    uuid: [u8; 16],
}

impl Store {
    /// Opens, and where asked makes, the store of one agent.
    ///
    /// `health` is kept by the caller from one opening of the same store to the next. `repairing` is called with a
    /// share from 0 to 1 while redb repairs the file after a crash.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without `create`, [`StoreError::Busy`] after `busy_timeout`, and what reading and
    /// writing can meet.
    pub fn open(
        location: &StoreLocation,
        options: &StoreOptions,
        health: &Arc<FileHealth>,
        repairing: Arc<dyn Fn(f64) + Send + Sync>,
    ) -> Result<Self, StoreError> {
        let path = location.database();
        let mut opening = Opening { location, options, health, repairing, waited: Duration::ZERO };
        let exists = options.files.exists(&path);
        if !exists.map_err(StoreError::io(format!("looking for {}", path.display())))? {
            if !options.create {
                return Err(StoreError::Missing { path: location.folder.clone() });
            }
            opening.create()?;
        }
        let database = guarded(|| opening.database(&path))?;
        // Whoever gave the file its name may have ended before the name was durable.
        options.files.sync_folder(&location.folder).map_err(StoreError::io("syncing the agent's folder"))?;
        let (uuid, format) = guarded(|| check_format(&database))?;
        if format != tables::FORMAT {
            guarded(|| note_format(&database))?;
        }
        Ok(Self { database, uuid })
    }

    /// Opens the store of one agent to look at it, and checks the checksum of every page. Nothing on disk is changed:
    /// what the database would repair is repaired in memory alone. While it is open nobody else can have the store.
    ///
    /// Gives what the checksums say is wrong beside what can still be read.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::Damaged`] when nothing can be read.
    pub fn examine(
        location: &StoreLocation,
        options: &StoreOptions,
        repairing: Arc<dyn Fn(f64) + Send + Sync>,
    ) -> Result<(Self, Option<String>), StoreError> {
        let path = location.database();
        let exists = options.files.exists(&path);
        if !exists.map_err(StoreError::io(format!("looking for {}", path.display())))? {
            return Err(StoreError::Missing { path: location.folder.clone() });
        }
        let health = Arc::default();
        let mut opening = Opening { location, options, health: &health, repairing, waited: Duration::ZERO };
        let mut database = guarded(|| opening.unchanged(&path))?;
        let checked = guarded(|| Ok(database.check_integrity()))?;
        let (uuid, _) = guarded(|| check_format(&database))?;
        let damage = match checked {
            Ok(true) => None,
            Ok(false) => Some("a checksum is wrong: what was committed last can't be read".to_owned()),
            Err(error) => return Err(error.into()),
        };
        Ok((Self { database, uuid }, damage))
    }

    /// The 16 bytes that tie an index folder to this store.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Pins what is committed now.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::new(self.database.begin_read()?)
    }
}

/// Notes in the `owner` file who holds the store. Advisory: a failure to write it changes nothing.
pub fn note_owner(location: &StoreLocation, files: &dyn Files, text: &str) {
    let write = || -> io::Result<()> {
        match files.remove_file(&location.owner()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        files.create(&location.owner())?.write_all(text.as_bytes())
    };
    if let Err(error) = write() {
        tracing::debug!(%error, "owner file not written");
    }
}

/// One attempt to open a store.
struct Opening<'o> {
    location: &'o StoreLocation,
    options: &'o StoreOptions,
    health: &'o Arc<FileHealth>,
    repairing: Arc<dyn Fn(f64) + Send + Sync>,
    /// For others, so far.
    waited: Duration,
}

impl Opening<'_> {
    /// Makes a store under another name and gives it its own when it is complete, so that no crash leaves half of one.
    fn create(&mut self) -> Result<(), StoreError> {
        let files = &*self.options.files;
        let (folder, new) = (&self.location.folder, self.location.new_database());
        files.create_folder(folder).map_err(StoreError::io(format!("making the folder {}", folder.display())))?;
        // Of several that find no store one makes it.
        let lock = folder.join("create.lock");
        let _making = loop {
            let taken = files.lock(&lock, false);
            match taken.map_err(StoreError::io("locking the agent's folder"))? {
                Some(taken) => break taken,
                None => self.wait()?,
            }
        };
        let made = files.exists(&self.location.database());
        if made.map_err(StoreError::io("looking for the store"))? {
            return Ok(());
        }
        match files.remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("removing a half-made store")(error));
            }
            _ => {}
        }
        let database = self.new_database(&new)?;
        write_format(&database, self.options)?;
        drop(database);
        self.location.sync_folders_above(files)?;
        files.rename(&new, &self.location.database()).map_err(StoreError::io("naming the new store"))?;
        // Whoever waits for the lock, or makes it anew, finds the store made.
        let _ = files.remove_file(&lock);
        Ok(())
    }

    /// Makes a file that nobody else knows a database.
    fn new_database(&mut self, path: &Path) -> Result<Database, StoreError> {
        let health = Arc::clone(self.health);
        self.database_over(path, true, |file, _| Backend::new(file, Arc::clone(&health)))
    }

    /// Opens the store's file as a database, with what its journal holds, waiting for whoever has it.
    fn database(&mut self, path: &Path) -> Result<Database, StoreError> {
        let (health, options) = (Arc::clone(self.health), self.options.journal);
        self.database_over(path, false, |file, place| Backend::journaled(file, Arc::clone(&health), place, options))
    }

    /// The same without changing anything on disk, whatever is done with the database.
    fn unchanged(&mut self, path: &Path) -> Result<Database, StoreError> {
        let health = Arc::clone(self.health);
        self.database_over(path, false, |file, place| Backend::unchanged(file, Arc::clone(&health), place))
    }

    fn database_over(
        &mut self,
        path: &Path,
        create: bool,
        backend: impl Fn(OpenedFile, JournalPlace) -> io::Result<Backend>,
    ) -> Result<Database, StoreError> {
        let files = &*self.options.files;
        if !create {
            let len = files.len_bytes(path).map_err(StoreError::io(format!("looking at {}", path.display())))?;
            if len == 0 {
                return Err(StoreError::damaged(format!("{} is empty", path.display())));
            }
        }
        let mut builder = Builder::new();
        builder.set_cache_size(self.options.cache_bytes);
        let repairing = Arc::clone(&self.repairing);
        builder.set_repair_callback(move |session| repairing(session.progress()));
        loop {
            let file = files.open(path, create).map_err(StoreError::io(format!("opening {}", path.display())))?;
            let identity = files.identity(&file).map_err(StoreError::io(format!("looking at {}", path.display())))?;
            let place = JournalPlace {
                files: Arc::clone(&self.options.files),
                path: self.location.journal(),
                database: path.to_owned(),
                identity,
            };
            let backend = backend(file, place).map_err(StoreError::io(format!("opening {}", path.display())))?;
            let opened = builder.create_with_backend(backend);
            match opened {
                Ok(database) => {
                    let same = files.is_at(identity, path);
                    if same.map_err(StoreError::io(format!("looking at {}", path.display())))? {
                        return Ok(database);
                    }
                    // It was replaced while we waited for its lock.
                }
                Err(redb::DatabaseError::DatabaseAlreadyOpen) => self.wait()?,
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// Waits a little for another process.
    fn wait(&mut self) -> Result<(), StoreError> {
        if self.waited >= self.options.busy_timeout {
            let holder = self.location.holder(&*self.options.files).unwrap_or_else(|| "another process".into());
            return Err(StoreError::Busy { holder });
        }
        std::thread::sleep(BUSY_POLL);
        self.waited += BUSY_POLL;
        Ok(())
    }
}

/// Whether a database is a store that this build reads; gives its uuid and format.
fn check_format(database: &Database) -> Result<([u8; 16], u32), StoreError> {
    let read = database.begin_read()?;
    let meta = match read.open_table(tables::META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Err(StoreError::damaged("it is no transcript store")),
        Err(other) => return Err(other.into()),
    };
    let format = meta.get(tables::META_FORMAT)?;
    let found = match format.as_ref().map(redb::AccessGuard::value) {
        Some(bytes) => bytes.try_into().map(u32::from_le_bytes).unwrap_or(0),
        None => 0,
    };
    if !(tables::OLDEST_FORMAT..=tables::FORMAT).contains(&found) {
        return Err(StoreError::Format { found, expected: tables::FORMAT });
    }
    let uuid = meta.get(tables::META_UUID)?.ok_or_else(|| StoreError::damaged("the store has no uuid"))?;
    let uuid = uuid.value().try_into().map_err(|_| StoreError::damaged("the store's uuid is not 16 bytes"))?;
    Ok((uuid, found))
}

/// Makes a store of an older format one of this: a program that knows no journal refuses it from then on.
fn note_format(database: &Database) -> Result<(), StoreError> {
    let write = database.begin_write()?;
    write.open_table(tables::META)?.insert(tables::META_FORMAT, tables::FORMAT.to_le_bytes().as_slice())?;
    write.commit()?;
    Ok(())
}

/// Makes an empty database a store.
fn write_format(database: &Database, options: &StoreOptions) -> Result<(), StoreError> {
    let write = database.begin_write()?;
    {
        let mut meta = write.open_table(tables::META)?;
        meta.insert(tables::META_FORMAT, tables::FORMAT.to_le_bytes().as_slice())?;
        meta.insert(tables::META_UUID, options.uuid.as_slice())?;
        meta.insert(tables::META_COUNTERS, rows::encode(&Counters::default()).as_slice())?;
        meta.insert(tables::META_STATISTICS, rows::encode(&Statistics::default()).as_slice())?;
        meta.insert(tables::META_SCHEMA, rows::encode(&options.schema).as_slice())?;
        meta.insert(tables::META_INDEX, rows::encode(&IndexNotes::default()).as_slice())?;
        write.open_table(tables::TRANSCRIPTS)?;
        write.open_table(tables::SESSIONS)?;
        write.open_table(tables::WINDOWS)?;
        write.open_table(tables::CURRENT)?;
        write.open_table(tables::EVENTS)?;
        write.open_table(tables::EVENT_IDS)?;
        write.open_table(tables::IDEMPOTENCY)?;
        write.open_table(tables::DOCUMENTS)?;
        write.open_table(tables::ACTIVE)?;
        write.open_table(tables::DEATHS)?;
        write.open_table(tables::PENDING)?;
        write.open_table(tables::SOURCES)?;
        write.open_table(tables::TOMBSTONES)?;
    }
    write.commit()?;
    Ok(())
}
