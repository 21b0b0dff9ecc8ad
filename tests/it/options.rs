//! What a search may be asked besides words: role, time, order, prefix, paging, limits, explanation, stopping.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sessions_search::{
    AppendRequest, EmptyReason, Engine, OpenOptions, Order, Role, SearchError, SearchRequest, SessionKey, Timestamp,
};

use crate::corpus;
use crate::oracle::{Fts5Oracle, OracleMessage};
use crate::queries::QueryGenerator;

const NOW: i64 = 1_785_000_000_000;

struct Store {
    engine: Engine,
    _folder: tempfile::TempDir,
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let mut options = OpenOptions::default();
    options.create = true;
    Store { engine: Engine::open(folder.path(), options).unwrap(), _folder: folder }
}

impl Store {
    fn add(&self, session: &str, id: &str, role: &str, timestamp: Option<i64>, text: &str) {
        let mut line = serde_json::json!({ "type": "message", "id": id,
            "message": { "role": role, "content": [{ "type": "text", "text": text }] } });
        line["timestamp"] = timestamp.map_or(serde_json::Value::Null, serde_json::Value::from);
        let key = SessionKey::parse(&format!("agent:main:{session}")).unwrap();
        let request = AppendRequest::new(key, vec![line.to_string().into_bytes()]);
        for result in self.engine.append(request, Timestamp::from_millis(NOW).unwrap()).unwrap() {
            result.unwrap();
        }
    }

    fn ids(&self, request: &SearchRequest) -> Vec<String> {
        let answer = self.engine.search(request).unwrap();
        answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect()
    }
}

fn at(millis: i64) -> Option<Timestamp> {
    Timestamp::from_millis(millis)
}

#[test]
fn role_and_time_are_filtered_before_the_limit() {
    let store = store();
    for n in 0..10 {
        store.add("a", &format!("u{n}"), "user", Some(1_000 + n), "otter");
        store.add("a", &format!("a{n}"), "assistant", Some(2_000 + n), "otter otter");
    }
    store.engine.checkpoint().unwrap();
    store.add("a", "tail", "user", Some(3_000), "otter");
    let mut request = SearchRequest::new("otter");
    request.role = Some(Role::User);
    request.limit = 11;
    let ids = store.ids(&request);
    assert_eq!(ids.len(), 11);
    assert!(ids.iter().all(|id| !id.starts_with('a')));

    let mut request = SearchRequest::new("otter");
    (request.since, request.until) = (at(1_003), at(1_005));
    assert_eq!(store.ids(&request), ["u4", "u3"]);
    request.until = at(1_003);
    assert!(store.ids(&request).is_empty());
}

#[test]
fn recent_order_ignores_the_score_and_breaks_ties_by_ids() {
    let store = store();
    store.add("a", "old", "user", Some(1_000), "otter otter otter");
    store.add("b", "same2", "user", Some(5_000), "otter and a long tail of other words behind it");
    store.add("a", "same1", "user", Some(5_000), "otter");
    store.engine.checkpoint().unwrap();
    store.add("c", "new", "user", Some(9_000), "some words before the otter");
    let mut request = SearchRequest::new("otter");
    request.order = Order::Recent;
    assert_eq!(store.ids(&request), ["new", "same1", "same2", "old"]);
}

