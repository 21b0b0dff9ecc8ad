//! Looking a store over, giving back its space, backing it up.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use sessions_search::__internal::store::{DocumentRow, EventRow, SessionRow, Statistics, TranscriptNumber, encode_row};
use sessions_search::{
    AppendRequest, BackupError, Engine, FindingKind, OpenOptions, SearchRequest, SessionKey, Timestamp, VerifyReport,
};

use crate::program::{Program, keys, message};
use crate::random::Random;

const DOCUMENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("documents");
const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");
const SESSIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("sessions");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

fn now() -> Timestamp {
    Timestamp::from_millis(1_785_000_000_000).unwrap()
}

fn key(name: &str) -> SessionKey {
    SessionKey::parse(&format!("agent:main:{name}")).unwrap()
}

fn open(root: &Path, analyzer: &str) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    options.analyzer = analyzer.to_owned();
    Engine::open(root, options).unwrap()
}

fn append(engine: &Engine, session: &str, lines: Vec<String>) {
    let lines = lines.into_iter().map(String::into_bytes).collect();
    for result in engine.append(AppendRequest::new(key(session), lines), now()).unwrap() {
        result.unwrap();
    }
}

fn messages(session: &str, range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| message(&format!("{session}-{n}"), "user", &format!("otter {session} word{n} 会议{n}"))).collect()
}

fn count(engine: &Engine, query: &str) -> usize {
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    engine.search(&request).unwrap().results.len()
}

fn verify(root: &Path, deep: bool) -> VerifyReport {
    Engine::verify(root, &OpenOptions::default(), deep).unwrap()
}

fn kinds(report: &VerifyReport) -> Vec<FindingKind> {
    let mut kinds: Vec<FindingKind> = report.findings.iter().map(|finding| finding.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// A store with segments, a tail, a rewind, a deleted session and dead documents, closed.
fn mixed_store(analyzer: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), analyzer);
    append(&engine, "kept", messages("kept", 0..40));
    append(&engine, "gone", messages("gone", 0..40));
    engine.checkpoint().unwrap();
    append(&engine, "kept", messages("kept", 40..60));
    engine.checkpoint().unwrap();
    let rewind = r#"{"type":"leaf","id":"back","parentId":"kept-59","targetId":"kept-50"}"#;
    append(&engine, "kept", vec![rewind.to_owned()]);
    engine.delete_key(&key("gone"), now()).unwrap();
    append(&engine, "kept", messages("later", 0..20));
    assert_eq!(count(&engine, "otter"), 51 + 20);
    drop(engine);
    folder
}

fn agent_folder(root: &Path) -> PathBuf {
    root.join("agents/main")
}

/// Every file of a store with its bytes.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    files
}

#[test]
fn a_whole_store_is_clean_and_verifying_changes_no_byte_of_it() {
    for analyzer in ["unicode-word", "cjk"] {
        let folder = mixed_store(analyzer);
        let before = files(folder.path());
        for deep in [false, true] {
            let report = verify(folder.path(), deep);
            assert!(report.clean, "{analyzer}: {:?}", report.findings);
            assert_eq!((report.sessions, report.events, report.documents), (1, 81, 71));
            assert_eq!(report.queries > 20, deep, "{}", report.queries);
        }
        assert!(files(folder.path()) == before, "{analyzer}: verifying changed a file");
        let engine = open(folder.path(), analyzer);
        assert_eq!(count(&engine, "otter"), 71);
        // Who holds it is asked to wait, not looked over.
        let mut options = OpenOptions::default();
        options.busy_timeout = Duration::ZERO;
        let held = Engine::verify(folder.path(), &options, false).unwrap_err();
        assert!(held.to_string().contains("held by"), "{held}");
    }
}

