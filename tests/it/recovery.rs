//! The index folder may be lost, old, foreign or damaged at any time: answers say so, and then are right again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sessions_search::{
    AppendRequest, EmptyReason, Engine, OpenOptions, SearchAnswer, SearchRequest, SessionId, SessionKey, StoreError,
    Timestamp,
};

const NOW: i64 = 1_785_000_000_000;

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW).unwrap()
}

fn message(id: &str, text: &str) -> Vec<u8> {
    serde_json::json!({ "type": "message", "id": id, "message": { "role": "user", "content": text } })
        .to_string()
        .into_bytes()
}

/// Appends messages `first .. first + count` to a session, each with a word of its own.
fn fill(engine: &Engine, session: &str, first: usize, count: usize) {
    let lines = (first..first + count).map(|n| message(&format!("m{n}"), &format!("otter number word{n}"))).collect();
    let mut request = AppendRequest::new(SessionKey::parse(&format!("agent:main:{session}")).unwrap(), lines);
    request.session_id = Some(SessionId::parse(session).unwrap());
    for result in engine.append(request, now()).unwrap() {
        result.unwrap();
    }
}

fn search(engine: &Engine, query: &str) -> SearchAnswer {
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    engine.search(&request).unwrap()
}

fn count(engine: &Engine) -> usize {
    search(engine, "otter").results.len()
}

fn agent_folder(root: &Path) -> std::path::PathBuf {
    root.join("agents/main")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A store of `count` messages whose index covers them all, closed.
fn closed_store(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    for start in (0..count).step_by(500) {
        fill(&engine, &format!("s{}", start / 500), start, 500.min(count - start));
    }
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    folder
}

#[test]
fn what_is_only_in_the_tail_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    fill(&engine, "a", 0, 30);
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(count(&engine), 30);
    assert_eq!(engine.status().unwrap().tail, 30);
}

#[test]
fn deaths_that_no_checkpoint_applied_hold_after_reopening() {
    let folder = closed_store(1_500);
    let engine = open(folder.path());
    engine.delete_session(&SessionId::parse("s1").unwrap(), now()).unwrap();
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(count(&engine), 1_000);
    assert!(search(&engine, "word700").results.is_empty());
    engine.checkpoint().unwrap();
    assert_eq!(count(&engine), 1_000);
    drop(engine);
    assert_eq!(count(&open(folder.path())), 1_000);
}

#[test]
fn a_small_store_without_its_index_answers_at_once() {
    let folder = closed_store(1_000);
    fs::remove_dir_all(agent_folder(folder.path()).join("index")).unwrap();
    let engine = open(folder.path());
    let answer = search(&engine, "otter");
    assert_eq!((answer.results.len(), answer.indexing), (1_000, false));
}

#[test]
fn r24_and_case_19_a_large_store_without_its_index_says_indexing_and_rebuilds_it() {
    let folder = closed_store(6_000);
    fs::remove_dir_all(agent_folder(folder.path()).join("index")).unwrap();
    let engine = open(folder.path());
    let answer = search(&engine, "word77");
    // The rebuild may be done already; an answer in between says that it is not.
    if answer.results.is_empty() {
        assert!(answer.indexing && answer.warning.is_some());
        assert_eq!(answer.reason, Some(EmptyReason::Indexing));
        assert_eq!((answer.coverage.pending, answer.coverage.searched), (12, 0));
    }
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    let answer = search(&engine, "word77");
    assert_eq!((answer.results.len(), answer.indexing), (1, false));
    assert_eq!(count(&engine), 6_000);
}

#[test]
fn appends_and_deletes_during_an_index_rebuild_count_when_it_is_done() {
    let folder = closed_store(6_000);
    fs::remove_dir_all(agent_folder(folder.path()).join("index")).unwrap();
    let engine = open(folder.path());
    fill(&engine, "new", 10_000, 5);
    engine.delete_session(&SessionId::parse("s3").unwrap(), now()).unwrap();
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    assert_eq!(count(&engine), 6_000 - 500 + 5);
    engine.close().unwrap();
    assert_eq!(count(&open(folder.path())), 6_000 - 500 + 5);
}

