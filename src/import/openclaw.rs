//! OpenClaw's transcripts before its SQLite store, and pi's: JSONL, versions 1 to 3. The importer to copy.
//!
//! A transcript's id is its header's, else the file's name. Keys, names and lineage come from the `sessions.json` in the
//! same folder (D25).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::lines::LineReader;
#[cfg(feature = "openclaw-sqlite")]
use super::openclaw_sqlite::add_sources as add_database;
use super::rows::{LineItems, ReadRows, Row, RowError};
use super::session_index::{self, IndexEntry};
use super::walk::FoundFile;
use super::{
    Agents, DiscoverOptions, Discovery, Format, ImportError, Importer, Items, OpenError, Position, SkipReason, Source,
    is_foreign,
};
use crate::limits::MAX_EVENT_BYTES;
use crate::model::{AgentId, MessageId, SessionFacts, SessionId, SessionKey};
use crate::transcript::{Event, EventKind};

/// The importer of [`Format::OpenClaw`] and [`Format::Pi`].
pub(super) struct OpenClaw;

/// What a file is, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileKind {
    /// A transcript in use, or one that OpenClaw moved away when it took it into its database.
    Transcript { stem: String },
    /// What a reset left behind: a conversation found nowhere else.
    ResetArchive { base_id: String },
    /// The archive of a deleted session.
    DeletedArchive { base_id: String },
    /// `sessions.json`.
    Index,
    /// Belongs to OpenClaw and is no transcript.
    Other(SkipReason),
    /// Nothing known.
    Unrelated,
}

impl FileKind {
    fn of_name(name: &str) -> Self {
        if name == "sessions.json" || name.starts_with("legacy-store.sessions.json.imported-") {
            return Self::Index;
        }
        if name.starts_with("sessions.json.") {
            let reason = if name.ends_with(".lock") { SkipReason::Lock } else { SkipReason::Backup };
            return Self::Other(reason);
        }
        if let Some((stem, suffix)) = name.rsplit_once(".jsonl") {
            return Self::of_jsonl(stem, suffix);
        }
        let ends_with = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends_with(&[".lock"]) {
            Self::Other(SkipReason::Lock)
        } else if ends_with(&[".sqlite", ".sqlite-wal", ".sqlite-shm", ".sqlite-journal"]) {
            Self::Other(SkipReason::Database)
        } else {
            Self::Unrelated
        }
    }

    fn of_jsonl(stem: &str, suffix: &str) -> Self {
        let base_id = stem.to_owned();
        match suffix {
            "" if stem.ends_with(".trajectory") => Self::Other(SkipReason::Trajectory),
            "" if stem.contains(".checkpoint.") => Self::Other(SkipReason::CheckpointCopy),
            "" => Self::Transcript { stem: base_id },
            // `<key>.<id>.jsonl.imported-<ms>`
            _ if suffix.starts_with(".imported-") => {
                let id = stem.rsplit_once('.').map_or(stem, |(_, id)| id);
                Self::Transcript { stem: id.to_owned() }
            }
            _ if suffix.ends_with(".lock") => Self::Other(SkipReason::Lock),
            // Codex compresses its own.
            ".zst" => Self::Unrelated,
            _ if suffix.ends_with(".zst") || suffix.ends_with(".gz") => Self::Other(SkipReason::Compressed),
            _ if suffix.starts_with(".reset.") => Self::ResetArchive { base_id },
            _ if suffix.starts_with(".deleted.") => Self::DeletedArchive { base_id },
            _ if suffix.starts_with(".bak") => Self::Other(SkipReason::Backup),
            _ => Self::Unrelated,
        }
    }

    /// The session id that the name states.
    fn named_id(&self) -> Option<&str> {
        match self {
            Self::Transcript { stem: id }
            | Self::ResetArchive { base_id: id }
            | Self::DeletedArchive { base_id: id } => Some(id),
            _ => None,
        }
    }
}