/// Changes rows of a closed store behind its back.
fn tamper(root: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::open(agent_folder(root).join("transcripts.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

fn decode<'a, T: serde::Deserialize<'a>>(row: &'a [u8]) -> T {
    postcard::from_bytes(&row[1..]).unwrap()
}

/// The last document: one of the tail.
fn last_document(root: &Path) -> (u64, Vec<u8>) {
    let database = Database::open(agent_folder(root).join("transcripts.redb")).unwrap();
    let table = database.begin_read().unwrap().open_table(DOCUMENTS).unwrap();
    let (number, row) = table.last().unwrap().unwrap();
    (number.value(), row.value().to_vec())
}

#[test]
fn every_kind_of_fault_is_found_by_its_name() {
    let found = |change: &dyn Fn(&Path)| {
        let folder = mixed_store("unicode-word");
        change(folder.path());
        let report = verify(folder.path(), true);
        assert!(!report.clean);
        kinds(&report)
    };
    let missing = found(&|root| {
        let (number, _) = last_document(root);
        tamper(root, |transaction| {
            transaction.open_table(DOCUMENTS).unwrap().remove(number).unwrap();
        });
    });
    assert!(missing.contains(&FindingKind::MissingDocument), "{missing:?}");

    let stray = found(&|root| {
        let (number, row) = last_document(root);
        tamper(root, |transaction| {
            let mut row: DocumentRow<'_> = decode(&row);
            row.transcript = TranscriptNumber(999);
            transaction.open_table(DOCUMENTS).unwrap().insert(number + 1, encode_row(&row).as_slice()).unwrap();
        });
    });
    assert!(stray.contains(&FindingKind::ExtraDocument), "{stray:?}");

    let length = found(&|root| {
        let (number, row) = last_document(root);
        tamper(root, |transaction| {
            let mut row: DocumentRow<'_> = decode(&row);
            row.length += 1;
            transaction.open_table(DOCUMENTS).unwrap().insert(number, encode_row(&row).as_slice()).unwrap();
        });
    });
    assert!(length.contains(&FindingKind::WrongLength), "{length:?}");

    let statistics = found(&|root| {
        tamper(root, |transaction| {
            let mut meta = transaction.open_table(META).unwrap();
            let mut statistics: Statistics = decode(meta.get("statistics").unwrap().unwrap().value());
            statistics.documents += 1;
            meta.insert("statistics", encode_row(&statistics).as_slice()).unwrap();
        });
    });
    assert!(statistics.contains(&FindingKind::WrongStatistics), "{statistics:?}");

    let text = found(&|root| {
        // A document that is in the segments, with another text of the same length.
        tamper(root, |transaction| {
            let mut documents = transaction.open_table(DOCUMENTS).unwrap();
            let mut row = documents.get(3).unwrap().unwrap().value().to_vec();
            let at = row.windows(5).position(|bytes| bytes == b"otter").unwrap();
            row[at..at + 5].copy_from_slice(b"eagle");
            documents.insert(3, row.as_slice()).unwrap();
        });
    });
    assert!(text.contains(&FindingKind::IndexDamaged), "{text:?}");

    let event = found(&|root| {
        tamper(root, |transaction| {
            let mut events = transaction.open_table(EVENTS).unwrap();
            let old = events.get((0, 5)).unwrap().unwrap().value().to_vec();
            let mut row: EventRow<'_> = decode(&old);
            row.raw = b"no json";
            events.insert((0, 5), encode_row(&row).as_slice()).unwrap();
            events.insert((0, 6), [0u8, 1, 2].as_slice()).unwrap();
        });
    });
    assert!(event.contains(&FindingKind::UnreadableRow), "{event:?}");

    let session = found(&|root| {
        tamper(root, |transaction| {
            let mut sessions = transaction.open_table(SESSIONS).unwrap();
            let old = sessions.get(0).unwrap().unwrap().value().to_vec();
            let mut row: SessionRow = decode(&old);
            row.next_seq += 1;
            sessions.insert(0, encode_row(&row).as_slice()).unwrap();
        });
    });
    assert!(session.contains(&FindingKind::StoreDamaged), "{session:?}");

    let index = found(&|root| {
        let path = fs::read_dir(agent_folder(root).join("index"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "pos"))
            .unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 0x55;
        fs::write(path, bytes).unwrap();
    });
    assert!(index.contains(&FindingKind::IndexDamaged), "{index:?}");

    let gone = found(&|root| fs::remove_dir_all(agent_folder(root).join("index")).unwrap());
    assert_eq!(gone, [FindingKind::IndexDamaged]);

    let cut = found(&|root| {
        let path = agent_folder(root).join("transcripts.redb");
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert_eq!(cut, [FindingKind::StoreDamaged]);
}

/// What a store answers, or that it can't.
fn answers(root: &Path) -> Option<Vec<(String, u64)>> {
    let engine = Engine::open(root, OpenOptions::default()).ok()?;
    if !engine.wait_for_indexing(Duration::from_secs(60)) {
        return None;
    }
    let mut request = SearchRequest::new("otter");
    request.limit = 10_000;
    let answer = engine.search(&request).ok()?;
    Some(answer.results.iter().map(|hit| (hit.snippet.clone(), hit.score.to_bits())).collect())
}

#[test]
fn case_24_a_flipped_bit_of_the_transcripts_is_found_or_changes_no_answer() {
    let folder = mixed_store("unicode-word");
    let expected = answers(folder.path());
    assert_eq!(expected.as_ref().map(Vec::len), Some(71));
    let path = agent_folder(folder.path()).join("transcripts.redb");
    let whole = fs::read(&path).unwrap();
    let mut random = Random::new(7);
    let used: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    let mut found = 0;
    for _ in 0..120 {
        let at = used[random.below(used.len())];
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.below(8);
        fs::write(&path, &bytes).unwrap();
        let report = verify(folder.path(), true);
        found += usize::from(!report.clean);
        if report.clean {
            assert_eq!(answers(folder.path()), expected, "byte {at} is said to be clean");
        }
    }
    assert!(found > 3, "only {found} of 120 flipped bits were found");
}

#[test]
fn compacting_erases_what_was_deleted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), "unicode-word");
    for n in 0..20 {
        append(&engine, &format!("s{n}"), messages(&format!("s{n}"), 0..60));
    }
    engine.checkpoint().unwrap();
    let secret = |n| message(&format!("secret-{n}"), "user", "the walrus password is tusk");
    append(&engine, "s3", (0..60).map(secret).collect());
    engine.checkpoint().unwrap();
    for n in 0..15 {
        engine.delete_key(&key(&format!("s{n}")), now()).unwrap();
    }
    let holding = |text: &str| {
        let holds = |(_, bytes): &(&PathBuf, &Vec<u8>)| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        files(folder.path()).iter().filter(holds).map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    assert!(!holding("walrus").is_empty(), "deleting alone leaves bytes behind");
    let compacted = engine.compact().unwrap();
    assert!(compacted.bytes_after < compacted.bytes_before, "{compacted:?}");
    assert_eq!(holding("walrus"), Vec::<PathBuf>::new());
    assert_eq!((count(&engine, "otter"), count(&engine, "walrus")), (300, 0));
    append(&engine, "s17", messages("new", 0..5));
    assert_eq!(count(&engine, "otter"), 305);
    engine.compact().unwrap();
    assert_eq!(count(&engine, "otter"), 305);
    engine.close().unwrap();
    let report = verify(folder.path(), true);
    assert!(report.clean, "{:?}", report.findings);
    let engine = open(folder.path(), "unicode-word");
    assert_eq!(count(&engine, "otter"), 305);
}

#[test]
fn searches_and_appends_go_on_around_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), "unicode-word");
    append(&engine, "a", messages("a", 0..200));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| {
            let mut appended = 0;
            while !done.load(Ordering::Relaxed) {
                append(&engine, "b", messages("b", appended..appended + 1));
                appended += 1;
            }
            appended
        });
        let searching = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(engine.search(&SearchRequest::new("a word7")).unwrap().results.len(), 1);
            }
        });
        for _ in 0..5 {
            engine.compact().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        searching.join().unwrap();
        let appended = appending.join().unwrap();
        assert_eq!(count(&engine, "otter b"), appended);
    });
    engine.close().unwrap();
    assert!(verify(folder.path(), true).clean);
}

