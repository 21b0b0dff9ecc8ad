//! Bringing transcripts in from files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::commit::{Appended, PreparedEvent, SessionTarget};
pub use crate::import::Format as ImportFormat;
use crate::import::{self, DiscoverOptions, Item, Position, Relation, ResumePoint, SideSession, Source, StoredLines};
use crate::model::{AgentId, SessionId, Timestamp};
use crate::store::{Snapshot, SourceRow, StoreError};
use crate::transcript::{Event, EventKind, sanitize};

use super::Engine;

/// What to read and how. [`ImportOptions::default`] tells the format by the content.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The format of every file; `None`: told by the content.
    pub format: Option<ImportFormat>,
    /// Import sessions again that were deleted on purpose (D27).
    pub revive: bool,
    /// Import archives of deleted sessions too.
    pub include_deleted: bool,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ImportProgress {
    /// Files done.
    pub files: u64,
    /// Files in all.
    pub total_files: u64,
    /// Events stored.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// What is to be said of one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineReport {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// What is to be said.
    pub reason: String,
}

/// A file that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// The file.
    pub path: String,
    /// Why not.
    pub reason: String,
}

/// What an import did: events + skipped + rejected = lines read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImportSummary {
    /// Sessions that got events.
    pub sessions: u64,
    /// Lines stored, headers and metadata included.
    pub events: u64,
    /// Events that yield searchable text, on the active path or not.
    pub messages: u64,
    /// Blank lines and lines seen before.
    pub skipped: u64,
    /// The same by reason.
    pub skipped_by_reason: BTreeMap<String, u64>,
    /// Lines that could not be stored: the first 1,000.
    pub rejected: Vec<LineReport>,
    /// All of them.
    pub rejected_total: u64,
    /// Lines that were stored and of which something is to be said: the first 1,000.
    pub warnings: Vec<LineReport>,
    /// All of them.
    pub warnings_total: u64,
    /// Files read.
    pub files: u64,
    /// Files not read.
    pub files_skipped: Vec<SkippedFile>,
}

/// Why an import ended early. What its summary would have counted stays stored; importing again goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A path that is not there. Nothing was imported.
    #[error("{path} is not there; nothing was imported")]
    MissingPath {
        /// The path as given.
        path: PathBuf,
    },
    /// The files can't be told apart, or can't be read.
    #[error(transparent)]
    Files(#[from] import::ImportError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Rows of one transaction at most …
const BATCH_ROWS: usize = 512;
/// … and bytes of lines.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Reports of one kind that a summary lists.
const MAX_REPORTS: usize = 1_000;

impl ImportSummary {
    fn reject(&mut self, path: &Path, line: u64, reason: String) {
        self.rejected_total += 1;
        push_report(&mut self.rejected, path, line, reason);
    }

    fn warn(&mut self, path: &Path, line: u64, reason: String) {
        self.warnings_total += 1;
        push_report(&mut self.warnings, path, line, reason);
    }

    fn skip(&mut self, reason: &str) {
        self.skipped += 1;
        *self.skipped_by_reason.entry(reason.to_owned()).or_default() += 1;
    }

    fn skip_file(&mut self, path: &Path, reason: impl ToString) {
        self.files_skipped.push(SkippedFile { path: path.display().to_string(), reason: reason.to_string() });
    }
}

fn push_report(reports: &mut Vec<LineReport>, path: &Path, line: u64, reason: String) {
    if reports.len() < MAX_REPORTS {
        reports.push(LineReport { path: path.display().to_string(), line, reason });
    }
}

impl Engine {
    /// Reads transcripts from files and folders into the stores of their agents. Safe to repeat: nothing is imported
    /// twice, grown files go on where they ended. What it brings is searchable when this returns.
    ///
    /// `now` is when; `progress` is called after every batch.
    ///
    /// # Errors
    /// [`ImportError`]: what was stored before stays, and importing again goes on from there. A line or file that
    /// can't be taken is no error; the summary accounts for it.
    pub fn import(
        &self,
        paths: &[PathBuf],
        options: &ImportOptions,
        now: Timestamp,
        progress: &mut dyn FnMut(&ImportProgress),
    ) -> Result<ImportSummary, ImportError> {
        let discover = DiscoverOptions {
            agent: self.agent.clone(),
            format: options.format,
            include_deleted: options.include_deleted,
        };
        let found = import::discover(paths, &discover)?;
        if let Some(path) = found.missing.into_iter().next() {
            return Err(ImportError::MissingPath { path });
        }
        let mut summary = ImportSummary::default();
        for (path, reason) in &found.skipped {
            summary.skip_file(path, reason);
        }
        for (path, note) in found.notes {
            summary.warn(&path, 0, note);
        }
        let at = ImportProgress {
            total_files: found.sources.len() as u64,
            total_bytes: found.sources.iter().map(|source| source.len_bytes).sum(),
            ..ImportProgress::default()
        };
        let mut run = Run { now, revive: options.revive, summary, sessions: BTreeSet::new(), at, progress };
        let mut by_agent: BTreeMap<AgentId, Vec<Source>> = BTreeMap::new();
        for source in found.sources {
            by_agent.entry(source.agent.clone()).or_default().push(source);
        }
        for (agent, sources) in by_agent {
            if agent == self.agent {
                run.sources(self, sources)?;
            } else {
                let sibling = self.open_sibling(agent)?;
                run.sources(&sibling, sources)?;
                if let Err(error) = sibling.close() {
                    tracing::warn!(%error, "the next open of the store will replay more");
                }
            }
        }
        run.summary.sessions = run.sessions.len() as u64;
        Ok(run.summary)
    }
}

/// One import under way.
struct Run<'p> {
    now: Timestamp,
    revive: bool,
    summary: ImportSummary,
    sessions: BTreeSet<(AgentId, SessionId)>,
    at: ImportProgress,
    progress: &'p mut dyn FnMut(&ImportProgress),
}

