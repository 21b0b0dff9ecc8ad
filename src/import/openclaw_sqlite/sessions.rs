//! Which sessions a database holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use rusqlite::Row;

use super::connection::Database;
use super::events::first_text;
use super::io_error;
use crate::import::session_index::{entry_facts, main_key};
use crate::import::walk::FoundFile;
use crate::import::{Agents, DiscoverOptions, Discovery, Format, ImportError, Inside, SkipReason, Source};
use crate::limits::MAX_ID_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey};
use crate::transcript::{Event, EventKind};

/// Longest entry that is looked at, in bytes: they are some hundred, or 20 KB with a prompt in them.
const MAX_ENTRY_BYTES: u64 = 1024 * 1024;

/// What a database holds.
pub(super) struct Found {
    agent: Option<String>,
    sessions: Vec<FoundSession>,
}

struct FoundSession {
    inside: Inside,
    id: String,
    key: String,
    facts: Facts,
    is_current: bool,
    age: usize,
    len_bytes: u64,
    numbers_rows: bool,
    is_deleted: bool,
}

/// What the rows say of a session, as they say it.
#[derive(Default, Clone)]
struct Facts {
    entry: Option<String>,
    label: Option<String>,
    display_name: Option<String>,
    parent: Option<String>,
    spawned_by: Option<String>,
    archived: bool,
}

struct Node {
    current: String,
    facts: Facts,
}

/// The sessions of a database, each key's by age; `None` where it is none of OpenClaw's.
pub(super) fn found(database: &Database, path: &Path) -> io::Result<Option<Found>> {
    let has = |columns: &HashSet<String>, names: &[&str]| names.iter().all(|name| columns.contains(*name));
    let windows = database.columns("session_windows")?;
    let events = database.columns("transcript_events")?;
    if !has(&windows, &["session_id", "session_key"]) || !has(&events, &["session_id", "seq", "event_json"]) {
        return Ok(None);
    }
    let nodes = nodes(database)?;
    let lengths = lengths(database, &events)?;

    let optional = |name: &str| text_or_null(&windows, name);
    let created = if windows.contains("created_at") { "created_at" } else { "0" };
    let sql = format!(
        "SELECT session_id, session_key, {}, {}, {} FROM session_windows WHERE octet_length(session_id) <= {MAX_ID_BYTES} \
         AND octet_length(session_key) <= {MAX_ID_BYTES} ORDER BY session_key, {created}, session_id",
        optional("display_name"),
        optional("parent_session_key"),
        optional("spawned_by"),
    );
    let mut sessions = Vec::new();
    let mut ages: HashMap<String, usize> = HashMap::new();
    for (id, key, facts) in rows(database, &sql, |row| {
        let facts =
            Facts { display_name: row.get(2)?, parent: row.get(3)?, spawned_by: row.get(4)?, ..Facts::default() };
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, facts))
    })? {
        let Some(&len_bytes) = lengths.get(&id) else { continue };
        let node = nodes.get(&key).filter(|node| node.current == id);
        let age = ages.entry(key.clone()).or_default();
        *age += 1;
        let inside = Inside::Session { id: id.clone() };
        sessions.push(FoundSession {
            numbers_rows: is_first_version(database, path, &inside),
            inside,
            is_current: node.is_some(),
            facts: node.map_or(facts, |node| node.facts.clone()),
            age: *age,
            id,
            key,
            len_bytes,
            is_deleted: false,
        });
    }
    // Without its node the newest window of a key is the current one, and the current one is the newest.
    for session in &mut sessions {
        let newest = ages.get(&session.key).copied().unwrap_or_default();
        session.is_current |= !nodes.contains_key(&session.key) && session.age == newest;
        session.age += if session.is_current { newest } else { 0 };
    }
    sessions.extend(archives(database, path)?);
    Ok(Some(Found { agent: agent(database)?, sessions }))
}

fn rows<T>(database: &Database, sql: &str, read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> io::Result<Vec<T>> {
    let read = || database.connection.prepare(sql)?.query_map([], read)?.collect::<rusqlite::Result<Vec<T>>>();
    read().map_err(io_error)
}

/// A column as text that is no longer than an id, or NULL.
fn text_or_null(columns: &HashSet<String>, name: &str) -> String {
    if !columns.contains(name) {
        return "NULL".to_owned();
    }
    format!("CASE WHEN typeof({name}) = 'text' AND octet_length({name}) <= {MAX_ID_BYTES} THEN {name} END")
}

fn nodes(database: &Database) -> io::Result<HashMap<String, Node>> {
    let columns = database.columns("session_nodes")?;
    if !columns.contains("session_key") || !columns.contains("current_session_id") {
        return Ok(HashMap::new());
    }
    let entry = if columns.contains("entry_json") {
        format!("CASE WHEN octet_length(entry_json) <= {MAX_ENTRY_BYTES} THEN entry_json END")
    } else {
        "NULL".to_owned()
    };
    let archived = if columns.contains("archived_at") { "archived_at IS NOT NULL" } else { "0" };
    let optional = |name: &str| text_or_null(&columns, name);
    let sql = format!(
        "SELECT session_key, current_session_id, {entry}, {}, {}, {}, {}, {archived} FROM session_nodes \
         WHERE octet_length(session_key) <= {MAX_ID_BYTES} AND octet_length(current_session_id) <= {MAX_ID_BYTES}",
        optional("label"),
        optional("display_name"),
        optional("parent_session_key"),
        optional("spawned_by"),
    );
    let found = rows(database, &sql, |row| {
        let facts = Facts {
            entry: row.get(2)?,
            label: row.get(3)?,
            display_name: row.get(4)?,
            parent: row.get(5)?,
            spawned_by: row.get(6)?,
            archived: row.get(7)?,
        };
        Ok((row.get::<_, String>(0)?, Node { current: row.get(1)?, facts }))
    })?;
    Ok(found.into_iter().collect())
}

/// Bytes of events by session, of those that have any.
fn lengths(database: &Database, events: &HashSet<String>) -> io::Result<BTreeMap<String, u64>> {
    let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
    let packed = if events.contains("event_zstd") { "octet_length(event_zstd)" } else { "NULL" };
    let mut sums = vec![format!(
        "SELECT session_id, sum(coalesce(octet_length(event_json), {packed}, 0)) FROM transcript_events \
         WHERE octet_length(session_id) <= {MAX_ID_BYTES} GROUP BY session_id"
    )];
    let cold = database.columns("session_transcript_cold_archives")?;
    if cold.contains("session_id") && cold.contains("raw_bytes") {
        sums.push(format!(
            "SELECT session_id, raw_bytes FROM session_transcript_cold_archives \
             WHERE octet_length(session_id) <= {MAX_ID_BYTES}"
        ));
    }
    for sql in sums {
        for (id, bytes) in rows(database, &sql, |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))? {
            *lengths.entry(id).or_default() += u64::try_from(bytes).unwrap_or_default();
        }
    }
    Ok(lengths)
}