#[test]
fn a_process_that_waits_for_the_store_gets_the_one_that_took_its_place() {
    let program = Program::new();
    let lines = |session: &str| messages(session, 0..1);
    program.append("agent:main:first", &lines("first"));
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            for _ in 0..6 {
                assert_eq!(program.run(&["compact"]).code, 0);
            }
        });
        let appending = scope.spawn(|| {
            for n in 0..12 {
                program.append(&format!("agent:main:k{n}"), &lines(&format!("k{n}")));
            }
        });
        compacting.join().unwrap();
        appending.join().unwrap();
    });
    assert_eq!(program.found(&["otter"]).len(), 13);
}

#[test]
fn a_backup_is_a_store_of_its_own_made_while_the_first_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (store, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let engine = open(&store, "cjk");
    append(&engine, "a", messages("a", 0..200));
    engine.checkpoint().unwrap();
    let bytes = engine.backup(&copy).unwrap();
    append(&engine, "a", messages("b", 0..10));
    assert_eq!(bytes, fs::metadata(agent_folder(&copy).join("transcripts.redb")).unwrap().len());
    assert!(matches!(engine.backup(&copy), Err(BackupError::Exists { .. })));
    let restored = Engine::open(&copy, OpenOptions::default()).unwrap();
    assert_eq!((count(&restored, "otter"), count(&restored, "会议7")), (200, 1));
    assert_eq!(restored.status().unwrap().analyzer, "cjk");
    restored.close().unwrap();
    assert!(verify(&copy, true).clean);
    // The index of the one is not the other's, though both come from the same transcripts.
    fs::remove_dir_all(agent_folder(&copy).join("index")).ok();
    engine.close().unwrap();
    fs::create_dir_all(agent_folder(&copy)).unwrap();
    fs::rename(agent_folder(&store).join("index"), agent_folder(&copy).join("index")).unwrap();
    let restored = Engine::open(&copy, OpenOptions::default()).unwrap();
    assert_eq!(count(&restored, "otter"), 200);
}

