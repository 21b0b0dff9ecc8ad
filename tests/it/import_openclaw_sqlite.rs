//! OpenClaw's own database: that it gives what the JSONL it was made from gives, in whatever state it is found, and that
//! nothing of it changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sessions_search::ImportOptions;

use crate::data;
use crate::imported::counts;
use crate::program::message;
use crate::random::Random;
use crate::stores::{Stores, assert_same, files};

/// The tables that matter, as OpenClaw 2026.9 makes them.
const SCHEMA: &str = "
    CREATE TABLE schema_meta (meta_key TEXT NOT NULL PRIMARY KEY, agent_id TEXT) STRICT;
    CREATE TABLE session_nodes (session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL,
        entry_json TEXT NOT NULL, parent_session_key TEXT, spawned_by TEXT, label TEXT, display_name TEXT,
        archived_at INTEGER) STRICT;
    CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL,
        created_at INTEGER NOT NULL, parent_session_key TEXT, spawned_by TEXT, display_name TEXT) STRICT;
    CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
        event_zstd BLOB, event_utf8_bytes INTEGER, PRIMARY KEY (session_id, seq)) STRICT;
    CREATE TABLE transcript_rewrite_watermarks (session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL) STRICT;
    CREATE TABLE session_transcript_archives (session_id TEXT NOT NULL, generation TEXT NOT NULL,
        session_key TEXT NOT NULL, reason TEXT NOT NULL, encoding TEXT NOT NULL, archive_blob BLOB NOT NULL,
        PRIMARY KEY (session_id, generation)) STRICT;
    CREATE TABLE session_transcript_cold_archives (session_id TEXT NOT NULL PRIMARY KEY, archive_name TEXT NOT NULL,
        raw_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL, storage TEXT NOT NULL, archive_blob BLOB) STRICT;";

/// An OpenClaw state folder with a database.
struct State {
    folder: tempfile::TempDir,
    database: Connection,
}

impl State {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = database_in(folder.path());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let database = Connection::open(path).unwrap();
        database.execute_batch(SCHEMA).unwrap();
        database.execute("INSERT INTO schema_meta VALUES ('primary', 'main')", []).unwrap();
        Self { folder, database }
    }

    fn path(&self) -> PathBuf {
        database_in(self.folder.path())
    }

    fn window(&self, id: &str, key: &str, created: i64) {
        self.run("INSERT INTO session_windows VALUES (?1, ?2, ?3, NULL, NULL, NULL)", params![id, key, created]);
        self.run("INSERT INTO transcript_rewrite_watermarks VALUES (?1, 'g1')", params![id]);
    }

    fn node(&self, key: &str, current: &str, entry: &str) {
        let sql = "INSERT INTO session_nodes VALUES (?1, ?2, ?3, NULL, NULL, NULL, NULL, NULL)";
        self.run(sql, params![key, current, entry]);
    }

    fn event(&self, id: &str, seq: i64, text: &str) {
        self.run("INSERT INTO transcript_events VALUES (?1, ?2, ?3, NULL, NULL)", params![id, seq, text]);
    }

    fn packed(&self, id: &str, seq: i64, text: &str) {
        let frame = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        let sql = "INSERT INTO transcript_events VALUES (?1, ?2, NULL, ?3, ?4)";
        self.run(sql, params![id, seq, frame, text.len() as i64]);
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) {
        self.database.execute(sql, values).unwrap();
    }
}

fn database_in(folder: &Path) -> PathBuf {
    folder.join("agents/main/agent/openclaw-agent.sqlite")
}

fn header(id: &str) -> String {
    format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-05-11T08:00:00.000Z"}}"#)
}

