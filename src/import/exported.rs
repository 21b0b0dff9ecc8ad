//! Sessions of other formats that lie beside a `sessions.json`, where an export puts them: their ids, keys and names are
//! what it says. Other programs write no such index, and their files are named by what stands in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::session_index::{self, IndexEntry};
use super::{Agents, DiscoverOptions, Discovery, Format, ImportError, SkipReason, Source};
use crate::model::AgentId;

/// Gives the sources that an index names what it says of them.
pub(super) fn name_by_index(
    discovery: &mut Discovery,
    agents: &mut Agents,
    options: &DiscoverOptions,
) -> Result<(), ImportError> {
    let mut indexes = Indexes::default();
    let mut incognito = Vec::new();
    for source in &mut discovery.sources {
        // The importer of those reads the index itself.
        if matches!(source.format, Format::OpenClaw | Format::Pi) {
            continue;
        }
        let agent = agents.of_file(&source.canonical_path, options)?;
        let Some(entry) = indexes.entry_of(&source.canonical_path, &agent) else { continue };
        if entry.key.is_incognito() {
            incognito.push(source.path.clone());
            continue;
        }
        source.agent = match entry.key.agent_part() {
            Some(name) => AgentId::parse(name).or_else(|_| agents.named(name))?,
            None => agent,
        };
        take_over(source, entry);
    }
    discovery.sources.retain(|source| !incognito.contains(&source.path));
    for path in incognito {
        discovery.skip(&path, SkipReason::Incognito);
    }
    Ok(())
}

fn take_over(source: &mut Source, entry: &IndexEntry) {
    source.session_id.clone_from(&entry.session_id);
    source.session_key.clone_from(&entry.key);
    source.facts.clone_from(&entry.facts);
    source.is_named = true;
    source.is_current = entry.is_current;
    source.age = entry.age;
}

/// The indexes that were looked at, by folder: the entries by the file they name.
#[derive(Default)]
struct Indexes(HashMap<PathBuf, HashMap<PathBuf, IndexEntry>>);

impl Indexes {
    fn entry_of(&mut self, file: &Path, agent: &AgentId) -> Option<&IndexEntry> {
        let folder = file.parent()?;
        let entries = self.0.entry(folder.to_path_buf()).or_insert_with(|| read(folder, agent));
        entries.get(file)
    }
}

fn read(folder: &Path, agent: &AgentId) -> HashMap<PathBuf, IndexEntry> {
    let path = folder.join("sessions.json");
    if !std::fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_file()) {
        return HashMap::new();
    }
    // One that can't be read is reported by OpenClaw's importer.
    let entries = session_index::read(&path, agent).unwrap_or_default();
    let named = |entry: IndexEntry| {
        let text = entry.session_file.as_deref()?;
        let found = session_index::file_candidates(text, folder);
        let inside = found.paths.into_iter().find(|path| path.parent() == Some(folder))?;
        Some((inside, entry))
    };
    entries.into_iter().filter_map(named).collect()
}