#[test]
fn the_program_verifies_compacts_backs_up_and_purges() {
    let program = Program::new();
    assert_eq!(program.json(1, &["verify"])["reason"], "no_store");
    assert_eq!(program.run(&["compact"]).code, 2);
    assert_eq!(program.run(&["backup", "/nowhere"]).code, 2);
    program.append("agent:main:a", &messages("a", 0..50));
    program.append("agent:main:b", &[message("k1", "user", "a walrus")]);
    let clean = program.json(0, &["verify", "--deep"]);
    assert_eq!(clean["clean"], true);
    assert_eq!(clean["findings"], serde_json::json!([]));
    let said = program.run(&["verify"]);
    assert_eq!((said.code, said.stdout.trim()), (0, "clean: 2 sessions, 51 events, 51 documents"));

    let input = messages("other", 0..1).join("\n");
    let said = program.run_with_input(&["--agent", "other", "append", "--session-key", "agent:other:x"], input);
    assert_eq!(said.code, 0, "{said:?}");
    let copy = program.path("copy");
    let backup = program.json(0, &["backup", copy.to_str().unwrap()]);
    assert_eq!(keys(&backup), ["agents", "folder"]);
    let agents: Vec<&str> = backup["agents"].as_array().unwrap().iter().map(|a| a["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["main", "other"]);
    assert_eq!(program.run(&["backup", copy.to_str().unwrap()]).code, 2);
    let found = program.json(0, &["--store", copy.to_str().unwrap(), "search", "walrus", "--wait"]);
    assert_eq!(found["results"].as_array().unwrap().len(), 1);

    assert_eq!(program.json(0, &["delete", "--session-key", "agent:main:b", "--purge"])["sessions"], 1);
    let left = files(&program.root());
    assert!(left.values().all(|bytes| !bytes.windows(6).any(|at| at == b"walrus")));
    let compacted = program.json(0, &["compact"]);
    assert_eq!(keys(&compacted), ["bytesAfter", "bytesBefore"]);

    let path = agent_folder(&program.root()).join("transcripts.redb");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4_096]).unwrap();
    let damaged = program.json(5, &["verify"]);
    assert_eq!(damaged["clean"], false);
    assert_eq!(damaged["findings"][0]["kind"], "store_damaged");
}