/// A file that is one of ours.
struct Transcript {
    file: FoundFile,
    kind: FileKind,
    /// Lies where OpenClaw keeps its transcripts.
    is_at_home: bool,
    header_id: Option<SessionId>,
    numbers_rows: bool,
}

impl Transcript {
    fn id(&self) -> Option<SessionId> {
        let named = || self.kind.named_id().and_then(|id| SessionId::parse(id).ok());
        self.header_id.clone().or_else(named).or_else(|| SessionId::parse(&self.file.name()).ok())
    }

    /// Whether an index may name it by its session id alone.
    fn is_in_use(&self) -> bool {
        matches!(self.kind, FileKind::Transcript { .. } | FileKind::Unrelated)
    }
}

/// The indexes of sessions, by the folder they lie in.
type Indexes = BTreeMap<PathBuf, Vec<IndexEntry>>;

impl Importer for OpenClaw {
    fn claim(
        &self,
        files: &mut Vec<FoundFile>,
        options: &DiscoverOptions,
        agents: &mut Agents,
        discovery: &mut Discovery,
    ) -> Result<(), ImportError> {
        let (mut transcripts, mut left) = (Vec::new(), Vec::new());
        let (indexes, index_folders) = read_indexes(files, options, agents, discovery)?;
        for file in std::mem::take(files) {
            let kind = FileKind::of_name(&file.name());
            if is_database(&file, &kind) {
                add_database(&file, options, agents, discovery)?;
                continue;
            }
            match &kind {
                FileKind::Index => {}
                FileKind::Other(SkipReason::Database) if goes_with_database(&file) => {}
                FileKind::Other(reason) => discovery.skip(&file.path, reason.clone()),
                FileKind::DeletedArchive { .. } if !options.include_deleted => {
                    discovery.skip(&file.path, SkipReason::Deleted);
                }
                FileKind::Unrelated if !file.is_given => left.push(file),
                _ => match first_lines(&file) {
                    Err(reason) => discovery.skip(&file.path, reason),
                    Ok(FirstLines { is_ours, begins_ours, header_id, numbers_rows }) => {
                        let is_at_home = is_openclaw_folder(&file.canonical, &index_folders);
                        // An export puts other formats' sessions where OpenClaw keeps its own, and with them what was
                        // appended in this shape.
                        let may_be = is_ours || is_at_home;
                        if options.format.is_some() || begins_ours == Some(true) || (may_be && !is_foreign(&file)) {
                            transcripts.push(Transcript { file, kind, is_at_home, header_id, numbers_rows });
                        } else {
                            left.push(file);
                        }
                    }
                },
            }
        }
        *files = left;

        let foreign: HashSet<&Path> = files.iter().map(|file| file.canonical.as_path()).collect();
        let names = settle_names(&transcripts, &foreign, &indexes, &index_folders, discovery);
        for transcript in transcripts {
            let named = names.get(&transcript.file.canonical);
            let index = transcript.file.canonical.parent().and_then(|folder| indexes.get(folder));
            add_source(transcript, named, index, options, agents, discovery)?;
        }
        Ok(())
    }

    fn open(&self, source: &Source, from: Position) -> Result<Items, OpenError> {
        #[cfg(feature = "openclaw-sqlite")]
        if let Some(inside) = &source.inside {
            return Ok(super::openclaw_sqlite::open(source, inside, from)?);
        }
        let lines = LineReader::from_position(File::open(&source.path)?, from, MAX_EVENT_BYTES)?;
        Ok(Box::new(LineItems::new(lines, Lines { numbers_rows: source.numbers_rows })))
    }

    fn is_restated(&self, source: &Source) -> std::io::Result<bool> {
        // A transaction writes a session of a database anew, and writes all of it.
        Ok(source.inside.is_some())
    }
}

/// Whether the file is a database, by its first bytes: one with the name of one, or one that was named itself.
fn is_database(file: &FoundFile, kind: &FileKind) -> bool {
    let may_be = file.is_given || *kind == FileKind::Other(SkipReason::Database);
    may_be && super::is_database(&file.path)
}

