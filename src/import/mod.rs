//! Reads transcripts that other programs wrote.
//!
//! Two steps, neither of which knows a store: [`discover`] says which files hold which sessions, and [`open`] reads one
//! of them from any place on, one line at a time. Whoever stores the result asks in between how a file relates to what
//! is stored already ([`StoredLines`]).
//!
//! # How to add a format
//!
//! `openclaw` is the one to copy. A format is one file here with
//!
//! 1. a type that implements [`Importer`]: `claim` takes the files that are its own out of the list, by name,
//!    surroundings and first lines, and turns them into [`Source`]s; `open` gives an iterator of [`Item`]s in which every
//!    line of the file occurs exactly once (`rows` does that for a format that says what one line means);
//! 2. a variant of [`Format`], its arm in `importer_of`, and a place in `DETECTION_ORDER`, before every format that would
//!    also take its files;
//! 3. where its lines are not of the shape of contract §1.6, the normalised event in
//!    [`ImportedEvent::normalized`], which extraction and history read; `raw` stays as it was found. What a format
//!    updates in place is settled here, so that no id comes twice (D22);
//! 4. tests with invented lines in `tests/it/import_<format>.rs`, and its rows in the test of accounting over real
//!    files.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::MAX_AGENT_ID_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey};
use crate::transcript::{Event, EventError, TimestampNote};

mod claude_code;
mod codex;
mod compressed;
mod copies;
mod exported;
mod gemini_cli;
mod lines;
mod normalized;
mod object_reader;
mod openclaw;
#[cfg(feature = "openclaw-sqlite")]
mod openclaw_sqlite;
mod rows;
mod session_index;
mod source;
mod walk;

pub use copies::{Relation, ResumePoint, StoredLines};
pub use lines::Position;
use source::{Inside, Marks};
pub use source::{SideSession, Source};
use walk::FoundFile;

/// One format of each importer, in the order in which they are asked whether a file is theirs.
const DETECTION_ORDER: &[Format] = &[Format::OpenClaw, Format::ClaudeCode, Format::Codex, Format::GeminiCli];

fn importer_of(format: Format) -> &'static dyn Importer {
    match format {
        Format::OpenClaw | Format::Pi => &openclaw::OpenClaw,
        Format::ClaudeCode => &claude_code::ClaudeCode,
        Format::Codex => &codex::Codex,
        Format::GeminiCli => &gemini_cli::GeminiCli,
    }
}

/// What every importer does.
trait Importer: Sync {
    /// Takes its files out of `files` and adds a source, or a reason to skip it, for each.
    fn claim(
        &self,
        files: &mut Vec<FoundFile>,
        options: &DiscoverOptions,
        agents: &mut Agents,
        discovery: &mut Discovery,
    ) -> Result<(), ImportError>;

    /// Reads a source from a place on.
    fn open(&self, source: &Source, from: Position) -> Result<Items, OpenError>;

    /// Whether a source that changed before the place it was read to is one that is always written anew as a whole, and
    /// is whole now: then it holds all that it should. Others only grow, and one that changed may have lost something.
    fn is_restated(&self, _: &Source) -> io::Result<bool> {
        Ok(false)
    }
}

type Items = Box<dyn Iterator<Item = io::Result<Item>> + Send>;

/// Why a source cannot be read from a place on.
enum OpenError {
    /// The file says anew what was read of it: only a reading from the beginning is right, and it brings all of it.
    Restated,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Who wrote a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// OpenClaw before its SQLite store.
    OpenClaw,
    /// pi-coding-agent: the same lines as OpenClaw's.
    Pi,
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    GeminiCli,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[Self::OpenClaw, Self::Pi, Self::ClaudeCode, Self::Codex, Self::GeminiCli];

    /// The name that people write, and that stands in session keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenClaw => "openclaw",
            Self::Pi => "pi",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
        }
    }

    /// The format of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

/// What a person chose.
#[derive(Debug, Clone, Default)]
pub struct DiscoverOptions {
    /// Whose transcripts these are where neither path nor key says it.
    pub agent: AgentId,
    /// Only this format, and every file that could be one is taken for it.
    pub format: Option<Format>,
    /// Take archives of deleted sessions too.
    pub include_deleted: bool,
    /// When this is asked, in milliseconds since 1970: a file that changed just now may change again unseen.
    pub now_millis: i64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// What to import, in this order: a session's own file comes before its copies.
    pub sources: Vec<Source>,
    /// Files that are not imported, with the reason, by path.
    pub skipped: Vec<(PathBuf, SkipReason)>,
    /// Notes on files that are imported, by path.
    pub notes: Vec<(PathBuf, String)>,
    /// Paths that were given and do not exist.
    pub missing: Vec<PathBuf>,
    /// Other files in the folders: neither transcripts nor anything that goes with them.
    pub num_unrelated: u64,
}

