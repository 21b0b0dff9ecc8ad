//! `index-schema/` says what is on disk. These tests compare it with the code, and with the files a store is made of.

use std::fmt::Write as _;
use std::path::Path;

use redb::{ReadableDatabase as _, TableDefinition, TableHandle as _};
use serde::Serialize;
use serde_json::Value;
use sessions_search::__internal::store::{
    Counters, Death, DocumentRow, EventRow, IndexNote, IndexNotes, PendingReason, SchemaRow, SessionRow, SessionState,
    SourceRow, Statistics, TranscriptNumber, encode_row,
};
use sessions_search::__internal::{
    AgentId, Event, Head, MessageId, Ordinal, Parent, Reset, Role, SessionFacts, SessionId, SessionKey, Timestamp,
    TreeNode, TreeRow, TreeScan,
};
use sessions_search::{Analyzers, AppendRequest, Engine, OpenOptions, Redaction};

const STORE: &str = include_str!("../../index-schema/store.md");
const INDEX: &str = include_str!("../../index-schema/index.json");
const ANALYZERS: &str = include_str!("../../index-schema/analyzers.md");

/// The rows of the table below a heading of `store.md`: the cells of each, without backticks.
fn documented(heading: &str) -> Vec<Vec<String>> {
    let start = STORE.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("store.md has no {heading:?}"));
    let lines = STORE[start..].lines().skip(2).skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if i == 0 { "" } else { " " });
    }
    text
}

/// The bytes of one field inside a row.
fn field<T: Serialize>(value: &T) -> String {
    hex(&encode_row(value)[1..])
}

/// A row's fields, each with its bytes, in the order in which they are written.
macro_rules! fields {
    ($row:expr; $($name:ident),+ $(,)?) => {{
        let row = &$row;
        let fields: Vec<(&str, String)> = vec![$((stringify!($name), field(&row.$name))),+];
        let joined: Vec<&str> = fields.iter().map(|(_, hex)| hex.as_str()).filter(|hex| !hex.is_empty()).collect();
        assert_eq!(format!("01 {}", joined.join(" ")), hex(&encode_row(row)), "fields of {row:?}");
        fields
    }};
}

/// Compares a row with its table in `store.md`: the first cell of each line names the field, the last shows its bytes.
fn check_row(heading: &str, fields: &[(&str, String)]) {
    let told: Vec<(String, String)> = documented(heading)
        .into_iter()
        .map(|cells| (cells.first().unwrap().clone(), cells.last().unwrap().clone()))
        .collect();
    let is: Vec<(String, String)> = fields.iter().map(|(name, hex)| ((*name).to_owned(), hex.clone())).collect();
    let lines = |rows: &[(String, String)]| rows.iter().map(|(a, b)| format!("{a} | {b}\n")).collect::<String>();
    assert_eq!(lines(&told), lines(&is), "{heading}");
}

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

