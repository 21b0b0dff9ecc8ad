//! Importing into a store: nothing twice, nothing lost, in bulk past the tail as well as through it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sessions_search::{Engine, ImportOptions, ImportSummary, OpenOptions, SearchRequest, Timestamp};

use crate::corpus;
use crate::model::{Message, append_lines};

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn import(engine: &Engine, path: &Path) -> ImportSummary {
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    engine.import(&[path.to_owned()], &ImportOptions::default(), now, &mut |_| {}).unwrap()
}

/// Writes a corpus as OpenClaw's files, a session a conversation; gives how many messages have text.
fn write_files(folder: &Path, messages: &[corpus::Message]) -> (PathBuf, usize) {
    let sessions = folder.join("files/agents/main/sessions");
    fs::create_dir_all(&sessions).unwrap();
    let mut searchable = 0;
    for (n, message) in messages.iter().enumerate() {
        let path = sessions.join(format!("c{}.jsonl", message.conversation));
        let mut file = fs::read_to_string(&path).unwrap_or_else(|_| {
            format!("{{\"type\":\"session\",\"version\":3,\"id\":\"c{}\"}}\n", message.conversation)
        });
        let line = serde_json::json!({ "type": "message", "id": format!("m{n}"), "timestamp": 1_700_000_000_000_i64,
            "message": { "role": "user", "content": [{ "type": "text", "text": message.text }] } });
        file.push_str(&line.to_string());
        file.push('\n');
        fs::write(&path, file).unwrap();
        searchable += usize::from(!message.text.trim_matches(sessions_search::__internal::is_js_space).is_empty());
    }
    (folder.join("files"), searchable)
}

fn all(engine: &Engine, query: &str) -> Vec<(String, f64, String)> {
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    let answer = engine.search(&request).unwrap();
    assert!(!answer.indexing);
    answer.results.into_iter().map(|hit| (hit.message_id.as_str().to_owned(), hit.score, hit.snippet)).collect()
}

#[test]
fn a_large_import_in_bulk_answers_like_a_small_one_through_the_tail() {
    let folder = tempfile::tempdir().unwrap();
    let messages = corpus::invented(21, 12_000);
    let (files, searchable) = write_files(folder.path(), &messages);
    let bytes: u64 = walk(&files).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes > 4 * 1024 * 1024, "{bytes} bytes are no bulk import");

    let bulk = open(&folder.path().join("bulk"));
    let summary = import(&bulk, &files);
    assert_eq!((summary.messages as usize, summary.rejected_total), (searchable, 0));
    let status = bulk.status().unwrap();
    assert_eq!((status.tail, status.documents as usize, status.pending.len()), (0, searchable, 0));

    // The same files one by one: each is small, so all go through the tail.
    let small = open(&folder.path().join("small"));
    for path in walk(&files) {
        import(&small, &path);
    }
    for query in ["a", "cold-brew", "don't café", "the", "会议", "foo_bar", "naïve straße"] {
        let (ours, theirs) = (all(&bulk, query), all(&small, query));
        assert_eq!(ours.len(), theirs.len(), "{query}");
        assert!(ours == theirs, "{query}");
    }

    let again = import(&bulk, &files);
    assert_eq!((again.events, again.rejected_total), (0, 0));
    bulk.close().unwrap();
    let reopened = open(&folder.path().join("bulk"));
    assert_eq!(reopened.status().unwrap().documents as usize, searchable);
    assert_eq!(all(&reopened, "cold-brew"), all(&small, "cold-brew"));
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

#[test]
fn a_bulk_import_slower_than_the_idle_time_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let messages = corpus::invented(24, 12_000);
    let expected = messages.iter().filter(|message| message.text.contains("cold-brew")).count();
    let (files, searchable) = write_files(folder.path(), &messages);
    let engine = open(&folder.path().join("store"));
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    let mut pauses = 0;
    // Between two batches the background thread finds the store at rest, with documents in the writer alone.
    let mut pause = |at: &sessions_search::ImportProgress| {
        if at.events > 4_000 && pauses == 0 {
            pauses += 1;
            std::thread::sleep(std::time::Duration::from_millis(3_000));
        }
    };
    engine.import(&[files], &ImportOptions::default(), now, &mut pause).unwrap();
    let mut request = SearchRequest::new("a");
    request.explain = true;
    let explanation = engine.search(&request).unwrap().explain.unwrap();
    assert_eq!(explanation.documents as usize, searchable);
    assert_eq!(all(&engine, "cold-brew").len(), expected);
    engine.close().unwrap();
    assert_eq!(all(&open(&folder.path().join("store")), "cold-brew").len(), expected);
}