impl Run<'_> {
    fn sources(&mut self, engine: &Engine, sources: Vec<Source>) -> Result<(), ImportError> {
        for source in sources {
            let (done, len) = (self.at.bytes, source.len_bytes);
            self.source(engine, source)?;
            self.at.files += 1;
            self.at.bytes = done + len;
            (self.progress)(&self.at);
        }
        Ok(())
    }

    /// Takes in one file, or says why not.
    fn source(&mut self, engine: &Engine, source: Source) -> Result<(), ImportError> {
        let snapshot = engine.committer.store().snapshot()?;
        if snapshot.tombstone(&source.session_id)?.is_some() {
            if !self.revive {
                self.summary.skip_file(&source.path, "the session was deleted on purpose; `--revive` imports it again");
                return Ok(());
            }
            engine.committer.revive(source.session_id.clone())?;
        }
        let name = source.canonical_path.to_string_lossy().into_owned();
        let row = snapshot.source(&name)?;
        if row.is_none() && self.takes_place(engine, &snapshot, &source)? {
            return self.read_whole(engine, &source);
        }
        match row {
            Some(row) => {
                let point = ResumePoint::kept(Position { offset: row.offset, line: row.line }, row.mark);
                // The session as the file was imported: it may have become one of its own (D26). Or the file did not yet
                // say then which it is.
                let apart = source.clone().apart();
                let source = match &row.session_id {
                    id if *id == source.session_id => source,
                    id if *id == apart.session_id => apart,
                    _ if row.owns => {
                        self.drop_for_replacement(engine, &snapshot, &name, row.session_id)?;
                        return self.read_whole(engine, &source);
                    }
                    _ => return self.copy(engine, &snapshot, source),
                };
                match import::open(&source, Some(&point)) {
                    Ok(reader) => self.read(engine, &source, reader, row.owns),
                    Err(import::ImportError::Rewritten { .. }) if row.owns => {
                        self.drop_for_replacement(engine, &snapshot, &name, row.session_id)?;
                        self.read_whole(engine, &source)
                    }
                    Err(import::ImportError::Rewritten { .. }) => self.copy(engine, &snapshot, source),
                    Err(error) => self.unreadable(&source, error),
                }
            }
            None if source.copy_of.is_some() || snapshot.transcript(&source.session_id)?.is_some() => {
                self.copy(engine, &snapshot, source)
            }
            None => self.read_whole(engine, &source),
        }
    }

    /// Takes in a file from its beginning, as the owner of its session.
    fn read_whole(&mut self, engine: &Engine, source: &Source) -> Result<(), ImportError> {
        match import::open(source, None) {
            Ok(reader) => self.read(engine, source, reader, true),
            Err(error) => self.unreadable(source, error),
        }
    }

    /// Whether the file takes the place of an older form of its session, and that form's session is gone now.
    fn takes_place(&mut self, engine: &Engine, snapshot: &Snapshot, source: &Source) -> Result<bool, StoreError> {
        let Some(older) = source.replaces().filter(|_| source.copy_of.is_none()) else { return Ok(false) };
        let older = older.to_string_lossy();
        match snapshot.source(&older)?.filter(|row| row.owns && row.session_id == source.session_id) {
            Some(row) => self.drop_for_replacement(engine, snapshot, &older, row.session_id).map(|()| true),
            None => Ok(false),
        }
    }

    /// Empties the session of a source that is read anew, and those of its side sessions.
    fn drop_for_replacement(
        &mut self,
        engine: &Engine,
        snapshot: &Snapshot,
        name: &str,
        session_id: SessionId,
    ) -> Result<(), StoreError> {
        engine.committer.drop_for_replacement(session_id)?;
        for side in snapshot.sources_below(&side_name(name, ""))? {
            engine.committer.drop_for_replacement(side.session_id)?;
        }
        Ok(())
    }

    fn unreadable(&mut self, source: &Source, error: import::ImportError) -> Result<(), ImportError> {
        self.summary.skip_file(&source.path, error);
        Ok(())
    }

    /// A file with the id of a session that is stored from elsewhere (D26).
    fn copy(&mut self, engine: &Engine, snapshot: &Snapshot, source: Source) -> Result<(), ImportError> {
        let mut stored = StoredLines::default();
        if let Some(transcript) = snapshot.transcript(&source.session_id)? {
            snapshot.for_each_event(transcript, 0, |_, row| {
                stored.push(row.raw, row.is_header);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let reader = match import::open(&source, None) {
            Ok(reader) => reader,
            Err(error) => return self.unreadable(&source, error),
        };
        let relation = match stored.relation_of(reader) {
            Ok(relation) => relation,
            Err(error) => return self.unreadable(&source, error),
        };
        match relation {
            Relation::Extends { from } => {
                let point = ResumePoint::at(&source.path, from)
                    .map_err(|error| import::ImportError::Io { path: source.path.clone(), source: error })?;
                match import::open(&source, Some(&point)) {
                    Ok(reader) => self.read(engine, &source, reader, false),
                    // What it has more changes what was stored before: all of it is read, in the session's place.
                    Err(import::ImportError::Rewritten { .. }) => {
                        engine.committer.drop_for_replacement(source.session_id.clone())?;
                        self.read_whole(engine, &source)
                    }
                    Err(error) => self.unreadable(&source, error),
                }
            }
            Relation::OtherCopy => {
                let of = source.copy_of.as_ref().map_or_else(
                    || format!("other copy of session {}", source.session_id),
                    |path| format!("other copy of {}", path.display()),
                );
                self.summary.skip_file(&source.path, of);
                Ok(())
            }
            Relation::Unrelated => {
                let (path, id) = (source.path.clone(), source.session_id.clone());
                let source = source.apart();
                self.summary.warn(
                    &path,
                    0,
                    format!("shares no line with session {id}: imported as {}", source.session_id),
                );
                self.read_whole(engine, &source)
            }
        }
    }

    /// Stores what a reader gives, batch by batch.
    fn read(
        &mut self,
        engine: &Engine,
        source: &Source,
        reader: import::Reader,
        owns: bool,
    ) -> Result<(), ImportError> {
        let target = SessionTarget {
            key: source.session_key.clone(),
            id: Some(source.session_id.clone()),
            new_id: source.session_id.clone(),
            facts: source.facts.clone(),
            current: source.is_current(),
        };
        let before = self.at.bytes;
        let mut batch = Batch::default();
        let mut touched = BTreeSet::from([source.session_id.clone()]);
        let mut deleted = BTreeMap::new();
        self.summary.files += 1;
        for item in reader {
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    self.summary.skip_file(&source.path, &error);
                    break;
                }
            };
            match item {
                Item::Event(event) => {
                    batch.end = Some(event.end);
                    if let Some(side) = &event.side {
                        touched.insert(side.session_id.clone());
                        if self.is_deleted(engine, &side.session_id, &mut deleted)? {
                            self.summary.skip("its session was deleted on purpose");
                            continue;
                        }
                    }
                    for warning in &event.warnings {
                        self.summary.warn(&source.path, event.line, warning.to_string());
                    }
                    let given_id =
                        || if source.numbers_rows() { with_given_id(&event.raw, &event.event) } else { None };
                    let normalized = event.normalized.or_else(given_id);
                    let bytes = event.raw.len() + normalized.as_ref().map_or(0, Vec::len);
                    let pipeline = engine.committer.pipeline();
                    let prepared = PreparedEvent::of_event(pipeline, event.raw, normalized, event.event);
                    batch.push(event.side, event.line, event.is_part, bytes, prepared);
                }
                Item::Skipped { end, .. } => {
                    self.summary.skip("blank line");
                    batch.end = Some(end);
                }
                Item::Rejected { line, reason, end } => {
                    self.summary.reject(&source.path, line, reason.to_string());
                    batch.end = Some(end);
                }
                Item::Torn { .. } => break,
            }
            if batch.rows >= BATCH_ROWS || batch.bytes >= BATCH_BYTES {
                self.store(engine, source, &target, std::mem::take(&mut batch), owns, before)?;
            }
        }
        if batch.end.is_some() {
            self.store(engine, source, &target, batch, owns, before)?;
        }
        for session_id in touched {
            if let Some(transcript) = engine.committer.store().snapshot()?.transcript(&session_id)? {
                engine.committer.rebuild_session(transcript)?;
            }
        }
        Ok(())
    }

    /// Whether a side session was deleted on purpose and stays so (D27).
    fn is_deleted(
        &self,
        engine: &Engine,
        id: &SessionId,
        known: &mut BTreeMap<SessionId, bool>,
    ) -> Result<bool, StoreError> {
        if let Some(deleted) = known.get(id) {
            return Ok(*deleted);
        }
        let mut deleted = engine.committer.store().snapshot()?.tombstone(id)?.is_some();
        if deleted && self.revive {
            engine.committer.revive(id.clone())?;
            deleted = false;
        }
        known.insert(id.clone(), deleted);
        Ok(deleted)
    }

    fn store(
        &mut self,
        engine: &Engine,
        source: &Source,
        target: &SessionTarget,
        batch: Batch,
        owns: bool,
        before: u64,
    ) -> Result<(), ImportError> {
        let Some(end) = batch.end else { return Ok(()) };
        let point = ResumePoint::at(&source.path, end)
            .map_err(|error| import::ImportError::Io { path: source.path.clone(), source: error })?;
        let name = source.canonical_path.to_string_lossy().into_owned();
        let row_of = |session_id: &SessionId| SourceRow {
            session_id: session_id.clone(),
            owns,
            offset: end.offset,
            line: end.line,
            mark: point.mark(),
        };
        let mut sources = vec![(name.clone(), row_of(&source.session_id))];
        let (mut sessions, mut lines) = (Vec::new(), Vec::new());
        for SessionBatch { side, events, lines: of_session } in batch.sessions {
            let searchable: Vec<bool> = events.iter().map(PreparedEvent::is_searchable).collect();
            let target = match &side {
                None => target.clone(),
                Some(side) => {
                    sources.push((side_name(&name, side.session_id.as_str()), row_of(&side.session_id)));
                    SessionTarget {
                        key: side.session_key.clone(),
                        id: Some(side.session_id.clone()),
                        new_id: side.session_id.clone(),
                        facts: side.facts.clone(),
                        current: false,
                    }
                }
            };
            let id = target.new_id.clone();
            sessions.push((target, events));
            lines.push((id, of_session.into_iter().zip(searchable).collect::<Vec<_>>()));
        }
        if sessions.is_empty() {
            sessions.push((target.clone(), Vec::new()));
            lines.push((source.session_id.clone(), Vec::new()));
        }
        let stored = engine.committer.import_batch(sessions, sources, self.now)?;
        for ((id, lines), stored) in lines.into_iter().zip(stored) {
            match stored {
                Ok(outcomes) => {
                    for ((line, searchable), result) in lines.into_iter().zip(outcomes) {
                        match result {
                            Ok(Appended::Stored(_)) => {
                                self.summary.events += u64::from(!line.is_part);
                                self.summary.messages += u64::from(searchable);
                                self.at.events += 1;
                                self.sessions.insert((source.agent.clone(), id.clone()));
                            }
                            Ok(Appended::Known(_)) if line.is_part => {}
                            Ok(Appended::Known(_)) => self.summary.skip("seen before"),
                            Err(refusal) => self.refused(source, line, refusal.to_string()),
                        }
                    }
                }
                Err(refusal) => {
                    for (line, _) in lines {
                        self.refused(source, line, refusal.to_string());
                    }
                }
            }
        }
        self.at.bytes = before + end.offset;
        (self.progress)(&self.at);
        Ok(())
    }

    fn refused(&mut self, source: &Source, line: BatchLine, reason: String) {
        if line.is_part {
            self.summary.warn(&source.path, line.number, reason);
        } else {
            self.summary.reject(&source.path, line.number, reason);
        }
    }
}

