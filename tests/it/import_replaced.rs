//! Sources that no longer hold what they held when they were imported (D26): the owner's new content takes the place of
//! the old one, in one step, unless there is a reason to doubt it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use sessions_search::{
    AppendRequest, Engine, ImportOptions, ImportSummary, OpenOptions, SearchRequest, SessionKey, Timestamp,
};

use crate::imported::{Imported, assert_unchanged, counts};

fn header(id: &str) -> String {
    format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\"}}\n")
}

fn said(id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-02-01T09:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn chain(id: &str, texts: &[String]) -> String {
    let mut file = header(id);
    for (n, text) in texts.iter().enumerate() {
        let parent = n.checked_sub(1).map(|n| format!("m{n}")).unwrap_or_default();
        file += &said(&format!("m{n}"), &parent, text);
    }
    file
}

fn texts(word: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{word} otter {n} {}", "padding ".repeat(30))).collect()
}

#[test]
fn an_edit_anywhere_in_a_file_replaces_its_session() {
    // Longer than any last part that a cheap mark would look at.
    let mut lines = texts("old", 60);
    let store = Imported::with(&[("s.jsonl", &chain("s", &lines))]);
    assert_eq!(counts(&store.import()), [61, 60, 0, 0]);
    let created = store.session("s").updated_at;
    for at in [0, 30, 59] {
        lines[at] = lines[at].replacen("old", "new", 1);
        store.write("s.jsonl", chain("s", &lines).as_bytes());
        let summary = store.import();
        assert_eq!((counts(&summary), summary.sessions), ([61, 60, 0, 0], 1), "{summary:?}");
        assert_eq!(store.found(&format!("new otter {at}")), [format!("s/m{at}")]);
        assert_eq!(store.found(&format!("old otter {at}")), Vec::<String>::new());
        assert_eq!(store.found("otter").len(), 60);
        assert_unchanged(&store.import());
    }
    assert_eq!((store.sessions().len(), store.session("s").updated_at), (1, created));

    // Cut at a line, then grown: both as the file says.
    store.write("s.jsonl", chain("s", &lines[..10]).as_bytes());
    assert_eq!(counts(&store.import()), [11, 10, 0, 0]);
    assert_eq!(store.found("otter").len(), 10);
    store.append("s.jsonl", &said("n", "m9", "grown otter"));
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("otter").len(), 11);
    assert_eq!(store.history("s").len(), 11);
}

#[test]
fn a_file_that_is_torn_empty_or_garbage_takes_nothing_away() {
    let whole = chain("s", &texts("old", 5));
    let store = Imported::with(&[("s.jsonl", &whole)]);
    store.import();
    let new = chain("s", &texts("new", 9));
    let torn = &new[..new.len() - 20];
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("torn", torn.as_bytes()),
        ("torn at its beginning", &new.as_bytes()[..20]),
        ("header alone", header("s").as_bytes()),
        ("zeros", &[0; 500]),
        ("blank", b"\n\n\n"),
        ("garbage", b"<html>\n<body>\n"),
    ] {
        store.write("s.jsonl", bytes);
        let summary = store.import();
        assert_eq!((summary.events, summary.files_skipped.len()), (0, 1), "{name}: {summary:?}");
        assert_eq!(store.found("old otter").len(), 5, "{name}");
        assert_eq!(store.history("s").len(), 5, "{name}");
    }
    // Gone, and as it was: nothing is new.
    fs::remove_file(store.path("s.jsonl")).unwrap();
    assert_unchanged(&store.import());
    store.write("s.jsonl", whole.as_bytes());
    assert_unchanged(&store.import());
    // Whole in the end.
    store.write("s.jsonl", new.as_bytes());
    assert_eq!(counts(&store.import()), [10, 9, 0, 0]);
    assert_eq!((store.found("old").len(), store.found("new").len()), (0, 9));
}

#[test]
fn what_only_another_file_holds_is_compared_anew() {
    let lines = texts("old", 3);
    let longer = [chain("s", &lines), said("x", "m2", "extension otter")].concat();
    let store = Imported::with(&[("a/s.jsonl", &chain("s", &lines)), ("b/s.jsonl", &longer)]);
    assert_eq!(counts(&store.import()), [5, 4, 0, 0]);

    // The owner alone: the other file's line is not in this run, so nothing is taken away.
    let mut edited = lines.clone();
    edited[0] = edited[0].replace("old", "new");
    store.write("a/s.jsonl", chain("s", &edited).as_bytes());
    let summary = store.import_from(&store.path("a"));
    assert!(summary.files_skipped[0].reason.contains("came from elsewhere"), "{summary:?}");
    assert_eq!(store.found("otter").len(), 4);

    // Both: the owner is replaced, and the copy, which shares lines in another order of things, is compared with it.
    store.write("a/s.jsonl", chain("s", &lines[..2]).as_bytes());
    let summary = store.import();
    assert_eq!((summary.events, summary.sessions), (5, 1), "{summary:?}");
    assert_eq!(store.found("extension otter"), ["s/x"]);
    assert_eq!(store.found("otter").len(), 4);
    assert_unchanged(&store.import());
}