impl Discovery {
    fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push((path.to_path_buf(), reason));
    }

    /// Adds a file that holds a session nothing else names: its key is made of its id (D25).
    fn add_source(
        &mut self,
        file: FoundFile,
        format: Format,
        agent: AgentId,
        session_id: SessionId,
        facts: SessionFacts,
    ) -> Option<&mut Source> {
        let Ok(session_key) = SessionKey::of_transcript(&agent, format.name(), &session_id) else {
            self.skip(&file.path, SkipReason::UnknownFormat);
            return None;
        };
        self.sources.push(Source {
            path: file.path,
            canonical_path: file.canonical,
            inside: None,
            format,
            agent,
            session_id,
            session_key,
            facts,
            copy_of: None,
            len_bytes: file.len_bytes,
            stamp: file.stamp,
            is_named: false,
            is_current: false,
            age: 0,
            numbers_rows: false,
            replaces: None,
        });
        self.sources.last_mut()
    }
}

/// Why a file is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// A link inside an imported folder.
    SymbolicLink,
    /// A pipe, socket or device.
    NotAFile,
    /// The system refused, and said why.
    Unreadable(String),
    /// A backup of a transcript or of an index.
    Backup,
    /// A copy made before a compaction; the main file holds the same.
    CheckpointCopy,
    /// Runtime events in another shape.
    Trajectory,
    /// A lock.
    Lock,
    /// The archive of a deleted session, when those are not asked for.
    Deleted,
    /// Compressed.
    Compressed,
    /// A database.
    Database,
    /// No format knows it.
    UnknownFormat,
    /// Not one line so far.
    Empty,
    /// An index of sessions names it, and there is no such file.
    NotFound,
    /// An index of sessions names it, and it lies outside what is imported.
    OutsideFolder,
    /// An index of sessions that could not be read: its transcripts are imported without keys and names.
    BadIndex(String),
    /// A session that must not be stored (D19).
    Incognito,
    /// Holds nothing new of the session that this file owns (D26).
    OtherCopyOf(PathBuf),
}

impl SkipReason {
    /// Whether the system refused, and not the file as it is.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SymbolicLink => f.write_str("a symbolic link; name its target to import it"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Unreadable(detail) => write!(f, "cannot be read: {detail}"),
            Self::Backup => f.write_str("a backup copy"),
            Self::CheckpointCopy => f.write_str("a copy made before a compaction"),
            Self::Trajectory => f.write_str("runtime events, not a transcript"),
            Self::Lock => f.write_str("a lock file"),
            Self::Deleted => f.write_str("the archive of a deleted session; `--include-deleted` imports it"),
            Self::Compressed => f.write_str("compressed; decompress it first"),
            Self::Database if cfg!(feature = "openclaw-sqlite") => f.write_str("a database, and none of OpenClaw's"),
            Self::Database => f.write_str(
                "a database: to import OpenClaw's own store, build this program with `--features openclaw-sqlite`",
            ),
            Self::UnknownFormat => f.write_str("not a known transcript format"),
            Self::Empty => f.write_str("empty"),
            Self::NotFound => f.write_str("named in the index of sessions, but there is no such file"),
            Self::OutsideFolder => f.write_str("named in the index of sessions, but outside the imported folder"),
            Self::BadIndex(detail) => write!(f, "no usable index of sessions: {detail}"),
            Self::Incognito => f.write_str("an incognito session; these are never stored"),
            Self::OtherCopyOf(path) => write!(f, "other copy of {}", path.display()),
        }
    }
}

