//! Opening one agent's store: folders, permissions, the lock, the format check.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase as _};

use super::rows::{self, Counters, IndexNotes, SchemaRow, Statistics};
use super::{Snapshot, StoreError, tables};
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

    /// Who holds the store, advisory.
    #[must_use]
    pub fn owner(&self) -> PathBuf {
        self.folder.join("owner")
    }

    /// The holder as its `owner` file says, for messages.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        let mut text = String::new();
        File::open(self.owner()).ok()?.take(256).read_to_string(&mut text).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Make the store when it is missing.
    pub create: bool,
    /// How long to wait for another process, like SQLite's busy timeout.
    pub busy_timeout: Duration,
    /// redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// The schema a new store is made with.
    pub schema: SchemaRow,
    /// 16 random bytes for a new store.
    pub uuid: [u8; 16],
}

/// One agent's transcripts, open in this process alone.
#[derive(Debug)]
pub struct Store {
    pub(super) database: Database,
    location: StoreLocation,
    uuid: [u8; 16],
}

impl Store {
    /// Opens, and where asked makes, the store of one agent.
    ///
    /// `repairing` is called with a share from 0 to 1 while redb repairs the file after a crash.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without `create`, [`StoreError::Busy`] after `busy_timeout`, and what reading and
    /// writing can meet.
    pub fn open(
        location: StoreLocation,
        options: &StoreOptions,
        repairing: impl Fn(f64) + 'static,
    ) -> Result<Self, StoreError> {
        let path = location.database();
        let exists = path.try_exists().map_err(StoreError::io(format!("looking for {}", path.display())))?;
        if !exists && !options.create {
            return Err(StoreError::Missing { path: location.folder.clone() });
        }
        if !exists {
            create_private_dir(&location.folder)
                .map_err(StoreError::io(format!("making the folder {}", location.folder.display())))?;
        }
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes);
        builder.set_repair_callback(move |session| repairing(session.progress()));
        let mut waited = Duration::ZERO;
        let database = loop {
            let file = open_private_file(&path).map_err(StoreError::io(format!("opening {}", path.display())))?;
            match FileBackend::new(file).and_then(|file| builder.create_with_backend(file)) {
                Ok(database) => break database,
                Err(redb::DatabaseError::DatabaseAlreadyOpen) => {
                    if waited >= options.busy_timeout {
                        let holder = location.holder().unwrap_or_else(|| "another process".into());
                        return Err(StoreError::Busy { holder });
                    }
                    std::thread::sleep(BUSY_POLL);
                    waited += BUSY_POLL;
                }
                Err(other) => return Err(other.into()),
            }
        };
        if !exists {
            sync_dir(&location.folder).map_err(StoreError::io("syncing the agent's folder"))?;
        }
        let uuid = prepare_format(&database, options)?;
        Ok(Self { database, location, uuid })
    }

    /// Where this store is.
    #[must_use]
    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// The 16 bytes that tie an index folder to this store.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Notes in the `owner` file who holds the store. Advisory: a failure to write it changes nothing.
    pub fn note_owner(&self, text: &str) {
        let write = || -> io::Result<()> {
            let mut file = private_options().write(true).create(true).truncate(true).open(self.location.owner())?;
            file.write_all(text.as_bytes())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "owner file not written");
        }
    }

    /// Pins what is committed now.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::new(self.database.begin_read()?)
    }
}

fn prepare_format(database: &Database, options: &StoreOptions) -> Result<[u8; 16], StoreError> {
    let read = database.begin_read()?;
    match read.open_table(tables::META) {
        Ok(meta) => {
            let format = meta.get(tables::META_FORMAT)?;
            let found = match format.as_ref().map(redb::AccessGuard::value) {
                Some(bytes) => bytes.try_into().map(u32::from_le_bytes).unwrap_or(0),
                None => 0,
            };
            if found != tables::FORMAT {
                return Err(StoreError::Format { found, expected: tables::FORMAT });
            }
            let uuid = meta.get(tables::META_UUID)?.ok_or_else(|| StoreError::damaged("the store has no uuid"))?;
            return uuid.value().try_into().map_err(|_| StoreError::damaged("the store's uuid is not 16 bytes"));
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(other) => return Err(other.into()),
    }
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
    Ok(options.uuid)
}

/// Makes a folder and those above it that are missing, all for the owner alone.
fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

fn open_private_file(path: &Path) -> io::Result<File> {
    private_options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Makes a folder's entries durable: without it a new file may be gone after a power failure.
fn sync_dir(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
