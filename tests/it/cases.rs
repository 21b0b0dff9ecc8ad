//! Cases that users of tools like this one reported in public, as small inputs. Named after their number in the list
//! they were collected in; the comment above each says what was seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sessions_search::limits::{DEFAULT_EXCERPT_UTF16, MAX_EXCERPT_UTF16, MAX_QUERY_UTF16};
use sessions_search::{
    Anchor, AppendRequest, EmptyReason, Engine, HistoryError, HistoryRequest, ImportOptions, ImportSummary, LineError,
    OpenOptions, Order, QueryError, SearchError, SearchRequest, SessionId, SessionKey, Timestamp,
};

use crate::program::{Program, message};

const MAIN: &str = "agent:main:main";

struct Store {
    engine: Engine,
    folder: tempfile::TempDir,
}

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    Store { engine: open(&folder.path().join("store")), folder }
}

/// A store for texts without spaces.
fn cjk_store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let mut options = OpenOptions::default();
    options.create = true;
    options.analyzer = "cjk".into();
    Store { engine: Engine::open(&folder.path().join("store"), options).unwrap(), folder }
}

/// A store with these texts, each a message `m0`, `m1` ….
fn holding(texts: &[&str]) -> Store {
    store().with(texts)
}

impl Store {
    /// The same store with these texts in it.
    fn with(self, texts: &[&str]) -> Self {
        let lines = texts.iter().enumerate().map(|(i, text)| message(&format!("m{i}"), "user", text).into_bytes());
        for outcome in self.append(lines.collect()) {
            outcome.unwrap();
        }
        self
    }

    fn append(&self, lines: Vec<Vec<u8>>) -> Vec<Result<sessions_search::EventPlace, LineError>> {
        let request = AppendRequest::new(SessionKey::parse(MAIN).unwrap(), lines);
        self.engine.append(request, at(1_785_000_000_000)).unwrap()
    }

    fn found(&self, query: &str) -> Vec<String> {
        self.ids(&SearchRequest::new(query))
    }

    fn ids(&self, request: &SearchRequest) -> Vec<String> {
        let answer = self.engine.search(request).unwrap();
        answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect()
    }

    fn reason(&self, query: &str) -> Option<EmptyReason> {
        self.engine.search(&SearchRequest::new(query)).unwrap().reason
    }

    fn file(&self, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join("s.jsonl");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn import(&self, path: &Path) -> ImportSummary {
        let options = ImportOptions::default();
        self.engine.import(&[path.to_owned()], &options, at(1_785_000_000_000), &mut |_| {}).unwrap()
    }
}

fn timed(id: &str, timestamp: &str, text: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","timestamp":{timestamp},"message":{{"role":"user","content":"{text}"}}}}"#
    )
}

/// A hyphenated word raised a database error (Hermes #7824, #1770).
#[test]
fn case_01_a_hyphenated_word_is_found() {
    let store = holding(&["the cold-brew notebook"]);
    assert_eq!(store.found("cold-brew"), ["m0"]);
}

/// Ordinary punctuation silently gave nothing (Hermes PR #76305, ccrecall #23).
#[test]
fn case_02_punctuation_is_neither_syntax_nor_in_the_way() {
    let store = holding(&["#123 src/main.py don't 50% a@b.c ok? $5 a,b"]);
    for piece in ["#123", "src/main.py", "don't", "50%", "a@b.c", "ok?", "$5", "a,b"] {
        assert_eq!(store.found(piece), ["m0"], "{piece}");
    }
    for word in ["AND", "NEAR/2", "NOT", "OR"] {
        assert_eq!(store.reason(word), Some(EmptyReason::NoMatch), "{word} is a word");
    }
    for odd in ["\"", "*", "(", ")", "-", "^", "{", "\\", "'", "\"\"", "* *", ":"] {
        assert_eq!(store.reason(odd), Some(EmptyReason::NoSearchableWords), "{odd}");
    }
    let store = holding(&["this AND that", "near 2 the weir"]);
    assert_eq!(store.found("AND"), ["m0"]);
    assert_eq!(store.found("NEAR/2"), ["m1"]);
    assert_eq!(store.found("(that) AND \"this"), ["m0"]);
}

// Words inside a run of Chinese were never found: a run is one token for FTS5.
#[test]
fn case_03_words_inside_a_run_are_found() {
    let text = ["昨晚我们修改了登录服务"];
    let store = cjk_store().with(&text);
    assert_eq!((store.found("登录"), store.found("修")), (vec!["m0".to_owned()], vec!["m0".to_owned()]));
    assert_eq!(store.found("录登"), [""; 0]);
    let as_fts5 = holding(&text);
    assert_eq!((as_fts5.found("登录"), as_fts5.found("修")), (vec![], vec![]));
}