#[test]
fn an_older_index_put_back_is_not_believed() {
    let folder = closed_store(5_000);
    let (index, old) = (agent_folder(folder.path()).join("index"), folder.path().join("old"));
    copy_folder(&index, &old);
    let engine = open(folder.path());
    engine.delete_session(&SessionId::parse("s2").unwrap(), now()).unwrap();
    fill(&engine, "later", 20_000, 600);
    engine.checkpoint().unwrap();
    // Twice, so that neither note of the store names the old commit.
    fill(&engine, "later", 30_000, 600);
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    fs::remove_dir_all(&index).unwrap();
    copy_folder(&old, &index);

    let engine = open(folder.path());
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    assert_eq!(count(&engine), 5_000 - 500 + 1_200);
    assert!(search(&engine, "word1100").results.is_empty());
    let aside = fs::read_dir(agent_folder(folder.path())).unwrap().flatten();
    let left: Vec<_> = aside.map(|entry| entry.file_name()).filter(|n| n.to_string_lossy().contains("aside")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_index_of_another_store_is_not_believed() {
    let (ours, other) = (closed_store(1_000), closed_store(1_500));
    let index = agent_folder(ours.path()).join("index");
    fs::remove_dir_all(&index).unwrap();
    copy_folder(&agent_folder(other.path()).join("index"), &index);
    let engine = open(ours.path());
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    assert_eq!(count(&engine), 1_000);
}

#[test]
fn an_index_of_another_schema_version_is_rebuilt() {
    let folder = closed_store(6_000);
    let meta = agent_folder(folder.path()).join("index/meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    let other = text.replace("index 1, unicode-word 1", "index 0, unicode-word 1");
    assert_ne!(text, other);
    fs::write(&meta, other).unwrap();
    let engine = open(folder.path());
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    assert_eq!(count(&engine), 6_000);
}

#[test]
fn case_24_damage_in_any_index_file_never_gives_a_wrong_answer() {
    let pristine = closed_store(1_000);
    let index = agent_folder(pristine.path()).join("index");
    let names: Vec<_> = fs::read_dir(&index).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for name in names.iter().filter(|name| !name.to_string_lossy().ends_with(".lock")) {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_folder(folder.path());
        copy_folder(&index, &agent.join("index"));
        fs::copy(agent_folder(pristine.path()).join("transcripts.redb"), agent.join("transcripts.redb")).unwrap();
        fs::write(agent.join("index").join(name), b"not what was here").unwrap();
        let engine = open(folder.path());
        assert!(engine.wait_for_indexing(Duration::from_secs(60)));
        assert_eq!(count(&engine), 1_000, "{name:?}");
    }
}

#[test]
fn an_interrupted_index_rebuild_is_taken_up_again() {
    let folder = closed_store(6_000);
    fs::remove_dir_all(agent_folder(folder.path()).join("index")).unwrap();
    for _ in 0..3 {
        drop(open(folder.path()));
    }
    let engine = open(folder.path());
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    assert_eq!(count(&engine), 6_000);
}

#[test]
fn an_index_set_aside_is_removed_where_no_rebuild_follows() {
    let folder = closed_store(1_000);
    fs::write(agent_folder(folder.path()).join("index/meta.json"), b"nonsense").unwrap();
    let engine = open(folder.path());
    assert_eq!(count(&engine), 1_000);
    let names = fs::read_dir(agent_folder(folder.path())).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("aside")));
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    for content in [&b""[..], b"some other file that has this name", &[0; 100_000]] {
        let folder = tempfile::tempdir().unwrap();
        let file = agent_folder(folder.path()).join("transcripts.redb");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        let mut options = OpenOptions::default();
        options.create = true;
        match Engine::open(folder.path(), options) {
            Err(StoreError::Damaged { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(fs::read(&file).unwrap() == content, "the file was changed");
    }
}

#[test]
fn a_store_cut_short_is_refused_and_left_as_it_is() {
    let folder = closed_store(500);
    let file = agent_folder(folder.path()).join("transcripts.redb");
    let whole = fs::read(&file).unwrap();
    for len in [100, 4_096, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..len]).unwrap();
        match Engine::open(folder.path(), OpenOptions::default()) {
            Err(StoreError::Damaged { .. }) => {}
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}
