//! The analyzer `cjk` against SQLite over the same messages: FTS5 `trigram` where it can answer, three characters and
//! more, and a LIKE scan for one and two. Prints what each finds of what a plain scan finds, sizes, and times.
//!
//! `BENCH_MULTILINGUAL=<folder> cargo bench --bench cjk`; the folder holds gzipped messages (`text`) and plain sentences.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

#[path = "../tests/it/plain_scan.rs"]
mod plain_scan;
#[allow(dead_code, reason = "each binary uses a part")]
#[path = "../tests/it/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use plain_scan::PlainScan;
use random::Random;
use regex::Regex;
use rusqlite::Connection;
use sessions_search::{AppendRequest, Engine, OpenOptions, Redaction, SearchRequest, SessionKey, Timestamp};

/// Messages of the gzipped files, and the lines of the others.
fn texts(folder: &Path) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let file = BufReader::new(File::open(&path).unwrap());
        if path.extension().is_some_and(|end| end == "gz") {
            for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
                let value: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                texts.push(value["text"].as_str().unwrap().to_owned());
            }
        } else {
            texts.extend(file.lines().map(Result::unwrap));
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn ours(root: &Path, texts: &[String]) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    options.analyzer = "cjk".into();
    options.redaction = Redaction::off();
    let engine = Engine::open(root, options).unwrap();
    for (session, texts) in texts.chunks(500).enumerate() {
        let line = |(i, text): (usize, &String)| {
            let content = serde_json::json!([{ "type": "text", "text": text }]);
            let id = (session * 500 + i + 1).to_string();
            serde_json::json!({ "type": "message", "id": id, "message": { "role": "user", "content": content } })
                .to_string()
                .into_bytes()
        };
        let key = SessionKey::parse(&format!("agent:main:s{session}")).unwrap();
        let lines = texts.iter().enumerate().map(line).collect();
        for stored in engine.append(AppendRequest::new(key, lines), Timestamp::from_millis(1).unwrap()).unwrap() {
            stored.unwrap();
        }
    }
    engine.checkpoint().unwrap();
    engine
}

/// One FTS5 table with the texts.
fn fts5(path: &Path, tokenizer: &str, texts: &[String]) -> Connection {
    let mut db = Connection::open(path).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;
         CREATE VIRTUAL TABLE fts USING fts5(text, message_id UNINDEXED, timestamp UNINDEXED, tokenize = '{tokenizer}');"
    ))
    .unwrap();
    let transaction = db.transaction().unwrap();
    for (i, text) in texts.iter().enumerate() {
        transaction
            .prepare_cached("INSERT INTO fts(text, message_id, timestamp) VALUES (?, ?, 1)")
            .unwrap()
            .execute((text, (i + 1).to_string()))
            .unwrap();
    }
    transaction.commit().unwrap();
    db.execute_batch("INSERT INTO fts(fts) VALUES ('optimize')").unwrap();
    db
}

fn expression(query: &str) -> String {
    let quoted: Vec<String> =
        query.split_whitespace().map(|piece| format!("\"{}\"", piece.replace('"', "\"\""))).collect();
    quoted.join(" AND ")
}

/// The best ten with excerpts, as ours gives them.
fn fts5_search(db: &Connection, query: &str) -> usize {
    let mut statement = db
        .prepare_cached(
            "SELECT message_id, -rank, snippet(fts, 0, '', '', ' … ', 48) FROM fts WHERE fts MATCH ?
             ORDER BY rank, timestamp DESC, message_id LIMIT 11",
        )
        .unwrap();
    let rows = statement.query_map([expression(query)], |row| row.get::<_, String>(2)).unwrap();
    rows.map(Result::unwrap).count()
}

/// Ten that hold the query, newest first; a scan has no scores.
fn like_search(db: &Connection, query: &str) -> usize {
    let mut statement = db
        .prepare_cached(
            "SELECT message_id, text FROM fts WHERE text LIKE ? ORDER BY timestamp DESC, message_id LIMIT 11",
        )
        .unwrap();
    let rows = statement.query_map([format!("%{query}%")], |row| row.get::<_, String>(1)).unwrap();
    rows.map(Result::unwrap).count()
}

