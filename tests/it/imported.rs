//! A folder of transcripts, and the store they are imported into by the public engine.

use std::fs;
use std::path::{Path, PathBuf};

use sessions_search::{
    Engine, HistoryRequest, ImportOptions, ImportSummary, ListRequest, OpenOptions, SearchRequest, SessionSummary,
    Timestamp,
};

pub(crate) struct Imported {
    files: tempfile::TempDir,
    engine: Engine,
    _store: tempfile::TempDir,
    pub(crate) options: ImportOptions,
}

impl Imported {
    /// A store with nothing in it and a folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let store = tempfile::tempdir().unwrap();
        let mut options = OpenOptions::default();
        options.create = true;
        let engine = Engine::open(store.path(), options).unwrap();
        let imported =
            Self { files: tempfile::tempdir().unwrap(), engine, _store: store, options: ImportOptions::default() };
        for (name, text) in files {
            imported.write(name, text.as_bytes());
        }
        imported
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn append(&self, name: &str, text: &str) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        bytes.extend_from_slice(text.as_bytes());
        self.write(name, &bytes);
    }

    /// Imports the whole folder.
    pub(crate) fn import(&self) -> ImportSummary {
        self.import_from(self.files.path())
    }

    pub(crate) fn import_from(&self, path: &Path) -> ImportSummary {
        let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
        self.engine.import(&[path.to_path_buf()], &self.options, now, &mut |_| {}).unwrap()
    }

    /// `session/message` of each hit, sorted.
    pub(crate) fn found(&self, query: &str) -> Vec<String> {
        let mut request = SearchRequest::new(query);
        request.limit = 10_000;
        let answer = self.engine.search(&request).unwrap();
        assert_eq!(answer.coverage.pending, 0, "what an import brings is searchable when it returns");
        let hit = |hit: &sessions_search::Hit| format!("{}/{}", hit.session_id, hit.message_id);
        let mut hits: Vec<_> = answer.results.iter().map(hit).collect();
        hits.sort();
        hits
    }

    pub(crate) fn sessions(&self) -> Vec<SessionSummary> {
        let request = ListRequest { limit: 10_000, ..ListRequest::default() };
        let mut sessions = self.engine.sessions(&request).unwrap().sessions;
        sessions.sort_by(|a, b| a.session_id.cmp(&b.session_id));
        sessions
    }

    pub(crate) fn session(&self, id: &str) -> SessionSummary {
        let sessions = self.sessions();
        sessions
            .iter()
            .find(|session| session.session_id.as_str() == id)
            .unwrap_or_else(|| panic!("{sessions:?}"))
            .clone()
    }

    /// `role: text` of each message, or its blocks where there is more than text.
    pub(crate) fn history(&self, session: &str) -> Vec<String> {
        let mut request = HistoryRequest::new(session);
        request.include_tools = true;
        request.limit = 1_000;
        let shown = |message: sessions_search::HistoryMessage| match message.blocks {
            None => format!("{}: {}", message.role, message.text),
            Some(blocks) => {
                let shown = |block: sessions_search::HistoryBlock| {
                    let parts = [block.name, block.text, block.bytes.map(|bytes| format!("({bytes} bytes)"))];
                    format!("{}[{}]", block.kind, parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
                };
                format!("{}: {}", message.role, blocks.into_iter().map(shown).collect::<Vec<_>>().join(" "))
            }
        };
        self.engine.history(&request).unwrap().messages.into_iter().map(shown).collect()
    }

    pub(crate) fn delete(&self, session: &str) {
        let id = sessions_search::SessionId::parse(session).unwrap();
        self.engine.delete_session(&id, Timestamp::from_millis(1).unwrap()).unwrap();
    }
}

/// The numbers of a summary that say what became of the lines.
pub(crate) fn counts(summary: &ImportSummary) -> [u64; 4] {
    [summary.events, summary.messages, summary.skipped, summary.rejected_total]
}

/// Asserts that an import changed nothing.
pub(crate) fn assert_unchanged(summary: &ImportSummary) {
    assert_eq!((counts(summary), summary.sessions, summary.warnings_total), ([0; 4], 0, 0), "{summary:?}");
}