/// Whether it is the log or the index that SQLite keeps beside a database.
fn goes_with_database(file: &FoundFile) -> bool {
    let name = file.name();
    let database = ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end));
    database.is_some_and(|database| super::is_database(&file.path.with_file_name(database)))
}

#[cfg(not(feature = "openclaw-sqlite"))]
fn add_database(
    file: &FoundFile,
    _: &DiscoverOptions,
    _: &mut Agents,
    discovery: &mut Discovery,
) -> Result<(), ImportError> {
    discovery.skip(&file.path, SkipReason::Database);
    Ok(())
}

/// Whether the file lies where OpenClaw keeps transcripts: beside an index, or in `agents/<agent>/sessions` (D25).
fn is_openclaw_folder(file: &Path, index_folders: &IndexFolders) -> bool {
    let Some(folder) = file.parent() else { return false };
    let above = folder.parent().and_then(Path::parent).and_then(Path::file_name);
    let is_home =
        folder.file_name().is_some_and(|name| name == "sessions") && above.is_some_and(|name| name == "agents");
    is_home || index_folders.contains_key(folder)
}

/// What the first lines of a file tell.
#[derive(Default)]
struct FirstLines {
    is_ours: bool,
    /// The first event is.
    begins_ours: Option<bool>,
    header_id: Option<SessionId>,
    numbers_rows: bool,
}

fn first_lines(file: &FoundFile) -> Result<FirstLines, SkipReason> {
    let mut first = FirstLines::default();
    let any = file.look_at_first_lines(|line| {
        let Ok(event) = Event::parse(line) else { return ControlFlow::Continue(()) };
        first.is_ours |= is_ours(&event);
        first.begins_ours.get_or_insert(first.is_ours);
        let Some(header) = &event.header else { return ControlFlow::Continue(()) };
        first.header_id = event.id.as_ref().and_then(|id| SessionId::parse(id.as_str()).ok());
        first.numbers_rows = header.version <= 1;
        ControlFlow::Break(())
    });
    match any {
        Ok(true) => Ok(first),
        Ok(false) => Err(SkipReason::Empty),
        Err(error) => Err(SkipReason::Unreadable(error.to_string())),
    }
}

/// Whether only a line of this format looks like that. Other formats use some of the types too, with other members.
fn is_ours(event: &Event) -> bool {
    match event.kind {
        EventKind::Header => true,
        EventKind::Message => event.role.is_some(),
        EventKind::Leaf | EventKind::Opaque => false,
        _ => event.id.is_some(),
    }
}

/// The folders with an index, and whether the index is one of the files found: of one that lies beside a single file
/// that was named, most entries are about files that nobody asked for.
type IndexFolders = BTreeMap<PathBuf, bool>;

fn read_indexes(
    files: &[FoundFile],
    options: &DiscoverOptions,
    agents: &mut Agents,
    discovery: &mut Discovery,
) -> Result<(Indexes, IndexFolders), ImportError> {
    let (mut indexes, mut folders) = (Indexes::new(), IndexFolders::new());
    let found = files.iter().filter(|file| FileKind::of_name(&file.name()) == FileKind::Index);
    let mut index_files: Vec<(PathBuf, PathBuf, bool)> =
        found.map(|file| (file.path.clone(), file.canonical.clone(), true)).collect();
    for file in files.iter().filter(|file| file.is_given) {
        let beside = file.canonical.with_file_name("sessions.json");
        let is_new = !index_files.iter().any(|(_, canonical, _)| *canonical == beside);
        if is_new && std::fs::symlink_metadata(&beside).is_ok_and(|kind| kind.is_file()) {
            index_files.push((beside.clone(), beside, false));
        }
    }
    for (path, canonical, is_found) in index_files {
        let Some(folder) = canonical.parent() else { continue };
        *folders.entry(folder.to_path_buf()).or_default() |= is_found;
        let agent = agents.of_file(&canonical, options)?;
        match session_index::read(&path, &agent) {
            Ok(entries) => indexes.entry(folder.to_path_buf()).or_default().extend(entries),
            Err(detail) => discovery.skip(&path, SkipReason::BadIndex(detail)),
        }
    }
    Ok((indexes, folders))
}

