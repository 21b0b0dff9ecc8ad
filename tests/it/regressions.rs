//! Faults that were found by using it, each with a test named after it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sessions_search::{
    AppendError, AppendRequest, Engine, HistoryError, HistoryRequest, ImportOptions, ImportSummary, OpenOptions,
    ReindexRequest, SearchError, SearchRequest, SessionId, SessionKey, Timestamp,
};

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_785_000_000_000).unwrap()
}

fn said(id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    format!(r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{{"role":"user","content":"{text}"}}}}"#)
}

fn append(engine: &Engine, key: &str, id: &str, lines: Vec<String>) -> Vec<bool> {
    let mut request =
        AppendRequest::new(SessionKey::parse(key).unwrap(), lines.into_iter().map(String::into_bytes).collect());
    request.session_id = Some(SessionId::parse(id).unwrap());
    engine.append(request, now()).unwrap().into_iter().map(|place| place.unwrap().indexed).collect()
}

fn import(engine: &Engine, path: &Path) -> ImportSummary {
    engine.import(&[path.to_owned()], &ImportOptions::default(), now(), &mut |_| {}).unwrap()
}

fn found(engine: &Engine, query: &str) -> Vec<String> {
    let answer = engine.search(&SearchRequest::new(query)).unwrap();
    let mut ids: Vec<String> = answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn a_source_that_lost_its_end_or_was_edited_takes_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("d1.jsonl");
    let header = r#"{"type":"session","version":3,"id":"d1"}"#;
    let whole = [header.to_owned(), said("a", "", "otter a"), said("b", "a", "otter b"), said("c", "b", "otter c")];
    fs::write(&file, whole.join("\n") + "\n").unwrap();
    let engine = open(&folder.path().join("store"));
    import(&engine, &file);
    append(&engine, "agent:main:pi:d1", "d1", vec![said("n", "c", "otter appended")]);
    assert_eq!(found(&engine, "otter"), ["a", "b", "c", "n"]);

    fs::write(&file, whole[..2].join("\n") + "\n").unwrap();
    let summary = import(&engine, &file);
    assert_eq!((summary.events, summary.files_skipped.len()), (0, 1));
    assert_eq!(found(&engine, "otter"), ["a", "b", "c", "n"]);

    let edited =
        [header.to_owned(), said("a", "", "otter edited"), said("b", "a", "otter b"), said("x", "b", "otter x")];
    fs::write(&file, edited.join("\n") + "\n").unwrap();
    let summary = import(&engine, &file);
    assert_eq!(summary.files_skipped.len(), 1);
    assert!(summary.files_skipped[0].reason.contains("kept as it is"), "{:?}", summary.files_skipped);
    assert_eq!(found(&engine, "otter"), ["a", "b", "c", "n"]);
}

#[test]
fn rotten_bytes_of_the_index_never_panic_and_never_stay() {
    let pristine = tempfile::tempdir().unwrap();
    let engine = open(pristine.path());
    for session in 0..4 {
        let lines =
            (0..200).map(|n| said(&format!("m{n}"), "", &format!("otter{n} zeta-zeta alpha beta{}", n % 7))).collect();
        append(&engine, "agent:main:main", &format!("s{session}"), lines);
    }
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    let agent = pristine.path().join("agents/main");
    let mut flips = 0;
    for entry in fs::read_dir(agent.join("index")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let ending = name.rsplit('.').next().unwrap_or_default().to_owned();
        if !["term", "idx", "pos", "fast"].contains(&ending.as_str()) {
            continue;
        }
        let bytes = fs::read(agent.join("index").join(&name)).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 12 + 1) {
            flips += 1;
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("agents/main");
            fs::create_dir_all(copy.join("index")).unwrap();
            fs::copy(agent.join("transcripts.redb"), copy.join("transcripts.redb")).unwrap();
            for entry in fs::read_dir(agent.join("index")).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), copy.join("index").join(entry.file_name())).unwrap();
            }
            let mut rotten = bytes.clone();
            for byte in rotten.iter_mut().skip(at).take(8) {
                *byte ^= 0xff;
            }
            fs::write(copy.join("index").join(&name), rotten).unwrap();
            let engine = open(folder.path());
            for query in ["zeta-zeta", "alpha", "beta3", "otter17"] {
                // An error is a true answer; after it the index is built anew.
                if engine.search(&SearchRequest::new(query)).is_err() {
                    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
                    assert!(engine.search(&SearchRequest::new(query)).is_ok(), "{name} at {at}: {query}");
                }
            }
        }
    }
    assert!(flips >= 40, "{flips}");
}

#[test]
fn incognito_keys_are_forbidden_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let key = "agent:main:dashboard:incognito-1";
    let mut request = SearchRequest::new("otter");
    request.session_keys = Some(vec![key.into()]);
    assert!(matches!(engine.search(&request), Err(SearchError::Incognito { .. })));
    assert!(matches!(engine.history(&HistoryRequest::new(key)), Err(HistoryError::Incognito { .. })));
}

#[test]
fn an_append_under_another_agents_key_is_refused_and_main_is_an_alias() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let request = AppendRequest::new(SessionKey::parse("agent:work:main").unwrap(), vec![said("a", "", "x").into()]);
    assert!(matches!(engine.append(request, now()), Err(AppendError::OtherAgent { .. })));
    let request = AppendRequest::new(SessionKey::parse("main").unwrap(), vec![said("a", "", "otter").into()]);
    engine.append(request, now()).unwrap();
    let answer = engine.search(&SearchRequest::new("otter")).unwrap();
    assert_eq!(answer.results[0].session_key.as_str(), "agent:main:main");
}

#[test]
fn a_batch_tells_what_can_be_found_when_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let leaf = r#"{"type":"leaf","id":"l","parentId":"b","targetId":"a"}"#.to_owned();
    let indexed = append(&engine, "agent:main:main", "s", vec![said("a", "", "otter"), said("b", "a", "otter"), leaf]);
    assert_eq!(indexed, [true, false, false]);
    assert_eq!(found(&engine, "otter"), ["a"]);
}

#[test]
fn a_strict_search_does_not_say_that_it_ignored_what_made_it_miss() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "agent:main:main", "s", vec![said("a", "", "otter")]);
    let mut request = SearchRequest::new("otter 🚀");
    request.fts5_strict = true;
    let answer = engine.search(&request).unwrap();
    assert!(answer.results.is_empty() && answer.warning.is_none());
}

#[test]
fn sessions_read_anew_are_not_taken_for_those_that_were_known() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "agent:main:main", "s1", vec![said("k1", "", "an otter")]);
    let mut request = SearchRequest::new("otter");
    request.session_keys = Some(vec!["agent:main:main".into()]);
    let num_found = || engine.search(&request).unwrap().results.len();
    assert_eq!(num_found(), 1);
    // As many sessions as before, under other ordinals.
    for _ in 0..3 {
        engine.reindex(&ReindexRequest::default()).unwrap();
        assert!(engine.wait_for_indexing(Duration::from_secs(60)));
        assert_eq!(num_found(), 1);
    }
    engine.compact().unwrap();
    assert_eq!(num_found(), 1);
}
