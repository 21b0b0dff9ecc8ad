//! Ours against SQLite FTS5: the same messages, the same operations, one run, both answers checked against each other
//! before a time counts.
//!
//! `cargo bench --bench compare` prints a table; `BENCH_MESSAGES` (default `10000,100000`) names the sizes.
//! SQLite is set up as OpenClaw does it: WAL, one transaction an append that writes the event, its identity and its
//! FTS5 row; `synchronous=FULL`; its page cache at 64 MiB.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use sessions_search::{
    AppendRequest, Engine, ImportOptions, OpenOptions, SearchRequest, SessionId, SessionKey, Timestamp,
};

/// SplitMix64: the same corpus on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().max(1e-12).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

struct Message {
    session: String,
    id: String,
    role: &'static str,
    timestamp: i64,
    text: String,
}

impl Message {
    fn line(&self) -> String {
        serde_json::json!({ "type": "message", "id": self.id, "parentId": null, "timestamp": self.timestamp,
            "message": { "role": self.role, "content": [{ "type": "text", "text": self.text }] } })
        .to_string()
        .replacen("\"parentId\":null,", "", 1)
    }
}

/// Zipf words, log-normal lengths (median 40, mean about 120 words, at most 4,000), hyphenated pairs, ids, a share of
/// other scripts; `common` stands in 30 % of the messages, `percent` in 1 %, `rare` in 20 of them.
struct Corpus {
    random: Random,
    vocabulary: Vec<String>,
    cumulative: Vec<f64>,
    num_sessions: usize,
    made: usize,
    size: usize,
}

impl Corpus {
    fn new(size: usize) -> Self {
        let mut random = Random(7);
        let vocabulary: Vec<String> = (0..50_000)
            .map(|_| (0..3 + random.below(7)).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
            .collect();
        let mut sum = 0.0;
        let cumulative = (1..=vocabulary.len())
            .map(|rank| {
                sum += 1.0 / (rank as f64).powf(1.05);
                sum
            })
            .collect();
        Self { random, vocabulary, cumulative, num_sessions: (size / 100).max(10), made: 0, size }
    }

    fn word(&mut self) -> String {
        let at = self.random.unit() * self.cumulative[self.cumulative.len() - 1];
        let rank = self.cumulative.partition_point(|&sum| sum < at);
        self.vocabulary[rank.min(self.vocabulary.len() - 1)].clone()
    }

    fn next(&mut self) -> Message {
        let n = self.made;
        self.made += 1;
        let length = ((40f64.ln() + 1.48 * self.random.normal()).exp() as usize).clamp(1, 4_000);
        let mut text = String::new();
        for i in 0..length {
            if i > 0 {
                text.push_str([" ", " ", " ", ", ", ". "][self.random.below(5)]);
            }
            match self.random.below(60) {
                0 => text.push_str(&format!("{}-{}", self.word(), self.word())),
                1 => text.push_str(&format!("{:08x}", self.random.next() as u32)),
                2 => text.push_str(["会議", "проверка", "año", "naïve", "측정", "🤖"][self.random.below(6)]),
                _ => text.push_str(&self.word()),
            }
        }
        if self.random.below(10) < 3 {
            text.push_str(" common");
        }
        if self.random.below(100) == 0 {
            text.push_str(" percent");
        }
        if n.is_multiple_of((self.size / 20).max(1)) {
            text.push_str(" rare");
        }
        Message {
            session: format!("s{:06}", self.random.below(self.num_sessions)),
            id: format!("m{n:08}"),
            role: if n.is_multiple_of(2) { "user" } else { "assistant" },
            timestamp: 1_700_000_000_000 + n as i64 * 1_000,
            text,
        }
    }
}

/// What both engines can do.
trait Backend {
    fn append(&mut self, message: &Message);
    fn search(&mut self, query: &str, keys: Option<&[String]>) -> Vec<(String, f64)>;
    fn delete_session(&mut self, session: &str);
}

fn key_of(session: &str) -> String {
    format!("agent:main:{session}")
}

struct Ours(Engine);

impl Ours {
    fn open(root: &Path) -> Self {
        let mut options = OpenOptions::default();
        options.create = true;
        Self(Engine::open(root, options).unwrap())
    }
}

impl Backend for Ours {
    fn append(&mut self, message: &Message) {
        let key = SessionKey::parse(&key_of(&message.session)).unwrap();
        let mut request = AppendRequest::new(key, vec![message.line().into_bytes()]);
        request.session_id = Some(SessionId::parse(&message.session).unwrap());
        let now = Timestamp::from_millis(message.timestamp).unwrap();
        for result in self.0.append(request, now).unwrap() {
            result.unwrap();
        }
    }

