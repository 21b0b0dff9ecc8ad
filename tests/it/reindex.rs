//! A store that gets another analyzer or redaction: hidden at once, made anew in the background, nothing lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sessions_search::{
    Analyzer, AppendRequest, EmptyReason, Engine, HistoryRequest, OpenOptions, Phrase, Redaction, ReindexRequest,
    SearchRequest, SessionKey, StoreError, Timestamp, Token, UnicodeWord,
};

use crate::program::message;

const LONG: Duration = Duration::from_secs(120);

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.create = true;
    // Many small steps, so that much lies between them.
    options.tuning.session_batch_rows = 8;
    options
}

fn open(folder: &tempfile::TempDir) -> Engine {
    Engine::open(folder.path(), options()).unwrap()
}

fn append(engine: &Engine, session: &str, messages: &[(String, String)]) {
    let lines = messages.iter().map(|(id, text)| message(id, "user", text).into_bytes()).collect();
    let key = SessionKey::parse(&format!("agent:main:{session}")).unwrap();
    let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
    for stored in engine.append(AppendRequest::new(key, lines), now).unwrap() {
        stored.unwrap();
    }
}

/// `sessions` sessions of `messages` messages each.
fn fill(engine: &Engine, sessions: usize, messages: usize) {
    for session in 0..sessions {
        let texts: Vec<_> = (0..messages)
            .map(|i| {
                (
                    format!("{session}-{i}"),
                    format!("昨晚我们修改了登录服务 river{session} number{i} token=otterotter{i}"),
                )
            })
            .collect();
        append(engine, &format!("s{session}"), &texts);
    }
}

fn found(engine: &Engine, query: &str) -> BTreeSet<String> {
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    let answer = engine.search(&request).unwrap();
    answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect()
}

fn to_analyzer(name: &str) -> ReindexRequest {
    let mut request = ReindexRequest::default();
    request.analyzer = Some(name.to_owned());
    request
}

fn to_redaction(redaction: Redaction) -> ReindexRequest {
    let mut request = ReindexRequest::default();
    request.redaction = Some(redaction);
    request
}

#[test]
fn another_analyzer_hides_everything_until_it_is_indexed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 6, 40);
    engine.checkpoint().unwrap();
    append(&engine, "s0", &[("late".into(), "在尾部登录".into())]);
    assert_eq!(found(&engine, "登录").len(), 0);
    assert_eq!(engine.reindex(&to_analyzer("cjk")).unwrap(), 6);
    // What is shown meanwhile is whole sessions, and the answer says what is missing.
    let answer = engine.search(&SearchRequest::new("登录")).unwrap();
    assert_eq!(answer.indexing, answer.coverage.pending > 0);
    assert_eq!(answer.coverage.searched + answer.coverage.pending, 6);
    if answer.results.is_empty() {
        assert_eq!(answer.reason, Some(EmptyReason::Indexing));
    }
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!(found(&engine, "登录").len(), 241);
    assert_eq!(found(&engine, "river3").len(), 40);
    let status = engine.status().unwrap();
    assert_eq!((status.analyzer.as_str(), status.documents, status.pending.len()), ("cjk", 241, 0));
    engine.close().unwrap();

    // It keeps what it got, whatever the options say of new stores.
    let engine = open(&folder);
    assert_eq!((engine.analyzer(), found(&engine, "登录").len()), ("cjk", 241));
    engine.reindex(&to_analyzer("unicode-word")).unwrap();
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!((found(&engine, "登录").len(), found(&engine, "number7").len()), (0, 6));
}

#[test]
fn a_reindex_without_a_change_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 3, 30);
    let hits = |engine: &Engine| {
        let answer = engine.search(&SearchRequest::new("river1 number3")).unwrap();
        answer.results.iter().map(|hit| (hit.message_id.clone(), hit.score.to_bits())).collect::<Vec<_>>()
    };
    let before = hits(&engine);
    assert_eq!(engine.reindex(&ReindexRequest::default()).unwrap(), 3);
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!(hits(&engine), before);
    assert_eq!(engine.status().unwrap().documents, 90);
}

#[test]
fn another_redaction_holds_at_once_for_history_and_then_for_search() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = options();
    made.redaction = Redaction::off();
    let engine = Engine::open(folder.path(), made).unwrap();
    fill(&engine, 2, 20);
    assert_eq!(found(&engine, "otterotter7").len(), 2);
    let history =
        |engine: &Engine| engine.history(&HistoryRequest::new("agent:main:s1")).unwrap().messages[0].text.clone();
    assert!(history(&engine).contains("otterotter"));
    engine.reindex(&to_redaction(Redaction::on())).unwrap();
    assert!(!history(&engine).contains("otterotter"), "{}", history(&engine));
    assert_eq!(found(&engine, "otterotter7").len(), 0);
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!((found(&engine, "otterotter7").len(), found(&engine, "river1").len()), (0, 20));
    let answer = engine.search(&SearchRequest::new("river1 number7")).unwrap();
    assert!(!answer.results[0].snippet.contains("otterotter"));
    engine.reindex(&to_redaction(Redaction::off())).unwrap();
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!(found(&engine, "otterotter7").len(), 2);
    assert!(history(&engine).contains("otterotter"));
}

