//! `sessions.json`: which key has which transcript, and what the session is called.
//!
//! The file is written by others and read with tolerance: a field of the wrong kind is as good as none, an entry that
//! is no object is passed over. Paths in it are only ever compared with files that were found; none is opened.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::limits::MAX_SESSION_INDEX_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey, Timestamp};
use crate::transcript::json::{Json, JsonError, JsonKind};
use crate::transcript::sanitize;

/// One key of the index.
#[derive(Debug, Clone)]
pub(super) struct IndexEntry {
    pub(super) key: SessionKey,
    pub(super) session_id: SessionId,
    /// `sessionFile` as written.
    pub(super) session_file: Option<String>,
    pub(super) facts: SessionFacts,
    /// Its place among the windows of its key that the index lists, oldest first. Only an export lists those before the
    /// current one.
    pub(super) age: usize,
    /// The session is its key's current window.
    pub(super) is_current: bool,
}

/// The entries that name a session, in order of their keys. `agent` is whose folder it is: `main` means its main key.
pub(super) fn read(path: &Path, agent: &AgentId) -> Result<Vec<IndexEntry>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_SESSION_INDEX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_SESSION_INDEX_BYTES {
        return Err(format!("longer than {MAX_SESSION_INDEX_BYTES} bytes"));
    }
    parse(&bytes, agent)
}

