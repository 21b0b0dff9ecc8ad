//! The stores of several agents, what can be seen in them, and their lines as they are exported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sessions_search::{
    AgentId, Engine, ExportOptions, ImportOptions, ImportSummary, ListRequest, OpenOptions, SearchRequest,
    SessionSummary, Timestamp,
};

/// When everything happens.
pub(crate) const NOW: i64 = 1_785_000_000_000;

/// The stores of several agents.
pub(crate) struct Stores(tempfile::TempDir);

impl Stores {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn imported(path: &Path) -> Self {
        let stores = Self::new();
        stores.import(path, &ImportOptions::default());
        stores
    }

    pub(crate) fn import(&self, path: &Path, options: &ImportOptions) -> ImportSummary {
        let now = Timestamp::from_millis(NOW).unwrap();
        self.engine("main").import(&[path.to_path_buf()], options, now, &mut |_| {}).unwrap()
    }

    pub(crate) fn engine(&self, agent: &str) -> Engine {
        let mut options = OpenOptions::default();
        options.create = true;
        options.agent = AgentId::parse(agent).unwrap();
        Engine::open(self.0.path(), options).unwrap()
    }

    pub(crate) fn agents(&self) -> Vec<String> {
        let folders = fs::read_dir(self.0.path().join("agents")).unwrap();
        let mut agents: Vec<String> =
            folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
        agents.sort();
        agents
    }

    /// Every agent's sessions, in a folder.
    pub(crate) fn exported(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for agent in self.agents() {
            self.engine(&agent).export(folder.path(), &ExportOptions::default(), &mut |_| {}).unwrap();
        }
        folder
    }

    /// What can be seen of every agent: sessions, and what searches for these words find.
    pub(crate) fn seen(&self, words: &[String]) -> Vec<(String, Vec<SessionSummary>, Vec<Value>)> {
        let mut seen = Vec::new();
        for agent in self.agents() {
            let engine = self.engine(&agent);
            let mut sessions = Vec::new();
            for archived in [false, true] {
                let request = ListRequest { archived, limit: 10_000, ..ListRequest::default() };
                sessions.extend(engine.sessions(&request).unwrap().sessions);
            }
            let found = words.iter().map(|word| {
                let mut request = SearchRequest::new(word);
                request.limit = 10_000;
                serde_json::to_value(engine.search(&request).unwrap()).unwrap()
            });
            seen.push((agent.clone(), sessions, found.collect()));
        }
        seen
    }
}

/// Every file below a folder, by its path in it.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Some words of the files, to search for.
fn words_of(files: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for bytes in files.values() {
        let text = String::from_utf8_lossy(bytes);
        for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().count() > 2) {
            *counts.entry(word.to_lowercase()).or_default() += 1;
        }
    }
    let step = (counts.len() / 60).max(1);
    counts.into_keys().step_by(step).collect()
}

fn first_difference(one: &str, two: &str) -> String {
    let (mut one, mut two) = (one.lines(), two.lines());
    loop {
        match (one.next(), two.next()) {
            (Some(a), Some(b)) if a == b => {}
            (a, b) => return format!("{a:?}\n{b:?}"),
        }
    }
}

/// Both hold the same sessions and events, and answer alike.
pub(crate) fn assert_same(first: &Stores, second: &Stores, what: &str) {
    let (one, two) = (files(first.exported().path()), files(second.exported().path()));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in &one {
        let texts = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&two[name]));
        assert!(*bytes == two[name], "{what} {name}\n{}", first_difference(&texts.0, &texts.1));
    }
    let words = words_of(&one);
    for (one, two) in first.seen(&words).iter().zip(&second.seen(&words)) {
        assert_eq!((&one.0, &one.1), (&two.0, &two.1), "{what}");
        for (word, (one, two)) in words.iter().zip(one.2.iter().zip(&two.2)) {
            assert_eq!(one, two, "{what} {word}");
        }
    }
}
