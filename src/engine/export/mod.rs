//! Sessions written out: as the lines they were given, or as conversations to read.

mod conversation;
mod folder;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::commit::View;
pub use crate::export::ExportFormat;
use crate::export::{Heading, LineWriter, StoredLine};
use crate::model::{IdError, KeyAliases, SessionId, SessionKey};
use crate::store::{EventRow, SessionRow, StoreError, TranscriptNumber};
use crate::transcript::TreeNode;

use super::Engine;

/// What to write of which sessions. [`ExportOptions::default`] writes every session's lines.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// What to write.
    pub format: ExportFormat,
    /// Only this: every window of a session key, or one session by its id.
    pub session: Option<String>,
    /// Replace files that are there already.
    pub overwrite: bool,
}

/// How far an export is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportProgress {
    /// Sessions written.
    pub sessions: u64,
    /// Sessions in all.
    pub total_sessions: u64,
    /// Events read.
    pub events: u64,
    /// Bytes of lines read.
    pub bytes: u64,
    /// Bytes of lines in all.
    pub total_bytes: u64,
}

/// An event that could not be read from the store, and so is missing from what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnreadableEvent {
    /// Its session.
    pub session_id: String,
    /// What the store says.
    pub detail: String,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExportSummary {
    /// Sessions.
    pub sessions: u64,
    /// Events read for them.
    pub events: u64,
    /// Bytes written, indexes included.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// What is missing for being unreadable: the first 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableEvent>,
    /// All of it.
    pub unreadable_total: u64,
}

/// One session that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedSession {
    /// Its id.
    pub session_id: SessionId,
    /// Where a key was given, the windows of it that were not written.
    pub other_windows: u64,
    /// What was written.
    pub summary: ExportSummary,
}

/// Unreadable events that a summary lists.
const MAX_UNREADABLE: usize = 1_000;

impl ExportSummary {
    fn unreadable(&mut self, session: &SessionRow, error: &StoreError) {
        self.unreadable_total += 1;
        if self.unreadable.len() < MAX_UNREADABLE {
            let (session_id, detail) = (session.session_id.as_str().to_owned(), error.to_string());
            self.unreadable.push(UnreadableEvent { session_id, detail });
        }
    }
}

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A text that is no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Neither a key nor a session id of this store.
    #[error("no session {given:?}: give a session key or session id as `sessions` lists them; nothing was written")]
    UnknownSession {
        /// The text as given.
        given: String,
    },
    /// Incognito sessions are never stored, and not to be asked for (D19).
    #[error("{key} is an incognito session: not to be read")]
    Incognito {
        /// The key.
        key: SessionKey,
    },
    /// There are files of those names.
    #[error(
        "{} is there already, {files} in all; nothing was written: name another folder, or `--overwrite` to replace them", path.display()
    )]
    Exists {
        /// The first of them.
        path: PathBuf,
        /// How many.
        files: u64,
    },
    /// What was written could not be kept.
    #[error("writing {what} failed: {source}; {written} of {sessions} sessions were written before it and stay")]
    Write {
        /// What was being written.
        what: String,
        /// Sessions written.
        written: u64,
        /// Sessions in all.
        sessions: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Writes this agent's sessions to `<root>/agents/<agent>/sessions/`, a file each: `<session id>.jsonl`, `.md` or
    /// `.html`. With the lines goes a `sessions.json`, so that importing the folder gives the same sessions. What is
    /// written is one moment of the store.
    ///
    /// Lines come out byte for byte, secrets included, save the `parentId` of rebased and the `timestamp` of untimed
    /// appended ones; conversations are redacted as the store is. Each file is written under another name first, and
    /// private to its owner. At most one event is held in memory, and of a conversation the shape of its tree.
    ///
    /// `progress` is called now and then.
    ///
    /// # Errors
    /// [`ExportError`]. An event that can't be read is none: the summary names it.
    pub fn export(
        &self,
        root: &Path,
        options: &ExportOptions,
        progress: &mut dyn FnMut(&ExportProgress),
    ) -> Result<ExportSummary, ExportError> {
        self.committer.heal()?;
        let view = self.committer.pin();
        let chosen = self.chosen(&view, options.session.as_deref())?;
        let folder = root.join("agents").join(self.agent.as_str()).join("sessions");
        folder::Writing { files: self.committer.files(), folder, view: &view, options }.all(chosen, progress)
    }

    /// Writes one session to `out`: of a session key its current window.
    ///
    /// # Errors
    /// [`ExportError`]. An event that can't be read is none: the summary names it.
    pub fn export_session(
        &self,
        session: &str,
        format: ExportFormat,
        out: impl io::Write,
    ) -> Result<ExportedSession, ExportError> {
        self.committer.heal()?;
        let view = self.committer.pin();
        let chosen = self.chosen(&view, Some(session))?;
        let current = match chosen.first() {
            Some(first) => view.snapshot.current_window(&first.row.session_key)?,
            None => None,
        };
        let window = chosen.iter().find(|chosen| Some(chosen.number) == current).or(chosen.first());
        let session = window.ok_or_else(|| ExportError::UnknownSession { given: session.to_owned() })?;
        let mut summary = ExportSummary::default();
        let mut out = Counted { out: io::BufWriter::new(out), bytes: 0 };
        let written = write_session(&view, session, format, &mut out, &mut summary, &mut |_, _| {});
        written.and_then(|()| io::Write::flush(&mut out).map_err(Stopped::Write)).map_err(|stopped| match stopped {
            Stopped::Write(source) => {
                let what = format!("session {}", session.row.session_id);
                ExportError::Write { what, written: 0, sessions: 1, source }
            }
            Stopped::Store(error) => error.into(),
        })?;
        (summary.sessions, summary.bytes) = (1, out.bytes);
        let other_windows = chosen.len() as u64 - 1;
        Ok(ExportedSession { session_id: session.row.session_id.clone(), other_windows, summary })
    }

    /// The sessions of a key, oldest first, or the one of an id; all of them, by key. One of which there is an id is one
    /// window: other than for a search, its key's others were not asked for.
    fn chosen(&self, view: &View, given: Option<&str>) -> Result<Vec<Chosen>, ExportError> {
        let Some(given) = given else {
            let mut all = Vec::with_capacity(view.sessions.len());
            for row in view.sessions.iter() {
                all.extend(Chosen::of(view, row)?);
            }
            all.sort_by(|a, b| (&a.row.session_key, a.number).cmp(&(&b.row.session_key, b.number)));
            return Ok(all);
        };
        let key = SessionKey::parse(given)?;
        if key.is_incognito() {
            return Err(ExportError::Incognito { key });
        }
        let main = KeyAliases::default().stored(&self.agent, &key).ok();
        for key in std::iter::once(&key).chain(&main) {
            let windows = view.snapshot.windows(key)?;
            let chosen = windows
                .into_iter()
                .filter_map(|number| view.sessions.get(number).map(|row| Chosen { number, row: Arc::clone(row) }));
            let chosen: Vec<Chosen> = chosen.collect();
            if !chosen.is_empty() {
                return Ok(chosen);
            }
        }
        let number = match SessionId::parse(given) {
            Ok(id) => view.snapshot.transcript(&id)?,
            Err(_) => None,
        };
        let row = number.and_then(|number| view.sessions.get(number).map(|row| (number, Arc::clone(row))));
        let (number, row) = row.ok_or_else(|| ExportError::UnknownSession { given: given.to_owned() })?;
        Ok(vec![Chosen { number, row }])
    }
}

