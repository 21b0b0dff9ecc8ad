//! Bringing transcripts in from files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::commit::{Appended, CheckpointError, ImportBatch, PreparedEvent, SessionTarget};
pub use crate::import::Format as ImportFormat;
use crate::import::{
    self, DiscoverOptions, ImportedEvent, Item, Position, Relation, ResumePoint, SideSession, Source, StoredLines,
};
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
    /// The same by agent: each has its own store.
    pub sessions_by_agent: BTreeMap<String, u64>,
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
    /// The index could not be written. What is stored stays, hidden until it is indexed in the background.
    #[error(transparent)]
    Index(CheckpointError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CheckpointError> for ImportError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Store(error) => Self::Store(error),
            error => Self::Index(error),
        }
    }
}

/// Rows of one transaction at most …
const BATCH_ROWS: usize = 1_024;
/// … and bytes of lines: the memory of an import beside one line and the index writer's arena.
const BATCH_BYTES: usize = 1024 * 1024;
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
        self.committer.heal()?;
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
        let mut run = Run {
            now,
            revive: options.revive,
            bulk: at.total_bytes >= self.committer.tuning().bulk_bytes,
            summary,
            sessions: BTreeSet::new(),
            revived: BTreeSet::new(),
            queued: Queued::default(),
            at,
            progress,
        };
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
        for (agent, _) in &run.sessions {
            *run.summary.sessions_by_agent.entry(agent.as_str().to_owned()).or_default() += 1;
        }
        Ok(run.summary)
    }
}

/// One import under way.
struct Run<'p> {
    now: Timestamp,
    revive: bool,
    bulk: bool,
    summary: ImportSummary,
    queued: Queued,
    sessions: BTreeSet<(AgentId, SessionId)>,
    /// Sessions whose tombstone this run lifted.
    revived: BTreeSet<(AgentId, SessionId)>,
    at: ImportProgress,
    progress: &'p mut dyn FnMut(&ImportProgress),
}