/// Which entry names which file, by the file's canonical path.
fn settle_names(
    transcripts: &[Transcript],
    foreign: &HashSet<&Path>,
    indexes: &Indexes,
    index_folders: &IndexFolders,
    discovery: &mut Discovery,
) -> HashMap<PathBuf, IndexEntry> {
    let by_path: HashMap<&Path, &Transcript> =
        transcripts.iter().map(|transcript| (transcript.file.canonical.as_path(), transcript)).collect();
    let mut by_id: HashMap<(&Path, SessionId), &Transcript> = HashMap::new();
    for transcript in transcripts.iter().filter(|transcript| transcript.is_in_use()) {
        if let (Some(folder), Some(id)) = (transcript.file.canonical.parent(), transcript.id()) {
            let bears_id = transcript.kind.named_id() == Some(id.as_str());
            let found = by_id.entry((folder, id)).or_insert(transcript);
            if bears_id {
                *found = transcript;
            }
        }
    }

    let mut named: BTreeMap<&Path, Vec<&IndexEntry>> = BTreeMap::new();
    for (folder, entries) in indexes {
        for entry in entries {
            let candidates = entry.session_file.as_deref().map(|text| session_index::file_candidates(text, folder));
            let stated = candidates.iter().flat_map(|found| &found.paths).find_map(|path| by_path.get(path.as_path()));
            let by_id = || by_id.get(&(folder.as_path(), entry.session_id.clone()));
            if let Some(transcript) = stated.or_else(by_id) {
                named.entry(&transcript.file.canonical).or_default().push(entry);
            } else if candidates.iter().flat_map(|found| &found.paths).any(|path| foreign.contains(path.as_path())) {
                // Named by `exported`.
            } else if let (Some(candidates), Some(text), Some(true)) =
                (candidates, &entry.session_file, index_folders.get(folder))
            {
                let reason = if candidates.leaves_folder { SkipReason::OutsideFolder } else { SkipReason::NotFound };
                discovery.skip(Path::new(text), reason);
            }
        }
    }

    let mut names = HashMap::new();
    for (path, entries) in named {
        let Some(transcript) = by_path.get(path) else { continue };
        let is_headers = |entry: &&&IndexEntry| Some(&entry.session_id) == transcript.header_id.as_ref();
        let Some(first) = entries.iter().find(is_headers).or_else(|| entries.first()) else { continue };
        if entries.len() > 1 {
            let keys: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
            let note = format!("named by several keys, imported as {}: {}", first.key, keys.join(", "));
            discovery.notes.push((transcript.file.path.clone(), note));
        }
        if let Some(header_id) = transcript.header_id.as_ref().filter(|id| **id != first.session_id) {
            let note =
                format!("its header says session {header_id}, sessions.json {}; the latter is taken", first.session_id);
            discovery.notes.push((transcript.file.path.clone(), note));
        }
        names.insert(path.to_path_buf(), (*first).clone());
    }
    names
}