/// A database with two windows of a key, a sub-agent, and a packed event; and the JSONL that says the same.
fn both() -> (State, tempfile::TempDir) {
    let state = State::new();
    let long = message("m2", "assistant", &"an otter's long answer ".repeat(100));
    let sessions = [
        ("s1", "agent:main:main", 1, vec![header("s1"), message("m1", "user", "before the reset")]),
        ("s2", "agent:main:main", 2, vec![header("s2"), message("m1", "user", "after the reset"), long]),
        ("s3", "agent:main:subagent:x", 3, vec![header("s3"), message("m1", "assistant", "the sub-agent's otter")]),
    ];
    let jsonl = tempfile::tempdir().unwrap();
    let folder = jsonl.path().join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    for (id, key, created, lines) in &sessions {
        state.window(id, key, *created);
        for (seq, line) in (0..).zip(lines) {
            if line.len() > 1_000 { state.packed(id, seq, line) } else { state.event(id, seq, line) }
        }
        fs::write(folder.join(format!("{id}.jsonl")), lines.join("\n") + "\n").unwrap();
    }
    state.node("agent:main:main", "s2", r#"{"sessionId":"s2","updatedAt":1780000000000,"label":"Otters"}"#);
    state.node(
        "agent:main:subagent:x",
        "s3",
        r#"{"sessionId":"s3","updatedAt":1780000000000,"spawnedBy":"agent:main:main"}"#,
    );
    let index = r#"{"agent:main:main":{"sessionId":"s2","updatedAt":1780000000000,"label":"Otters",
        "windows":[{"sessionId":"s1"}]},"agent:main:subagent:x":{"sessionId":"s3","updatedAt":1780000000000,
        "spawnedBy":"agent:main:main"}}"#;
    fs::write(folder.join("sessions.json"), index).unwrap();
    (state, jsonl)
}

#[test]
fn a_database_written_by_openclaw_gives_what_its_jsonl_gives() {
    let Some(data) = data::test_data("a_database_written_by_openclaw_gives_what_its_jsonl_gives") else { return };
    let from = data.join("openclaw/openclaw-2026.9.6-small");
    let folder = tempfile::tempdir().unwrap();
    let (sessions, database) = (folder.path().join("jsonl/agents/main/sessions"), folder.path().join("sqlite"));
    fs::create_dir_all(&sessions).unwrap();
    for entry in fs::read_dir(from.join("sessions-before-import")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), sessions.join(entry.file_name())).unwrap();
    }
    fs::copy(from.join("sessions.json.before-import"), sessions.join("sessions.json")).unwrap();
    fs::create_dir_all(database_in(&database).parent().unwrap()).unwrap();
    fs::copy(from.join("openclaw-agent.sqlite"), database_in(&database)).unwrap();

    let (jsonl, sqlite) = (Stores::new(), Stores::new());
    let of_jsonl = jsonl.import(&folder.path().join("jsonl"), &ImportOptions::default());
    let of_sqlite = sqlite.import(&database, &ImportOptions::default());
    assert_eq!(counts(&of_jsonl), counts(&of_sqlite));
    assert_eq!((of_sqlite.events, of_sqlite.sessions), (762, 8), "{of_sqlite:?}");
    assert_same(&jsonl, &sqlite, "2026.9.6");
    let again = sqlite.import(&database, &ImportOptions::default());
    assert_eq!((counts(&again), again.files_skipped.len()), ([0; 4], 0), "{again:?}");
    // The JSONL beside it is the same content a second time.
    let copies = sqlite.import(folder.path(), &ImportOptions::default());
    assert_eq!((counts(&copies), copies.sessions), ([0; 4], 0), "{copies:?}");
    assert_eq!(copies.files_skipped.len(), 8);
}