fn message_id(text: &str) -> MessageId {
    MessageId::parse(text).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// A head with something in most of its fields: a flat beginning, a parent that is missing, a side append.
fn head() -> Head {
    let mut scan = TreeScan::new();
    let lines = [
        r#"{"type":"message","id":"k1","parentId":"k0","message":{"role":"user","content":"x"}}"#,
        r#"{"type":"message","id":"k2","parentId":"k1","appendMode":"side","message":{"role":"user","content":"x"}}"#,
    ];
    for (seq, line) in lines.iter().enumerate() {
        scan.push(seq as u64, &TreeRow::of(&Event::parse(line.as_bytes()).unwrap(), None));
    }
    scan.resolve().head
}

#[test]
fn meta_rows_are_as_documented() {
    let counters = Counters { next_transcript: 2, next_document: 300, next_ordinal: 3, next_death: 1, events: 7 };
    check_row("### counters", &fields!(counters; next_transcript, next_document, next_ordinal, next_death, events));
    let statistics = Statistics { documents: 5, tokens: 128 };
    check_row("### statistics", &fields!(statistics; documents, tokens));
    let schema = SchemaRow {
        analyzer: "unicode-word".into(),
        analyzer_version: 1,
        redaction: "off".into(),
        redaction_choice: Redaction::with_patterns(["ott".to_owned()]).0,
    };
    check_row("### schema", &fields!(schema; analyzer, analyzer_version, redaction, redaction_choice));
    // The choice's fields are its own; it is documented whole.
    let told: Vec<String> = documented("#### choice").into_iter().map(|cells| cells.last().unwrap().clone()).collect();
    assert_eq!(told.join(" "), field(&schema.redaction_choice));
    let notes = IndexNotes { confirmed: None, intent: Some(IndexNote { checkpoint: 1, documents: 300, deaths: 1 }) };
    check_row("### index", &fields!(notes; confirmed, intent));
    let note = notes.intent.unwrap();
    check_row("#### note", &fields!(note; checkpoint, documents, deaths));
}

#[test]
fn session_rows_are_as_documented() {
    let facts = SessionFacts {
        label: Some("Otters".into()),
        spawned_by: Some(key("m")),
        parent: None,
        owner: None,
        archived: false,
        updated_at: Some(at(64)),
    };
    check_row("#### facts", &fields!(facts; label, spawned_by, parent, owner, archived, updated_at));
    let session = SessionRow {
        session_id: SessionId::parse("s1").unwrap(),
        session_key: key("agent:main:main"),
        created_at: at(1),
        updated_at: at(64),
        facts,
        title: None,
        state: SessionState::Pending(PendingReason::Rewind),
        ordinal: Ordinal(2),
        head: Some(head()),
        next_seq: 2,
        event_bytes: 190,
        documents: 1,
        tokens: 1,
        revision: 0,
    };
    check_row(
        "## `sessions`",
        &fields!(
            session;
            session_id, session_key, created_at, updated_at, facts, title, state, ordinal, head, next_seq,
            event_bytes, documents, tokens, revision,
        ),
    );
    // The head's fields are its own; it is documented whole.
    let told: Vec<String> = documented("#### head").into_iter().map(|cells| cells.last().unwrap().clone()).collect();
    assert_eq!(told.join(" "), field(&head()));
    let states = [
        SessionState::Ready,
        SessionState::Pending(PendingReason::Import),
        SessionState::Pending(PendingReason::Rewind),
        SessionState::Pending(PendingReason::Rebuild),
        SessionState::Pending(PendingReason::Unreadable),
        SessionState::Staged { replaces: TranscriptNumber(1), events: 3 },
    ];
    let told: Vec<String> = documented("#### state").into_iter().map(|cells| cells.last().unwrap().clone()).collect();
    assert_eq!(told, states.iter().map(field).collect::<Vec<_>>());
}

#[test]
fn event_rows_are_as_documented() {
    let tree = TreeRow {
        is_message: true,
        node: TreeNode::Entry {
            id: message_id("k2"),
            parent: Some(Parent::Below(message_id("k1"))),
            side: false,
            reset: None,
        },
    };
    let row = EventRow {
        tree,
        rebased: false,
        timestamp: at(64),
        timed: false,
        is_header: false,
        text_bytes: 2,
        normalised: None,
        raw: b"{}",
    };
    check_row("## `events`", &fields!(row; tree, rebased, timestamp, timed, is_header, text_bytes, normalised, raw));
    let nodes = [
        TreeNode::Absent,
        TreeNode::Entry {
            id: message_id("k2"),
            parent: Some(Parent::Root),
            side: true,
            reset: Some(Reset { first_kept: None }),
        },
        TreeNode::Control {
            id: message_id("k3"),
            parent: Parent::Root,
            target: Parent::Root,
            append_parent: Parent::Below(message_id("k1")),
        },
        TreeNode::Opaque { id: message_id("k4"), parent: Parent::Root },
    ];
    let told: Vec<String> = documented("#### node").into_iter().map(|cells| cells.last().unwrap().clone()).collect();
    assert_eq!(told, nodes.iter().map(field).collect::<Vec<_>>());
}

#[test]
fn the_other_rows_are_as_documented() {
    let document = DocumentRow {
        transcript: TranscriptNumber(1),
        ordinal: Ordinal(2),
        seq: 300,
        message_id: message_id("k2"),
        role: Role::Assistant,
        timestamp: at(64),
        length: 1,
        text: "hi",
    };
    check_row(
        "## `documents`",
        &fields!(document; transcript, ordinal, seq, message_id, role, timestamp, length, text),
    );
    let source = SourceRow {
        session_id: SessionId::parse("s1").unwrap(),
        owns: true,
        offset: 300,
        line: 3,
        mark: 255,
        rows: 2,
        stamp: 16,
    };
    check_row("## `sources`", &fields!(source; session_id, owns, offset, line, mark, rows, stamp));
    let deaths = [Death::Ordinal(Ordinal(2)), Death::Documents { ordinal: Ordinal(2), numbers: vec![1, 300] }];
    let told: Vec<String> = documented("## `deaths`").into_iter().map(|cells| cells.last().unwrap().clone()).collect();
    assert_eq!(told, deaths.iter().map(field).collect::<Vec<_>>());
}

#[test]
fn the_documented_analyzers_are_those_of_the_code() {
    let analyzers = Analyzers::default();
    let code: Vec<String> =
        analyzers.names().map(|name| format!("| `{name}` | {} |", analyzers.find(name).unwrap().version())).collect();
    let told: Vec<&str> = ANALYZERS.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(told.len(), code.len());
    for (told, code) in told.iter().zip(&code) {
        assert!(told.starts_with(code), "{told} is {code}");
    }
    for name in analyzers.names() {
        assert!(ANALYZERS.contains(&format!("\n## `{name}`\n")), "{name} is explained");
    }
}

/// A store with enough in it that a checkpoint has written segments.
fn store(folder: &Path) -> String {
    let mut options = OpenOptions::default();
    options.create = true;
    let engine = Engine::open(folder, options).unwrap();
    let line = r#"{"type":"message","id":"k1","message":{"role":"user","content":"otter"}}"#;
    engine.append(AppendRequest::new(key("agent:main:main"), vec![line.into()]), at(64)).unwrap();
    engine.checkpoint().unwrap();
    let schema = engine.status().unwrap().schema;
    engine.close().unwrap();
    schema
}

fn agent_folder(root: &Path) -> std::path::PathBuf {
    root.join("agents").join(AgentId::default().as_str())
}

#[test]
fn a_store_has_the_documented_tables_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path());
    let database = redb::Database::open(agent_folder(folder.path()).join("transcripts.redb")).unwrap();
    let read = database.begin_read().unwrap();
    let mut found: Vec<String> = read.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
    found.sort();
    let tables = documented("# Tables");
    let mut told: Vec<String> = tables.iter().map(|cells| cells[0].clone()).collect();
    told.sort();
    assert_eq!(told, found);
    // Opening a table as another type than it was made with fails.
    macro_rules! open {
        ($name:expr, $key:ty, $value:ty) => {
            drop(read.open_table(TableDefinition::<$key, $value>::new($name)).unwrap())
        };
    }
    for cells in &tables {
        let name = cells[0].as_str();
        match (cells[1].as_str(), cells[2].as_str()) {
            ("str", "bytes") => open!(name, &str, &[u8]),
            ("str", "u64") => open!(name, &str, u64),
            ("str", "i64") => open!(name, &str, i64),
            ("u64", "bytes") => open!(name, u64, &[u8]),
            ("u64", "nothing") => open!(name, u64, ()),
            ("(str, u64)", "nothing") => open!(name, (&str, u64), ()),
            ("(u64, u64)", "bytes") => open!(name, (u64, u64), &[u8]),
            ("(u64, u64)", "u64") => open!(name, (u64, u64), u64),
            ("(u64, str)", "u64") => open!(name, (u64, &str), u64),
            other => panic!("{name}: {other:?}"),
        }
    }
    let meta = read.open_table(TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    let mut found: Vec<String> =
        redb::ReadableTable::iter(&meta).unwrap().map(|row| row.unwrap().0.value().to_owned()).collect();
    found.sort();
    let mut told: Vec<String> = documented("## `meta`").iter().map(|cells| cells[0].clone()).collect();
    told.sort();
    assert_eq!(told, found);
    let format = meta.get("format").unwrap().unwrap().value().to_vec();
    assert!(STORE.contains(&format!("format {}", u32::from_le_bytes(format.try_into().unwrap()))));
    assert_eq!(meta.get("uuid").unwrap().unwrap().value().len(), 16);
}