/// The longest that an append or a search may take beside an import: far more than a batch or a commit of the index does.
const SLOWEST_BESIDE_AN_IMPORT: Duration = Duration::from_secs(5);

#[test]
fn a_bulk_import_lets_appends_and_searches_through() {
    let folder = tempfile::tempdir().unwrap();
    let (files, searchable) = write_files(folder.path(), &corpus::invented(25, 12_000));
    let mut options = OpenOptions::default();
    options.create = true;
    // The index is committed several times in the import, and the tail is full of the appends meanwhile.
    options.tuning.bulk_checkpoint_documents = 2_000;
    options.tuning.checkpoint_documents = 8;
    let engine = Engine::open(&folder.path().join("store"), options).unwrap();
    let imported = AtomicBool::new(false);
    let (appended, slowest) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let (mut appended, mut slowest) = (0, Duration::ZERO);
            while !imported.load(Ordering::Acquire) {
                let started = Instant::now();
                let message = Message::new(&format!("beside{appended}"), &format!("zebrafish number{appended}"));
                append_lines(&engine, "beside", vec![message.line(false)]).unwrap();
                appended += 1;
                slowest = slowest.max(started.elapsed());
                let started = Instant::now();
                let mut request = SearchRequest::new("zebrafish");
                request.limit = 10_000;
                assert_eq!(engine.search(&request).unwrap().results.len(), appended, "found at once");
                slowest = slowest.max(started.elapsed());
            }
            (appended, slowest)
        });
        let summary = import(&engine, &files);
        imported.store(true, Ordering::Release);
        assert_eq!((summary.messages as usize, summary.rejected_total), (searchable, 0));
        beside.join().unwrap()
    });
    assert!(appended >= 10, "only {appended} appends got through");
    assert!(slowest < SLOWEST_BESIDE_AN_IMPORT, "{slowest:?}");
    assert_eq!(engine.status().unwrap().documents as usize, searchable + appended);
}

#[test]
fn branches_in_a_bulk_import_are_resolved_when_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let (files, searchable) = write_files(folder.path(), &corpus::invented(22, 12_000));
    let session = files.join("agents/main/sessions/branched.jsonl");
    let lines = [
        r#"{"type":"session","version":3,"id":"branched"}"#,
        r#"{"type":"message","id":"b1","parentId":null,"message":{"role":"user","content":"ottermap one"}}"#,
        r#"{"type":"message","id":"b2","parentId":"b1","message":{"role":"assistant","content":"ottermap two"}}"#,
        r#"{"type":"leaf","id":"b3","parentId":"b2","targetId":"b1"}"#,
        r#"{"type":"message","id":"b4","parentId":"b1","message":{"role":"assistant","content":"ottermap three"}}"#,
    ];
    fs::write(&session, lines.join("\n") + "\n").unwrap();
    let engine = open(&folder.path().join("store"));
    import(&engine, &files);
    let mut ids: Vec<String> = all(&engine, "ottermap").into_iter().map(|(id, ..)| id).collect();
    ids.sort();
    assert_eq!(ids, ["b1", "b4"]);
    assert_eq!(engine.status().unwrap().documents as usize, searchable + 2);

    // Grown: one more line, and a rewind of it.
    let more = [
        r#"{"type":"message","id":"b5","parentId":"b4","message":{"role":"user","content":"ottermap four"}}"#,
        r#"{"type":"leaf","id":"b6","parentId":"b5","targetId":"b2"}"#,
    ];
    fs::write(&session, lines.join("\n") + "\n" + &more.join("\n") + "\n").unwrap();
    assert_eq!(import(&engine, &files).events, 2);
    let mut ids: Vec<String> = all(&engine, "ottermap").into_iter().map(|(id, ..)| id).collect();
    ids.sort();
    assert_eq!(ids, ["b1", "b2"]);
}

#[test]
fn an_import_that_a_crash_ends_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (files, searchable) = write_files(folder.path(), &corpus::invented(23, 12_000));
    let store = folder.path().join("store");
    let engine = open(&store);
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        engine.import(std::slice::from_ref(&files), &ImportOptions::default(), now, &mut |at| {
            assert!(at.events < 4_000, "stop here");
        })
    }));
    assert!(stopped.is_err());
    drop(engine);
    let engine = open(&store);
    import(&engine, &files);
    assert!(engine.wait_for_indexing(std::time::Duration::from_secs(60)));
    assert_eq!(engine.status().unwrap().documents as usize, searchable);
}
