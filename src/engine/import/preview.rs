//! What an import would take, without a store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use super::{ImportError, ImportOptions, SkippedFile};
use crate::import;
use crate::model::{AgentId, Timestamp};

/// What an import of some paths would take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImportPreview {
    /// The same by path, format and agent.
    pub places: Vec<PreviewPlace>,
    /// Sessions.
    pub sessions: u64,
    /// Files of these.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that would not be read.
    pub files_skipped: Vec<SkippedFile>,
}

/// What is to be had below one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewPlace {
    /// The path as named.
    pub path: String,
    /// The format of the files.
    pub format: &'static str,
    /// Whose sessions they would be.
    pub agent: AgentId,
    /// Sessions.
    pub sessions: u64,
    /// Files of these.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is summed up for one place.
#[derive(Default)]
struct Sum {
    ids: BTreeSet<String>,
    files: u64,
    bytes: u64,
}

impl ImportPreview {
    /// Looks at the beginning of every file below the paths. `agent`: whose sessions they are where no path says so.
    ///
    /// # Errors
    /// [`ImportError`]: a path is not there, or agents can't be told apart.
    pub fn of(
        agent: &AgentId,
        paths: &[PathBuf],
        options: &ImportOptions,
        now: Timestamp,
    ) -> Result<Self, ImportError> {
        let found = import::discover(paths, &options.discover(agent.clone(), now))?;
        if let Some(path) = found.missing.into_iter().next() {
            return Err(ImportError::MissingPath { path });
        }
        let mut preview = Self::default();
        let mut places: BTreeMap<(usize, &'static str, AgentId), Sum> = BTreeMap::new();
        for source in found.sources {
            let below = paths.iter().position(|path| source.path.starts_with(path)).unwrap_or(0);
            let place = places.entry((below, source.format.name(), source.agent.clone())).or_default();
            place.ids.insert(source.session_id.as_str().to_owned());
            place.files += 1;
            place.bytes += source.len_bytes;
        }
        for ((below, format, agent), Sum { ids, files, bytes }) in places {
            let path = paths.get(below).map(|path| path.display().to_string()).unwrap_or_default();
            let sessions = ids.len() as u64;
            preview.sessions += sessions;
            preview.files += files;
            preview.bytes += bytes;
            preview.places.push(PreviewPlace { path, format, agent, sessions, files, bytes });
        }
        preview.files_skipped = found
            .skipped
            .into_iter()
            .map(|(path, reason)| SkippedFile { path: path.display().to_string(), reason: reason.to_string() })
            .collect();
        Ok(preview)
    }
}
