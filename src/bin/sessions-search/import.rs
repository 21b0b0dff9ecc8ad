//! `import`, `import --discover` and `watch`.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sessions_search::{Engine, ImportError, ImportFormat, ImportOptions, ImportPreview, ImportProgress, ImportSummary};

use crate::args::{FormatChoice, ImportArgs, ImportChoice, WatchArgs};
use crate::environment::{now, transcript_places};
use crate::failure::{DONE, Failure, INTERRUPTED, IO, NOTHING};
use crate::interrupt::{on_interrupt, sleep};
use crate::progress::At;
use crate::run::Place;

impl Place<'_> {
    pub(crate) fn import(&self, args: &ImportArgs) -> Result<u8, Failure> {
        if args.discover {
            return self.discover(args);
        }
        check_there(&args.paths)?;
        let mut options = options_of(&args.choice);
        options.stop = Some(on_interrupt());
        let engine = self.open(&self.root, true)?;
        let summary = self.import_into(&engine, &args.paths, &options)?;
        self.close(engine);
        self.print(&summary)?;
        for path in &summary.unreadable {
            self.output.note(&format!("{} could not be read; the rest was imported", path.display()));
        }
        if summary.is_stopped {
            self.output.note("interrupted: what is counted above is stored; importing again goes on from there");
            return Ok(INTERRUPTED);
        }
        Ok(if summary.unreadable.is_empty() { DONE } else { IO })
    }

    fn print(&self, summary: &ImportSummary) -> Result<(), Failure> {
        if self.output.is_json() { self.output.json(summary) } else { self.output.import(summary) }
    }

    pub(crate) fn import_into(
        &self,
        engine: &Engine,
        paths: &[PathBuf],
        options: &ImportOptions,
    ) -> Result<ImportSummary, Failure> {
        let mut progress = self.output.progress("import", "bytes");
        let mut report = |at: &ImportProgress| {
            let counts = vec![("file", at.files), ("event", at.events)];
            progress.report(At { done: at.bytes, total: at.total_bytes, counts });
        };
        let summary = engine.import(paths, options, now(), &mut report)?;
        progress.finish();
        Ok(summary)
    }

    /// Lists what an import would take.
    fn discover(&self, args: &ImportArgs) -> Result<u8, Failure> {
        let places = if args.paths.is_empty() { transcript_places() } else { args.paths.clone() };
        check_there(&places)?;
        let preview = ImportPreview::of(&self.agent, &places, &options_of(&args.choice), now())?;
        if self.output.is_json() {
            self.output.json(&preview)?;
        } else {
            self.output.preview(&preview)?;
        }
        Ok(if preview.files == 0 { NOTHING } else { DONE })
    }

    /// Imports whenever something below the paths has changed. The store is held only meanwhile.
    pub(crate) fn watch(&self, args: &WatchArgs) -> Result<u8, Failure> {
        check_there(&args.paths)?;
        let stop = on_interrupt();
        let mut options = options_of(&args.choice);
        options.stop = Some(Arc::clone(&stop));
        let mut seen = None;
        loop {
            let found = state_of(&args.paths);
            if seen != Some(found) {
                match self.open(&self.root, true).map_err(Failure::from) {
                    Ok(engine) => {
                        let summary = self.import_into(&engine, &args.paths, &options)?;
                        self.close(engine);
                        if seen.is_none() || summary.events + summary.rejected_total > 0 {
                            self.print(&summary)?;
                        }
                        seen = Some(found);
                        // Once said is enough: a session that was revived may be deleted again.
                        options.revive = false;
                    }
                    Err(Failure::Busy(text)) => self.output.note(&format!("{text}; trying again")),
                    Err(other) => return Err(other),
                }
            }
            if sleep(&stop, Duration::from_secs(args.interval)) {
                return Ok(DONE);
            }
        }
    }
}

/// Looked for before the store is made: nothing is left behind for a slip of the pen.
fn check_there(paths: &[PathBuf]) -> Result<(), Failure> {
    match paths.iter().find(|path| matches!(path.try_exists(), Ok(false)) && path.symlink_metadata().is_err()) {
        Some(path) => Err(ImportError::MissingPath { path: path.clone() }.into()),
        None => Ok(()),
    }
}

/// Stands for the names, sizes and times of all files below the paths.
fn state_of(paths: &[PathBuf]) -> u64 {
    let mut sum = 0_u64;
    let mut open: VecDeque<PathBuf> = paths.iter().cloned().collect();
    while let Some(path) = open.pop_front() {
        if let Ok(children) = look(&path, &mut sum) {
            open.extend(children);
        }
    }
    sum
}

/// Adds one file to the sum, or gives what is in a folder.
fn look(path: &Path, sum: &mut u64) -> io::Result<Vec<PathBuf>> {
    let facts = path.symlink_metadata()?;
    if facts.is_dir() {
        return std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
    }
    let mut hasher = DefaultHasher::new();
    (path, facts.len(), facts.modified().ok()).hash(&mut hasher);
    *sum = sum.wrapping_add(hasher.finish());
    Ok(Vec::new())
}

fn options_of(choice: &ImportChoice) -> ImportOptions {
    let mut options = ImportOptions::default();
    options.format = match choice.format {
        FormatChoice::Auto => None,
        FormatChoice::Openclaw => Some(ImportFormat::OpenClaw),
        FormatChoice::Pi => Some(ImportFormat::Pi),
        FormatChoice::ClaudeCode => Some(ImportFormat::ClaudeCode),
        FormatChoice::Codex => Some(ImportFormat::Codex),
        FormatChoice::GeminiCli => Some(ImportFormat::GeminiCli),
    };
    options.revive = choice.revive;
    options.include_deleted = choice.include_deleted;
    options
}