/// The transcripts that were taken out whole.
fn archives(database: &Database, path: &Path) -> io::Result<Vec<FoundSession>> {
    let columns = database.columns("session_transcript_archives")?;
    if !["session_id", "generation", "session_key", "reason", "archive_blob"].iter().all(|name| columns.contains(*name))
    {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT session_id, generation, session_key, reason, octet_length(archive_blob) \
         FROM session_transcript_archives WHERE octet_length(session_id) <= {MAX_ID_BYTES} \
         AND octet_length(generation) <= {MAX_ID_BYTES} AND octet_length(session_key) <= {MAX_ID_BYTES} \
         ORDER BY session_key, session_id, generation"
    );
    let found = rows(database, &sql, |row| {
        let (id, generation): (String, String) = (row.get(0)?, row.get(1)?);
        let reason: String = row.get(3)?;
        Ok(FoundSession {
            inside: Inside::Archive { id: id.clone(), generation },
            id,
            key: row.get(2)?,
            facts: Facts::default(),
            is_current: false,
            age: 0,
            len_bytes: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
            numbers_rows: false,
            is_deleted: reason != "reset",
        })
    })?;
    let with_version = |session: FoundSession| FoundSession {
        numbers_rows: is_first_version(database, path, &session.inside),
        ..session
    };
    Ok(found.into_iter().map(with_version).collect())
}

/// Whether a transcript is of the version whose rows have no ids.
fn is_first_version(database: &Database, path: &Path, inside: &Inside) -> bool {
    let first = first_text(database, path, inside).ok().flatten();
    let event = first.and_then(|text| Event::parse(&text).ok()).filter(|event| event.kind == EventKind::Header);
    event.and_then(|event| event.header).is_some_and(|header| header.version <= 1)
}

fn agent(database: &Database) -> io::Result<Option<String>> {
    let columns = database.columns("schema_meta")?;
    if !columns.contains("agent_id") {
        return Ok(None);
    }
    let sql = format!("SELECT {} FROM schema_meta", text_or_null(&columns, "agent_id"));
    Ok(rows(database, &sql, |row| row.get::<_, Option<String>>(0))?.into_iter().flatten().next())
}

/// Adds a source for each.
pub(super) fn add(
    file: &FoundFile,
    found: Found,
    options: &DiscoverOptions,
    agents: &mut Agents,
    discovery: &mut Discovery,
) -> Result<(), ImportError> {
    let own = match &found.agent {
        Some(name) => agents.named(name)?,
        None => agents.of_file(&file.canonical, options)?,
    };
    for session in found.sessions {
        if session.is_deleted && !options.include_deleted {
            discovery.skip(&file.path, SkipReason::Deleted);
            continue;
        }
        let key = match session.key.as_str() {
            "main" => main_key(&own),
            key => SessionKey::parse(key).ok(),
        };
        let (Ok(session_id), Some(session_key)) = (SessionId::parse(&session.id), key) else {
            discovery.skip(&file.path, SkipReason::UnknownFormat);
            continue;
        };
        if session_key.is_incognito() {
            discovery.skip(&file.path, SkipReason::Incognito);
            continue;
        }
        let agent = match session_key.agent_part() {
            Some(name) => AgentId::parse(name).or_else(|_| agents.named(name))?,
            None => own.clone(),
        };
        discovery.sources.push(Source {
            path: file.path.clone(),
            canonical_path: file.canonical.clone(),
            inside: Some(session.inside),
            format: Format::OpenClaw,
            agent,
            session_id,
            facts: session.facts.read(&session_key),
            session_key,
            copy_of: None,
            len_bytes: session.len_bytes,
            is_named: true,
            is_current: session.is_current,
            age: session.age,
            numbers_rows: session.numbers_rows,
            replaces: None,
        });
    }
    Ok(())
}

impl Facts {
    /// The entry, and over it what the columns say.
    fn read(self, key: &SessionKey) -> SessionFacts {
        let mut facts = self.entry.and_then(|entry| entry_facts(key, &entry)).unwrap_or_default();
        let text = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let other_key = |name: Option<String>| text(name).and_then(|name| SessionKey::parse(&name).ok());
        if let Some(label) = text(self.label).or_else(|| facts.label.clone()).or(text(self.display_name)) {
            facts.label = Some(label);
        }
        facts.parent = other_key(self.parent).or(facts.parent);
        facts.spawned_by = other_key(self.spawned_by).or(facts.spawned_by);
        facts.archived |= self.archived;
        facts
    }
}
