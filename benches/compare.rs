//! Ours against SQLite FTS5: the same messages, the same operations, one run, both answers checked against each other
//! before a time counts.
//!
//! `cargo bench --bench compare` prints a table; `BENCH_MESSAGES` (default `10000,100000`) names the sizes, or
//! `BENCH_CHAT` a folder of gzipped chats.
//! SQLite is set up as OpenClaw does it: WAL, one transaction an append that writes the event, its identity and its
//! FTS5 row; `synchronous=FULL`; its page cache at 64 MiB.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

mod corpus;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corpus::{Corpus, Message, key_of};
use rusqlite::{Connection, params};
use sessions_search::{
    AppendRequest, Engine, ImportOptions, OpenOptions, SearchRequest, SessionId, SessionKey, Timestamp,
};

/// What both engines can do.
trait Backend {
    fn append(&mut self, message: &Message);
    fn search(&mut self, query: &str, keys: Option<&[String]>) -> Vec<(String, f64)>;
    fn delete_session(&mut self, session: &str);
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

/// What is measured: messages, more of the same to append, and queries with what they stand for.
struct Load {
    name: String,
    messages: Vec<Message>,
    more: Vec<Message>,
    queries: Vec<(&'static str, String)>,
}

fn generated(size: usize) -> Load {
    let mut corpus = Corpus::new(size);
    let messages: Vec<Message> = (0..size).map(|_| corpus.next()).collect();
    let more = (0..1_000).map(|_| corpus.next()).collect();
    let word = |rank: usize| corpus.vocabulary[rank].clone();
    let queries = vec![
        ("word in 30 %", "common".to_owned()),
        ("word in 1 %", "percent".to_owned()),
        ("word in 20 messages", "rare".to_owned()),
        ("most frequent word", word(0)),
        ("two mid words", format!("{} {}", word(60), word(90))),
        ("common and mid", format!("common {}", word(60))),
        ("phrase of two", format!("{}-{}", word(1), word(2))),
        ("no hit", "zzzzzzzzzz".to_owned()),
    ];
    Load { name: format!("{size} generated messages"), messages, more, queries }
}

fn from_folder(folder: &Path) -> Load {
    let mut messages = corpus::chat(folder);
    let more = messages.split_off(messages.len() - 1_000);
    let queries = [
        ("word in a fifth", "the"),
        ("word in 2 %", "ubuntu"),
        ("rare word", "dpkg"),
        ("two common words", "you the"),
        ("three words", "how do i"),
        ("phrase of two", "apt-get"),
        ("no hit", "zzzzzzzzzz"),
    ];
    Load {
        name: format!("{} chat messages", messages.len()),
        messages,
        more,
        queries: queries.into_iter().map(|(name, query)| (name, query.to_owned())).collect(),
    }
}

fn run(load: Load) {
    let folder = tempfile::tempdir().unwrap();
    let Load { name, messages, more, queries } = load;
    let size = messages.len();
    let mut sessions: Vec<String> = messages.iter().map(|message| message.session.clone()).collect();
    sessions.sort();
    sessions.dedup();
    let mut kept = Vec::with_capacity(size);
    corpus::write_files(messages.into_iter(), &folder.path().join("files"), |message| kept.push(message));
    let messages = kept;
    println!("\n## {name}, {} sessions\n\n| what | ours | FTS5 | faster |\n| --- | --- | --- | --- |", sessions.len());

    let root = folder.path().join("ours");
    let mut ours = Ours::open(&root);
    let files: Vec<PathBuf> = vec![folder.path().join("files")];
    let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
    let (our_bulk, summary) = timed(|| ours.0.import(&files, &ImportOptions::default(), now, &mut |_| {}).unwrap());
    assert_eq!(summary.messages, size as u64);
    ours.0.checkpoint().unwrap();
    let mut theirs = Fts5::open(&folder.path().join("fts5.sqlite"));
    let (their_bulk, ()) = timed(|| {
        for batch in messages.chunks(4_096) {
            let transaction = theirs.0.transaction().unwrap();
            batch.iter().for_each(|message| Fts5::write(&transaction, message));
            transaction.commit().unwrap();
        }
    });
    row("import, all of it", our_bulk, their_bulk);

    let step = (sessions.len() / 200).max(1);
    let keys: Vec<String> = sessions.iter().step_by(step).take(200).map(|session| key_of(session)).collect();
    let compare = |ours: &mut Ours, theirs: &mut Fts5, suffix: &str| {
        for (name, query) in &queries {
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

    let (mut our_times, mut their_times, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    let raw = fs::File::create(folder.path().join("raw")).unwrap();
    for message in &more {
        our_times.push(timed(|| ours.append(message)).0);
        their_times.push(timed(|| theirs.append(message)).0);
        std::io::Write::write_all(&mut &raw, &[0; 4096]).unwrap();
        syncs.push(timed(|| raw.sync_data().unwrap()).0);
    }
    row("append, p50", median(&mut our_times), median(&mut their_times));
    row("append, p99", p99(&mut our_times), p99(&mut their_times));
    row("append, p50, against a raw fdatasync", median(&mut our_times), median(&mut syncs));

    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    let num_deleted = (sessions.len() / 100).max(5).min(sessions.len() / 2);
    for session in sessions.iter().skip(1).step_by(3).take(num_deleted) {
        our_times.push(timed(|| ours.delete_session(session)).0);
        their_times.push(timed(|| theirs.delete_session(session)).0);
    }
    row("delete a session", median(&mut our_times), median(&mut their_times));
    compare(&mut ours, &mut theirs, ", 1 % of the sessions dead");

    theirs.0.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    ours.0.close().unwrap();
    let (open, ours) = timed(|| Ours::open(&root));
    println!("\nopen after a clean close: {:.1} ms", open.as_secs_f64() * 1e3);
    drop(ours);
    let agent = root.join("agents/main");
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "bytes: transcripts {:.1} MB, index {:.1} MB; FTS5 database {:.1} MB",
        mb(size_of(&agent.join("transcripts.redb"))),
        mb(size_of(&agent.join("index"))),
        mb(size_of(&folder.path().join("fts5.sqlite")))
    );
}

fn main() {
    if let Some(folder) = std::env::var_os("BENCH_CHAT") {
        return run(from_folder(Path::new(&folder)));
    }
    let sizes = std::env::var("BENCH_MESSAGES").unwrap_or_else(|_| "10000,100000".into());
    for size in sizes.split(',') {
        run(generated(size.trim().parse().expect("BENCH_MESSAGES holds numbers")));
    }
}