// Words of two characters were too short for an index of trigrams.
#[test]
fn case_04_two_characters_are_enough() {
    let store = cjk_store().with(&["甲方", "乙方"]);
    assert_eq!((store.found("甲方"), store.found("乙方")), (vec!["m0".to_owned()], vec!["m1".to_owned()]));
    assert_eq!(store.found("方").len(), 2);
}

// A Latin word glued between Chinese ones was missed.
#[test]
fn case_05_latin_between_chinese_is_found() {
    let store = cjk_store().with(&["请检查apiKey配置"]);
    for query in ["apikey", "检查apiKey", "配置"] {
        assert_eq!(store.found(query), ["m0"], "{query}");
    }
    for query in ["api", "检apiKey", "apiKey置"] {
        assert_eq!(store.found(query), [""; 0], "{query}");
    }
}

/// Composed and decomposed forms differed (deja-vu #1098).
#[test]
fn case_06_composed_and_decomposed_forms_are_one() {
    let store = cjk_store().with(&["cafe\u{301}"]);
    for query in ["caf\u{e9}", "cafe", "cafe\u{301}"] {
        assert_eq!(store.found(query), ["m0"], "cjk: {query}");
    }
    let store = holding(&["the cafe\u{301} at the weir", "the caf\u{e9} at the mill"]);
    for query in ["caf\u{e9}", "cafe\u{301}", "cafe", "CAF\u{c9}"] {
        let mut found = store.found(query);
        found.sort();
        assert_eq!(found, ["m0", "m1"], "{query}");
    }
}

/// A long id never matched, because long tokens were dropped (tantivy's default analyzer).
#[test]
fn case_07_long_words_are_found() {
    let digest = "0123456789abcdef".repeat(4);
    let path = format!("/srv/{}/notes.md", "otter-survey/".repeat(9));
    let word = "o".repeat(5_000);
    let longest = "w".repeat(MAX_QUERY_UTF16);
    assert!(path.len() >= 120);
    let store = holding(&[&format!("sum {digest} ok"), &format!("see {path}"), &word, &longest]);
    assert_eq!(store.found(&digest), ["m0"]);
    assert_eq!(store.found(&path), ["m1"]);
    assert_eq!(store.found(&longest), ["m3"]);
    assert!(store.found(&longest[1..]).is_empty(), "a word is not found by a part of it");
    // A query of 5,000 characters is longer than any may be; what is left is the beginning.
    let too_long = store.engine.search(&SearchRequest::new(&word)).unwrap_err();
    assert!(matches!(too_long, SearchError::Query(QueryError::TooLong { found: 5_000, .. })), "{too_long}");
    let mut prefix = SearchRequest::new(&word[..MAX_QUERY_UTF16]);
    prefix.prefix = true;
    assert_eq!(store.ids(&prefix), ["m2"]);
    // The index's own limits don't matter either.
    store.engine.checkpoint().unwrap();
    assert_eq!((store.found(&longest), store.ids(&prefix)), (vec!["m3".to_owned()], vec!["m2".to_owned()]));
}

/// A panic when an excerpt was cut inside a character (tantivy #2029, openfang #74).
#[test]
fn case_08_excerpts_are_cut_between_characters() {
    let text = format!("{} выдра плывёт 👩‍👩‍👧‍👦 по реке {}", "a ".repeat(49) + "b", "выдра 👩‍👩‍👧‍👦 ".repeat(40));
    let store = holding(&[&text]);
    for query in ["выдра", "b", "реке"] {
        for limit in 1..=MAX_EXCERPT_UTF16 {
            let mut request = SearchRequest::new(query);
            request.excerpt_utf16 = Some(limit);
            let hit = store.engine.search(&request).unwrap().results.remove(0);
            let units = hit.snippet.trim_end_matches('…').encode_utf16().count();
            assert!(units <= limit, "{limit}: {:?}", hit.snippet);
            assert!(hit.snippet.encode_utf16().count() <= limit + 1);
            assert!(hit.highlights.iter().all(|range| hit.snippet.get(range.clone()).is_some()));
        }
    }
    let plain = store.engine.search(&SearchRequest::new("выдра")).unwrap();
    assert!(plain.results[0].snippet.encode_utf16().count() <= DEFAULT_EXCERPT_UTF16 + 1);
}

