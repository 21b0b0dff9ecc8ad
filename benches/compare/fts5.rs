//! SQLite FTS5 as OpenClaw uses it: WAL, one transaction an append that writes the session's row, the event, its identity,
//! its FTS5 row and the session's place in the index; a search joins the sessions.
//!
//! OpenClaw leaves SQLite's page cache at 2 MB; here it is 64 MiB, twice ours. `BENCH_FTS5_MAPPED_MB` maps so much of the
//! file besides, which OpenClaw does not. What ours does and SQLite is not asked to: parsing the lines it imports,
//! redaction, the active branch.

use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::backend::{Acknowledge, Backend, Bytes, Hit, LIMIT, Query, Reader};
use crate::corpus::{Message, key_of};

pub struct Fts5 {
    /// One connection for everything but the reader beside a writer. Writers of several threads take turns at this lock:
    /// quicker than SQLite's own, whose waiters sleep.
    db: Mutex<Connection>,
    path: PathBuf,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS windows(session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, updated INTEGER);
    CREATE INDEX IF NOT EXISTS windows_by_key ON windows(session_key);
    CREATE TABLE IF NOT EXISTS events(session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER,
        PRIMARY KEY (session_id, seq)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS identities(session_id TEXT, event_id TEXT, seq INTEGER,
        PRIMARY KEY (session_id, event_id)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS index_state(session_id TEXT PRIMARY KEY, indexed_seq INTEGER, leaf_event_id TEXT,
        needs_rebuild INTEGER NOT NULL DEFAULT 0, updated_at INTEGER);
    CREATE VIRTUAL TABLE IF NOT EXISTS fts USING fts5(text, session_id UNINDEXED, message_id UNINDEXED,
        role UNINDEXED, timestamp UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');";

/// So much of the file is mapped, in MB.
pub fn mapped_mb() -> u64 {
    std::env::var("BENCH_FTS5_MAPPED_MB").map_or(0, |mb| mb.parse().expect("BENCH_FTS5_MAPPED_MB is a number"))
}

fn connect(path: &Path, acknowledge: Acknowledge) -> Connection {
    let db = Connection::open(path).unwrap();
    let synchronous = match acknowledge {
        Acknowledge::OnDisk => "FULL",
        Acknowledge::Soon => "NORMAL",
    };
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -65536;
         PRAGMA mmap_size = {}; PRAGMA busy_timeout = 30000;",
        mapped_mb() * 1024 * 1024
    ))
    .unwrap();
    db.set_prepared_statement_cache_capacity(64);
    db
}

/// Opens or makes the database in a folder.
pub fn open(folder: &Path, acknowledge: Acknowledge) -> Box<dyn Backend> {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("openclaw.sqlite");
    let db = connect(&path, acknowledge);
    db.execute_batch(SCHEMA).unwrap();
    Box::new(Fts5 { db: Mutex::new(db), path })
}

fn run(db: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) {
    db.prepare_cached(sql).unwrap().execute(values).unwrap();
}

fn write(db: &Connection, message: &Message) {
    let Message { session, id, role, timestamp, text } = message;
    run(
        db,
        "INSERT INTO windows VALUES (?1, ?2, ?3) ON CONFLICT (session_id) DO UPDATE SET updated = ?3",
        &[session, &key_of(session), timestamp],
    );
    let seq: i64 = db
        .prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM events WHERE session_id = ?")
        .unwrap()
        .query_row([session], |row| row.get(0))
        .unwrap();
    run(db, "INSERT INTO events VALUES (?, ?, ?, ?)", &[session, &seq, &message.line(), timestamp]);
    run(db, "INSERT INTO identities VALUES (?, ?, ?)", &[session, id, &seq]);
    run(
        db,
        "INSERT INTO fts(text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?)",
        &[text, session, id, role, timestamp],
    );
    run(
        db,
        "INSERT INTO index_state(session_id, indexed_seq, leaf_event_id, updated_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session_id) DO UPDATE SET indexed_seq = ?2, leaf_event_id = ?3, updated_at = ?4",
        &[session, &seq, id, timestamp],
    );
}

fn delete(db: &Connection, session: &str) {
    for table in ["fts", "events", "identities", "index_state", "windows"] {
        run(db, &format!("DELETE FROM {table} WHERE session_id = ?"), &[&session]);
    }
}

fn begin(db: &mut Connection) -> Transaction<'_> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

/// The expression OpenClaw makes: each piece a phrase in quotes, all of them.
fn expression(query: &Query) -> String {
    let quoted: Vec<String> =
        query.words.split_whitespace().map(|piece| format!("\"{}\"", piece.replace('"', "\"\""))).collect();
    quoted.join(" AND ") + if query.prefix { " *" } else { "" }
}

fn search(db: &Connection, query: &Query, keys: Option<&[String]>) -> Vec<Hit> {
    let keys = keys.map(|keys| serde_json::to_string(keys).unwrap());
    let filter = if keys.is_some() { "w.session_key IN (SELECT value FROM json_each(?2))" } else { "?2 IS NULL" };
    let sql = format!(
        "SELECT fts.message_id, w.session_key, -rank, snippet(fts, 0, '', '', ' … ', 48), fts.role, fts.timestamp FROM fts
         JOIN windows w ON w.session_id = fts.session_id
         WHERE fts MATCH ?1 AND {filter} ORDER BY rank, timestamp DESC, message_id LIMIT {}",
        LIMIT + 1
    );
    let mut statement = db.prepare_cached(&sql).unwrap();
    let rows = statement
        .query_map(params![expression(query), keys], |row| {
            let _: (String, i64) = (row.get(4)?, row.get(5)?);
            Ok(Hit { message_id: row.get(0)?, session_key: row.get(1)?, score: row.get(2)?, excerpt: row.get(3)? })
        })
        .unwrap();
    rows.map(Result::unwrap).take(LIMIT).collect()
}

impl Fts5 {
    fn db(&self) -> MutexGuard<'_, Connection> {
        self.db.lock()
    }
}

impl Backend for Fts5 {
    fn import(&self, _files: &Path, messages: &[Message]) {
        let mut db = self.db();
        for batch in messages.chunks(4_096) {
            let transaction = begin(&mut db);
            batch.iter().for_each(|message| write(&transaction, message));
            transaction.commit().unwrap();
        }
    }

