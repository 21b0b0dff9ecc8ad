//! SQLite FTS5 as the judge.

use std::collections::BTreeSet;
use std::ops::Range;

use rusqlite::Connection;

/// SQLite's tokenizer at work on one text at a time.
pub(crate) struct TokenOracle(Connection);

impl TokenOracle {
    pub(crate) fn new() -> Self {
        let db = Connection::open_in_memory().expect("in-memory database");
        db.execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
             CREATE VIRTUAL TABLE v USING fts5vocab(t, instance);
             BEGIN;",
        )
        .expect("FTS5 is compiled in");
        Self(db)
    }

    /// The tokens of `text` by position. Bytes, for FTS5 may cut a token inside a character.
    pub(crate) fn tokens(&self, text: &str) -> Vec<Vec<u8>> {
        let db = &self.0;
        let mut tokens = Vec::new();
        // Deleting would leave segments behind that slow down every later question.
        db.execute_batch("ROLLBACK; BEGIN").expect("empty table");
        db.execute("INSERT INTO t(rowid, text) VALUES (1, ?)", [text]).expect("insert");
        let mut vocabulary = db.prepare_cached("SELECT term, offset FROM v ORDER BY offset").expect("vocabulary");
        let mut rows = vocabulary.query([]).expect("vocabulary");
        while let Some(row) = rows.next().expect("row") {
            let position: i64 = row.get(1).expect("offset");
            assert_eq!(position, tokens.len() as i64, "positions have no gap");
            tokens.push(row.get_ref(0).expect("term").as_bytes().expect("term").to_vec());
        }
        tokens
    }

    /// The byte ranges of the tokens of the text that [`tokens`](Self::tokens) was last asked about, from `highlight()`.
    /// The text holds no NUL (`highlight()` stops there) and neither `{[` nor `]}`.
    pub(crate) fn ranges(&self, tokens: &[Vec<u8>]) -> Vec<Range<usize>> {
        let first = |token: &Vec<u8>| str::from_utf8(token).ok().and_then(|token| token.chars().next());
        let starts: BTreeSet<char> = tokens.iter().map(|token| first(token).expect("whole characters")).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        let any: Vec<String> = starts.iter().map(|start| format!("\"{start}\" *")).collect();
        let marked: String = self
            .0
            .prepare_cached("SELECT highlight(t, 0, '{[', ']}') FROM t WHERE t MATCH ?")
            .expect("highlight")
            .query_row([any.join(" OR ")], |row| row.get(0))
            .expect("every token is found");
        let mut ranges = Vec::new();
        let (mut rest, mut at) = (marked.as_str(), 0);
        while let Some((before, marked)) = rest.split_once("{[") {
            let (token, after) = marked.split_once("]}").expect("marks come in pairs");
            let start = at + before.len();
            at = start + token.len();
            ranges.push(start..at);
            rest = after;
        }
        ranges
    }
}