fn one_warning_about_line_2(summary: &ImportSummary) {
    assert_eq!((summary.events, summary.messages, summary.rejected_total), (3, 3, 0), "{summary:?}");
    assert_eq!((summary.warnings_total, summary.warnings[0].line), (1, 2), "{summary:?}");
    assert!(summary.warnings[0].reason.contains("U+FFFD"), "{summary:?}");
}

/// One unpaired surrogate made a whole session unreadable (OpenClaw #7275, codex-trace PR #279).
#[test]
fn case_09_a_lone_surrogate_becomes_a_replacement_character() {
    let store = store();
    let line = |n: i64, text: &str| timed(&format!("k{n}"), &(1_785_000_000_000 + n).to_string(), text) + "\n";
    let text = line(1, "otter one") + &line(2, r"otter \ud83d two") + &line(3, "otter three");
    one_warning_about_line_2(&store.import(&store.file(text)));
    assert_eq!(store.found("otter").len(), 3);
    let answer = store.engine.search(&SearchRequest::new("two")).unwrap();
    assert_eq!(answer.results[0].snippet, "otter \u{fffd} two");
}

/// One invalid byte blocked the file for ever (git-ai PR #2268).
#[test]
fn case_10_an_invalid_byte_becomes_a_replacement_character() {
    let store = store();
    let line = |n: i64, text: &str| timed(&format!("k{n}"), &(1_785_000_000_000 + n).to_string(), text) + "\n";
    let mut bytes = (line(1, "otter one") + &line(2, "otter @ two") + &line(3, "otter three")).into_bytes();
    let bad = bytes.iter().position(|&byte| byte == b'@').unwrap();
    bytes[bad] = 0xff;
    one_warning_about_line_2(&store.import(&store.file(bytes)));
    assert_eq!(store.found("otter").len(), 3);
    let page = store.engine.history(&HistoryRequest::new("agent:main:pi:s")).unwrap();
    assert_eq!(page.messages[1].text, "otter \u{fffd} two");
}

/// A byte order mark dropped the header (viggy28/recall #38).
#[test]
fn case_11_a_byte_order_mark_hides_no_header() {
    let store = store();
    let header = r#"{"type":"session","version":3,"id":"the-id","timestamp":"2026-05-11T08:00:00Z"}"#;
    let text = format!("\u{feff}{header}\n{}\n", timed("k1", "1785000000000", "otter"));
    let summary = store.import(&store.file(text));
    assert_eq!((summary.events, summary.messages, summary.rejected_total, summary.warnings_total), (2, 1, 0, 0));
    let answer = store.engine.search(&SearchRequest::new("otter")).unwrap();
    assert_eq!(answer.results[0].session_id, SessionId::parse("the-id").unwrap());
}

/// A torn last line was lost after it was completed (deja-vu #43).
#[test]
fn case_12_a_torn_line_is_imported_when_it_is_whole() {
    let store = store();
    let (first, second) = (timed("k1", "1785000000000", "otter"), timed("k2", "1785000000001", "otter again"));
    let whole = format!("{first}\n{second}\n");
    for cut in [first.len() + 2, first.len() + 1 + second.len() / 2, whole.len() - 2] {
        let store = self::store();
        let torn = store.import(&store.file(&whole[..cut]));
        assert_eq!((torn.messages, torn.rejected_total, torn.skipped), (1, 0, 0), "{cut}: {torn:?}");
        let completed = store.import(&store.file(&whole));
        assert_eq!((completed.messages, completed.rejected_total, completed.skipped), (1, 0, 0), "{cut}");
        assert_eq!(store.import(&store.file(&whole)).messages, 0);
        assert_eq!(store.found("otter").len(), 2);
    }
    // An object that is complete counts without its line end, once.
    assert_eq!(store.import(&store.file(&whole[..whole.len() - 1])).messages, 2);
    assert_eq!(store.import(&store.file(&whole)).messages, 0);
    assert_eq!(store.found("otter").len(), 2);
}

/// Ids and contents collided (ctx PR #43, hermes-webui #2038).
#[test]
fn case_14_the_same_line_is_once_and_the_same_text_twice() {
    let (first, twin) = (timed("k1", "1785000000000", "otter"), timed("k2", "1785000000000", "otter"));
    let other = timed("k1", "1785000000000", "mink");
    let text = [first.clone(), first.clone(), twin.clone(), other.clone()].join("\n") + "\n";
    let imported = store();
    let summary = imported.import(&imported.file(text));
    assert_eq!((summary.events, summary.skipped, summary.rejected_total), (2, 1, 1), "{summary:?}");
    assert_eq!(summary.skipped_by_reason["seen before"], 1);
    assert_eq!(summary.rejected[0].line, 4);
    assert!(summary.rejected[0].reason.contains("the first is kept"), "{summary:?}");

    let appended = store();
    let outcomes = appended.append([first.clone(), first, twin, other].map(String::into_bytes).into());
    let places: Vec<Option<u64>> = outcomes.iter().map(|o| o.as_ref().ok().map(|place| place.seq)).collect();
    assert_eq!(places, [Some(0), Some(0), Some(1), None]);
    for store in [imported, appended] {
        let mut found = store.found("otter");
        found.sort();
        assert_eq!(found, ["k1", "k2"]);
        assert!(store.found("mink").is_empty());
    }
}

