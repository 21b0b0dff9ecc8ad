//! The events of one session, in order, and how far they were read.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, Row, params};

use super::connection::{self, Database};
use super::io_error;
use crate::import::compressed::ZstdReader;
use crate::import::copies::fnv1a;
use crate::import::lines::LineReader;
use crate::import::openclaw::Lines;
use crate::import::rows::{ReadRows as _, RowError, imported, is_blank};
use crate::import::{Inside, Item, Items, Position, Source};
use crate::limits::{MAX_EVENT_BYTES, MAX_ZSTD_EXPANSION, MAX_ZSTD_FREE_BYTES};
use crate::transcript::EventError;

/// Events are read in pages of this many bytes, or of one event that is longer …
const PAGE_BYTES: usize = 1024 * 1024;
/// … or of this many.
const PAGE_ROWS: i64 = 512;
/// An archive in the database is read in parts: finding one takes the longer the further in it is.
const PART_BYTES: usize = 4 * 1024 * 1024;

type Text = Result<Vec<u8>, EventError>;

pub(super) fn open(source: &Source, inside: &Inside, from: Position) -> io::Result<Items> {
    let mut events = Events::new(connection::open(&source.path)?, &source.canonical_path, inside, from)?;
    let mut format = Lines { numbers_rows: source.numbers_rows() };
    let mut is_done = false;
    Ok(Box::new(std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let item = events.next().map(|found| found.map(|(end, text)| item(&mut format, end, text)));
        is_done = !matches!(item, Ok(Some(_)));
        item.transpose()
    })))
}

fn item(format: &mut Lines, end: Position, text: Text) -> Item {
    let line = end.line;
    let text = match text {
        Ok(text) if is_blank(&text) => return Item::Skipped { line, end },
        Ok(text) => text,
        Err(reason) => return Item::Rejected { line, reason, end },
    };
    match format.rows(line, &text).map(|mut rows| rows.pop()) {
        Ok(Some(row)) => Item::Event(Box::new(imported(line, end, text, row, false))),
        Ok(None) => Item::Skipped { line, end },
        Err(RowError::Line(reason)) => Item::Rejected { line, reason, end },
        Err(RowError::Io(error)) => {
            Item::Rejected { line, reason: EventError::NotJson { detail: error.to_string() }, end }
        }
    }
}

/// Reads what an archive has, then what the table has behind it.
struct Events {
    database: Database,
    id: String,
    archive: Option<LineReader<Box<dyn Read + Send>>>,
    /// A place in the table; `None`: nothing of it belongs here.
    next_seq: Option<i64>,
    sql: String,
    page: VecDeque<(i64, Text)>,
    /// Events before the next one.
    passed: u64,
}

impl Events {
    fn new(database: Database, path: &Path, inside: &Inside, from: Position) -> io::Result<Self> {
        let (id, archive, next_seq) = match inside {
            Inside::Archive { id, generation } => (id, Some(archived(path, &database, id, generation)?), None),
            Inside::Session { id } => match ColdArchive::of(&database, id)? {
                Some(cold) if from.offset <= u64::try_from(cold.last_seq).unwrap_or_default() => {
                    (id, Some(cold.lines(path)?), Some(cold.last_seq.saturating_add(1)))
                }
                _ => (id, None, Some(i64::try_from(from.offset).unwrap_or(i64::MAX))),
            },
        };
        let mut events = Self {
            id: id.clone(),
            passed: if archive.is_some() { 0 } else { from.line },
            archive: archive.map(|archive| LineReader::new(archive, MAX_EVENT_BYTES)),
            next_seq,
            sql: sql(&database)?,
            page: VecDeque::new(),
            database,
        };
        while events.passed < from.line && events.next()?.is_some() {}
        Ok(events)
    }

    /// The next event and the place after it.
    fn next(&mut self) -> io::Result<Option<(Position, Text)>> {
        if let Some(lines) = &mut self.archive {
            if let Some(line) = lines.next_line()? {
                let text = line.text.map(<[u8]>::to_vec).map_err(|bytes| EventError::TooLong { bytes });
                self.passed += 1;
                return Ok(Some((Position { offset: self.passed, line: self.passed }, text)));
            }
            self.archive = None;
        }
        if self.page.is_empty() {
            self.read_page()?;
        }
        let Some((seq, text)) = self.page.pop_front() else {
            self.database.check_unchanged()?;
            return Ok(None);
        };
        self.passed += 1;
        let offset = u64::try_from(seq).unwrap_or_default().saturating_add(1);
        Ok(Some((Position { offset, line: self.passed }, text)))
    }

