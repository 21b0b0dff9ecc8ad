//! An export into a folder: a file for each session, and with lines the index of all of them.

use std::io;
use std::path::{Path, PathBuf};

use super::write_session;
use super::{Chosen, Counted, ExportError, ExportFormat, ExportOptions, ExportProgress, ExportSummary, Stopped};
use crate::commit::View;
use crate::export::{FileNames, IndexedKey, IndexedWindow, write_index};
use crate::files::{Files, NewFile};
use crate::store::{SessionRow, TranscriptNumber};

/// An export under way.
pub(super) struct Writing<'w> {
    pub(super) files: &'w dyn Files,
    pub(super) folder: PathBuf,
    pub(super) view: &'w View,
    pub(super) options: &'w ExportOptions,
}

/// Events between two reports of progress.
const REPORT_EVERY: u64 = 1_024;

const INDEX: &str = "sessions.json";

impl Writing<'_> {
    pub(super) fn all(
        &self,
        chosen: Vec<Chosen>,
        progress: &mut dyn FnMut(&ExportProgress),
    ) -> Result<ExportSummary, ExportError> {
        let format = self.options.format;
        let mut names = FileNames::default();
        let named: Vec<(Chosen, String)> = chosen
            .into_iter()
            .map(|session| {
                let stem = names.stem(&session.row.session_id);
                (session, format!("{stem}.{}", format.extension()))
            })
            .collect();
        let index = (format == ExportFormat::Jsonl).then_some(INDEX);
        self.refuse_to_replace(named.iter().map(|(_, name)| name.as_str()).chain(index))?;

        let mut at = ExportProgress {
            total_sessions: named.len() as u64,
            total_bytes: named.iter().map(|(session, _)| session.row.event_bytes).sum(),
            ..ExportProgress::default()
        };
        let mut summary = ExportSummary::default();
        let failed = |what: &Path, written: u64, source: io::Error| ExportError::Write {
            what: what.display().to_string(),
            written,
            sessions: named.len() as u64,
            source,
        };
        self.files.create_folder(&self.folder).map_err(|error| failed(&self.folder, 0, error))?;
        for (session, name) in &named {
            let bytes = self.write(name, &mut |out| {
                write_session(self.view, session, format, out, &mut summary, &mut |events, bytes| {
                    at.events += events;
                    at.bytes += bytes;
                    if at.events.is_multiple_of(REPORT_EVERY) {
                        progress(&at);
                    }
                })
            });
            summary.bytes += bytes.map_err(|stopped| match stopped {
                Stopped::Write(error) => failed(&self.folder.join(name), summary.sessions, error),
                Stopped::Store(error) => error.into(),
            })?;
            summary.sessions += 1;
            summary.files += 1;
            at.sessions += 1;
            progress(&at);
        }
        if let Some(index) = index {
            let keys = self.keys(&named)?;
            let bytes = self.write(index, &mut |out| write_index(out, &keys).map_err(Stopped::Write));
            summary.bytes += bytes.map_err(|stopped| match stopped {
                Stopped::Write(error) => failed(&self.folder.join(index), summary.sessions, error),
                Stopped::Store(error) => error.into(),
            })?;
            summary.files += 1;
        }
        self.files.sync_folder(&self.folder).map_err(|error| failed(&self.folder, summary.sessions, error))?;
        Ok(summary)
    }

    /// Before anything is written: nothing of others goes unless that was asked for.
    fn refuse_to_replace<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(), ExportError> {
        if self.options.overwrite {
            return Ok(());
        }
        let (mut first, mut files) = (None, 0);
        for name in names {
            let path = self.folder.join(name);
            // What can't be looked at is met again when it is written.
            if self.files.exists(&path).unwrap_or(false) {
                files += 1;
                first.get_or_insert(path);
            }
        }
        match first {
            Some(path) => Err(ExportError::Exists { path, files }),
            None => Ok(()),
        }
    }

    /// Writes a file under a name of its own, then gives it the right one. Gives its bytes.
    fn write(
        &self,
        name: &str,
        content: &mut dyn FnMut(&mut dyn io::Write) -> Result<(), Stopped>,
    ) -> Result<u64, Stopped> {
        let path = self.folder.join(name);
        let unfinished = self.folder.join(format!(".{}.export-part", uuid::Uuid::new_v4().simple()));
        let written = self.write_unfinished(&unfinished, content).and_then(|bytes| {
            if !self.options.overwrite {
                // Takes the name, which somebody may have taken meanwhile.
                drop(self.files.create(&path).map_err(Stopped::Write)?);
            }
            self.files.rename(&unfinished, &path).map_err(Stopped::Write)?;
            Ok(bytes)
        });
        if written.is_err()
            && let Err(error) = self.files.remove_file(&unfinished)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, file = %unfinished.display(), "an unfinished file could not be removed");
        }
        written
    }

    fn write_unfinished(
        &self,
        path: &Path,
        content: &mut dyn FnMut(&mut dyn io::Write) -> Result<(), Stopped>,
    ) -> Result<u64, Stopped> {
        let file = self.files.create(path).map_err(Stopped::Write)?;
        let mut out = Counted { out: io::BufWriter::with_capacity(128 * 1024, file), bytes: 0 };
        content(&mut out)?;
        let bytes = out.bytes;
        let mut file: Box<dyn NewFile> = out.out.into_inner().map_err(|error| Stopped::Write(error.into_error()))?;
        file.sync().map_err(Stopped::Write)?;
        Ok(bytes)
    }

    /// What the index says of the sessions, which stand by key and age.
    fn keys(&self, named: &[(Chosen, String)]) -> Result<Vec<IndexedKey>, ExportError> {
        let window = |row: &SessionRow, file: &str| IndexedWindow {
            id: row.session_id.clone(),
            file: file.to_owned(),
            facts: row.facts.clone(),
            updated_at: row.updated_at,
        };
        let mut keys = Vec::new();
        for windows in named.chunk_by(|(a, _), (b, _)| a.row.session_key == b.row.session_key) {
            let Some((first, _)) = windows.first() else { continue };
            let key = first.row.session_key.clone();
            let current: Option<TranscriptNumber> = self.view.snapshot.current_window(&key)?;
            // Of a key whose current window is not among them the newest stands for it.
            let at = windows.iter().position(|(session, _)| Some(session.number) == current);
            let at = at.unwrap_or(windows.len() - 1);
            let mut all: Vec<IndexedWindow> =
                windows.iter().map(|(session, file)| window(&session.row, file)).collect();
            let current = all.remove(at);
            keys.push(IndexedKey { key, current, earlier: all });
        }
        Ok(keys)
    }
}