#[test]
fn names_keys_and_archiving_survive_a_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.jsonl");
    fs::write(&file, chain("s", &texts("old", 3))).unwrap();
    let engine = open(&folder.path().join("store"));
    import(&engine, &file);
    let (old, new) = (SessionKey::parse("agent:main:pi:s").unwrap(), SessionKey::parse("agent:main:otters").unwrap());
    engine.rekey(&old, &new).unwrap();
    engine.set_archived(&new, true).unwrap();
    fs::write(&file, chain("s", &texts("new", 4))).unwrap();
    assert_eq!(import(&engine, &file).events, 5);
    let hit = &engine.search(&SearchRequest::new("otter")).unwrap().results[0];
    assert_eq!((hit.session_key.as_str(), hit.session_id.as_str()), ("agent:main:otters", "s"));
    let status = engine.status().unwrap();
    assert_eq!((status.sessions, status.events, status.documents), (1, 5, 4));
    assert!(status.pending.is_empty());
    engine.close().unwrap();
    let engine = open(&folder.path().join("store"));
    let status = engine.status().unwrap();
    assert_eq!((status.sessions, status.events, status.documents), (1, 5, 4));
    assert_eq!(engine.search(&SearchRequest::new("new otter")).unwrap().results.len(), 4);
    assert_eq!(engine.search(&SearchRequest::new("old otter")).unwrap().results.len(), 0);
}

/// Deleting on purpose wins over whatever the file says later.
#[test]
fn a_deleted_session_is_not_replaced() {
    let store = Imported::with(&[("s.jsonl", &chain("s", &texts("old", 3)))]);
    store.import();
    store.delete("s");
    store.write("s.jsonl", chain("s", &texts("new", 3)).as_bytes());
    let summary = store.import();
    assert_eq!((summary.events, summary.files_skipped.len()), (0, 1), "{summary:?}");
    assert_eq!(store.found("otter"), Vec::<String>::new());
}

#[test]
fn searches_see_the_old_content_or_the_new_one_and_never_less() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.jsonl");
    // More than one batch.
    let count = 5_000;
    let lines = |word: &str| (0..count).map(|n| format!("{word} otter {n}")).collect::<Vec<_>>();
    fs::write(&file, chain("s", &lines("old"))).unwrap();
    let engine = open(&folder.path().join("store"));
    import(&engine, &file);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let mut request = SearchRequest::new("otter");
                request.limit = 10_000;
                let answer = engine.search(&request).unwrap();
                let old = answer.results.iter().filter(|hit| hit.snippet.contains("old")).count();
                assert!(old == 0 || old == count, "{old} of {}", answer.results.len());
                assert_eq!(answer.results.len(), count);
                assert!(!answer.indexing);
                seen = if old == 0 { (seen.0, seen.1 + 1) } else { (seen.0 + 1, seen.1) };
            }
            seen
        });
        for word in ["new", "newer"] {
            fs::write(&file, chain("s", &lines(word))).unwrap();
            assert_eq!(import(&engine, &file).events as usize, count + 1);
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap().0 > 0);
    });
}

#[test]
fn a_file_with_the_same_size_and_times_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.jsonl");
    fs::write(&file, chain("s", &texts("old", 3))).unwrap();
    let settled = SystemTime::now() - Duration::from_secs(60);
    let set_time = || fs::File::options().append(true).open(&file).unwrap().set_modified(settled).unwrap();
    set_time();
    let engine = open(&folder.path().join("store"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    let at_now = |engine: &Engine| {
        let now = Timestamp::from_millis(now).unwrap();
        engine.import(std::slice::from_ref(&file), &ImportOptions::default(), now, &mut |_| {}).unwrap()
    };
    assert_eq!(at_now(&engine).events, 4);
    let summary = at_now(&engine);
    assert_eq!((summary.files, summary.events), (1, 0), "{summary:?}");
    // An edit of the same size, at the same time as the clock of files tells it: another file all the same.
    let edited = fs::read_to_string(&file).unwrap().replace("old", "new");
    fs::write(&file, edited).unwrap();
    set_time();
    if cfg!(unix) {
        assert_eq!(at_now(&engine).events, 4);
        assert_eq!(engine.search(&SearchRequest::new("new otter")).unwrap().results.len(), 3);
    }
}

fn open(root: &std::path::Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn import(engine: &Engine, file: &std::path::Path) -> ImportSummary {
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    engine.import(&[file.to_path_buf()], &ImportOptions::default(), now, &mut |_| {}).unwrap()
}

/// A message that was appended to an imported session is nowhere else.
#[test]
fn what_was_appended_is_never_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.jsonl");
    fs::write(&file, chain("s", &texts("old", 3))).unwrap();
    let engine = open(&folder.path().join("store"));
    import(&engine, &file);
    let key = SessionKey::parse("agent:main:pi:s").unwrap();
    let line = said("n", "m2", "appended otter").trim().to_owned().into_bytes();
    engine.append(AppendRequest::new(key, vec![line]), Timestamp::from_millis(1).unwrap()).unwrap();
    fs::write(&file, chain("s", &texts("new", 3))).unwrap();
    let summary = import(&engine, &file);
    assert!(summary.files_skipped[0].reason.contains("kept as it is"), "{summary:?}");
    assert_eq!(engine.search(&SearchRequest::new("otter")).unwrap().results.len(), 4);
}