#[test]
fn prefix_is_fts5s() {
    let messages = corpus::invented(11, 600);
    let store = store();
    let mut oracle = Fts5Oracle::new();
    let texts: Vec<&str> = messages.iter().map(|m| m.text.as_str()).filter(|text| !text.trim().is_empty()).collect();
    let ids: Vec<String> = (0..texts.len()).map(|n| format!("m{n:05}")).collect();
    for (n, text) in texts.iter().enumerate() {
        store.add("s", &ids[n], "user", Some(NOW), text);
        if n == texts.len() / 2 {
            store.engine.checkpoint().unwrap();
        }
    }
    let session =
        store.engine.sessions(&sessions_search::ListRequest::default()).unwrap().sessions[0].session_id.clone();
    oracle.insert(texts.iter().zip(&ids).map(|(text, id)| OracleMessage {
        session_id: session.as_str(),
        message_id: id,
        role: "user",
        timestamp: NOW,
        text,
    }));
    let mut found = 0;
    let mut queries = QueryGenerator::new(11, texts.iter().copied());
    for _ in 0..300 {
        let query = queries.next();
        // The last word, cut short: what a person types before the word is complete.
        let cut: String = query.chars().take(query.chars().count().saturating_sub(1).max(1)).collect();
        let Ok(pieces) = sessions_search::__internal::query::split(&cut) else { continue };
        let pieces: Vec<&str> = pieces.collect();
        let expected = oracle.search_pieces(&pieces, true, 25, None);
        let mut request = SearchRequest::new(&cut);
        (request.prefix, request.fts5_strict, request.excerpt_utf16, request.limit) = (true, true, None, 25);
        let answer = store.engine.search(&request).unwrap();
        let ours: Vec<_> =
            answer.results.iter().map(|h| (h.message_id.as_str(), h.score, h.snippet.as_str())).collect();
        let theirs: Vec<_> = expected.iter().map(|h| (h.message_id.as_str(), h.score, h.snippet.as_str())).collect();
        assert_eq!(ours, theirs, "{cut:?}");
        found += usize::from(!ours.is_empty());
    }
    assert!(found > 100, "{found}");
}

#[test]
fn pages_of_any_size_give_every_hit_once() {
    let store = store();
    for n in 0..57 {
        store.add(&format!("s{}", n % 5), &format!("m{n:02}"), "user", Some(1_000 + n / 7), "otter");
        if n == 30 {
            store.engine.checkpoint().unwrap();
        }
    }
    let mut request = SearchRequest::new("otter");
    request.limit = 100;
    let all = store.ids(&request);
    assert_eq!(all.len(), 57);
    for size in [1, 7, 25, 57] {
        let mut paged = Vec::new();
        loop {
            (request.limit, request.offset) = (size, paged.len());
            let answer = store.engine.search(&request).unwrap();
            paged.extend(answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()));
            assert_eq!(answer.truncated, paged.len() < 57);
            if !answer.truncated {
                break;
            }
        }
        assert_eq!(paged, all);
    }
}

#[test]
fn limits_out_of_range_are_errors_and_never_clamped() {
    let store = store();
    for (limit, ok) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
        let mut request = SearchRequest::new("x");
        request.limit = limit;
        assert_eq!(store.engine.search(&request).is_ok(), ok, "{limit}");
    }
    for (length, ok) in [(0, false), (1, true), (500, true), (501, false)] {
        let mut request = SearchRequest::new("x");
        request.excerpt_utf16 = Some(length);
        assert_eq!(store.engine.search(&request).is_ok(), ok, "{length}");
    }
    let mut request = SearchRequest::new("x");
    request.session_keys = Some(Vec::new());
    assert!(matches!(store.engine.search(&request), Err(SearchError::EmptyKeyFilter)));
    assert!(matches!(store.engine.search(&SearchRequest::new(" \u{feff} ")), Err(SearchError::Query(_))));
    assert!(store.engine.search(&SearchRequest::new("x".repeat(4_096))).is_ok());
    assert!(matches!(store.engine.search(&SearchRequest::new("x".repeat(4_097))), Err(SearchError::Query(_))));
}

