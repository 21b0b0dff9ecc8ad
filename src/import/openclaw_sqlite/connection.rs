//! Opening a database that is somebody else's.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::io_error;

/// Where the header says how the file is written to: 2 is with a log beside it (WAL).
const WRITE_VERSION_AT: usize = 18;
const HEADER_BYTES: u64 = 20;
/// How long another process may hold the database while it writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

fn header(path: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    File::open(path)?.take(HEADER_BYTES).read_to_end(&mut header)?;
    Ok(header)
}

/// A database open for reading, at one moment of it.
pub(super) struct Database {
    pub(super) connection: Connection,
    path: PathBuf,
    /// What the file was when it was opened, where no lock keeps it so.
    unlocked: Option<Stamp>,
}

/// Length, when it was last written, and whether a log lies beside it.
type Stamp = (u64, Option<Duration>, bool);

/// How the database can be read without a change to its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// With locks, as any reader: who writes keeps what we read. The files this needs are there.
    Locked,
    /// Its log is there without the index that goes with it, as in a copy: SQLite would make that file. Read without
    /// locks, and the index made in memory.
    LogAlone,
    /// It has no log, and would be given one. Read as a file that nobody changes, which is looked at in the end.
    Unchanging,
}

impl Access {
    fn of(path: &Path) -> io::Result<Self> {
        if header(path)?.get(WRITE_VERSION_AT) != Some(&2) {
            return Ok(Self::Locked);
        }
        let len = |suffix: &str| fs::metadata(beside(path, suffix)).ok().map(|metadata| metadata.len());
        Ok(match (len("-wal"), len("-shm")) {
            (Some(_), Some(_)) => Self::Locked,
            (Some(1..), None) => Self::LogAlone,
            _ => Self::Unchanging,
        })
    }

    fn parameters(self) -> &'static str {
        match self {
            Self::Locked => "mode=ro",
            Self::LogAlone if cfg!(windows) => "mode=ro&vfs=win32-none",
            Self::LogAlone => "mode=ro&vfs=unix-none",
            Self::Unchanging => "mode=ro&immutable=1",
        }
    }
}

/// Opens a database, pinned to its present state: log included, and without a change to it or its folder.
pub(super) fn open(path: &Path) -> io::Result<Database> {
    let access = Access::of(path)?;
    let unlocked = if access == Access::Locked { None } else { Some(stamp(path)?) };
    let uri = format!("file:{}?{}", uri_path(&fs::canonicalize(path)?), access.parameters());
    let connection = connect(&uri, access).map_err(io_error)?;
    Ok(Database { connection, path: path.to_owned(), unlocked })
}

fn connect(uri: &str, access: Access) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    // The log stays as it is when we go; and nothing in the schema runs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if access == Access::LogAlone {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    connection.execute_batch(
        "PRAGMA query_only = 1; PRAGMA cell_size_check = 1; PRAGMA mmap_size = 0; PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY; BEGIN",
    )?;
    Ok(connection)
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((metadata.len(), modified, beside(path, "-wal").exists()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The path as part of a URI.
fn uri_path(path: &Path) -> String {
    let mut uri = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    uri
}

impl Database {
    /// The stored columns of a table; none of what is no table of its own.
    pub(super) fn columns(&self, table: &str) -> io::Result<HashSet<String>> {
        let read = || {
            let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([table])?;
            let Some(row) = rows.next()? else { return Ok(HashSet::new()) };
            let sql: String = row.get(0)?;
            if !sql.trim_start().to_ascii_uppercase().starts_with("CREATE TABLE") {
                return Ok(HashSet::new());
            }
            let mut statement = self.connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
            statement.query_map([table], |row| row.get(0))?.collect()
        };
        read().map_err(io_error)
    }

    /// Whether what was read is of one moment.
    pub(super) fn check_unchanged(&self) -> io::Result<()> {
        match self.unlocked {
            Some(before) if stamp(&self.path)? != before => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "changed while it was read; import it again"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_uri_is_that_path() {
        assert_eq!(uri_path(Path::new("/a b/c?d#e%f/é.sqlite")), "/a%20b/c%3Fd%23e%25f/%C3%A9.sqlite");
    }
}