    fn read_page(&mut self) -> io::Result<()> {
        let Some(from) = self.next_seq else { return Ok(()) };
        let mut read = || {
            let mut statement = self.database.connection.prepare_cached(&self.sql)?;
            let mut rows = statement.query(params![self.id, from, PAGE_ROWS])?;
            let mut bytes = 0;
            while let Some(row) = rows.next()? {
                let seq: i64 = row.get(0)?;
                let text = text_of(row)?;
                bytes += text.as_ref().map_or(0, Vec::len);
                self.next_seq = seq.checked_add(1);
                self.page.push_back((seq, text));
                if bytes >= PAGE_BYTES {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(io_error)
    }
}

/// The events of a session from a `seq` on; what is too long to be stored is not even read.
fn sql(database: &Database) -> io::Result<String> {
    let columns = database.columns("transcript_events")?;
    let (packed, unpacked_bytes) = match (columns.contains("event_zstd"), columns.contains("event_utf8_bytes")) {
        (true, true) => ("event_zstd", "event_utf8_bytes"),
        (true, false) => ("event_zstd", "NULL"),
        (false, _) => ("NULL", "NULL"),
    };
    Ok(format!(
        "SELECT seq, CASE WHEN octet_length(event_json) <= {MAX_EVENT_BYTES} THEN event_json END, \
         octet_length(event_json), CASE WHEN octet_length({packed}) <= {MAX_EVENT_BYTES} THEN {packed} END, \
         octet_length({packed}), {unpacked_bytes} FROM transcript_events \
         WHERE session_id = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3"
    ))
}

/// The event of a row of [`sql`], on one line.
fn text_of(row: &Row<'_>) -> rusqlite::Result<Text> {
    let mut text = match (row.get_ref(1)?, row.get_ref(3)?) {
        (ValueRef::Text(text) | ValueRef::Blob(text), _) => Ok(text.to_vec()),
        (ValueRef::Null, ValueRef::Blob(frame)) => unpacked(frame, row.get::<_, Option<i64>>(5).unwrap_or_default()),
        _ => {
            let len: Option<i64> = row.get::<_, Option<i64>>(2)?.or(row.get(4)?);
            match len.and_then(|len| u64::try_from(len).ok()).filter(|len| *len > MAX_EVENT_BYTES as u64) {
                Some(bytes) => Err(EventError::TooLong { bytes }),
                None => Err(EventError::NotJson { detail: "the row holds no event".to_owned() }),
            }
        }
    };
    if let Ok(text) = &mut text {
        // JSON has line feeds between values alone; what is stored is one line.
        text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    }
    Ok(text)
}

/// The event in a frame. What the row says of its length is believed as a bound only.
fn unpacked(frame: &[u8], declared: Option<i64>) -> Text {
    let declared = declared.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(MAX_EVENT_BYTES as u64);
    let room = declared.min(MAX_EVENT_BYTES as u64);
    let mut text = Vec::new();
    match ZstdReader::new(frame, room).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(EventError::NotJson { detail: format!("compressed event: {error}") }),
    }
}

/// The beginning of a session that was moved out of the table.
struct ColdArchive {
    rowid: i64,
    last_seq: i64,
    name: String,
    is_inside: bool,
}

impl ColdArchive {
    fn of(database: &Database, id: &str) -> io::Result<Option<Self>> {
        let columns = database.columns("session_transcript_cold_archives")?;
        let needed = ["session_id", "archive_name", "last_seq", "storage", "archive_blob"];
        if !needed.iter().all(|name| columns.contains(*name)) {
            return Ok(None);
        }
        let sql = "SELECT rowid, last_seq, archive_name, storage = 'sqlite' FROM session_transcript_cold_archives \
                   WHERE session_id = ?1";
        let read = |row: &Row<'_>| {
            let (rowid, last_seq, name, is_inside) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Self { rowid, last_seq, name, is_inside })
        };
        database.connection.query_row(sql, [id], read).optional().map_err(io_error)
    }

    fn lines(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        if self.is_inside {
            let blob = BlobReader::open(path, COLD, self.rowid)?;
            return readable(blob.len, blob);
        }
        let file = cold_file(path, &self.name)?;
        let len = file.metadata()?.len();
        readable(len, file)
    }
}

const COLD: &str = "session_transcript_cold_archives";
const ARCHIVES: &str = "session_transcript_archives";

/// The file of a cold archive: in `agents/<agent>/sessions/cold/`, the database being in `agents/<agent>/agent/`.
fn cold_file(database: &Path, name: &str) -> io::Result<File> {
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', ':']);
    let agent = database.parent().and_then(Path::parent).filter(|_| is_plain);
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the archive {name:?} of a session is not there"));
    let path = agent.ok_or_else(missing)?.join("sessions").join("cold").join(name);
    if !fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_file()) {
        return Err(missing());
    }
    File::open(path)
}