/// Times that were missing, 0, in seconds, or of the year 2106 (Hermes PR #110882, vscode #297653).
#[test]
fn case_15_unknown_times_are_unknown_and_never_on_top() {
    const YEAR_2106: i64 = 4_294_967_296_000;
    let store = store();
    let lines = [
        r#"{"type":"message","id":"missing","message":{"role":"user","content":"otter"}}"#.to_owned(),
        timed("zero", "0", "otter"),
        timed("seconds", "1785000000", "otter"),
        timed("later", &YEAR_2106.to_string(), "otter"),
        timed("known", "1785000000000", "otter"),
    ];
    let summary = store.import(&store.file(lines.join("\n") + "\n"));
    assert_eq!((summary.events, summary.rejected_total, summary.warnings_total), (5, 0, 2), "{summary:?}");
    assert_eq!(summary.warnings.iter().map(|report| report.line).collect::<Vec<_>>(), [1, 2]);

    let page = store.engine.history(&HistoryRequest::new("agent:main:pi:s")).unwrap();
    let by_position: Vec<_> = page.messages.iter().map(|m| (m.message_id.as_deref().unwrap(), m.timestamp)).collect();
    let expected = [
        ("missing", Timestamp::UNKNOWN),
        ("zero", Timestamp::UNKNOWN),
        ("seconds", at(1_785_000_000)),
        ("later", at(YEAR_2106)),
        ("known", at(1_785_000_000_000)),
    ];
    assert_eq!(by_position, expected);
    assert_eq!(page.messages[0].timestamp.to_string(), "unknown");
    let mut recent = SearchRequest::new("otter");
    recent.order = Order::Recent;
    assert_eq!(store.ids(&recent), ["later", "known", "seconds", "missing", "zero"]);
    assert_eq!(store.found("otter"), ["later", "known", "seconds", "missing", "zero"], "ties go by time too");
    let mut since = SearchRequest::new("otter");
    since.since = Timestamp::from_millis(1);
    assert_eq!(store.ids(&since).len(), 3, "unknown is outside of every time");
    // Appended without a time, it is now.
    let place = store.append(vec![message("live", "user", "otter live").into_bytes()]).remove(0).unwrap();
    assert!(place.indexed);
    let answer = store.engine.search(&SearchRequest::new("live")).unwrap();
    assert_eq!(answer.results[0].timestamp, at(1_785_000_000_000));
}

/// A deleted session was still found: by another process, by one that had looked before, after importing again.
#[test]
fn case_16_a_deleted_session_is_found_by_nobody() {
    let program = Program::new();
    let header =
        |id: &str| format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-05-11T08:00:00Z"}}"#);
    for (id, text) in [("gone", "otter secret"), ("stays", "otter map")] {
        program.write(&format!("t/{id}.jsonl"), format!("{}\n{}\n", header(id), message(id, "user", text)));
    }
    let folder = program.path("t");
    let folder = folder.to_str().unwrap();
    program.json(0, &["import", folder]);
    assert_eq!(program.found(&["secret"]), ["gone"]);

    let engine = open(&program.root());
    let found = |query: &str| engine.search(&SearchRequest::new(query)).unwrap().results.len();
    assert_eq!(found("otter"), 2);
    engine.delete_session(&SessionId::parse("gone").unwrap(), at(1_785_000_000_000)).unwrap();
    assert_eq!((found("otter"), found("secret")), (1, 0));
    engine.import(&[folder.into()], &ImportOptions::default(), at(1_785_000_000_000), &mut |_| {}).unwrap();
    assert_eq!((found("otter"), found("secret")), (1, 0));
    engine.close().unwrap();

    assert_eq!(program.found(&["otter"]), ["stays"]);
    program.json(0, &["import", folder]);
    assert_eq!(program.found(&["otter"]), ["stays"]);
    assert!(program.found(&["secret"]).is_empty());
}