fn matches(db: &Connection, sql: &str, value: &str) -> Vec<usize> {
    let mut statement = db.prepare_cached(sql).unwrap();
    let rows = statement.query_map([value], |row| row.get::<_, i64>(0)).unwrap();
    rows.map(|row| row.unwrap() as usize - 1).collect()
}

fn our_search(engine: &Engine, query: &str) -> usize {
    engine.search(&SearchRequest::new(query)).unwrap().results.len()
}

fn our_matches(engine: &Engine, query: &str) -> Vec<usize> {
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    let answer = engine.search(&request).unwrap();
    assert!(!answer.truncated, "{query}");
    answer.results.iter().map(|hit| hit.message_id.as_str().parse::<usize>().unwrap() - 1).collect()
}

/// Queries of one class with what they have in common.
struct Class {
    name: String,
    queries: Vec<String>,
}

/// Parts of runs of each length, and runs beside words, rare ones and the most common ones.
fn classes(lines: &[String], texts: &[String], unspaced: &Regex) -> Vec<Class> {
    let run = Regex::new(&format!("(?:{unspaced})+")).unwrap();
    let mixed =
        Regex::new(&format!("(?:{unspaced}){{2,4}}[A-Za-z]{{2,8}}|[A-Za-z]{{2,8}}(?:{unspaced}){{2,4}}")).unwrap();
    let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let scan = PlainScan::new();
    for (text, line) in texts.iter().zip(lines) {
        for length in [1, 2, 3, 6] {
            let parts = found.entry(format!("{length} of a run")).or_default();
            for run in run.find_iter(text) {
                let chars: Vec<char> = run.as_str().chars().collect();
                chars.windows(length).for_each(|part| *parts.entry(part.iter().collect()).or_default() += 1);
            }
        }
        let parts = found.entry("mixed".to_owned()).or_default();
        // Words are found whole, so parts of words are no queries.
        let is_whole = |part: &str| scan.piece(part).is_some_and(|piece| line.contains(piece.as_str()));
        let whole = mixed.find_iter(text).map(|part| part.as_str()).filter(|part| is_whole(part));
        whole.for_each(|part| *parts.entry(part.to_owned()).or_default() += 1);
    }
    let mut classes = Vec::new();
    for (name, parts) in found {
        let mut parts: Vec<(usize, String)> = parts.into_iter().map(|(part, count)| (count, part)).collect();
        // Only what is the same to all of them: LIKE normalises nothing, trigrams know no words.
        parts.retain(|(_, part)| !scan.units(part).is_empty());
        parts.sort();
        let rare: Vec<String> = parts.iter().filter(|(count, _)| *count <= 3).map(|(_, part)| part.clone()).collect();
        let common: Vec<String> = parts.into_iter().rev().take(20).map(|(_, part)| part).collect();
        let step = (rare.len() / 20).max(1);
        classes
            .push(Class { name: format!("{name}, rare"), queries: rare.into_iter().step_by(step).take(20).collect() });
        classes.push(Class { name: format!("{name}, the most common"), queries: common });
    }
    classes
}

fn timed(run: impl FnOnce() -> usize) -> Duration {
    let started = Instant::now();
    std::hint::black_box(run());
    started.elapsed()
}

/// Median over queries of each query's median.
fn typical(queries: &[String], mut search: impl FnMut(&str) -> usize) -> Duration {
    let mut medians: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let mut times: Vec<Duration> = (0..7).map(|_| timed(|| search(query))).collect();
            times.sort();
            times[times.len() / 2]
        })
        .collect();
    medians.sort();
    medians[medians.len() / 2]
}

fn size_of(path: &Path) -> u64 {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// What FTS5 keeps beside the texts.
fn index_bytes(db: &Connection) -> u64 {
    let sum = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    sum("SELECT sum(length(block)) FROM fts_data") + sum("SELECT sum(length(sz)) FROM fts_docsize")
}

/// Shares of what a plain scan finds, over queries of 1 to 8 characters.
#[derive(Default)]
struct Found {
    queries: usize,
    wanted: usize,
    right: usize,
    wrong: usize,
    complete: usize,
}

impl Found {
    fn note(&mut self, wanted: &[usize], mut found: Vec<usize>) {
        found.sort_unstable();
        let right = found.iter().filter(|hit| wanted.binary_search(hit).is_ok()).count();
        self.queries += 1;
        self.wanted += wanted.len();
        self.right += right;
        self.wrong += found.len() - right;
        self.complete += usize::from(found == wanted);
    }

    fn print(&self, name: &str) {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "| {name} | {:.2} % | {:.2} % | {} of {} |",
            percent(self.right, self.wanted),
            percent(self.right, self.right + self.wrong),
            self.complete,
            self.queries
        );
    }
}