    fn append(&self, message: &Message) {
        let mut db = self.db();
        let transaction = begin(&mut db);
        write(&transaction, message);
        transaction.commit().unwrap();
    }

    fn search(&self, query: &Query, keys: Option<&[String]>) -> Vec<Hit> {
        search(&self.db(), query, keys)
    }

    fn delete_session(&self, session: &str) {
        let mut db = self.db();
        let transaction = begin(&mut db);
        delete(&transaction, session);
        transaction.commit().unwrap();
    }

    fn replace_session(&self, session: &str, messages: &[&Message]) {
        let mut db = self.db();
        let transaction = begin(&mut db);
        delete(&transaction, session);
        messages.iter().for_each(|message| write(&transaction, message));
        transaction.commit().unwrap();
    }

    fn rebuild(&self) {
        let mut db = self.db();
        let transaction = begin(&mut db);
        transaction
            .execute_batch(&format!(
                "DROP TABLE fts; {SCHEMA}
                 INSERT INTO fts(text, session_id, message_id, role, timestamp)
                 SELECT event_json ->> '$.message.content[0].text', session_id, event_json ->> '$.id',
                     event_json ->> '$.message.role', event_json ->> '$.timestamp'
                 FROM events WHERE event_json ->> '$.type' = 'message' ORDER BY session_id, seq;"
            ))
            .unwrap();
        transaction.commit().unwrap();
    }

    fn rebuild_from_own_copy(&self) -> bool {
        self.db().execute_batch("INSERT INTO fts(fts) VALUES ('rebuild')").unwrap();
        true
    }

    fn settle(&self) {
        self.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    }

    fn reader(&self) -> Reader<'_> {
        let db = connect(&self.path, Acknowledge::OnDisk);
        Box::new(move |query| search(&db, query, None))
    }

    fn bytes(&self) -> Bytes {
        let db = self.db();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let index: i64 = db
            .query_row(
                "SELECT sum(pgsize) FROM dbstat WHERE name IN ('fts_data', 'fts_docsize', 'fts_idx')",
                [],
                |row| row.get(0),
            )
            .unwrap();
        Bytes { index: index as u64, whole: fs::metadata(&self.path).unwrap().len() }
    }

    fn close(self: Box<Self>) {
        let db = self.db.into_inner();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        db.close().unwrap();
    }
}

/// How many messages match.
pub fn count(folder: &Path, query: &Query) -> u64 {
    let db = connect(&folder.join("openclaw.sqlite"), Acknowledge::OnDisk);
    let sql = "SELECT count(*) FROM fts WHERE fts MATCH ?";
    db.query_row(sql, [expression(query)], |row| row.get::<_, i64>(0)).unwrap() as u64
}