/// Paging could not reach the first message, and an unknown anchor gave the newest page (OpenClaw #148282, #136671,
/// #129099).
#[test]
fn case_20_every_message_is_on_exactly_one_page() {
    let store = store();
    let lines: Vec<Vec<u8>> = (1..=500).map(|n| message(&format!("m{n}"), "user", "otter").into_bytes()).collect();
    assert!(store.append(lines).iter().all(Result::is_ok));
    for limit in [7, 50, 499, 500, 1_000] {
        let mut offset = Some(0);
        let mut pages = Vec::new();
        while let Some(at) = offset {
            let mut request = HistoryRequest::new(MAIN);
            (request.limit, request.offset) = (limit, Some(at));
            let page = store.engine.history(&request).unwrap();
            assert_eq!((page.offset, page.total_messages), (Some(at), Some(500)));
            assert_eq!(page.has_more, Some(page.next_offset.is_some()));
            offset = page.next_offset;
            pages.push(page.messages.into_iter().map(|m| m.message_id.unwrap()).collect::<Vec<_>>());
        }
        let walked: Vec<String> = pages.into_iter().rev().flatten().collect();
        assert_eq!(walked, (1..=500).map(|n| format!("m{n}")).collect::<Vec<_>>(), "limit {limit}");
    }
    let mut beyond = HistoryRequest::new(MAIN);
    beyond.offset = Some(500);
    let page = store.engine.history(&beyond).unwrap();
    assert_eq!((page.messages.len(), page.has_more, page.next_offset), (0, Some(false), None));

    let mut unknown = HistoryRequest::new(MAIN);
    unknown.message_id = Some("m501".into());
    let page = store.engine.history(&unknown).unwrap();
    assert_eq!((page.anchor, page.messages.len()), (Some(Anchor::NotFound), 0));
    unknown.offset = Some(0);
    assert!(matches!(store.engine.history(&unknown), Err(HistoryError::OffsetWithMessage)));
    for (anchor, first, last) in [("m1", "m1", "m10"), ("m250", "m246", "m255"), ("m500", "m491", "m500")] {
        let mut request = HistoryRequest::new(MAIN);
        (request.limit, request.message_id) = (10, Some(anchor.into()));
        let page = store.engine.history(&request).unwrap();
        let ids: Vec<&str> = page.messages.iter().map(|m| m.message_id.as_deref().unwrap()).collect();
        assert_eq!((ids.len(), ids[0], ids[9]), (10, first, last), "floor((limit - 1) / 2) before it, always full");
    }
}

/// One legal query stalled every search for half a minute (OpenClaw 2026.9.6).
#[test]
fn case_26_time_is_linear_in_the_number_of_pieces() {
    let store = store();
    let text = |n: usize| format!("a the {}", "a the otter ".repeat(1 + n % 5));
    for batch in (0..4_000).collect::<Vec<usize>>().chunks(1_000) {
        let lines = batch.iter().map(|&n| message(&format!("m{n}"), "user", &text(n)).into_bytes()).collect();
        assert!(store.append(lines).iter().all(Result::is_ok));
    }
    let time = |query: String| {
        let started = Instant::now();
        assert_eq!(store.found(&query).len(), 10);
        started.elapsed()
    };
    time("a".into());
    let (some, all) = (time("a ".repeat(128)), time("a ".repeat(2_048)));
    time("the ".repeat(256));
    // Sixteen times the pieces; quadratic would be 256 times. The constant is for a busy machine.
    assert!(all < some * 64 + Duration::from_secs(2), "{some:?}, then {all:?}");
}

/// One odd timestamp aborted a whole import (OpenClaw 2026.9.6).
#[test]
fn case_27_odd_times_are_unknown_and_reported() {
    let store = store();
    let odd = ["1785000000000.7", "1e20", "-5", "\"soon\""];
    let mut lines: Vec<String> =
        odd.iter().enumerate().map(|(n, time)| timed(&format!("k{n}"), time, "otter")).collect();
    lines.push(timed("k4", "1785000000000", "otter"));
    let summary = store.import(&store.file(lines.join("\n") + "\n"));
    assert_eq!((summary.events, summary.rejected_total, summary.warnings_total), (5, 0, 4), "{summary:?}");
    assert_eq!(summary.warnings.iter().map(|report| report.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(summary.warnings.iter().all(|report| report.reason.starts_with("time unknown")), "{summary:?}");
    let answer = store.engine.search(&SearchRequest::new("otter")).unwrap();
    let times: Vec<i64> = answer.results.iter().map(|hit| hit.timestamp.as_millis()).collect();
    assert_eq!(times, [1_785_000_000_000, 0, 0, 0, 0]);
}
