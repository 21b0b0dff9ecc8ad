//! SQLite FTS5 as the judge: of one text, and of whole searches.

use std::collections::BTreeSet;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};
use sessions_search::__internal::query;

/// SQLite at work on one text at a time: its tokens, their bytes, its excerpts.
pub(crate) struct TextOracle(Connection);

impl TextOracle {
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

    /// The text that is asked about from now on.
    pub(crate) fn set_text(&self, text: &str) {
        // Deleting would leave segments behind that slow down every later question.
        self.0.execute_batch("ROLLBACK; BEGIN").expect("empty table");
        self.0.execute("INSERT INTO t(rowid, text) VALUES (1, ?)", [text]).expect("insert");
    }

    /// The tokens by position. Bytes, for FTS5 may cut a token inside a character.
    pub(crate) fn tokens(&self) -> Vec<Vec<u8>> {
        let mut tokens = Vec::new();
        let mut vocabulary = self.0.prepare_cached("SELECT term, offset FROM v ORDER BY offset").expect("vocabulary");
        let mut rows = vocabulary.query([]).expect("vocabulary");
        while let Some(row) = rows.next().expect("row") {
            let position: i64 = row.get(1).expect("offset");
            assert_eq!(position, tokens.len() as i64, "positions have no gap");
            tokens.push(row.get_ref(0).expect("term").as_bytes().expect("term").to_vec());
        }
        tokens
    }

    /// The byte ranges of the tokens, which are `tokens`, from `highlight()`. The text holds no NUL, for `highlight()`
    /// stops there, and none of the [`MARKS`].
    pub(crate) fn ranges(&self, tokens: &[Vec<u8>]) -> Vec<Range<usize>> {
        let first = |token: &Vec<u8>| str::from_utf8(token).ok().and_then(|token| token.chars().next());
        let starts: BTreeSet<char> = tokens.iter().map(|token| first(token).expect("whole characters")).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        let any: Vec<String> = starts.iter().map(|start| format!("\"{start}\" *")).collect();
        let marked: String = self
            .0
            .prepare_cached("SELECT highlight(t, 0, ?, ?) FROM t WHERE t MATCH ?")
            .expect("highlight")
            .query_row(params![MARKS[0], MARKS[1], any.join(" OR ")], |row| row.get(0))
            .expect("every token is found");
        take_marks_out(&marked).1
    }

    /// The excerpt for an FTS5 expression and the marked bytes in it, if the text matches.
    pub(crate) fn snippet(&self, expression: &str, num_tokens: usize) -> Option<(String, Vec<Range<usize>>)> {
        let marked: Option<String> = self
            .0
            .prepare_cached("SELECT snippet(t, 0, ?, ?, ' … ', ?) FROM t WHERE t MATCH ?")
            .expect("snippet")
            .query_row(params![MARKS[0], MARKS[1], num_tokens as i64, expression], |row| row.get(0))
            .optional()
            .expect("a well-formed expression");
        marked.map(|marked| take_marks_out(&marked))
    }
}

/// What opens and closes a match; texts to be marked don't hold them.
pub(crate) const MARKS: [&str; 2] = ["{[", "]}"];

fn take_marks_out(marked: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut ranges) = (String::new(), Vec::new());
    let mut rest = marked;
    while let Some((before, from_mark)) = rest.split_once(MARKS[0]) {
        let (inside, after) = from_mark.split_once(MARKS[1]).expect("marks come in pairs");
        text.push_str(before);
        ranges.push(text.len()..text.len() + inside.len());
        text.push_str(inside);
        rest = after;
    }
    text.push_str(rest);
    (text, ranges)
}

/// The expression OpenClaw makes of a query's pieces: each a phrase in quotes, joined by AND. With `prefix`, the last
/// one may end in the start of a word.
///
/// A NUL would end the expression inside a quote, an error; ours takes it as a separator, so it becomes another one.
pub(crate) fn match_expression(pieces: &[&str], prefix: bool) -> String {
    let quote = |piece: &&str| format!("\"{}\"", piece.replace('"', "\"\"").replace('\0', "\u{1}"));
    let expression = pieces.iter().map(quote).collect::<Vec<_>>().join(" AND ");
    if prefix { expression + " *" } else { expression }
}