/// A session to write.
struct Chosen {
    number: TranscriptNumber,
    row: Arc<SessionRow>,
}

impl Chosen {
    fn of(view: &View, row: &Arc<SessionRow>) -> Result<Option<Self>, StoreError> {
        let number = view.snapshot.transcript(&row.session_id)?;
        Ok(number.map(|number| Self { number, row: Arc::clone(row) }))
    }
}

/// Why a session is not complete.
enum Stopped {
    Write(io::Error),
    Store(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Writes a session. `each` is told of every event and its bytes.
fn write_session(
    view: &View,
    session: &Chosen,
    format: ExportFormat,
    out: &mut dyn io::Write,
    summary: &mut ExportSummary,
    each: &mut dyn FnMut(u64, u64),
) -> Result<(), Stopped> {
    if format == ExportFormat::Jsonl {
        return write_lines(view, session, out, summary, each);
    }
    let row = &*session.row;
    let heading = Heading {
        key: &row.session_key,
        id: &row.session_id,
        label: row.label(),
        updated_at: row.updated_at,
        is_redacted: view.pipeline.redaction().is_on(),
    };
    conversation::write(view, session, format, &heading, out, summary, each)
}

fn write_lines(
    view: &View,
    session: &Chosen,
    out: &mut dyn io::Write,
    summary: &mut ExportSummary,
    each: &mut dyn FnMut(u64, u64),
) -> Result<(), Stopped> {
    let mut lines = LineWriter::new(out);
    let mut failed = None;
    let read = view.snapshot.for_each_event_row(session.number, 0, |_, row| {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                summary.unreadable(&session.row, &error);
                return Ok(ControlFlow::Continue(()));
            }
        };
        summary.events += 1;
        each(1, row.raw.len() as u64);
        failed = write_line(&mut lines, &row).err();
        Ok(if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    if let Some(error) = failed {
        return Err(Stopped::Write(error));
    }
    read_to_its_end(read, session, summary)?;
    lines.end().map_err(Stopped::Write)
}

/// Pages that can't be read end a session early; the others are not concerned.
fn read_to_its_end(
    read: Result<(), StoreError>,
    session: &Chosen,
    summary: &mut ExportSummary,
) -> Result<(), StoreError> {
    match read {
        Err(error @ StoreError::Damaged { .. }) => summary.unreadable(&session.row, &error),
        other => other?,
    }
    Ok(())
}

fn write_line<W: io::Write>(lines: &mut LineWriter<W>, row: &EventRow<'_>) -> io::Result<()> {
    let parent = match &row.tree.node {
        TreeNode::Entry { parent: Some(parent), .. } if row.rebased => Some(parent),
        _ => None,
    };
    // Where an import gave an id it wrote the line anew.
    let given = row.normalised.and_then(|_| row.tree.id());
    lines.line(StoredLine { raw: row.raw, parent, timestamp: row.timed.then_some(row.timestamp), given_id: given })
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: io::Write> io::Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