#[test]
fn an_older_schema_is_read_too() {
    let Some(data) = data::test_data("an_older_schema_is_read_too") else { return };
    let sql = fs::read_to_string(data.join("openclaw/openclaw-2026.8.2-window/openclaw-agent.2026.8.2.sql")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let stores = Stores::new();
    let summary = stores.import(&path, &ImportOptions::default());
    assert_eq!((summary.sessions, summary.events, summary.rejected_total), (2, 7, 0), "{summary:?}");
    let index = &files(stores.exported().path())["agents/main/sessions/sessions.json"];
    let index: serde_json::Value = serde_json::from_slice(index).unwrap();
    let main = &index["agent:main:main"];
    let ids = (&main["windows"][0]["sessionId"], &main["sessionId"]);
    assert_eq!(ids, (&"b2c3d4e5-f6a7-4b8c-9d0e-1f2a3b4c5d6e".into(), &"a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d".into()));
}

#[test]
fn a_database_gives_what_its_jsonl_gives() {
    let (state, jsonl) = both();
    assert_same(&Stores::imported(jsonl.path()), &Stores::imported(state.folder.path()), "both");
}

#[test]
fn every_state_a_database_is_found_in_is_read_and_left_as_it_is() {
    let (state, jsonl) = both();
    let expected = Stores::imported(jsonl.path());
    let check = |folder: &Path, what: &str| {
        let before = files(folder);
        // The index of a log is where readers say that they are there: no part of what is stored.
        let stored = |files: BTreeMap<String, Vec<u8>>| -> Vec<(String, Vec<u8>)> {
            let content = |(name, bytes): (String, Vec<u8>)| {
                let bytes = if name.ends_with("-shm") { Vec::new() } else { bytes };
                (name, bytes)
            };
            files.into_iter().map(content).collect()
        };
        assert_same(&expected, &Stores::imported(folder), what);
        let (before, after) = (stored(before), stored(files(folder)));
        assert!(before == after, "{what}: {} files before, {} after", before.len(), after.len());
    };
    check(state.folder.path(), "no log");
    state.database.pragma_update(None, "journal_mode", "WAL").unwrap();
    state.database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    state.run("UPDATE schema_meta SET meta_key = 'p'", []);
    // What follows stands in the log alone.
    state.run("DELETE FROM transcript_events WHERE session_id = 's3' AND seq = 1", []);
    state.event("s3", 1, &message("m1", "assistant", "the sub-agent's otter"));
    assert!(fs::metadata(state.path().with_extension("sqlite-wal")).unwrap().len() > 0);
    check(state.folder.path(), "in use");

    let copy = tempfile::tempdir().unwrap();
    fs::create_dir_all(database_in(copy.path()).parent().unwrap()).unwrap();
    for suffix in ["", "-wal"] {
        let name = |folder: &Path| PathBuf::from(format!("{}{suffix}", database_in(folder).display()));
        fs::copy(name(state.folder.path()), name(copy.path())).unwrap();
    }
    check(copy.path(), "a copy with its log");

    let State { folder, database } = state;
    database.close().unwrap();
    assert!(!database_in(folder.path()).with_extension("sqlite-wal").exists());
    check(folder.path(), "closed, without a log");
}

#[test]
fn a_database_that_grew_goes_on_and_one_written_anew_is_taken_anew() {
    let (state, _) = both();
    let stores = Stores::imported(state.folder.path());
    state.packed("s2", 3, &message("m3", "user", "grown otter"));
    let grown = stores.import(state.folder.path(), &ImportOptions::default());
    assert_eq!((counts(&grown), grown.sessions), ([1, 1, 0, 0], 1), "{grown:?}");
    let again = stores.import(state.folder.path(), &ImportOptions::default());
    assert_eq!(counts(&again), [0; 4], "{again:?}");

    // As when OpenClaw compacts a session: another beginning, and another generation.
    state.run(
        "UPDATE transcript_events SET event_json = ?1 WHERE session_id = 's2' AND seq = 1",
        [message("m1", "user", "rewritten beginning")],
    );
    state.run("UPDATE transcript_rewrite_watermarks SET generation = 'g2' WHERE session_id = 's2'", []);
    stores.import(state.folder.path(), &ImportOptions::default());
    assert_same(&stores, &Stores::imported(state.folder.path()), "written anew");
    let again = stores.import(state.folder.path(), &ImportOptions::default());
    assert_eq!(counts(&again), [0; 4], "{again:?}");
}

#[test]
fn what_was_moved_out_of_the_table_is_read_too() {
    let (state, jsonl) = both();
    let lines = |id: &str| fs::read(jsonl.path().join(format!("agents/main/sessions/{id}.jsonl"))).unwrap();
    // The beginning of one session lies in the database, that of another in a file.
    let first_two: Vec<u8> = lines("s2").split_inclusive(|&byte| byte == b'\n').take(2).flatten().copied().collect();
    let packed = compress_to_vec(first_two.as_slice(), CompressionLevel::Fastest);
    state.run("DELETE FROM transcript_events WHERE session_id = 's2' AND seq < 2", []);
    let cold = "INSERT INTO session_transcript_cold_archives VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    state.run(cold, params!["s2", "a.jsonl.zst", 300, 1, "sqlite", packed]);
    state.run("DELETE FROM transcript_events WHERE session_id = 's3'", []);
    state.run(cold, params!["s3", "b.jsonl.zst", 300, 1, "file", None::<Vec<u8>>]);
    let folder = state.folder.path().join("agents/main/sessions/cold");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("b.jsonl.zst"), compress_to_vec(lines("s3").as_slice(), CompressionLevel::Fastest)).unwrap();
    let stores = Stores::imported(&state.path());
    assert_same(&Stores::imported(jsonl.path()), &stores, "cold");
    state.event("s2", 3, &message("m3", "user", "grown behind its archive"));
    let grown = stores.import(&state.path(), &ImportOptions::default());
    assert_eq!(counts(&grown), [1, 1, 0, 0], "{grown:?}");

    // A session that a reset left as a whole, and one that was deleted.
    let archive = "INSERT INTO session_transcript_archives VALUES (?1, 'g1', 'agent:main:main', ?2, ?3, ?4)";
    let text = |id: &str| format!("{}\n{}\n", header(id), message("m1", "user", &format!("archived walrus {id}")));
    state.run(
        archive,
        params!["s4", "reset", "zstd", compress_to_vec(text("s4").as_bytes(), CompressionLevel::Fastest)],
    );
    state.run(archive, params!["s5", "deleted", "identity", text("s5").into_bytes()]);
    let mut options = ImportOptions::default();
    let summary = stores.import(&state.path(), &options);
    assert_eq!(counts(&summary), [2, 1, 0, 0], "{summary:?}");
    assert!(summary.files_skipped[0].reason.contains("--include-deleted"), "{summary:?}");
    options.include_deleted = true;
    assert_eq!(counts(&stores.import(&state.path(), &options)), [2, 1, 0, 0]);
    assert_eq!(counts(&stores.import(&state.path(), &options)), [0; 4]);
    let found = stores.seen(&["walrus".to_owned()]);
    assert_eq!(found[0].2[0]["results"].as_array().unwrap().len(), 2);
    let s4 = found[0].1.iter().find(|session| session.session_id.as_str() == "s4").unwrap();
    assert_eq!(s4.session_key.as_str(), "agent:main:main");

    // An archive that is not there costs its session, and is told.
    fs::remove_file(folder.join("b.jsonl.zst")).unwrap();
    let summary = Stores::new().import(&state.path(), &options);
    assert!(summary.files_skipped.iter().any(|skipped| skipped.reason.contains("b.jsonl.zst")), "{summary:?}");
}