    fn search(&mut self, query: &str, keys: Option<&[String]>) -> Vec<(String, f64)> {
        let mut request = SearchRequest::new(query);
        request.session_keys = keys.map(<[String]>::to_vec);
        request.fts5_strict = true;
        let answer = self.0.search(&request).unwrap();
        answer.results.into_iter().map(|hit| (hit.message_id.as_str().to_owned(), hit.score)).collect()
    }

    fn delete_session(&mut self, session: &str) {
        let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
        self.0.delete_session(&SessionId::parse(session).unwrap(), now).unwrap();
    }
}

struct Fts5(Connection);

impl Fts5 {
    fn open(path: &Path) -> Self {
        let db = Connection::open(path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;
             CREATE TABLE IF NOT EXISTS windows(session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, updated INTEGER);
             CREATE INDEX IF NOT EXISTS windows_by_key ON windows(session_key);
             CREATE TABLE IF NOT EXISTS events(session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER,
                 PRIMARY KEY (session_id, seq)) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS identities(session_id TEXT, event_id TEXT, seq INTEGER,
                 PRIMARY KEY (session_id, event_id)) WITHOUT ROWID;
             CREATE VIRTUAL TABLE IF NOT EXISTS fts USING fts5(text, session_id UNINDEXED, message_id UNINDEXED,
                 role UNINDEXED, timestamp UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');",
        )
        .unwrap();
        Self(db)
    }

    fn write(db: &Connection, message: &Message) {
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| db.prepare_cached(sql).unwrap().execute(values).unwrap();
        run(
            "INSERT INTO windows VALUES (?1, ?2, ?3) ON CONFLICT (session_id) DO UPDATE SET updated = ?3",
            &[&message.session, &key_of(&message.session), &message.timestamp],
        );
        let seq: i64 = db
            .prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM events WHERE session_id = ?")
            .unwrap()
            .query_row([&message.session], |row| row.get(0))
            .unwrap();
        run("INSERT INTO events VALUES (?, ?, ?, ?)", &[&message.session, &seq, &message.line(), &message.timestamp]);
        run("INSERT INTO identities VALUES (?, ?, ?)", &[&message.session, &message.id, &seq]);
        run(
            "INSERT INTO fts(text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?)",
            &[&message.text, &message.session, &message.id, &message.role, &message.timestamp],
        );
    }
}

impl Backend for Fts5 {
    fn append(&mut self, message: &Message) {
        let transaction = self.0.transaction().unwrap();
        Self::write(&transaction, message);
        transaction.commit().unwrap();
    }

    fn search(&mut self, query: &str, keys: Option<&[String]>) -> Vec<(String, f64)> {
        let expression = query.split_whitespace().map(|piece| format!("\"{piece}\"")).collect::<Vec<_>>().join(" AND ");
        let keys = keys.map(|keys| serde_json::to_string(keys).unwrap());
        let sql = if keys.is_some() {
            "SELECT fts.message_id, -rank, snippet(fts, 0, '', '', ' … ', 48), w.session_key FROM fts
             JOIN windows w ON w.session_id = fts.session_id
             WHERE fts MATCH ?1 AND w.session_key IN (SELECT value FROM json_each(?2))
             ORDER BY rank, timestamp DESC, message_id LIMIT 11"
        } else {
            "SELECT fts.message_id, -rank, snippet(fts, 0, '', '', ' … ', 48), w.session_key FROM fts
             JOIN windows w ON w.session_id = fts.session_id
             WHERE fts MATCH ?1 AND ?2 IS NULL ORDER BY rank, timestamp DESC, message_id LIMIT 11"
        };
        let mut statement = self.0.prepare_cached(sql).unwrap();
        let rows = statement
            .query_map(params![expression, keys], |row| {
                let _: (String, String) = (row.get(2)?, row.get(3)?);
                Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?))
            })
            .unwrap();
        rows.map(Result::unwrap).take(10).collect()
    }