/// The name under which a side session of a file is noted.
fn side_name(file: &str, session_id: &str) -> String {
    format!("{file}\n{session_id}")
}

/// Events that will be stored with one transaction.
#[derive(Default)]
struct Batch {
    sessions: Vec<SessionBatch>,
    rows: usize,
    bytes: usize,
    end: Option<Position>,
}

/// Those of one session.
struct SessionBatch {
    /// `None`: the source's own.
    side: Option<Arc<SideSession>>,
    events: Vec<PreparedEvent>,
    lines: Vec<BatchLine>,
}

/// Where an event comes from.
#[derive(Clone, Copy)]
struct BatchLine {
    number: u64,
    is_part: bool,
}

impl Batch {
    fn push(&mut self, side: Option<Arc<SideSession>>, number: u64, is_part: bool, bytes: usize, event: PreparedEvent) {
        let id = |side: &Option<Arc<SideSession>>| side.as_ref().map(|side| side.session_id.clone());
        let at = match self.sessions.iter().position(|session| id(&session.side) == id(&side)) {
            Some(at) => at,
            None => {
                self.sessions.push(SessionBatch { side, events: Vec::new(), lines: Vec::new() });
                self.sessions.len() - 1
            }
        };
        self.sessions[at].events.push(event);
        self.sessions[at].lines.push(BatchLine { number, is_part });
        self.rows += 1;
        self.bytes += bytes;
    }
}

/// The line with its id written in, where the importer gave one that the line has not.
fn with_given_id(raw: &[u8], event: &Event) -> Option<Vec<u8>> {
    let id = event.id.as_ref()?;
    if event.kind == EventKind::Header || Event::parse(raw).is_ok_and(|parsed| parsed.id.is_some()) {
        return None;
    }
    let (line, _) = sanitize(raw);
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).ok()?;
    object.insert("id".to_owned(), id.as_str().into());
    serde_json::to_vec(&object).ok()
}