#[test]
fn each_row_is_accounted_for_and_hostile_ones_are_bounded() {
    let state = State::new();
    state.window("s1", "agent:main:main", 1);
    state.event("s1", 0, &header("s1"));
    state.event("s1", 1, &message("m1", "user", "an otter"));
    state.event("s1", 2, "not json");
    state.event("s1", 3, "  ");
    state.event(
        "s1",
        4,
        "{\"type\":\"message\",\n\"id\":\"m2\",\"message\":{\"role\":\"user\",\"content\":\"on two lines\"}}",
    );
    let bomb = compress_to_vec(vec![b' '; 3 << 20].as_slice(), CompressionLevel::Fastest);
    let packed = "INSERT INTO transcript_events VALUES ('s1', ?1, NULL, ?2, ?3)";
    state.run(packed, params![5, bomb, 100]);
    state.run(packed, params![6, b"no frame", 100]);
    state.run(
        packed,
        params![7, compress_to_vec(message("m3", "user", "declared short").as_bytes(), CompressionLevel::Fastest), -5],
    );
    state.run("INSERT INTO transcript_events SELECT 's1', 8, hex(zeroblob(33600000)), NULL, NULL", []);
    state.event("s1", 9_000_000_000, &message("m4", "user", "a gap before"));
    let stores = Stores::new();
    let summary = stores.import(&state.path(), &ImportOptions::default());
    assert_eq!(summary.events + summary.skipped + summary.rejected_total, 10, "{summary:?}");
    assert_eq!(counts(&summary), [5, 4, 1, 4], "{summary:?}");
    let reasons: Vec<&str> = summary.rejected.iter().map(|rejected| rejected.reason.as_str()).collect();
    assert!(reasons[1].contains("compressed event") && reasons[2].contains("compressed event"), "{reasons:?}");
    assert!(reasons[3].starts_with("67200000 bytes long"), "{reasons:?}");
    assert_eq!(counts(&stores.import(&state.path(), &ImportOptions::default())), [0; 4]);
}