#[test]
fn a_switch_that_ends_with_the_process_goes_on_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 8, 60);
    engine.checkpoint().unwrap();
    for name in ["cjk", "unicode-word", "cjk"] {
        engine.reindex(&to_analyzer(name)).unwrap();
    }
    drop(engine);
    let engine = open(&folder);
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!((engine.analyzer(), found(&engine, "登录").len()), ("cjk", 480));
}

#[test]
fn what_others_append_and_import_meanwhile_is_analysed_as_the_store_is() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    for file in 0..6 {
        let lines: Vec<String> = (0..200).map(|i| message(&format!("f{file}-{i}"), "user", "导入登录")).collect();
        std::fs::write(files.path().join(format!("f{file}.jsonl")), lines.join("\n") + "\n").unwrap();
    }
    let mut made = options();
    made.tuning.bulk_bytes = 1;
    let engine = Engine::open(folder.path(), made).unwrap();
    fill(&engine, 4, 30);
    let done = AtomicBool::new(false);
    let appended = std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn(move || {
                    let mut number = 0;
                    while !done.load(Ordering::Relaxed) {
                        // New sessions too: those are ready at once.
                        let session = format!("w{writer}-{}", number / 5);
                        append(engine, &session, &[(format!("w{writer}-{number}"), "写入登录".into())]);
                        number += 1;
                    }
                    number
                })
            })
            .collect();
        let import = scope.spawn(move || {
            let now = Timestamp::from_millis(1_785_000_000_000).unwrap();
            engine
                .import(&[files.path().to_owned()], &sessions_search::ImportOptions::default(), now, &mut |_| ())
                .unwrap()
        });
        for round in 0..20 {
            engine.reindex(&to_analyzer(["cjk", "unicode-word"][round % 2])).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        engine.reindex(&to_analyzer("cjk")).unwrap();
        assert_eq!(import.join().unwrap().messages, 1_200);
        done.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>()
    });
    assert!(engine.wait_for_indexing(LONG));
    let check = |engine: &Engine| {
        assert_eq!(found(engine, "登录").len(), 120 + appended + 1_200);
        assert_eq!(found(engine, "写入").len(), appended);
        assert_eq!(found(engine, "river2").len(), 30);
        let status = engine.status().unwrap();
        assert_eq!((status.documents as usize, status.pending.len()), (120 + appended + 1_200, 0));
    };
    check(&engine);
    engine.close().unwrap();
    check(&open(&folder));
}

/// Words, but from the second version on only those of four letters and more.
struct LongWords {
    version: u32,
}

impl Analyzer for LongWords {
    fn name(&self) -> &'static str {
        "long-words"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
        UnicodeWord.tokenize(text, &mut |token| {
            if self.version < 2 || token.text.len() > 3 {
                sink(token);
            }
        });
    }

    fn phrase(&self, piece: &str, prefix: bool) -> Phrase {
        UnicodeWord.phrase(piece, prefix)
    }
}

#[test]
fn an_analyzer_of_ones_own_is_asked_for_by_name_and_version() {
    let folder = tempfile::tempdir().unwrap();
    let with = |version| {
        let mut options = options();
        options.analyzers.add(Arc::new(LongWords { version })).unwrap();
        options
    };
    let mut made = with(1);
    made.analyzer = "long-words".into();
    let engine = Engine::open(folder.path(), made).unwrap();
    append(&engine, "a", &[("k1".into(), "an otter map".into())]);
    assert_eq!(engine.status().unwrap().analyzer, "long-words");
    assert_eq!(found(&engine, "map").len(), 1);
    engine.close().unwrap();

    match Engine::open(folder.path(), options()) {
        Err(StoreError::UnknownAnalyzer { name, known }) => {
            assert_eq!((name.as_str(), known.as_str()), ("long-words", "cjk, unicode-word"));
        }
        other => panic!("{other:?}"),
    }
    // Another version gives other tokens: everything is indexed anew.
    let engine = Engine::open(folder.path(), with(2)).unwrap();
    assert!(engine.wait_for_indexing(LONG));
    assert_eq!((found(&engine, "map").len(), found(&engine, "otter").len()), (0, 1));
    let unknown = engine.reindex(&to_analyzer("unheard-of"));
    assert!(matches!(unknown, Err(StoreError::UnknownAnalyzer { .. })));
    assert_eq!(found(&engine, "otter").len(), 1, "nothing was changed");
}