impl Run<'_> {
    fn sources(&mut self, engine: &Engine, sources: Vec<Source>) -> Result<(), ImportError> {
        let _importing = engine.committer.begin_import();
        let mut copies = false;
        for source in sources {
            // Copies come last, and are compared with what is stored of their owners.
            if source.copy_of.is_some() && !copies {
                copies = true;
                self.flush(engine)?;
            }
            let (done, len) = (self.at.bytes, source.len_bytes);
            self.source(engine, source)?;
            if copies {
                self.flush(engine)?;
            }
            self.at.files += 1;
            self.at.bytes = done + len;
            (self.progress)(&self.at);
        }
        self.finish(engine)
    }

    /// Takes in one file, or says why not.
    fn source(&mut self, engine: &Engine, source: Source) -> Result<(), ImportError> {
        if !self.admits(engine, &source)? {
            return Ok(());
        }
        let snapshot = engine.committer.snapshot()?;
        let name = source.name();
        // Of a session that begins anew every file is read from its beginning, however far it had been read.
        match snapshot.source(&name)?.filter(|_| !self.is_revived(&source)) {
            Some(row) => {
                let source = source.in_session(row.session_id);
                if !self.admits(engine, &source)? {
                    return Ok(());
                }
                let point = ResumePoint::kept(Position { offset: row.offset, line: row.line }, row.mark);
                let begins_anew = self.is_revived(&source) || self.revives_sides(engine, &snapshot, &name)?;
                let point = (!begins_anew).then_some(point);
                match import::open(&source, point.as_ref()) {
                    Ok(reader) => self.read(engine, &source, reader, row.owns),
                    Err(import::ImportError::Restated { .. }) if row.owns => self.read_anew(engine, &source),
                    Err(import::ImportError::Rewritten { .. } | import::ImportError::Restated { .. }) => {
                        self.rewritten(engine, &snapshot, source, row.owns)
                    }
                    Err(error) => self.unreadable(&source, error),
                }
            }
            None if Self::goes_on_from_older_form(&snapshot, &source)? => self.read_anew(engine, &source),
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

    /// The same in place of what was read of the session before, all of which the file says anew.
    fn read_anew(&mut self, engine: &Engine, source: &Source) -> Result<(), ImportError> {
        self.flush(engine)?;
        let name = source.name();
        let start = source.resume_point(Position::default())?;
        let row =
            SourceRow { session_id: source.session_id.clone(), owns: true, offset: 0, line: 0, mark: start.mark() };
        engine.committer.begin_anew(source.session_id.clone(), name, row)?;
        self.read_whole(engine, source)
    }

    /// Whether the session was read from an older form of this file, which holds all of it.
    fn goes_on_from_older_form(snapshot: &Snapshot, source: &Source) -> Result<bool, StoreError> {
        let Some(older) = source.replaces().filter(|_| source.copy_of.is_none()) else { return Ok(false) };
        let row = snapshot.source(&older.to_string_lossy())?;
        Ok(row.is_some_and(|row| row.owns && row.session_id == source.session_id))
    }

    /// Whether the session may be imported: one that was deleted on purpose only when that is to be lifted (D27).
    fn admits(&mut self, engine: &Engine, source: &Source) -> Result<bool, ImportError> {
        let id = &source.session_id;
        if engine.committer.snapshot()?.tombstone(id)?.is_none() {
            return Ok(true);
        }
        if self.revive {
            engine.committer.revive(id.clone())?;
            self.revived.insert((source.agent.clone(), id.clone()));
        } else {
            let reason = "the session was deleted on purpose; `--revive` imports it again";
            self.summary.skip_file(&source.path, reason);
        }
        Ok(self.revive)
    }

    fn is_revived(&self, source: &Source) -> bool {
        self.revived.contains(&(source.agent.clone(), source.session_id.clone()))
    }

    /// Lifts the tombstones of a file's side sessions where that is asked for. Tells whether there was any.
    fn revives_sides(&self, engine: &Engine, snapshot: &Snapshot, name: &str) -> Result<bool, ImportError> {
        let mut any = false;
        for side in snapshot.sources_below(&side_name(name, ""))? {
            if self.revive && snapshot.tombstone(&side.session_id)?.is_some() {
                engine.committer.revive(side.session_id)?;
                any = true;
            }
        }
        Ok(any)
    }

    fn unreadable(&mut self, source: &Source, error: import::ImportError) -> Result<(), ImportError> {
        self.summary.skip_file(&source.path, error);
        Ok(())
    }

    /// A file that no longer holds what it held when it was imported: cut short, edited, half copied. What follows the
    /// stored lines is taken; nothing that is stored goes, for it may be held nowhere else.
    fn rewritten(
        &mut self,
        engine: &Engine,
        snapshot: &Snapshot,
        source: Source,
        owns: bool,
    ) -> Result<(), ImportError> {
        match self.relation(snapshot, &source)? {
            Some(Relation::Extends { from }) => self.read_from(engine, &source, from, owns),
            Some(_) => {
                let id = &source.session_id;
                self.summary.skip_file(
                    &source.path,
                    format!(
                        "changed since it was imported: session {id} is kept as it is; to take the file instead, delete the session and import with `--revive`"
                    ),
                );
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// How a file relates to the stored session of its id; `None` when it can't be read, which is reported.
    fn relation(&mut self, snapshot: &Snapshot, source: &Source) -> Result<Option<Relation>, ImportError> {
        let mut stored = StoredLines::default();
        if let Some(transcript) = snapshot.transcript(&source.session_id)? {
            snapshot.for_each_event(transcript, 0, |_, row| {
                stored.push(row.raw, row.is_header);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        match import::open(source, None).and_then(|reader| stored.relation_of(reader)) {
            Ok(relation) => Ok(Some(relation)),
            Err(error) => self.unreadable(source, error).map(|()| None),
        }
    }

    fn read_from(&mut self, engine: &Engine, source: &Source, from: Position, owns: bool) -> Result<(), ImportError> {
        let point = source.resume_point(from)?;
        match import::open(source, Some(&point)) {
            Ok(reader) => self.read(engine, source, reader, owns),
            Err(error) => self.unreadable(source, error),
        }
    }

    /// A file with the id of a session that is stored from elsewhere (D26).
    fn copy(&mut self, engine: &Engine, snapshot: &Snapshot, source: Source) -> Result<(), ImportError> {
        let Some(relation) = self.relation(snapshot, &source)? else { return Ok(()) };
        match relation {
            Relation::Extends { from } => self.read_from(engine, &source, from, false),
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
                if !self.admits(engine, &source)? {
                    return Ok(());
                }
                self.summary.warn(
                    &path,
                    0,
                    format!("shares no line with session {id}: imported as {}", source.session_id),
                );
                self.read_whole(engine, &source)
            }
        }
    }

    /// Takes in what a reader gives.
    fn read(
        &mut self,
        engine: &Engine,
        source: &Source,
        reader: import::Reader,
        owns: bool,
    ) -> Result<(), ImportError> {
        let before = self.at.bytes;
        let mut batch = SourceBatch::default();
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
                    if let Some(side) = &event.side
                        && is_deleted(engine, &side.session_id, &mut deleted)?
                    {
                        self.summary.skip("its session was deleted on purpose");
                        continue;
                    }
                    for warning in &event.warnings {
                        self.summary.warn(&source.path, event.line, warning.to_string());
                    }
                    batch.push(engine, source, *event);
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
            if self.queued.rows + batch.rows >= BATCH_ROWS || self.queued.bytes + batch.bytes >= BATCH_BYTES {
                self.at.bytes = before + batch.end.map_or(0, |end| end.offset);
                self.queue(source, std::mem::take(&mut batch), owns)?;
                self.flush(engine)?;
            }
        }
        self.queue(source, batch, owns)
    }

    /// Puts what was read of one source to the next transaction.
    fn queue(&mut self, source: &Source, batch: SourceBatch, owns: bool) -> Result<(), ImportError> {
        let Some(end) = batch.end else { return Ok(()) };
        let point = source.resume_point(end)?;
        let row_of = |session_id: &SessionId| SourceRow {
            session_id: session_id.clone(),
            owns,
            offset: end.offset,
            line: end.line,
            mark: point.mark(),
        };
        let name = source.name();
        self.queued.rows += batch.rows;
        self.queued.bytes += batch.bytes;
        let mut sessions = batch.sessions;
        if !sessions.iter().any(|session| session.side.is_none()) {
            sessions.push(SessionBatch::default());
        }
        for SessionBatch { side, events, lines } in sessions {
            let (target, path) = match side {
                None => (
                    SessionTarget {
                        key: source.session_key.clone(),
                        id: Some(source.session_id.clone()),
                        new_id: source.session_id.clone(),
                        facts: source.facts.clone(),
                        current: source.is_current(),
                    },
                    name.clone(),
                ),
                Some(side) => (
                    SessionTarget {
                        key: side.session_key.clone(),
                        id: Some(side.session_id.clone()),
                        new_id: side.session_id.clone(),
                        facts: side.facts.clone(),
                        current: false,
                    },
                    side_name(&name, side.session_id.as_str()),
                ),
            };
            let session_id = target.new_id.clone();
            let source_row = row_of(&session_id);
            self.queued.lines.push(QueuedLines { path: source.path.clone(), session_id, lines });
            self.queued.batches.push(ImportBatch { target, events, path, source: source_row });
        }
        Ok(())
    }

    /// Stores what is queued, in one transaction, and accounts for it.
    fn flush(&mut self, engine: &Engine) -> Result<(), ImportError> {
        let queued = std::mem::take(&mut self.queued);
        if queued.batches.is_empty() {
            return Ok(());
        }
        let outcomes = engine.committer.import(queued.batches, self.bulk, self.now)?;
        for (QueuedLines { path, session_id, lines }, outcome) in queued.lines.into_iter().zip(outcomes) {
            match outcome {
                Ok(results) => {
                    for (line, result) in lines.into_iter().zip(results) {
                        match result {
                            Ok(Appended::Stored(_)) => {
                                self.summary.events += u64::from(!line.is_part);
                                self.summary.messages += u64::from(line.is_searchable);
                                self.at.events += 1;
                                self.sessions.insert((engine.agent.clone(), session_id.clone()));
                            }
                            Ok(Appended::Known(_)) if line.is_part => {}
                            Ok(Appended::Known(_)) => self.summary.skip("seen before"),
                            Err(refusal) => self.refused(&path, line, refusal.to_string()),
                        }
                    }
                }
                Err(refusal) => {
                    for line in lines {
                        self.refused(&path, line, refusal.to_string());
                    }
                }
            }
        }
        (self.progress)(&self.at);
        Ok(())
    }

    /// A part of a line counts as no line of its own.
    fn refused(&mut self, path: &Path, line: EventLine, reason: String) {
        if line.is_part {
            self.summary.warn(path, line.number, reason);
        } else {
            self.summary.reject(path, line.number, reason);
        }
    }

    /// Makes everything that was stored searchable.
    fn finish(&mut self, engine: &Engine) -> Result<(), ImportError> {
        self.flush(engine)?;
        if self.bulk {
            engine.committer.finish_bulk()?;
        }
        for transcript in engine.committer.snapshot()?.pending()? {
            engine.committer.rebuild_session(transcript)?;
        }
        Ok(())
    }
}

/// Whether a side session was deleted on purpose and stays so (D27).
fn is_deleted(engine: &Engine, id: &SessionId, known: &mut BTreeMap<SessionId, bool>) -> Result<bool, StoreError> {
    if let Some(deleted) = known.get(id) {
        return Ok(*deleted);
    }
    let deleted = engine.committer.snapshot()?.tombstone(id)?.is_some();
    known.insert(id.clone(), deleted);
    Ok(deleted)
}

/// The name under which a side session of a file is noted.
fn side_name(file: &str, session_id: &str) -> String {
    format!("{file}\n{session_id}")
}

/// What was read of one source since the last transaction.
#[derive(Default)]
struct SourceBatch {
    sessions: Vec<SessionBatch>,
    rows: usize,
    bytes: usize,
    end: Option<Position>,
}

/// What of it goes to one session.
#[derive(Default)]
struct SessionBatch {
    /// `None`: the source's own.
    side: Option<Arc<SideSession>>,
    events: Vec<PreparedEvent>,
    /// For each event.
    lines: Vec<EventLine>,
}

/// Where an event comes from.
#[derive(Clone, Copy)]
struct EventLine {
    number: u64,
    is_part: bool,
    is_searchable: bool,
}

impl SourceBatch {
    fn push(&mut self, engine: &Engine, source: &Source, event: ImportedEvent) {
        let ImportedEvent { line, raw, normalized, event, side, is_part, .. } = event;
        let given_id = || if source.numbers_rows() { with_given_id(&raw, &event) } else { None };
        let normalized = normalized.or_else(given_id);
        self.rows += 1;
        self.bytes += raw.len() + normalized.as_ref().map_or(0, Vec::len);
        let prepared = PreparedEvent::of_event(&engine.committer.pipeline(), raw, normalized, event);
        let id = |side: &Option<Arc<SideSession>>| side.as_ref().map(|side| side.session_id.clone());
        let at = self.sessions.iter().position(|session| id(&session.side) == id(&side)).unwrap_or_else(|| {
            self.sessions.push(SessionBatch { side, ..SessionBatch::default() });
            self.sessions.len() - 1
        });
        if let Some(session) = self.sessions.get_mut(at) {
            session.lines.push(EventLine { number: line, is_part, is_searchable: prepared.is_searchable() });
            session.events.push(prepared);
        }
    }
}

/// The lines of one batch.
struct QueuedLines {
    path: PathBuf,
    session_id: SessionId,
    /// For each event.
    lines: Vec<EventLine>,
}

/// What the next transaction will store.
#[derive(Default)]
struct Queued {
    batches: Vec<ImportBatch>,
    /// For each batch, what to account for.
    lines: Vec<QueuedLines>,
    rows: usize,
    bytes: usize,
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