#[test]
fn a_database_that_is_none_of_openclaws_is_told_so() {
    for schema in [
        "CREATE TABLE t (x)",
        "CREATE TABLE e (session_id, seq, event_json); CREATE VIEW transcript_events AS SELECT * FROM e;
         CREATE TABLE session_windows (session_id, session_key)",
        "CREATE TABLE transcript_events (session_id, seq, event_json AS (hex(zeroblob(500000000))));
         CREATE TABLE session_windows (session_id, session_key); INSERT INTO session_windows VALUES ('a', 'b')",
        "CREATE VIRTUAL TABLE transcript_events USING fts5(session_id, seq, event_json);
         CREATE TABLE session_windows (session_id, session_key)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        Connection::open(folder.path().join("x.sqlite")).unwrap().execute_batch(schema).unwrap();
        let summary = Stores::new().import(folder.path(), &ImportOptions::default());
        assert_eq!(summary.files_skipped.len(), 1, "{schema}");
        assert_eq!(summary.files_skipped[0].reason, "a database, and none of OpenClaw's", "{schema}");
    }
}

#[test]
fn rows_that_say_nothing_usable_are_passed_over() {
    let state = State::new();
    let odd = ["", "main", "agent:main:dashboard:incognito-1", "agent:../../x:main", "agent:Work:main"];
    for (at, key) in odd.into_iter().enumerate() {
        let id = format!("s{at}");
        state.window(&id, key, 1);
        state.node(key, &id, "not json");
        state.event(&id, 0, &message("m1", "user", "an otter"));
    }
    let stores = Stores::new();
    let summary = stores.import(&state.path(), &ImportOptions::default());
    assert_eq!((summary.events, summary.files_skipped.len()), (3, 2), "{summary:?}");
    assert_eq!(stores.agents(), ["main", "work", "x"]);
}

#[test]
fn damage_anywhere_is_an_error_and_no_panic() {
    let (state, _) = both();
    let whole = fs::read(state.path()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sqlite");
    let mut random = Random::new(7);
    for round in 0..60 {
        let mut bytes = whole.clone();
        if round % 4 == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        for _ in 0..=random.below(20) {
            let len = bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(random.below(len)) {
                *byte = random.below(256) as u8;
            }
        }
        fs::write(&path, bytes).unwrap();
        let summary = Stores::new().import(folder.path(), &ImportOptions::default());
        assert!(summary.events <= 7, "{summary:?}");
    }
}
