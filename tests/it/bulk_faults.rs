//! A bulk import whose index can't be written for a while: everything it brought is found, once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sessions_search::__internal::faults::{Content, FileLock, Files, NewFile, OpenedFile, SystemFiles};
use sessions_search::{Engine, ImportOptions, OpenOptions, SearchRequest, Timestamp};

/// The disk, on which some of the new files of an index can't be made.
#[derive(Debug)]
struct Failing {
    created: AtomicU64,
    from: u64,
    until: u64,
}

impl Files for Failing {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        SystemFiles.create_folder(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        SystemFiles.sync_folder(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        SystemFiles.list(folder)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        SystemFiles.exists(path)
    }
    fn len_bytes(&self, path: &Path) -> io::Result<u64> {
        SystemFiles.len_bytes(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        SystemFiles.read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove_file(path)
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove_folder(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if path.parent().is_some_and(|parent| parent.ends_with("index")) {
            let n = self.created.fetch_add(1, Ordering::Relaxed);
            if (self.from..self.until).contains(&n) {
                return Err(io::Error::other("no room"));
            }
        }
        SystemFiles.create(path)
    }
    fn open(&self, path: &Path, create: bool) -> io::Result<OpenedFile> {
        SystemFiles.open(path, create)
    }
    fn content(&self, path: &Path) -> io::Result<Content> {
        SystemFiles.content(path)
    }
    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<FileLock>> {
        SystemFiles.lock(path, wait)
    }
}

fn write_files(folder: &Path, sessions: usize, messages: usize) -> PathBuf {
    let files = folder.join("files");
    fs::create_dir_all(&files).unwrap();
    for session in 0..sessions {
        let mut text = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"s{session}\"}}\n");
        for n in 0..messages {
            let line = serde_json::json!({ "type": "message", "id": format!("s{session}m{n}"),
                "timestamp": 1_700_000_000_000_i64,
                "message": { "role": "user", "content": [{ "type": "text", "text": format!("coffee {n}") }] } });
            text.push_str(&format!("{line}\n"));
        }
        fs::write(files.join(format!("s{session}.jsonl")), text).unwrap();
    }
    files
}

fn found(engine: &Engine) -> Vec<String> {
    let mut request = SearchRequest::new("coffee");
    request.limit = 10_000;
    let answer = engine.search(&request).unwrap();
    let mut ids: Vec<String> = answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn what_a_failing_index_lost_of_a_bulk_import_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    // Rows of several transactions, so that a failure falls between them.
    let files = write_files(folder.path(), 6, 1_500);
    let mut expected: Vec<String> = (0..6).flat_map(|s| (0..1_500).map(move |m| format!("s{s}m{m}"))).collect();
    expected.sort();
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    for from in (0..24).step_by(3) {
        let root = folder.path().join(format!("store{from}"));
        let failing = Arc::new(Failing { created: AtomicU64::new(0), from, until: from + 3 });
        let mut options = OpenOptions::default();
        options.create = true;
        options.files = failing;
        options.tuning.bulk_bytes = 0;
        options.tuning.bulk_checkpoint_documents = 2_000;
        let engine = Engine::open(&root, options).unwrap();
        // It may end early, where the index could not be written at its end; a later one goes on.
        let import =
            || engine.import(std::slice::from_ref(&files), &ImportOptions::default(), now, &mut |_| {}).is_ok();
        assert!((0..4).any(|_| import()), "{from}: three failures can't end four imports");
        assert!(found(&engine) == expected, "{from}: {} of {}", found(&engine).len(), expected.len());
        engine.checkpoint().unwrap();
        assert!(found(&engine) == expected, "{from}: after a checkpoint");
        drop(engine);
        let engine = Engine::open(&root, OpenOptions::default()).unwrap();
        assert!(engine.wait_for_indexing(std::time::Duration::from_secs(60)));
        assert!(found(&engine) == expected, "{from}: opened again");
        assert_eq!(engine.status().unwrap().documents, 9_000, "{from}");
    }
}
