//! `sessions.json`: the index that OpenClaw keeps beside transcripts, and an import reads.

use std::io;

use serde::Serialize;

use crate::model::{SessionFacts, SessionId, SessionKey, Timestamp};

/// One window of a key.
#[derive(Debug, Clone)]
pub struct IndexedWindow {
    /// Its session id.
    pub id: SessionId,
    /// The name of its file, in the index's folder.
    pub file: String,
    /// Naming and lineage.
    pub facts: SessionFacts,
    /// Last activity.
    pub updated_at: Timestamp,
}

/// A key and its windows.
#[derive(Debug, Clone)]
pub struct IndexedKey {
    /// The key.
    pub key: SessionKey,
    /// Its current window.
    pub current: IndexedWindow,
    /// Those before it, oldest first.
    pub earlier: Vec<IndexedWindow>,
}

/// An entry as it is written. OpenClaw's fields, and `windows`, which it does not have: there the earlier windows of a
/// key stand in no index.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    session_id: &'a str,
    session_file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawned_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_session_key: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows: Vec<Entry<'a>>,
}

impl<'a> Entry<'a> {
    fn of(window: &'a IndexedWindow, earlier: &'a [IndexedWindow]) -> Self {
        let IndexedWindow { id, file, facts, updated_at } = window;
        let key = |key: &'a Option<SessionKey>| key.as_ref().map(SessionKey::as_str);
        Self {
            session_id: id.as_str(),
            session_file: file,
            updated_at: updated_at.is_known().then(|| updated_at.as_millis()),
            label: facts.label.as_deref(),
            spawned_by: key(&facts.spawned_by),
            parent_session_key: key(&facts.parent),
            owner_session_key: key(&facts.owner),
            archived: facts.archived,
            windows: earlier.iter().map(|window| Self::of(window, &[])).collect(),
        }
    }
}

/// Writes an index of these keys.
///
/// # Errors
/// What `out` fails with.
pub fn write_index(mut out: impl io::Write, keys: &[IndexedKey]) -> io::Result<()> {
    out.write_all(b"{")?;
    for (at, IndexedKey { key, current, earlier }) in keys.iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut out, key.as_str())?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut out, &Entry::of(current, earlier))?;
    }
    out.write_all(b"\n}\n")?;
    out.flush()
}