/// The FTS5 table OpenClaw keeps, with messages in it.
pub(crate) struct Fts5Oracle(Connection);

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OracleMessage<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) message_id: &'a str,
    pub(crate) role: &'a str,
    pub(crate) timestamp: i64,
    pub(crate) text: &'a str,
}

/// What SQLite finds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OracleHit {
    pub(crate) session_id: String,
    pub(crate) message_id: String,
    /// Larger is better: the negative of FTS5's rank.
    pub(crate) score: f64,
    pub(crate) snippet: String,
}

impl Fts5Oracle {
    pub(crate) fn new() -> Self {
        let db = Connection::open_in_memory().expect("in-memory database");
        db.execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(
                 text, session_id UNINDEXED, message_id UNINDEXED, role UNINDEXED, timestamp UNINDEXED,
                 tokenize = 'unicode61 remove_diacritics 2')",
        )
        .expect("FTS5 is compiled in");
        Self(db)
    }

    /// Adds messages, in one transaction.
    pub(crate) fn insert<'a>(&mut self, messages: impl IntoIterator<Item = OracleMessage<'a>>) {
        let transaction = self.0.transaction().expect("transaction");
        for m in messages {
            transaction
                .prepare_cached("INSERT INTO t(text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?)")
                .expect("statement")
                .execute(params![m.text, m.session_id, m.message_id, m.role, m.timestamp])
                .expect("insert");
        }
        transaction.commit().expect("commit");
    }

    /// Removes one message; gives the number of rows.
    pub(crate) fn delete(&self, session_id: &str, message_id: &str) -> usize {
        self.0
            .execute("DELETE FROM t WHERE session_id = ? AND message_id = ?", [session_id, message_id])
            .expect("delete")
    }

    /// Removes a session's messages; gives the number of rows.
    pub(crate) fn delete_session(&self, session_id: &str) -> usize {
        self.0.execute("DELETE FROM t WHERE session_id = ?", [session_id]).expect("delete")
    }

    /// The best `limit` hits for a query as typed, among `sessions` if given, in the order of all answers.
    pub(crate) fn search(&self, query: &str, limit: usize, sessions: Option<&[&str]>) -> Vec<OracleHit> {
        let pieces: Vec<&str> = query::split(query).expect("a legal query").collect();
        self.search_pieces(&pieces, false, limit, sessions)
    }

    /// The same for pieces that are already apart; with `prefix` the last one may end in the start of a word.
    pub(crate) fn search_pieces(
        &self,
        pieces: &[&str],
        prefix: bool,
        limit: usize,
        sessions: Option<&[&str]>,
    ) -> Vec<OracleHit> {
        self.search_expression(&match_expression(pieces, prefix), limit, sessions)
    }

    /// The same for an FTS5 expression.
    pub(crate) fn search_expression(
        &self,
        expression: &str,
        limit: usize,
        sessions: Option<&[&str]>,
    ) -> Vec<OracleHit> {
        let sessions = sessions.map(|sessions| serde_json::to_string(sessions).expect("strings"));
        let mut statement = self
            .0
            .prepare_cached(
                "SELECT session_id, message_id, -rank, snippet(t, 0, '', '', ' … ', 48) FROM t
                 WHERE t MATCH ?1 AND (?2 IS NULL OR session_id IN (SELECT value FROM json_each(?2)))
                 ORDER BY rank, timestamp DESC, message_id, session_id LIMIT ?3",
            )
            .expect("statement");
        let hits = statement.query_map(params![expression, sessions, limit as i64], |row| {
            Ok(OracleHit { session_id: row.get(0)?, message_id: row.get(1)?, score: row.get(2)?, snippet: row.get(3)? })
        });
        hits.and_then(Iterator::collect).expect("a legal query")
    }
}