fn add_source(
    transcript: Transcript,
    named: Option<&IndexEntry>,
    index: Option<&Vec<IndexEntry>>,
    options: &DiscoverOptions,
    agents: &mut Agents,
    discovery: &mut Discovery,
) -> Result<(), ImportError> {
    let path = &transcript.file.path;
    let Some(session_id) = named.map(|entry| entry.session_id.clone()).or_else(|| transcript.id()) else {
        discovery.skip(path, SkipReason::UnknownFormat);
        return Ok(());
    };
    // A reset leaves its key to the next window: the archive is an earlier window of the same key.
    let base = match &transcript.kind {
        FileKind::ResetArchive { base_id } => index.and_then(|index| {
            index.iter().find(|entry| entry.session_id.as_str() == base_id || entry.session_id == session_id)
        }),
        _ => None,
    };
    let stated_key = named.or(base).map(|entry| entry.key.clone());
    let agent = match stated_key.as_ref().and_then(SessionKey::agent_part) {
        Some(name) => AgentId::parse(name).or_else(|_| agents.named(name))?,
        None => agents.of_file(&transcript.file.canonical, options)?,
    };
    let by_place = if transcript.is_at_home { Format::OpenClaw } else { Format::Pi };
    let format = options.format.unwrap_or(by_place);
    let key = stated_key.map_or_else(|| SessionKey::of_transcript(&agent, format.name(), &session_id), Ok);
    let Ok(session_key) = key else {
        discovery.skip(path, SkipReason::UnknownFormat);
        return Ok(());
    };
    if session_key.is_incognito() {
        discovery.skip(path, SkipReason::Incognito);
        return Ok(());
    }
    discovery.sources.push(Source {
        format,
        agent,
        session_id,
        session_key,
        facts: named.map_or_else(SessionFacts::default, |entry| entry.facts.clone()),
        copy_of: None,
        len_bytes: transcript.file.len_bytes,
        stamp: transcript.file.stamp,
        is_named: named.is_some(),
        is_current: named.is_some_and(|entry| entry.is_current),
        age: named.map_or(0, |entry| entry.age),
        numbers_rows: transcript.numbers_rows,
        replaces: None,
        canonical_path: transcript.file.canonical,
        path: transcript.file.path,
        inside: None,
    });
    Ok(())
}

/// Reads the lines of one transcript.
pub(super) struct Lines {
    pub(super) numbers_rows: bool,
}

impl ReadRows for Lines {
    fn rows(&mut self, line: u64, text: &[u8]) -> Result<Vec<Row>, RowError> {
        let mut event = Event::parse(text)?;
        if self.numbers_rows && event.id.is_none() && event.kind != EventKind::Header {
            event.id = MessageId::parse(&format!("line-{line}")).ok();
        }
        Ok(vec![Row { event, normalized: None, side: None }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_is() {
        let of = FileKind::of_name;
        let transcript = |stem: &str| FileKind::Transcript { stem: stem.into() };
        assert_eq!(of("s1.jsonl"), transcript("s1"));
        assert_eq!(of("s1-topic-a%2Fb.jsonl"), transcript("s1-topic-a%2Fb"));
        assert_eq!(of("2026-02-01T09-00-00-000Z_s1.jsonl"), transcript("2026-02-01T09-00-00-000Z_s1"));
        assert_eq!(of("agent_main_main.s1.jsonl.imported-1796079667665"), transcript("s1"));
        assert_eq!(of("s1.jsonl.reset.2026-02-01T09-00-00.000Z"), FileKind::ResetArchive { base_id: "s1".into() });
        assert_eq!(of("s1.jsonl.deleted.2026-02-01T09-00-00.000Z"), FileKind::DeletedArchive { base_id: "s1".into() });
        assert_eq!(of("sessions.json"), FileKind::Index);
        assert_eq!(of("legacy-store.sessions.json.imported-1796079667811"), FileKind::Index);
        for (name, reason) in [
            ("s1.jsonl.bak.2026-02-01T09-00-00.000Z", SkipReason::Backup),
            ("s1.jsonl.bak", SkipReason::Backup),
            ("sessions.json.bak.1", SkipReason::Backup),
            ("sessions.json.lock", SkipReason::Lock),
            ("s1.jsonl.lock", SkipReason::Lock),
            ("gateway.lock", SkipReason::Lock),
            ("s1.checkpoint.11111111-2222-4333-8444-555555555555.jsonl", SkipReason::CheckpointCopy),
            ("s1.trajectory.jsonl", SkipReason::Trajectory),
            ("s1.jsonl.deleted.2026-02-01T09-00-00.000Z.zst", SkipReason::Compressed),
            ("s1.jsonl.gz", SkipReason::Compressed),
            ("openclaw-agent.sqlite", SkipReason::Database),
        ] {
            assert_eq!(of(name), FileKind::Other(reason), "{name}");
        }
        for name in ["notes.md", "s1.jsonl.tmp", "s1.jsonlx", "config.json", ""] {
            assert_eq!(of(name), FileKind::Unrelated, "{name}");
        }
    }
}