fn parse(bytes: &[u8], agent: &AgentId) -> Result<Vec<IndexEntry>, String> {
    let (text, _) = sanitize(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let index = Json::parse(&text).map_err(|error| match error {
        JsonError::Syntax(detail) => detail,
        JsonError::TooDeep => "nested too deeply".to_owned(),
    })?;
    if index.kind() != JsonKind::Object {
        return Err("expected an object of session keys".to_owned());
    }
    let mut entries: Vec<(IndexEntry, Json<'_>)> = Vec::new();
    for member in index.members().filter(|member| member.value.kind() == JsonKind::Object) {
        let Ok(key) = SessionKey::parse(&member.key) else { continue };
        let key = if key.as_str() == "main" { main_key(agent) } else { Some(key) };
        entries.extend(key.and_then(|key| entry(key, member.value)).map(|entry| (entry, member.value)));
    }
    // Stable: of a repeated key the last one counts, as in JavaScript.
    entries.reverse();
    entries.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    entries.dedup_by(|(later, _), (first, _)| later.key == first.key);
    Ok(entries.into_iter().flat_map(|(current, value)| with_earlier(current, value)).collect())
}

/// The current window of a key, and those before it.
fn with_earlier(mut current: IndexEntry, value: Json<'_>) -> Vec<IndexEntry> {
    let mut entries: Vec<IndexEntry> = Vec::new();
    let listed = value.members().filter(|member| member.key == "windows").flat_map(|member| member.value.elements());
    for window in listed.filter(|window| window.kind() == JsonKind::Object) {
        let earlier = entry(current.key.clone(), window).filter(|earlier| earlier.session_id != current.session_id);
        let age = entries.len();
        entries.extend(earlier.map(|earlier| IndexEntry { age, is_current: false, ..earlier }));
    }
    current.age = entries.len();
    entries.push(current);
    entries
}

/// `main` is an alias and never stored as such (contract §1.3).
pub(super) fn main_key(agent: &AgentId) -> Option<SessionKey> {
    SessionKey::parse(&format!("agent:{agent}:main")).ok()
}

/// The facts that an entry states, from its JSON alone.
#[cfg(feature = "openclaw-sqlite")]
pub(super) fn entry_facts(key: &SessionKey, text: &str) -> Option<SessionFacts> {
    entry(key.clone(), Json::parse(text).ok()?).map(|entry| entry.facts)
}

fn entry(key: SessionKey, value: Json<'_>) -> Option<IndexEntry> {
    let (mut session_id, mut session_file, mut facts) = (None, None, SessionFacts::default());
    let (mut label, mut display_name) = (None, None);
    let text = |value: Json<'_>| value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let other_key = |value: Json<'_>| text(value).and_then(|text| SessionKey::parse(&text).ok());
    for member in value.members() {
        let value = member.value;
        match &*member.key {
            "sessionId" => session_id = text(value).and_then(|text| SessionId::parse(&text).ok()),
            "sessionFile" => session_file = text(value),
            "label" => label = text(value),
            "displayName" => display_name = text(value),
            "spawnedBy" => facts.spawned_by = other_key(value),
            "parentSessionKey" => facts.parent = other_key(value),
            "ownerSessionKey" => facts.owner = other_key(value),
            "archived" => facts.archived |= value.is_true(),
            "archivedAt" => facts.archived |= value.kind() == JsonKind::Number,
            "updatedAt" => {
                facts.updated_at = value.as_number().and_then(|n| n.parse().ok()).and_then(Timestamp::from_millis);
            }
            _ => {}
        }
    }
    facts.label = label.or(display_name);
    Some(IndexEntry { key, session_id: session_id?, session_file, facts, age: 0, is_current: true })
}

/// Where a `sessionFile` may lie, in the order in which to look.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileCandidates {
    pub(super) paths: Vec<PathBuf>,
    /// The text as it stands points out of the folder.
    pub(super) leaves_folder: bool,
}

/// The candidates of a `sessionFile` in an index that lies in `folder`: the path itself, relative to the folder or to
/// the one above it, and a file of that name in the folder, for indexes that were moved here.
pub(super) fn file_candidates(session_file: &str, folder: &Path) -> FileCandidates {
    let is_windows = session_file.contains('\\');
    let path = if is_windows { PathBuf::from(session_file.replace('\\', "/")) } else { PathBuf::from(session_file) };
    let has_drive = session_file.as_bytes().get(1) == Some(&b':');
    let is_relative = !path.has_root() && !has_drive;
    let climbs = path.components().any(|component| component == Component::ParentDir);

    let mut paths = Vec::new();
    if !climbs {
        if is_relative {
            paths.push(folder.join(&path));
            paths.extend(folder.parent().map(|above| above.join(&path)));
        } else if !has_drive {
            paths.push(path.clone());
        }
    }
    paths.extend(path.file_name().map(|name| folder.join(name)));
    FileCandidates { paths, leaves_folder: climbs || !is_relative }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<IndexEntry> {
        parse(text.as_bytes(), &AgentId::default()).unwrap()
    }

    #[test]
    fn entries_are_read_with_tolerance() {
        let found = entries(
            r#"{"agent:main:b":{"sessionId":" s2 ","updatedAt":1769936400000,"label":7,"displayName":"Otters",
                "spawnedBy":"Agent:main:main","parentSessionKey":"","ownerSessionKey":[],"archivedAt":5,
                "skillsSnapshot":{"prompt":"x","deep":[{}]},"sessionFile":"s2.jsonl"},
              "main":{"sessionId":"s1","updatedAt":"soon","sessionFile":3,"archived":false},
              "a":{"updatedAt":1},"c":{"sessionId":""},"d":[],"e":null,"":{"sessionId":"x"},
              "sessions":[{"sessionId":"s9"}]}"#,
        );
        let keys: Vec<_> = found.iter().map(|entry| (entry.key.as_str(), entry.session_id.as_str())).collect();
        assert_eq!(keys, [("agent:main:b", "s2"), ("agent:main:main", "s1")]);
        assert_eq!(found[0].session_file.as_deref(), Some("s2.jsonl"));
        let facts = &found[0].facts;
        assert_eq!(facts.label.as_deref(), Some("Otters"));
        assert_eq!(facts.spawned_by.as_ref().map(SessionKey::as_str), Some("agent:main:main"));
        assert_eq!((&facts.parent, &facts.owner, facts.archived), (&None, &None, true));
        assert_eq!(facts.updated_at, Timestamp::from_millis(1_769_936_400_000));
        assert_eq!(found[1].facts, SessionFacts::default());
    }

    #[test]
    fn of_a_repeated_key_the_last_entry_counts() {
        let found = entries(r#"{"k":{"sessionId":"old"},"K ":{"sessionId":"new"}}"#);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].session_id.as_str(), "new");
    }

    #[test]
    fn earlier_windows_of_a_key_are_entries_too() {
        let found = entries(
            r#"{"k":{"sessionId":"s3","windows":[{"sessionId":"s1","label":"Old"},7,{"label":"x"},{"sessionId":"s3"},
                {"sessionId":"s2","windows":[{"sessionId":"s0"}]}]},"l":{"sessionId":"s4","windows":"none"}}"#,
        );
        let seen: Vec<_> = found.iter().map(|e| (e.key.as_str(), e.session_id.as_str(), e.age, e.is_current)).collect();
        assert_eq!(seen, [("k", "s1", 0, false), ("k", "s2", 1, false), ("k", "s3", 2, true), ("l", "s4", 0, true)]);
        assert_eq!(found[0].facts.label.as_deref(), Some("Old"));
    }

    #[test]
    fn a_wrong_shape_is_an_error_with_a_reason() {
        for text in ["", "[]", "7", "{\"a\":", "not json"] {
            assert!(parse(text.as_bytes(), &AgentId::default()).is_err(), "{text:?}");
        }
        assert!(entries(r#"{"sessions":[{"key":"a","sessionId":"s"}]}"#).is_empty());
        assert_eq!(
            parse(b"\xef\xbb\xbf{\"k\":{\"sessionId\":\"\\ud83d\xff\"}}", &AgentId::default()).unwrap().len(),
            1
        );
    }

    #[test]
    fn a_session_file_is_looked_for_inside_the_folder() {
        let candidates = |text: &str| {
            let found = file_candidates(text, Path::new("/state/agents/a/sessions"));
            let paths: Vec<_> = found.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            (paths.join(" "), found.leaves_folder)
        };
        let here = "/state/agents/a/sessions/s.jsonl";
        assert_eq!(candidates("s.jsonl").0.split(' ').next(), Some(here));
        assert!(!candidates("s.jsonl").1);
        assert!(candidates("sessions/s.jsonl").0.contains(here));
        assert_eq!(candidates("/home/x/sessions/s.jsonl"), (format!("/home/x/sessions/s.jsonl {here}"), true));
        assert_eq!(candidates("C:\\Users\\x\\sessions\\s.jsonl"), (here.to_owned(), true));
        assert_eq!(candidates("../../../etc/s.jsonl"), (here.to_owned(), true));
        assert_eq!(candidates(".."), (String::new(), true));
    }
}