/// Why nothing is imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Two folders would become one agent.
    #[error(
        "the agents {first:?} and {second:?} would both become {agent:?}: nothing was imported; rename one of the folders, or import them one at a time with `--agent`"
    )]
    AgentCollision {
        /// The name met first.
        first: String,
        /// The name met then.
        second: String,
        /// What both become.
        agent: AgentId,
    },
    /// The file is not what it was when its resume point was taken.
    #[error("{} was rewritten since the last import; read it from the beginning", path.display())]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// The file holds all that it held when its resume point was taken, in another form: what comes after that point
    /// changes what stands before it, or all of it was written anew.
    #[error("{} says anew what was imported of it; read it from the beginning", path.display())]
    Restated {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl ImportError {
    /// Whether the system refused, and not the files as they are.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// One line of a source, or what stands in its place.
#[derive(Debug)]
pub enum Item {
    /// A line to store.
    Event(Box<ImportedEvent>),
    /// A line that holds nothing.
    Skipped {
        /// Its number, from 1.
        line: u64,
        /// The place after it.
        end: Position,
    },
    /// A line that cannot be stored.
    Rejected {
        /// Its number, from 1.
        line: u64,
        /// Why.
        reason: EventError,
        /// The place after it.
        end: Position,
    },
    /// The last line, when it is not complete: perhaps it is being written. It does not count, and is read again from
    /// its beginning next time.
    Torn {
        /// Its number, from 1.
        line: u64,
        /// Its length so far.
        bytes: u64,
    },
}

/// A line to store.
#[derive(Debug)]
pub struct ImportedEvent {
    /// Its number, from 1.
    pub line: u64,
    /// The line as found, without its line end.
    pub raw: Vec<u8>,
    /// The line in the shape of contract §1.6, where the format's own is another. `None`: `raw` is it.
    pub normalized: Option<Vec<u8>>,
    /// What it says. Its id may have been given by the importer.
    pub event: Event,
    /// The place after it; of a line that gives several events only the last ends there, so that none is lost when
    /// reading stops between them.
    pub end: Position,
    /// What to tell people about it.
    pub warnings: Vec<LineWarning>,
    /// The session it belongs to, where that is not the source's own.
    pub side: Option<Arc<SideSession>>,
    /// A further event of a line that gives several: it does not count as a line, and `raw` is empty.
    pub is_part: bool,
}

/// Something about a stored line that people may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineWarning {
    /// Escapes of lone surrogates became replacement characters: how many.
    LoneSurrogates(u32),
    /// Invalid UTF-8 became replacement characters: how many.
    InvalidUtf8(u32),
    /// The time of a message is unknown.
    UnknownTime(TimestampNote),
    /// A message with text has no id, and so is not searched.
    NoId,
}

impl fmt::Display for LineWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoneSurrogates(count) => write!(f, "{count} lone surrogates became U+FFFD"),
            Self::InvalidUtf8(count) => write!(f, "{count} invalid byte sequences became U+FFFD"),
            Self::UnknownTime(note) => write!(f, "time unknown: {note}"),
            Self::NoId => f.write_str("a message without an id is stored, but not searched"),
        }
    }
}

/// Says which files below the paths hold which sessions. Reads the beginning of each, stores nothing.
///
/// # Errors
/// [`ImportError::AgentCollision`]. A file that cannot be read is no error but a skipped file.
pub fn discover(paths: &[PathBuf], options: &DiscoverOptions) -> Result<Discovery, ImportError> {
    let mut discovery = Discovery::default();
    let mut agents = Agents::default();
    let mut files = walk::files_below(paths, options.now_millis, &mut discovery);
    let formats = options.format.as_ref().map_or(DETECTION_ORDER, std::slice::from_ref);
    for format in formats {
        importer_of(*format).claim(&mut files, options, &mut agents, &mut discovery)?;
    }
    for file in files {
        if file.is_given || file.name().contains(".jsonl") {
            discovery.skip(&file.path, SkipReason::UnknownFormat);
        } else {
            discovery.num_unrelated += 1;
        }
    }
    exported::name_by_index(&mut discovery, &mut agents, options)?;
    settle_owners(&mut discovery.sources);
    discovery.skipped.sort_by(|a, b| a.0.cmp(&b.0));
    discovery.notes.sort();
    Ok(discovery)
}

/// Of the files with one session id, the one that an index names owns it, else the first by path (D26). Owners come
/// first.
fn settle_owners(sources: &mut [Source]) {
    let bytes = |source: &Source| source.path.as_os_str().as_encoded_bytes().to_vec();
    // What a database holds is what is used now; files beside it are what it was made from, or archives.
    let is_archive = |source: &Source| matches!(source.inside, Some(Inside::Archive { .. }));
    sources.sort_by_cached_key(|source| (source.inside.is_none(), is_archive(source), !source.is_named, bytes(source)));
    let mut owners: HashMap<(AgentId, SessionId), PathBuf> = HashMap::new();
    for source in sources.iter_mut() {
        let id = (source.agent.clone(), source.session_id.clone());
        match owners.get(&id) {
            Some(owner) => source.copy_of = Some(owner.clone()),
            None => {
                owners.insert(id, source.path.clone());
            }
        }
    }
    // The windows of a key that an index lists come one after the other, the oldest first.
    let mut first_of_key: HashMap<(AgentId, SessionKey), Vec<u8>> = HashMap::new();
    for source in sources.iter().filter(|source| source.is_named) {
        let path = bytes(source);
        let first = first_of_key.entry((source.agent.clone(), source.session_key.clone())).or_insert(path.clone());
        if path < *first {
            *first = path;
        }
    }
    sources.sort_by_cached_key(|source| {
        let own = bytes(source);
        let key = (source.agent.clone(), source.session_key.clone());
        let first = first_of_key.get(&key).filter(|_| source.is_named).unwrap_or(&own).clone();
        (source.copy_of.is_some(), first, source.age, own)
    });
}