    fn delete_session(&mut self, session: &str) {
        let transaction = self.0.transaction().unwrap();
        transaction.execute("DELETE FROM fts WHERE session_id = ?", [session]).unwrap();
        for table in ["events", "identities", "windows"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE session_id = ?"), [session]).unwrap();
        }
        transaction.commit().unwrap();
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn p99(times: &mut [Duration]) -> Duration {
    times.sort();
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

fn timed<R>(run: impl FnOnce() -> R) -> (Duration, R) {
    let started = Instant::now();
    let result = run();
    (started.elapsed(), result)
}

fn row(what: &str, ours: Duration, theirs: Duration) {
    println!(
        "| {what} | {:.3} ms | {:.3} ms | {:.1}× |",
        ours.as_secs_f64() * 1e3,
        theirs.as_secs_f64() * 1e3,
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn size_of(path: &Path) -> u64 {
    let Ok(meta) = fs::metadata(path) else { return 0 };
    if meta.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| size_of(&entry.unwrap().path())).sum()
    } else {
        meta.len()
    }
}

/// Memory of this process that is no mapped file, in MB.
fn anonymous_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Writes the corpus as OpenClaw's files, so that our import has its real input.
fn write_files(corpus: &mut Corpus, count: usize, folder: &Path) -> Vec<Message> {
    let sessions = folder.join("agents/main/sessions");
    fs::create_dir_all(&sessions).unwrap();
    let mut messages = Vec::with_capacity(count);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut index = serde_json::Map::new();
    for _ in 0..count {
        let message = corpus.next();
        let file = files.entry(message.session.clone()).or_insert_with(|| {
            index.insert(
                key_of(&message.session),
                serde_json::json!({ "sessionId": message.session, "updatedAt": message.timestamp }),
            );
            format!("{}\n", serde_json::json!({ "type": "session", "version": 3, "id": message.session }))
        });
        file.push_str(&message.line());
        file.push('\n');
        messages.push(message);
    }
    for (session, text) in files {
        fs::write(sessions.join(format!("{session}.jsonl")), text).unwrap();
    }
    fs::write(sessions.join("sessions.json"), serde_json::Value::Object(index).to_string()).unwrap();
    messages
}

fn run(size: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut corpus = Corpus::new(size);
    let messages = write_files(&mut corpus, size, &folder.path().join("files"));
    println!("\n## {size} messages\n\n| what | ours | FTS5 | faster |\n| --- | --- | --- | --- |");

    let root = folder.path().join("ours");
    let mut ours = Ours::open(&root);
    let files: Vec<PathBuf> = vec![folder.path().join("files")];
    let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
    let before = anonymous_mb();
    let (our_bulk, summary) = timed(|| ours.0.import(&files, &ImportOptions::default(), now, &mut |_| {}).unwrap());
    assert_eq!(summary.messages, size as u64);
    ours.0.checkpoint().unwrap();
    let after_import = anonymous_mb();
    let mut theirs = Fts5::open(&folder.path().join("fts5.sqlite"));
    let (their_bulk, ()) = timed(|| {
        for batch in messages.chunks(512) {
            let transaction = theirs.0.transaction().unwrap();
            batch.iter().for_each(|message| Fts5::write(&transaction, message));
            transaction.commit().unwrap();
        }
    });
    row("import, all of it", our_bulk, their_bulk);

    let sessions = (size / 100).max(10);
    let keys: Vec<String> =
        (0..200.min(sessions)).map(|n| key_of(&format!("s{:06}", n * sessions / 200.min(sessions)))).collect();
    let (mid_a, mid_b) = (corpus.vocabulary[60].clone(), corpus.vocabulary[90].clone());
    let classes = [
        ("word in 30 %", "common".to_owned()),
        ("word in 1 %", "percent".to_owned()),
        ("word in 20 messages", "rare".to_owned()),
        ("most frequent word", corpus.vocabulary[0].clone()),
        ("two mid words", format!("{mid_a} {mid_b}")),
        ("common and mid", format!("common {mid_a}")),
        ("phrase of two", format!("{}-{}", corpus.vocabulary[1], corpus.vocabulary[2])),
        ("no hit", "zzzzzzzzzz".to_owned()),
    ];
    let compare = |ours: &mut Ours, theirs: &mut Fts5, suffix: &str| {
        for (name, query) in &classes {
            for filter in [None, Some(keys.as_slice())] {
                let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
                let repeats = if size > 200_000 { 7 } else { 25 };
                for _ in 0..repeats {
                    let (time, ours) = timed(|| ours.search(query, filter));
                    our_times.push(time);
                    let (time, theirs) = timed(|| theirs.search(query, filter));
                    their_times.push(time);
                    assert_eq!(ours, theirs, "{query}");
                }
                let filtered = if filter.is_some() { ", 200 keys" } else { "" };
                row(&format!("{name}{filtered}{suffix}"), median(&mut our_times), median(&mut their_times));
            }
        }
    };
    compare(&mut ours, &mut theirs, "");
    for _ in 0..1_000 {
        for (_, query) in &classes {
            ours.search(query, None);
        }
    }
    println!(
        "\nmemory that is no mapped file: {before} MB before, {after_import} MB after import, {} MB after 8,000 searches\n",
        anonymous_mb()
    );

    println!("| what | ours | FTS5 | faster |\n| --- | --- | --- | --- |");
    let (mut our_times, mut their_times, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    let raw = fs::File::create(folder.path().join("raw")).unwrap();
    for _ in 0..1_000 {
        let message = corpus.next();
        our_times.push(timed(|| ours.append(&message)).0);
        their_times.push(timed(|| theirs.append(&message)).0);
        std::io::Write::write_all(&mut &raw, &[0; 4096]).unwrap();
        syncs.push(timed(|| raw.sync_data().unwrap()).0);
    }
    row("append, p50", median(&mut our_times), median(&mut their_times));
    row("append, p99", p99(&mut our_times), p99(&mut their_times));
    row("append, p50, against raw fdatasync", median(&mut our_times), median(&mut syncs));

    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for n in 0..(sessions / 100).max(5) {
        let session = format!("s{:06}", n * 7 + 3);
        our_times.push(timed(|| ours.delete_session(&session)).0);
        their_times.push(timed(|| theirs.delete_session(&session)).0);
    }
    row("delete a session", median(&mut our_times), median(&mut their_times));
    compare(&mut ours, &mut theirs, ", 1 % dead");

    theirs.0.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    ours.0.close().unwrap();
    let (open, ours) = timed(|| Ours::open(&root));
    println!("\nopen after a clean close: {:.1} ms", open.as_secs_f64() * 1e3);
    drop(ours);
    let agent = root.join("agents/main");
    println!(
        "bytes: transcripts {} MB, index {} MB; FTS5 database {} MB",
        size_of(&agent.join("transcripts.redb")) / 1_000_000,
        size_of(&agent.join("index")) / 1_000_000,
        size_of(&folder.path().join("fts5.sqlite")) / 1_000_000
    );
}

fn main() {
    let sizes = std::env::var("BENCH_MESSAGES").unwrap_or_else(|_| "10000,100000".into());
    for size in sizes.split(',') {
        run(size.trim().parse().expect("BENCH_MESSAGES holds numbers"));
    }
}