#[test]
fn an_index_has_the_documented_fields_and_payload() {
    let folder = tempfile::tempdir().unwrap();
    let schema = store(folder.path());
    let meta = std::fs::read_to_string(agent_folder(folder.path()).join("index/meta.json")).unwrap();
    let meta: Value = serde_json::from_str(&meta).unwrap();
    let told: Value = serde_json::from_str(INDEX).unwrap();
    assert_eq!(told["schema"], meta["schema"], "tantivy's own description of the fields");

    let field_names: Vec<&str> =
        told["schema"].as_array().unwrap().iter().map(|field| field["name"].as_str().unwrap()).collect();
    let explained: Vec<&str> = told["fields"].as_object().unwrap().keys().map(String::as_str).collect();
    for name in &field_names {
        assert!(explained.contains(name), "{name} is not explained");
    }
    assert_eq!(field_names.len(), explained.len());

    let payload: Value = serde_json::from_str(meta["payload"].as_str().unwrap()).unwrap();
    let payload = payload.as_object().unwrap();
    let told_payload = told["payload"].as_object().unwrap();
    assert_eq!(payload.keys().collect::<Vec<_>>(), told_payload.keys().collect::<Vec<_>>());
    assert_eq!((&payload["documents"], &payload["deaths"], &payload["checkpoint"]), (&1.into(), &0.into(), &1.into()));
    assert_eq!(payload["store"].as_str().map(str::len), Some(32));

    // `status` shows `<analyzer>/<version> redaction <fingerprint>`.
    let (analyzer, redaction) = schema.split_once(" redaction ").unwrap();
    let (analyzer, version) = analyzer.split_once('/').unwrap();
    let fingerprint = told["fingerprint"]["format"].as_str().unwrap();
    let fingerprint = fingerprint
        .replace("{index version}", &told["version"].to_string())
        .replace("{analyzer}", analyzer)
        .replace("{analyzer version}", version)
        .replace("{redaction}", redaction);
    assert_eq!(payload["schema"], fingerprint);
}
