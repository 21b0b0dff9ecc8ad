//! The journal of commits: what it brings back, what it is never written over, and when it is there at all. Power cuts
//! with a journal under way are in `crash.rs`, failing calls in `faults.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sessions_search::__internal::faults::JournalOptions;
use sessions_search::{AppendRequest, Engine, OpenOptions, SearchRequest, SessionKey, Timestamp};

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.create = true;
    options.tuning.journal = JournalOptions { after_commits: 0, half_bytes: 256 * 1024 };
    options
}

fn append(engine: &Engine, id: &str, text: &str) {
    let line = format!(r#"{{"type":"message","id":"{id}","message":{{"role":"user","content":"{text}"}}}}"#);
    let request = AppendRequest::new(SessionKey::parse("agent:main:main").unwrap(), vec![line.into_bytes()]);
    engine.append(request, Timestamp::from_millis(1).unwrap()).unwrap().pop().unwrap().unwrap();
}

fn found(engine: &Engine, query: &str) -> usize {
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    engine.search(&SearchRequest::new(query)).unwrap().results.len()
}

fn agent(root: &Path) -> PathBuf {
    root.join("agents/main")
}

/// Whether there is a record in the journal: the page after its head is not empty.
fn is_in_use(root: &Path) -> bool {
    fs::read(agent(root).join("journal")).is_ok_and(|bytes| bytes.get(4_096..4_120).is_some_and(|head| head != [0; 24]))
}

/// Appends until the journal takes what is appended; gives how many messages there are then.
fn fill(engine: &Engine, root: &Path) -> usize {
    let started = Instant::now();
    for n in 0.. {
        append(engine, &format!("k{n}"), "river otter");
        if is_in_use(root) {
            return n + 1;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no journal after {n} appends");
    }
    unreachable!()
}

/// What a crash of the process would leave: the files as they are now.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_closed_store_has_no_journal() {
    let root = tempfile::tempdir().unwrap();
    let engine = Engine::open(root.path(), options()).unwrap();
    let messages = fill(&engine, root.path());
    assert!(engine.status().unwrap().bytes["journal"] > 0);
    engine.close().unwrap();
    assert!(!agent(root.path()).join("journal").exists());
    let engine = Engine::open(root.path(), options()).unwrap();
    assert_eq!(found(&engine, "otter"), messages.min(10));
    assert_eq!(engine.status().unwrap().documents, messages as u64);
}

#[test]
fn a_program_that_appends_a_little_makes_none() {
    let root = tempfile::tempdir().unwrap();
    let mut options = options();
    options.tuning.journal = JournalOptions::default();
    let engine = Engine::open(root.path(), options).unwrap();
    for n in 0..10 {
        append(&engine, &format!("k{n}"), "river otter");
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(!agent(root.path()).join("journal").exists());
}

#[test]
fn what_only_the_journal_holds_is_there_after_a_crash() {
    let (root, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = Engine::open(root.path(), options()).unwrap();
    fill(&engine, root.path());
    // The file as it was, with the journal of later: as if nothing of what came after had reached it.
    fs::create_dir_all(agent(crashed.path())).unwrap();
    fs::copy(agent(root.path()).join("transcripts.redb"), agent(crashed.path()).join("transcripts.redb")).unwrap();
    append(&engine, "later", "the heron came back");
    fs::copy(agent(root.path()).join("journal"), agent(crashed.path()).join("journal")).unwrap();
    let documents = engine.status().unwrap().documents;

    let journal = fs::read(agent(crashed.path()).join("journal")).unwrap();
    let transcripts = fs::read(agent(crashed.path()).join("transcripts.redb")).unwrap();
    let report = Engine::verify(crashed.path(), &options(), true).unwrap();
    assert!(report.findings.iter().all(|finding| finding.detail.starts_with("the index is missing")), "{report:?}");
    assert_eq!(fs::read(agent(crashed.path()).join("journal")).unwrap(), journal, "verify changes nothing");
    assert_eq!(fs::read(agent(crashed.path()).join("transcripts.redb")).unwrap(), transcripts);

    let after = Engine::open(crashed.path(), options()).unwrap();
    assert_eq!(found(&after, "heron"), 1);
    assert_eq!(after.status().unwrap().documents, documents);
    append(&after, "again", "heron and otter");
    assert_eq!(found(&after, "heron"), 2);
    after.close().unwrap();
    assert!(Engine::verify(crashed.path(), &options(), true).unwrap().findings.is_empty());
}

#[test]
fn a_journal_beside_a_store_put_back_from_a_copy_is_set_aside() {
    let (root, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = Engine::open(root.path(), options()).unwrap();
    append(&engine, "old", "the heron left");
    engine.close().unwrap();
    let copied = fs::read(agent(root.path()).join("transcripts.redb")).unwrap();

    let engine = Engine::open(root.path(), options()).unwrap();
    fill(&engine, root.path());
    copy(&agent(root.path()), &agent(crashed.path()));
    fs::write(agent(crashed.path()).join("transcripts.redb"), copied).unwrap();

    let back = Engine::open(crashed.path(), options()).unwrap();
    assert_eq!((found(&back, "heron"), found(&back, "otter")), (1, 0));
    assert!(agent(crashed.path()).join("journal.aside").exists(), "nothing is thrown away");
    back.compact().unwrap();
    assert!(!agent(crashed.path()).join("journal.aside").exists(), "its texts are erased with the others");
    back.close().unwrap();
    assert!(Engine::verify(crashed.path(), &options(), true).unwrap().findings.is_empty());
}

#[test]
fn a_compacted_store_leaves_the_journal_of_the_old_file_behind() {
    let root = tempfile::tempdir().unwrap();
    let engine = Engine::open(root.path(), options()).unwrap();
    let messages = fill(&engine, root.path());
    engine.compact().unwrap();
    assert_eq!(engine.status().unwrap().documents, messages as u64);
    append(&engine, "after", "the heron came back");
    assert_eq!(found(&engine, "heron"), 1);
    engine.close().unwrap();
    assert!(!agent(root.path()).join("journal").exists());
    assert!(Engine::verify(root.path(), &options(), true).unwrap().findings.is_empty());
}

#[test]
fn a_store_of_format_1_opens_and_is_of_format_2_then() {
    use redb::ReadableDatabase as _;
    const META: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    let root = tempfile::tempdir().unwrap();
    let engine = Engine::open(root.path(), options()).unwrap();
    append(&engine, "k1", "river otter");
    engine.close().unwrap();
    let path = agent(root.path()).join("transcripts.redb");
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("format", 1u32.to_le_bytes().as_slice()).unwrap();
    write.commit().unwrap();
    drop(database);

    assert!(Engine::verify(root.path(), &options(), true).unwrap().findings.is_empty());
    let engine = Engine::open(root.path(), options()).unwrap();
    assert_eq!(found(&engine, "otter"), 1);
    engine.close().unwrap();
    let database = redb::Database::open(&path).unwrap();
    let read = database.begin_read().unwrap();
    assert_eq!(read.open_table(META).unwrap().get("format").unwrap().unwrap().value(), 2u32.to_le_bytes());
}