#[test]
fn explanation_gives_fts5s_numbers() {
    let store = store();
    for (id, text) in [("1", "a b"), ("2", "a c c"), ("3", "b"), ("4", "d e f g"), ("5", "-")] {
        store.add("s", id, "user", Some(NOW), text);
    }
    let mut request = SearchRequest::new("a c");
    request.explain = true;
    let answer = store.engine.search(&request).unwrap();
    let explanation = answer.explain.unwrap();
    assert_eq!((explanation.documents, explanation.average_length), (5, 2.0));
    let n: Vec<u64> = explanation.pieces.iter().map(|piece| piece.n).collect();
    assert_eq!(n, [2, 1]);
    let hit = answer.results[0].explain.as_ref().unwrap();
    assert_eq!((hit.length, hit.f.as_slice()), (3, [1, 2].as_slice()));
    assert_eq!(answer.results[0].score, 1.603689981487568);
}

#[test]
fn pieces_without_a_token_are_ignored_and_named_or_strictly_match_nothing() {
    let store = store();
    store.add("s", "1", "user", Some(NOW), "deploy the otter");
    let answer = store.engine.search(&SearchRequest::new("deploy - 🎉 otter")).unwrap();
    assert_eq!(answer.results.len(), 1);
    let warning = answer.warning.unwrap();
    assert!(warning.contains("`-`") && warning.contains("`🎉`"), "{warning}");
    let mut request = SearchRequest::new("deploy - otter");
    request.fts5_strict = true;
    let answer = store.engine.search(&request).unwrap();
    assert_eq!((answer.results.len(), answer.reason), (0, Some(EmptyReason::NoMatch)));
    let answer = store.engine.search(&SearchRequest::new("- 🎉 …")).unwrap();
    assert_eq!(answer.reason, Some(EmptyReason::NoSearchableWords));
}

#[test]
fn a_search_ends_when_cancelled_or_out_of_time() {
    let store = store();
    for n in 0..50 {
        store.add("s", &format!("{n}"), "user", Some(NOW), "otter");
    }
    let mut request = SearchRequest::new("otter");
    request.cancel = Some(Arc::new(AtomicBool::new(true)));
    assert!(matches!(store.engine.search(&request), Err(SearchError::Stopped)));
    request.cancel = None;
    request.timeout = Some(Duration::ZERO);
    assert!(matches!(store.engine.search(&request), Err(SearchError::Stopped)));
    request.timeout = Some(Duration::from_secs(60));
    assert_eq!(store.engine.search(&request).unwrap().results.len(), 10);
}

#[test]
fn reasons_come_in_their_order() {
    let store = store();
    let answer = store.engine.search(&SearchRequest::new("otter")).unwrap();
    assert_eq!(answer.reason, Some(EmptyReason::NoVisibleSessions));
    store.add("s", "1", "user", Some(NOW), "otter");
    let mut request = SearchRequest::new("otter");
    request.session_keys = Some(vec!["agent:main:nobody".into()]);
    let answer = store.engine.search(&request).unwrap();
    assert_eq!(answer.reason, Some(EmptyReason::NoVisibleSessions));
    assert_eq!(answer.coverage.sessions, 0);
    let answer = store.engine.search(&SearchRequest::new("beaver")).unwrap();
    assert_eq!((answer.reason, answer.coverage.searched), (Some(EmptyReason::NoMatch), 1));
}

#[test]
fn the_worst_legal_queries_take_milliseconds() {
    let store = store();
    let key = SessionKey::parse("agent:main:s").unwrap();
    let lines = (0..2_000)
        .map(|n| {
            let text = format!("a the {}", "a b c the ".repeat(1 + n % 7));
            serde_json::json!({ "type": "message", "id": format!("m{n}"), "message": { "role": "user", "content": text } })
                .to_string()
                .into_bytes()
        })
        .collect();
    store.engine.append(AppendRequest::new(key, lines), Timestamp::from_millis(NOW).unwrap()).unwrap();
    for query in ["a ".repeat(2_048), "the ".repeat(256), "a-".repeat(2_048), "a b c the ".repeat(400)] {
        let started = std::time::Instant::now();
        store.engine.search(&SearchRequest::new(query.trim())).unwrap();
        // Upstream takes half a minute; this bound is for a debug build on a busy machine.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