/// Reads a source from its beginning, or from where an earlier reading ended.
///
/// # Errors
/// [`ImportError::Rewritten`] and [`ImportError::Restated`] when the file no longer goes on from there,
/// [`ImportError::Io`].
pub fn open(source: &Source, from: Option<&ResumePoint>) -> Result<Reader, ImportError> {
    let fail = |error| ImportError::Io { path: source.path.clone(), source: error };
    let mut marks = Marks::of(source).map_err(fail)?;
    let position = match from {
        None => Position::default(),
        Some(point) => {
            if marks.at(point.position()).map_err(fail)?.mark() != point.mark() {
                let path = source.path.clone();
                let is_restated = importer_of(source.format).is_restated(source).map_err(fail)?;
                return Err(if is_restated { ImportError::Restated { path } } else { ImportError::Rewritten { path } });
            }
            point.position()
        }
    };
    let items = importer_of(source.format).open(source, position).map_err(|error| match error {
        OpenError::Restated => ImportError::Restated { path: source.path.clone() },
        OpenError::Io(error) => fail(error),
    })?;
    Ok(Reader { path: source.path.clone(), items, marks, failed: false })
}

/// The items of one source, in order. After an error there are none.
pub struct Reader {
    path: PathBuf,
    items: Items,
    marks: Marks,
    failed: bool,
}

impl Reader {
    /// The resume point at the end of an item that came.
    ///
    /// # Errors
    /// What the file says.
    pub fn resume_point(&mut self, end: Position) -> Result<ResumePoint, ImportError> {
        self.marks.at(end).map_err(|source| ImportError::Io { path: self.path.clone(), source })
    }
}

impl Iterator for Reader {
    type Item = Result<Item, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.items.next()?;
        self.failed = item.is_err();
        Some(item.map_err(|source| ImportError::Io { path: self.path.clone(), source }))
    }
}

/// Turns names of agents into ids, and sees to it that no two names become one.
#[derive(Debug, Default)]
struct Agents {
    names: BTreeMap<AgentId, String>,
}

impl Agents {
    /// Whose file it is: of the agent whose folder it lies in, `agents/<agent>/…`, the innermost; else of the one that
    /// was chosen (D25).
    fn of_file(&mut self, file: &Path, options: &DiscoverOptions) -> Result<AgentId, ImportError> {
        agent_folder(file).map_or_else(|| Ok(options.agent.clone()), |name| self.named(&name))
    }

    /// The agent of that name: lower case, runs of characters outside the grammar become `-` (contract §1.1).
    fn named(&mut self, name: &str) -> Result<AgentId, ImportError> {
        let folded = name.trim().to_lowercase();
        let agent = AgentId::parse(&folded).or_else(|_| AgentId::parse(&collapsed(&folded))).unwrap_or_default();
        let first = self.names.entry(agent.clone()).or_insert_with(|| folded.clone());
        if *first == folded {
            return Ok(agent);
        }
        Err(ImportError::AgentCollision { first: first.clone(), second: folded, agent })
    }
}

fn agent_folder(file: &Path) -> Option<String> {
    let names: Vec<_> = file.parent()?.components().map(|component| component.as_os_str().to_string_lossy()).collect();
    let at = names.iter().rposition(|name| name == "agents")?;
    names.get(at + 1).map(|name| name.clone().into_owned())
}

fn collapsed(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            id.push(c);
        } else if !id.ends_with('-') {
            id.push('-');
        }
    }
    let id = id.trim_matches('-').trim_start_matches(['-', '_']);
    id.chars().take(MAX_AGENT_ID_BYTES).collect()
}

/// Whether a file begins as an SQLite database does.
fn is_database(file: &Path) -> bool {
    let mut header = [0; 16];
    File::open(file).and_then(|mut file| file.read_exact(&mut header)).is_ok() && header == *b"SQLite format 3\0"
}

/// Whether the first lines of a file are another format's than OpenClaw's.
fn is_foreign(file: &FoundFile) -> bool {
    claude_code::is_own(file) || codex::is_own(file) || gemini_cli::is_own(file)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_agent_folder_counts() {
        let agent = |path: &str| agent_folder(Path::new(path));
        assert_eq!(agent("/x/agents/work/sessions/s.jsonl").as_deref(), Some("work"));
        assert_eq!(agent("/agents/old/agents/My Agent/s.jsonl").as_deref(), Some("My Agent"));
        assert_eq!(agent("/x/agents/s.jsonl"), None);
        assert_eq!(agent("/x/s.jsonl"), None);
    }
}
