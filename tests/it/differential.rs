//! Ours against SQLite FTS5 over the same messages: the same hits, in the same order, with the same scores and
//! excerpts; over segments, tail and dead documents, with and without a filter, after deletes, rewinds and reopening.

use std::collections::BTreeMap;

use sessions_search::{AppendRequest, Engine, OpenOptions, Redaction, SearchRequest, SessionId, SessionKey, Timestamp};

use crate::corpus::{self, Message};
use crate::data::test_data;
use crate::oracle::{Fts5Oracle, OracleMessage};
use crate::queries::QueryGenerator;
use crate::random::Random;

/// The same messages on both sides, and the changes made to both.
struct Twins {
    /// `None` only while it is reopened.
    open: Option<Engine>,
    oracle: Fts5Oracle,
    random: Random,
    /// What is searchable of each session, in order: message id and text.
    sessions: BTreeMap<String, Vec<(String, String)>>,
    next_id: usize,
    now: i64,
    folder: tempfile::TempDir,
}

fn open(folder: &tempfile::TempDir) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    // SQLite gets the texts as they are.
    options.redaction = Redaction::off();
    Engine::open(folder.path(), options).unwrap()
}

fn key(session: &str) -> SessionKey {
    SessionKey::parse(&format!("agent:main:{session}")).unwrap()
}

impl Twins {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder);
        Self {
            open: Some(engine),
            oracle: Fts5Oracle::new(),
            random: Random::new(seed),
            sessions: BTreeMap::new(),
            next_id: 0,
            now: 1_785_000_000_000,
            folder,
        }
    }

    fn engine(&self) -> &Engine {
        self.open.as_ref().unwrap()
    }

    /// Closes our side, or just drops it, and opens it again.
    fn reopen(&mut self) {
        let engine = self.open.take().unwrap();
        match self.random.below(2) {
            0 => engine.close().unwrap(),
            _ => drop(engine),
        }
        self.open = Some(open(&self.folder));
    }

    fn append_lines(&self, session: &str, lines: Vec<String>) {
        let mut request = AppendRequest::new(key(session), lines.into_iter().map(String::into_bytes).collect());
        request.session_id = Some(SessionId::parse(session).unwrap());
        let now = Timestamp::from_millis(self.now).unwrap();
        for result in self.engine().append(request, now).unwrap() {
            result.unwrap();
        }
    }

    /// Appends messages of one session to both sides.
    fn append(&mut self, session: &str, texts: &[&str]) {
        let mut lines = Vec::new();
        let mut rows = Vec::new();
        for text in texts {
            self.next_id += 1;
            // Times repeat, so that ids decide.
            self.now += [0, 0, 1, 60_000][self.random.below(4)];
            // A block's text is searched as it stands, blank ones and outer white space aside.
            let id = format!("m{}", self.next_id);
            let role = ["user", "assistant"][self.random.below(2)];
            lines.push(
                serde_json::json!({ "type": "message", "id": id, "timestamp": self.now,
                    "message": { "role": role, "content": [{ "type": "text", "text": text }] } })
                .to_string(),
            );
            if !text.trim_matches(sessions_search::__internal::is_js_space).is_empty() {
                rows.push((id, role, self.now, (*text).to_owned()));
            }
        }
        self.append_lines(session, lines);
        self.oracle.insert(rows.iter().map(|(id, role, timestamp, text)| OracleMessage {
            session_id: session,
            message_id: id,
            role,
            timestamp: *timestamp,
            text,
        }));
        let known = self.sessions.entry(session.to_owned()).or_default();
        known.extend(rows.into_iter().map(|(id, _, _, text)| (id, text)));
    }

    /// Goes back to a random earlier message of a random session.
    fn rewind(&mut self) {
        let Some(session) = self.some_session() else { return };
        let known = self.sessions.get_mut(&session).unwrap();
        if known.len() < 2 {
            return;
        }
        let kept = 1 + self.random.below(known.len() - 1);
        let target = known[kept - 1].0.clone();
        for (id, _) in known.drain(kept..) {
            assert_eq!(self.oracle.delete(&session, &id), 1);
        }
        self.next_id += 1;
        let leaf = serde_json::json!({ "type": "leaf", "id": format!("l{}", self.next_id), "parentId": target,
            "targetId": target });
        self.append_lines(&session, vec![leaf.to_string()]);
    }

    fn delete_session(&mut self) {
        let Some(session) = self.some_session() else { return };
        let now = Timestamp::from_millis(self.now).unwrap();
        self.engine().delete_session(&SessionId::parse(&session).unwrap(), now).unwrap();
        let known = self.sessions.remove(&session).unwrap();
        assert_eq!(self.oracle.delete_session(&session), known.len());
    }

    fn some_session(&mut self) -> Option<String> {
        let names: Vec<&String> = self.sessions.keys().collect();
        if names.is_empty() { None } else { Some(names[self.random.below(names.len())].clone()) }
    }

    /// One query to both; panics where they differ.
    fn compare(&self, query: &str, limit: usize, filter: Option<&[&str]>) -> usize {
        let expected = self.oracle.search(query, limit + 1, filter);
        let mut request = SearchRequest::new(query);
        request.limit = limit;
        request.fts5_strict = true;
        request.excerpt_utf16 = None;
        request.session_keys =
            filter.map(|sessions| sessions.iter().map(|session| key(session).as_str().to_owned()).collect());
        let answer = self.engine().search(&request).unwrap();
        assert!(!answer.indexing, "{query:?}");
        assert_eq!(answer.truncated, expected.len() > limit, "{query:?}");
        let found: Vec<_> =
            answer.results.iter().map(|hit| (hit.session_id.as_str(), hit.message_id.as_str())).collect();
        let wanted: Vec<_> =
            expected.iter().take(limit).map(|hit| (hit.session_id.as_str(), hit.message_id.as_str())).collect();
        assert_eq!(found, wanted, "{query:?} in {filter:?}");
        for (ours, theirs) in answer.results.iter().zip(&expected) {
            assert_eq!(ours.score.to_bits(), theirs.score.to_bits(), "{query:?}: {} {}", ours.score, theirs.score);
            assert_eq!(ours.snippet, theirs.snippet, "{query:?}");
        }
        found.len()
    }
}

