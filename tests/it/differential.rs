//! Ours against SQLite FTS5 over the same messages: the same hits, in the same order, with the same scores and
//! excerpts; over segments, tail and dead documents, with and without a filter, after deletes, rewinds and reopening.

use std::collections::BTreeMap;

use sessions_search::__internal::query;
use sessions_search::{
    Analyzer as _, AppendRequest, Cjk, Engine, OpenOptions, Redaction, ReindexRequest, SearchRequest, SessionId,
    SessionKey, Timestamp,
};

use crate::cjk::{PlainScan, draw, has_emoji};
use crate::corpus::{self, Message};
use crate::data::test_data;
use crate::oracle::{Fts5Oracle, OracleMessage, match_expression};
use crate::queries::QueryGenerator;
use crate::random::Random;

/// The same messages on both sides, and the changes made to both.
struct Twins {
    side: Side,
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

fn open(folder: &tempfile::TempDir, side: &Side) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    options.analyzer = side.analyzer().to_owned();
    // SQLite gets the texts as they are.
    options.redaction = Redaction::off();
    Engine::open(folder.path(), options).unwrap()
}

fn key(session: &str) -> SessionKey {
    SessionKey::parse(&format!("agent:main:{session}")).unwrap()
}

/// What stands on SQLite's side for the analyzer of ours.
enum Side {
    /// The texts as they are: SQLite cuts the same words.
    UnicodeWord,
    /// Our tokens as words, for matching, scores and statistics are to be SQLite's over them; queries become phrases of
    /// such words without our help.
    Cjk(PlainScan),
}

impl Side {
    fn analyzer(&self) -> &'static str {
        match self {
            Self::UnicodeWord => "unicode-word",
            Self::Cjk(_) => "cjk",
        }
    }

    fn text(&self, text: &str) -> String {
        match self {
            Self::UnicodeWord => text.to_owned(),
            Self::Cjk(_) => {
                let mut words = String::new();
                Cjk.tokenize(text, &mut |token| words += &format!("{} ", as_word(token.text)));
                words
            }
        }
    }

    /// The expression for a query; `None` when a piece has nothing to search.
    fn expression(&self, query: &str) -> Option<String> {
        let pieces = query::split(query).unwrap();
        match self {
            Self::UnicodeWord => Some(match_expression(&pieces.collect::<Vec<_>>(), false)),
            Self::Cjk(scan) => {
                let phrases: Option<Vec<String>> = pieces.map(|piece| phrase_of_words(&scan.units(piece))).collect();
                Some(phrases?.join(" AND "))
            }
        }
    }
}

/// A word that begins as another one does where the tokens do.
fn as_word(token: &str) -> String {
    token.bytes().fold("t".to_owned(), |word, byte| word + &format!("{byte:02x}"))
}

/// A piece's words and runs as an FTS5 phrase: the tokens that stand at all of its positions, as far as the piece says.
fn phrase_of_words(units: &[(bool, String)]) -> Option<String> {
    let mut words = Vec::new();
    let mut open = "";
    for (i, (is_run, unit)) in units.iter().enumerate() {
        if !is_run {
            words.push(as_word(unit));
            continue;
        }
        let chars: Vec<char> = unit.chars().collect();
        let is_last = i + 1 == units.len();
        // The last run may go on in the text: only whole tokens of it are known, or the beginning of one.
        let num_known = if is_last { chars.len().saturating_sub(2).max(1) } else { chars.len() };
        open = if is_last && chars.len() < 3 { " *" } else { "" };
        words.extend((0..num_known).map(|at| as_word(&chars[at..].iter().take(3).collect::<String>())));
    }
    (!words.is_empty()).then(|| format!("\"{}\"{open}", words.join(" ")))
}

impl Twins {
    fn new(seed: u64, side: Side) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder, &side);
        Self {
            side,
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
        self.open = Some(open(&self.folder, &self.side));
    }

    /// Makes everything on our side anew; no answer may differ for it.
    fn reindex(&self) {
        self.engine().reindex(&ReindexRequest::default()).unwrap();
        assert!(self.engine().wait_for_indexing(std::time::Duration::from_secs(120)));
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
        let texts: Vec<String> = rows.iter().map(|(.., text)| self.side.text(text)).collect();
        self.oracle.insert(rows.iter().zip(&texts).map(|((id, role, timestamp, _), text)| OracleMessage {
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
        let expected = match self.side.expression(query) {
            Some(expression) => self.oracle.search_expression(&expression, limit + 1, filter),
            None => Vec::new(),
        };
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
            if matches!(self.side, Side::UnicodeWord) {
                assert_eq!(ours.snippet, theirs.snippet, "{query:?}");
            }
        }
        found.len()
    }
}

/// Fills both sides with a corpus, changes them at random, and asks `num_queries` queries on the way. Gives how many
/// of them found something.
fn run(seed: u64, messages: &[Message], num_queries: usize) -> usize {
    run_with(seed, messages, num_queries, Side::UnicodeWord)
}

fn run_with(seed: u64, messages: &[Message], num_queries: usize, side: Side) -> usize {
    let mut twins = Twins::new(seed, side);
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
        if round == 5 {
            twins.reindex();
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
            let query = match &twins.side {
                // Parts of runs, and whatever stands beside them.
                Side::Cjk(_) if number % 2 == 0 => draw(&mut twins.random, &live, 1 + number / 2 % 8),
                _ => queries.next(),
            };
            if matches!(twins.side, Side::Cjk(_)) && query.split_whitespace().any(has_emoji) {
                continue;
            }
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

#[test]
fn parts_of_runs_in_invented_texts_score_as_sqlite_scores_their_tokens() {
    let mut messages = corpus::invented(6, 1_500);
    messages.extend(crate::cjk::invented(6, 1_500).into_iter().map(|text| Message { conversation: 7, text }));
    // What is not compared by the scan that makes the queries.
    messages.retain(|message| !message.text.contains(['\u{200B}', '\u{FE0F}', '\u{301}', '\u{E0100}']));
    let hits = run_with(6, &messages, num_queries(), Side::Cjk(PlainScan::new()));
    assert!(hits > num_queries() / 4, "{hits}");
}

#[test]
fn parts_of_runs_in_chat_score_as_sqlite_scores_their_tokens() {
    let Some(data) = test_data("parts_of_runs_in_chat_score_as_sqlite_scores_their_tokens") else { return };
    let mut messages = corpus::gzipped(&data.join("multilingual"), "chat", "conv");
    messages.retain(|message| !message.text.contains('\u{200B}'));
    let every_fifth: Vec<Message> = messages.into_iter().step_by(5).collect();
    let hits = run_with(7, &every_fifth, num_queries(), Side::Cjk(PlainScan::new()));
    assert!(hits > num_queries() / 2, "{hits}");
}
