//! Finds the files below the paths a person gave, and looks at their first lines.
//!
//! Symbolic links inside a folder are not followed: what is imported lies in the folders that were named, and no link
//! can make the walk go in circles. Only regular files are ever opened.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::copies::stamp_of;
use super::lines::LineReader;
use super::{Discovery, SkipReason};

/// A regular file below one of the paths.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// As reached from the path given.
    pub(super) path: PathBuf,
    /// Without links and detours: what tells two files apart.
    pub(super) canonical: PathBuf,
    pub(super) len_bytes: u64,
    /// See [`Source::stamp`](super::Source::stamp).
    pub(super) stamp: u64,
    /// The path itself was given, not a folder above it.
    pub(super) is_given: bool,
}

/// A header that stands later than this is not looked for; the file is then known by its name.
const MAX_FIRST_LINES: usize = 64;
/// Longer lines count as seen and are not shown.
const MAX_FIRST_LINE_BYTES: usize = 1024 * 1024;

impl FoundFile {
    /// The file's name; lossy where it is no UTF-8.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Shows the first lines until enough is known. Says whether there was any. What cannot be read after them is left
    /// to whoever reads the file.
    pub(super) fn look_at_first_lines(&self, mut look: impl FnMut(&[u8]) -> ControlFlow<()>) -> io::Result<bool> {
        let mut lines = LineReader::new(super::compressed::open(&self.path)?, MAX_FIRST_LINE_BYTES);
        for seen in 0..MAX_FIRST_LINES {
            let line = match lines.next_line() {
                Err(error) if seen == 0 => return Err(error),
                Ok(None) | Err(_) => return Ok(seen > 0),
                Ok(Some(line)) => line,
            };
            if line.text.is_ok_and(|text| look(text).is_break()) {
                break;
            }
        }
        Ok(true)
    }
}

/// Every regular file below the paths, each once, in byte order of the paths they were reached by.
pub(super) fn files_below(paths: &[PathBuf], now_millis: i64, discovery: &mut Discovery) -> Vec<FoundFile> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let canonical = match fs::canonicalize(path) {
            Ok(canonical) => canonical,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                discovery.missing.push(path.clone());
                continue;
            }
            Err(error) => {
                discovery.skip(path, SkipReason::Unreadable(error.to_string()));
                continue;
            }
        };
        walk(path, &canonical, now_millis, &mut found, &mut seen, discovery);
    }
    found.sort_by(|a, b| a.path.as_os_str().as_encoded_bytes().cmp(b.path.as_os_str().as_encoded_bytes()));
    found
}

fn walk(
    given: &Path,
    canonical: &Path,
    now_millis: i64,
    found: &mut Vec<FoundFile>,
    seen: &mut BTreeSet<PathBuf>,
    discovery: &mut Discovery,
) {
    let mut open = vec![(given.to_path_buf(), canonical.to_path_buf())];
    while let Some((path, canonical)) = open.pop() {
        let is_given = path == given;
        // The given path may be a link; its canonical form is none.
        let kind = match fs::symlink_metadata(&canonical) {
            Ok(kind) => kind,
            Err(error) => {
                discovery.skip(&path, SkipReason::Unreadable(error.to_string()));
                continue;
            }
        };
        if kind.is_symlink() {
            discovery.skip(&path, SkipReason::SymbolicLink);
        } else if kind.is_dir() {
            if !seen.insert(canonical.clone()) {
                continue;
            }
            let entries = fs::read_dir(&path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            match entries {
                Ok(entries) => open.extend(
                    entries.iter().map(|entry| (path.join(entry.file_name()), canonical.join(entry.file_name()))),
                ),
                Err(error) => discovery.skip(&path, SkipReason::Unreadable(error.to_string())),
            }
        } else if !kind.is_file() {
            discovery.skip(&path, SkipReason::NotAFile);
        } else if seen.insert(canonical.clone()) {
            let stamp = stamp_of(&kind, now_millis);
            found.push(FoundFile { path, canonical, len_bytes: kind.len(), stamp, is_given });
        }
    }
}