/// Fills both sides with a corpus, changes them at random, and asks `num_queries` queries on the way. Gives how many
/// of them found something.
fn run(seed: u64, messages: &[Message], num_queries: usize) -> usize {
    let mut twins = Twins::new(seed);
    let rounds = 12;
    let mut hits = 0;
    for (round, chunk) in messages.chunks(messages.len().div_ceil(rounds)).enumerate() {
        let mut start = 0;
        while start < chunk.len() {
            let conversation = chunk[start].conversation;
            let room = 1 + twins.random.below(40);
            let same = chunk[start..].iter().take(room).take_while(|m| m.conversation == conversation).count();
            let texts: Vec<&str> = chunk[start..start + same].iter().map(|m| m.text.as_str()).collect();
            // Long conversations are split, so that one deletion does not take everything.
            twins.append(&format!("s{conversation}-{}", (round * chunk.len() + start) / 100), &texts);
            start += same;
            match twins.random.below(60) {
                0 => twins.rewind(),
                1 => twins.delete_session(),
                2 => twins.engine().checkpoint().unwrap(),
                3 => twins.reopen(),
                _ => {}
            }
        }
        if round % 3 != 2 {
            twins.engine().checkpoint().unwrap();
        }
        for _ in 0..2 {
            twins.rewind();
            twins.delete_session();
        }
        let live: Vec<String> = twins.sessions.values().flatten().map(|(_, text)| text.clone()).collect();
        let mut queries = QueryGenerator::new(seed + round as u64, live.iter().map(String::as_str));
        for number in 0..num_queries.div_ceil(rounds) {
            let query = queries.next();
            let names: Vec<String> = twins.sessions.keys().cloned().collect();
            let some: Vec<&str> = names.iter().filter(|_| twins.random.below(3) == 0).map(String::as_str).collect();
            let filter = (number % 3 == 2 && !some.is_empty()).then_some(some.as_slice());
            let limit = [25, 25, 25, 3, 1, 400][twins.random.below(6)];
            hits += usize::from(twins.compare(&query, limit, filter) > 0);
        }
    }
    hits
}

/// How many queries each corpus is asked: 800, or what `SESSIONS_SEARCH_QUERIES` says for a long run.
fn num_queries() -> usize {
    std::env::var("SESSIONS_SEARCH_QUERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(800)
}

#[test]
fn invented_texts_are_found_as_sqlite_finds_them() {
    let hits = run(1, &corpus::invented(1, 3_000), num_queries());
    assert!(hits > num_queries() / 4, "{hits}");
}

#[test]
fn english_chat_is_found_as_sqlite_finds_it() {
    let Some(data) = test_data("english_chat_is_found_as_sqlite_finds_it") else { return };
    let mut messages = corpus::gzipped(&data.join("english"), "ubuntu-irc.00", "conv");
    messages.truncate(6_000);
    let hits = run(2, &messages, num_queries());
    assert!(hits > num_queries() / 4, "{hits}");
}

#[test]
fn the_declaration_in_many_languages_is_found_as_sqlite_finds_it() {
    let Some(data) = test_data("the_declaration_in_many_languages_is_found_as_sqlite_finds_it") else { return };
    let messages = corpus::gzipped(&data.join("multilingual"), "udhr", "code");
    let every_fifth: Vec<Message> = messages.into_iter().step_by(5).collect();
    let hits = run(3, &every_fifth, num_queries());
    assert!(hits > num_queries() / 4, "{hits}");
}

#[test]
fn sentences_of_sixteen_languages_are_found_as_sqlite_finds_them() {
    let Some(data) = test_data("sentences_of_sixteen_languages_are_found_as_sqlite_finds_them") else { return };
    let hits = run(4, &corpus::sentences(&data.join("multilingual")), num_queries());
    assert!(hits > num_queries() / 4, "{hits}");
}

#[test]
fn chat_in_seven_languages_is_found_as_sqlite_finds_it() {
    let Some(data) = test_data("chat_in_seven_languages_is_found_as_sqlite_finds_it") else { return };
    let mut messages = corpus::gzipped(&data.join("multilingual"), "chat", "conv");
    messages.truncate(6_000);
    let hits = run(5, &messages, num_queries());
    assert!(hits > num_queries() / 4, "{hits}");
}