fn main() {
    let Some(data) = std::env::var_os("BENCH_MULTILINGUAL") else {
        return println!("BENCH_MULTILINGUAL names no folder of texts: nothing to measure");
    };
    let texts = texts(Path::new(&data));
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("## {} messages in many languages, {:.1} MB of text\n", texts.len(), bytes as f64 / 1e6);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ours");
    let engine = ours(&root, &texts);
    let trigram = fts5(&folder.path().join("trigram.sqlite"), "trigram", &texts);
    let words = fts5(&folder.path().join("words.sqlite"), "unicode61 remove_diacritics 2", &texts);

    let unspaced = Regex::new(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}&&[\p{L}\p{M}]]").unwrap();
    let scan = PlainScan::new();
    let lines: Vec<String> = texts.iter().map(|text| scan.text(text)).collect();
    let asked: Vec<&String> = texts.iter().filter(|text| unspaced.is_match(text)).collect();
    let (mut by_us, mut by_words, mut by_trigram) = (Found::default(), Found::default(), Found::default());
    let mut random = Random::new(1);
    while by_us.queries < 5_200 {
        let text: Vec<char> = asked[random.below(asked.len())].chars().collect();
        let length = 1 + by_us.queries % 8;
        if text.len() < length {
            continue;
        }
        let start = random.below(text.len() - length + 1);
        let query: String = text[start..start + length].iter().collect();
        let pieces: Vec<&str> = query.split(sessions_search::__internal::is_js_space).collect();
        let pieces: Vec<String> = pieces.iter().filter_map(|piece| scan.piece(piece)).collect();
        if pieces.is_empty() || query.contains('\u{200B}') || plain_scan::has_emoji(&query) {
            continue;
        }
        let is_hit = |line: &String| pieces.iter().all(|piece| line.contains(piece.as_str()));
        let wanted: Vec<usize> = (0..lines.len()).filter(|&i| is_hit(&lines[i])).collect();
        if wanted.len() > 10_000 {
            continue;
        }
        by_us.note(&wanted, our_matches(&engine, &query));
        let sql = "SELECT rowid FROM fts WHERE fts MATCH ?";
        by_words.note(&wanted, matches(&words, sql, &expression(&query)));
        by_trigram.note(&wanted, matches(&trigram, sql, &expression(&query)));
    }
    println!("| found, of what a plain scan finds | recall | precision | queries answered exactly |");
    println!("| --- | --- | --- | --- |");
    by_us.print("ours, `cjk`");
    by_words.print("FTS5 `unicode61`");
    by_trigram.print("FTS5 `trigram`");

    println!("\n| what | ours | SQLite | faster |\n| --- | --- | --- | --- |");
    for Class { name, queries } in classes(&lines, &texts, &unspaced) {
        let ours = typical(&queries, |query| our_search(&engine, query));
        let is_short = queries.iter().all(|query| query.chars().count() < 3);
        let theirs = if is_short {
            typical(&queries, |query| like_search(&trigram, query))
        } else {
            typical(&queries, |query| fts5_search(&trigram, query))
        };
        let by = if is_short { "LIKE" } else { "trigram" };
        println!(
            "| {name} ({}) | {:.3} ms | {by} {:.3} ms | {:.1}× |",
            queries.len(),
            ours.as_secs_f64() * 1e3,
            theirs.as_secs_f64() * 1e3,
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
    engine.close().unwrap();
    println!(
        "\nindex bytes: ours {:.2} MB, FTS5 `trigram` {:.2} MB, FTS5 `unicode61` {:.2} MB",
        size_of(&root.join("agents/main/index")) as f64 / 1e6,
        index_bytes(&trigram) as f64 / 1e6,
        index_bytes(&words) as f64 / 1e6
    );
}