/// The transcript that a reset or a deletion left.
fn archived(path: &Path, database: &Database, id: &str, generation: &str) -> io::Result<Box<dyn Read + Send>> {
    let sql = format!("SELECT rowid FROM {ARCHIVES} WHERE session_id = ?1 AND generation = ?2");
    let rowid = database.connection.query_row(&sql, [id, generation], |row| row.get(0)).map_err(io_error)?;
    let blob = BlobReader::open(path, ARCHIVES, rowid)?;
    readable(blob.len, blob)
}

/// The lines of an archive, which is compressed or not.
fn readable(len: u64, archive: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let mut archive = BufReader::with_capacity(PART_BYTES.min(256 * 1024), archive);
    let is_packed = io::BufRead::fill_buf(&mut archive)?.starts_with(ZSTD);
    if !is_packed {
        return Ok(Box::new(archive));
    }
    let room = MAX_ZSTD_FREE_BYTES.saturating_add(len.saturating_mul(MAX_ZSTD_EXPANSION));
    Ok(Box::new(ZstdReader::new(archive, room)))
}

/// A value of the database as a stream.
struct BlobReader {
    database: Database,
    table: &'static str,
    rowid: i64,
    len: u64,
    at: u64,
    part: Vec<u8>,
    used: usize,
}

impl BlobReader {
    fn open(path: &Path, table: &'static str, rowid: i64) -> io::Result<Self> {
        let database = connection::open(path)?;
        let len = database.connection.blob_open("main", table, "archive_blob", rowid, true).map_err(io_error)?.len();
        Ok(Self { database, table, rowid, len: len as u64, at: 0, part: Vec::new(), used: 0 })
    }

    fn read_part(&mut self) -> io::Result<()> {
        let blob = self.database.connection.blob_open("main", self.table, "archive_blob", self.rowid, true);
        let blob = blob.map_err(io_error)?;
        let left = usize::try_from(self.len.saturating_sub(self.at)).unwrap_or_default();
        self.part.resize(left.min(PART_BYTES), 0);
        self.used = 0;
        if !self.part.is_empty() {
            let at = usize::try_from(self.at).map_err(io::Error::other)?;
            blob.read_at_exact(&mut self.part, at).map_err(io_error)?;
        }
        self.at += self.part.len() as u64;
        Ok(())
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.part.len() {
            self.read_part()?;
        }
        let left = self.part.get(self.used..).unwrap_or_default();
        let taken = left.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..taken), left.get(..taken)) {
            to.copy_from_slice(from);
        }
        self.used += taken;
        Ok(taken)
    }
}

/// The first event of a session.
pub(super) fn first_text(database: &Database, path: &Path, inside: &Inside) -> io::Result<Option<Vec<u8>>> {
    let Inside::Session { id } = inside else {
        let mut events = Events::new(connection::open(path)?, path, inside, Position::default())?;
        return Ok(events.next()?.and_then(|(_, text)| text.ok()));
    };
    let read = || {
        let sql = sql(database).map_err(|_| rusqlite::Error::InvalidQuery)?;
        let mut statement = database.connection.prepare_cached(&sql)?;
        statement.query_row(params![id, 0, 1], text_of).optional()
    };
    Ok(read().map_err(io_error)?.and_then(Result::ok))
}

/// Stands for the events before a place: the last of them, and the number OpenClaw gives a transcript when it writes
/// it anew.
pub(super) fn mark(path: &Path, inside: &Inside, position: Position) -> io::Result<u64> {
    let database = connection::open(path)?;
    let mut known = Vec::new();
    match inside {
        Inside::Archive { generation, .. } => known.extend_from_slice(generation.as_bytes()),
        Inside::Session { id } => {
            known.extend(generation(&database, id)?.unwrap_or_default().into_bytes());
            known.push(b'\n');
            let before = i64::try_from(position.offset).unwrap_or(i64::MAX);
            known.extend(last_before(&database, id, before)?.unwrap_or_default());
        }
    }
    Ok(fnv1a(&known))
}

fn generation(database: &Database, id: &str) -> io::Result<Option<String>> {
    let columns = database.columns("transcript_rewrite_watermarks")?;
    if !columns.contains("session_id") || !columns.contains("generation") {
        return Ok(None);
    }
    let sql = "SELECT CAST(generation AS TEXT) FROM transcript_rewrite_watermarks WHERE session_id = ?1";
    let found = database.connection.query_row(sql, [id], |row| row.get::<_, Option<String>>(0)).optional();
    Ok(found.map_err(io_error)?.flatten())
}

/// The last event of the table before a `seq`, as it stands there.
fn last_before(database: &Database, id: &str, before: i64) -> io::Result<Option<Vec<u8>>> {
    let sql = sql(database)?.replace("seq >= ?2 ORDER BY seq LIMIT", "seq < ?2 ORDER BY seq DESC LIMIT");
    let read = || database.connection.prepare_cached(&sql)?.query_row(params![id, before, 1], text_of).optional();
    Ok(read().map_err(io_error)?.and_then(Result::ok))
}
