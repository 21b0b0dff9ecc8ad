//! One line of a transcript, read into the few facts the rest of the program needs.
//!
//! The line itself stays as it is, byte for byte; an [`Event`] borrows nothing from it. Repeated keys: the last one
//! counts, as in JavaScript.

use std::borrow::Cow;
use std::fmt;

use super::extract::{SearchableMessage, searchable_message};
use super::json::{Json, JsonError, JsonKind};
use super::line::{LineRepairs, sanitize};
use crate::limits::{MAX_EVENT_BYTES, MAX_ID_BYTES, MAX_JSON_DEPTH};
use crate::model::{IdError, MessageId, Timestamp, is_js_space};

/// What a line is, by its `type` (contract §1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `session`: describes the file; never part of the tree.
    Header,
    /// `message`: the only kind that is searched.
    Message,
    /// `custom_message`.
    CustomMessage,
    /// `custom`.
    Custom,
    /// `compaction`.
    Compaction,
    /// `branch_summary`.
    BranchSummary,
    /// `thinking_level_change`.
    ThinkingLevelChange,
    /// `model_change`.
    ModelChange,
    /// `label`.
    Label,
    /// `session_info`.
    SessionInfo,
    /// `reset`: history starts anew in the same session (D16).
    Reset,
    /// `leaf`: moves the active branch.
    Leaf,
    /// Any other type, or none.
    Opaque,
}

impl EventKind {
    pub(crate) fn of_type(name: &str) -> Self {
        match name {
            "session" => Self::Header,
            "message" => Self::Message,
            "custom_message" => Self::CustomMessage,
            "custom" => Self::Custom,
            "compaction" => Self::Compaction,
            "branch_summary" => Self::BranchSummary,
            "thinking_level_change" => Self::ThinkingLevelChange,
            "model_change" => Self::ModelChange,
            "label" => Self::Label,
            "session_info" => Self::SessionInfo,
            "reset" => Self::Reset,
            "leaf" => Self::Leaf,
            _ => Self::Opaque,
        }
    }

    /// Whether rows of this kind are entries of the tree (contract §1.6).
    #[must_use]
    pub fn is_canonical(self) -> bool {
        !matches!(self, Self::Header | Self::Leaf | Self::Opaque)
    }
}

/// Where a row hangs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Parent {
    /// `null`: nowhere, the row is a root.
    Root,
    /// Below the row of this id.
    Below(MessageId),
}

impl Parent {
    /// The id, unless this is the root.
    #[must_use]
    pub fn id(&self) -> Option<&MessageId> {
        match self {
            Self::Root => None,
            Self::Below(id) => Some(id),
        }
    }
}

impl From<Option<MessageId>> for Parent {
    fn from(id: Option<MessageId>) -> Self {
        id.map_or(Self::Root, Self::Below)
    }
}

/// What a line says of its parent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParentLink {
    /// There is no `parentId`.
    Absent,
    /// `parentId` is neither null nor a non-blank string: the row is no part of the tree (contract §3.1).
    Unusable,
    /// `parentId` is null or an id.
    Stated(Parent),
}

/// The fields of a well-formed leaf control (contract §3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafControl {
    /// The new leaf.
    pub target: Parent,
    /// The new append cursor; the target where the line states none.
    pub append_parent: Parent,
}

/// What a header says beside its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The format's version; 1 where none is stated.
    pub version: u64,
    /// The transcript this one was forked from: a path, as stated.
    pub forked_from: Option<String>,
}

/// Why the time of an event is unknown (D9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampNote {
    /// There is none.
    Missing,
    /// Neither a number nor RFC 3339.
    Unparsable,
    /// A number with a fraction.
    Fractional,
    /// The epoch itself or before it.
    NotPositive,
    /// After the year 9999.
    AfterYear9999,
}

impl fmt::Display for TimestampNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no timestamp",
            Self::Unparsable => "the timestamp is neither RFC 3339 nor whole milliseconds",
            Self::Fractional => "the timestamp has a fraction of a millisecond",
            Self::NotPositive => "the timestamp is not after 1970-01-01",
            Self::AfterYear9999 => "the timestamp is after the year 9999",
        })
    }
}

/// Why a line cannot be stored as an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Not one JSON value.
    #[error("not JSON: {detail}")]
    NotJson {
        /// What the parser said, with the column.
        detail: String,
    },
    /// JSON, but no object.
    #[error("expected a JSON object, found {found}")]
    NotAnObject {
        /// What stands there instead.
        found: &'static str,
    },
    /// Arrays and objects inside one another beyond all use.
    #[error("nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
    /// Longer than [`MAX_EVENT_BYTES`].
    #[error("{bytes} bytes long, at most {MAX_EVENT_BYTES} are stored")]
    TooLong {
        /// The length of the line.
        bytes: u64,
    },
    /// An id longer than [`MAX_ID_BYTES`].
    #[error("`{field}` is longer than {MAX_ID_BYTES} bytes")]
    IdTooLong {
        /// The member that holds it.
        field: &'static str,
    },
}

/// A line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What the line is.
    pub kind: EventKind,
    /// Its id; `None` where absent, blank or no string. A header's is the id of the session.
    pub id: Option<MessageId>,
    /// What it says of its parent.
    pub parent: ParentLink,
    /// `appendMode` is `side`: the row does not move the leaf.
    pub side: bool,
    /// The control a `leaf` line gives, when it is well-formed.
    pub leaf: Option<LeafControl>,
    /// `firstKeptEntryId` of a `reset` or `compaction`.
    pub first_kept: Option<MessageId>,
    /// When; [`Timestamp::UNKNOWN`] with the reason beside it.
    pub timestamp: Timestamp,
    /// Why the time is unknown, when it is.
    pub timestamp_note: Option<TimestampNote>,
    /// `message.role` as written.
    pub role: Option<String>,
    /// `message.idempotencyKey`.
    pub idempotency_key: Option<String>,
    /// The searchable part of a message, before redaction. Without an id it is not searched: see
    /// [`Event::searchable`].
    pub message: Option<SearchableMessage>,
    /// What a header says.
    pub header: Option<Header>,
    /// The name a `session_info` line gives its session.
    pub title: Option<String>,
    /// What was replaced before the line could be read.
    pub repairs: LineRepairs,
}

impl Event {
    /// Reads one line, without its line end.
    ///
    /// # Errors
    /// [`EventError`] when the line is not one JSON object within the bounds. Unknown types, roles and fields are
    /// no errors.
    pub fn parse(line: &[u8]) -> Result<Self, EventError> {
        if line.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLong { bytes: line.len() as u64 });
        }
        let (text, repairs) = sanitize(line);
        Fields::of(object_of(&text)?).into_event(repairs)
    }

    /// What is searched of this event: a message with an id, a role that speaks, and text (contract §2).
    #[must_use]
    pub fn searchable(&self) -> Option<(&MessageId, &SearchableMessage)> {
        Some((self.id.as_ref()?, self.message.as_ref()?))
    }
}

/// The object that a line's text is.
///
/// # Errors
/// [`EventError`] when it is none.
pub(crate) fn object_of(text: &str) -> Result<Json<'_>, EventError> {
    let value = Json::parse(text).map_err(|error| match error {
        JsonError::Syntax(detail) => EventError::NotJson { detail },
        JsonError::TooDeep => EventError::TooDeep,
    })?;
    let found = match value.kind() {
        JsonKind::Object => return Ok(value),
        JsonKind::Array => "an array",
        JsonKind::String => "a string",
        JsonKind::Number => "a number",
        JsonKind::Bool => "true or false",
        JsonKind::Null => "null",
    };
    Err(EventError::NotAnObject { found })
}

/// The members of the outer object that count.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<Json<'a>>,
    id: Option<Json<'a>>,
    parent: Option<Json<'a>>,
    append_mode: Option<Json<'a>>,
    target: Option<Json<'a>>,
    append_parent: Option<Json<'a>>,
    first_kept: Option<Json<'a>>,
    timestamp: Option<Json<'a>>,
    message: Option<Json<'a>>,
    version: Option<Json<'a>>,
    parent_session: Option<Json<'a>>,
    branched_from: Option<Json<'a>>,
    name: Option<Json<'a>>,
}

impl<'a> Fields<'a> {
    fn of(object: Json<'a>) -> Self {
        let mut fields = Self::default();
        for member in object.members() {
            let field = match &*member.key {
                "type" => &mut fields.kind,
                "id" => &mut fields.id,
                "parentId" => &mut fields.parent,
                "appendMode" => &mut fields.append_mode,
                "targetId" => &mut fields.target,
                "appendParentId" => &mut fields.append_parent,
                "firstKeptEntryId" => &mut fields.first_kept,
                "timestamp" => &mut fields.timestamp,
                "message" => &mut fields.message,
                "version" => &mut fields.version,
                "parentSession" => &mut fields.parent_session,
                "branchedFrom" => &mut fields.branched_from,
                "name" => &mut fields.name,
                _ => continue,
            };
            *field = Some(member.value);
        }
        fields
    }

    fn into_event(self, repairs: LineRepairs) -> Result<Event, EventError> {
        let kind = self.kind.and_then(Json::as_str).map_or(EventKind::Opaque, |name| EventKind::of_type(&name));
        let (timestamp, timestamp_note) = match self.timestamp.map_or(Err(TimestampNote::Missing), read_timestamp) {
            Ok(timestamp) => (timestamp, None),
            Err(note) => (Timestamp::UNKNOWN, Some(note)),
        };
        let mut event = Event {
            kind,
            id: read_id(self.id, "id")?,
            parent: read_link(self.parent, "parentId")?,
            side: self.append_mode.and_then(Json::as_str).is_some_and(|mode| mode == "side"),
            leaf: if kind == EventKind::Leaf { self.leaf_control()? } else { None },
            first_kept: read_id(self.first_kept, "firstKeptEntryId")?,
            timestamp,
            timestamp_note,
            role: None,
            idempotency_key: None,
            message: None,
            header: None,
            title: None,
            repairs,
        };
        match kind {
            EventKind::Message => {
                if let Some(message) = self.message {
                    event.role = member_text(message, "role");
                    event.idempotency_key = read_idempotency_key(message)?;
                    event.message = searchable_message(message);
                }
            }
            EventKind::Header => {
                event.header = Some(Header {
                    version: self.version.map_or(1, read_version),
                    forked_from: self
                        .parent_session
                        .and_then(non_blank)
                        .or_else(|| self.branched_from.and_then(non_blank)),
                });
            }
            EventKind::SessionInfo => event.title = self.name.and_then(non_blank),
            _ => {}
        }
        Ok(event)
    }

    /// `None` on any deviation from contract §3.1: the line is then no control at all.
    fn leaf_control(&self) -> Result<Option<LeafControl>, EventError> {
        let ParentLink::Stated(target) = read_link(self.target, "targetId")? else {
            return Ok(None);
        };
        let append_parent = match read_link(self.append_parent, "appendParentId")? {
            ParentLink::Absent => target.clone(),
            ParentLink::Stated(parent) => parent,
            ParentLink::Unusable => return Ok(None),
        };
        let mode_is_known = self.append_mode.is_none_or(|mode| mode.as_str().is_some_and(|mode| mode == "side"));
        Ok(mode_is_known.then_some(LeafControl { target, append_parent }))
    }
}

fn read_id(value: Option<Json<'_>>, field: &'static str) -> Result<Option<MessageId>, EventError> {
    let Some(text) = value.and_then(Json::as_str) else {
        return Ok(None);
    };
    match MessageId::parse(&text) {
        Ok(id) => Ok(Some(id)),
        Err(IdError::TooLong { .. }) => Err(EventError::IdTooLong { field }),
        Err(_) => Ok(None),
    }
}

fn read_link(value: Option<Json<'_>>, field: &'static str) -> Result<ParentLink, EventError> {
    let Some(value) = value else {
        return Ok(ParentLink::Absent);
    };
    if value.is_null() {
        return Ok(ParentLink::Stated(Parent::Root));
    }
    Ok(read_id(Some(value), field)?.map_or(ParentLink::Unusable, |id| ParentLink::Stated(Parent::Below(id))))
}

fn read_timestamp(value: Json<'_>) -> Result<Timestamp, TimestampNote> {
    match value.kind() {
        JsonKind::Null => Err(TimestampNote::Missing),
        JsonKind::Number => read_millis(value.as_number().unwrap_or_default()),
        JsonKind::String => {
            let text = value.as_str().unwrap_or_default();
            Timestamp::parse_iso(&text).map_err(|error| {
                if error.is_out_of_range() { TimestampNote::NotPositive } else { TimestampNote::Unparsable }
            })
        }
        JsonKind::Bool | JsonKind::Array | JsonKind::Object => Err(TimestampNote::Unparsable),
    }
}

fn read_millis(digits: &str) -> Result<Timestamp, TimestampNote> {
    let millis = match digits.parse::<i64>() {
        Ok(millis) => millis,
        Err(_) => {
            let number = digits.parse::<f64>().map_err(|_| TimestampNote::Unparsable)?;
            if number.is_finite() && number.fract() != 0.0 {
                return Err(TimestampNote::Fractional);
            }
            // Saturates: what does not fit is out of range either way.
            number as i64
        }
    };
    Timestamp::from_millis(millis).ok_or(if millis > 0 {
        TimestampNote::AfterYear9999
    } else {
        TimestampNote::NotPositive
    })
}

/// A version that is no number was written by something newer than version 1.
fn read_version(value: Json<'_>) -> u64 {
    value.as_number().and_then(|digits| digits.parse::<f64>().ok()).map_or(u64::MAX, |version| version as u64)
}

fn read_idempotency_key(message: Json<'_>) -> Result<Option<String>, EventError> {
    let key = member_text(message, "idempotencyKey");
    if key.as_ref().is_some_and(|key| key.len() > MAX_ID_BYTES) {
        return Err(EventError::IdTooLong { field: "idempotencyKey" });
    }
    Ok(key)
}

fn member_text(object: Json<'_>, key: &str) -> Option<String> {
    object.members().filter(|member| member.key == key).last().and_then(|member| non_blank(member.value))
}

fn non_blank(value: Json<'_>) -> Option<String> {
    value.as_str().filter(|text| !text.trim_matches(is_js_space).is_empty()).map(Cow::into_owned)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::model::Role;

    fn parse(line: &str) -> Event {
        Event::parse(line.as_bytes()).unwrap()
    }

    fn note(timestamp: &str) -> (i64, Option<TimestampNote>) {
        let event = parse(&format!(r#"{{"type":"message","timestamp":{timestamp}}}"#));
        (event.timestamp.as_millis(), event.timestamp_note)
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_reason() {
        let reason = |line: &str| Event::parse(line.as_bytes()).unwrap_err().to_string();
        assert_eq!(reason("42"), "expected a JSON object, found a number");
        assert_eq!(reason("null"), "expected a JSON object, found null");
        assert_eq!(reason("[1]"), "expected a JSON object, found an array");
        assert_eq!(reason("\"str\""), "expected a JSON object, found a string");
        assert_eq!(reason("false"), "expected a JSON object, found true or false");
        for line in ["", "not json at all", "{\"a\":1", "{}{}", "{\"a\":\"\u{1}\"}", "{'a':1}", "{\"a\":01}"] {
            assert!(matches!(Event::parse(line.as_bytes()), Err(EventError::NotJson { .. })), "{line:?}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Event::parse(deep.as_bytes()), Err(EventError::TooDeep));
    }

    #[test]
    fn ids_are_trimmed_and_bounded() {
        let event = parse("{\"type\":\"message\",\"id\":\"\u{feff} k1\\n\",\"parentId\":\" k0 \"}");
        assert_eq!(event.id.as_ref().map(MessageId::as_str), Some("k1"));
        assert_eq!(event.parent, ParentLink::Stated(Parent::Below(MessageId::parse("k0").unwrap())));
        for id in ["\" \\t\"", "\"\"", "7", "null", "[\"a\"]"] {
            assert_eq!(parse(&format!(r#"{{"type":"message","id":{id}}}"#)).id, None, "{id}");
        }
        let long = "x".repeat(MAX_ID_BYTES + 1);
        for field in ["id", "parentId", "targetId", "appendParentId", "firstKeptEntryId"] {
            let line = format!(r#"{{"type":"leaf","targetId":null,"{field}":"{long}"}}"#);
            assert_eq!(Event::parse(line.as_bytes()), Err(EventError::IdTooLong { field }));
        }
    }

    #[test]
    fn a_parent_is_absent_null_an_id_or_unusable() {
        let link = |member: &str| parse(&format!(r#"{{"type":"message"{member}}}"#)).parent;
        assert_eq!(link(""), ParentLink::Absent);
        assert_eq!(link(r#","parentId":null"#), ParentLink::Stated(Parent::Root));
        for value in ["\"\"", "\"  \"", "7", "true", "{}", "[null]"] {
            assert_eq!(link(&format!(r#","parentId":{value}"#)), ParentLink::Unusable, "{value}");
        }
        assert_eq!(link(r#","parentId":7,"parentId":null"#), ParentLink::Stated(Parent::Root));
    }

    #[test]
    fn a_leaf_control_is_well_formed_or_none() {
        let leaf = |members: &str| parse(&format!(r#"{{"type":"leaf","id":"L","parentId":"a",{members}}}"#)).leaf;
        let below = |id: &str| Parent::Below(MessageId::parse(id).unwrap());
        let control = |target, append_parent| Some(LeafControl { target, append_parent });
        assert_eq!(leaf(r#""targetId":"t""#), control(below("t"), below("t")));
        assert_eq!(leaf(r#""targetId":null"#), control(Parent::Root, Parent::Root));
        assert_eq!(leaf(r#""targetId":"t","appendParentId":null"#), control(below("t"), Parent::Root));
        assert_eq!(leaf(r#""targetId":"t","appendParentId":"p","appendMode":"side""#), control(below("t"), below("p")));
        for bad in [
            r#""x":1"#,
            r#""targetId":7"#,
            r#""targetId":" ""#,
            r#""targetId":"t","appendParentId":7"#,
            r#""targetId":"t","appendMode":"main""#,
            r#""targetId":"t","appendMode":null"#,
        ] {
            assert_eq!(leaf(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_whole_known_milliseconds_or_unknown_with_the_reason() {
        use TimestampNote as N;
        assert_eq!(note("\"2026-07-01T08:00:01.000Z\""), (1_782_892_801_000, None));
        assert_eq!(note("\"2026-07-01T10:00:01+02:00\""), (1_782_892_801_000, None));
        assert_eq!(note("\"2026-07-01T08:00:01\""), (1_782_892_801_000, None));
        assert_eq!(note("1782892801000"), (1_782_892_801_000, None));
        assert_eq!(note("1.782892801e12"), (1_782_892_801_000, None));
        assert_eq!(note("4294967296000"), (4_294_967_296_000, None), "the year 2106 is a time");
        assert_eq!(note("1785000000"), (1_785_000_000, None), "seconds are not guessed");
        assert_eq!(note("null"), (0, Some(N::Missing)));
        assert_eq!(note("1785000000000.7"), (0, Some(N::Fractional)));
        assert_eq!(note("0.5"), (0, Some(N::Fractional)));
        assert_eq!(note("0"), (0, Some(N::NotPositive)));
        assert_eq!(note("-5"), (0, Some(N::NotPositive)));
        assert_eq!(note("-1e400"), (0, Some(N::NotPositive)));
        assert_eq!(note("\"1960-01-01T00:00:00Z\""), (0, Some(N::NotPositive)));
        for huge in ["253402300800000", "1e20", "1e400", "99999999999999999999"] {
            assert_eq!(note(huge), (0, Some(N::AfterYear9999)), "{huge}");
        }
        for junk in ["\"soon\"", "\"\"", "\"1785000000000\"", "true", "[]", "{\"ms\":1}"] {
            assert_eq!(note(junk), (0, Some(N::Unparsable)), "{junk}");
        }
        assert_eq!(parse(r#"{"type":"message"}"#).timestamp_note, Some(N::Missing));
        let inner = parse(r#"{"type":"message","message":{"role":"user","timestamp":1782892801000}}"#);
        assert_eq!(inner.timestamp_note, Some(N::Missing), "the time inside the message does not count");
    }

    #[test]
    fn headers_titles_and_keys_are_read() {
        let header = parse(r#"{"type":"session","id":"s","branchedFrom":"/old.jsonl","timestamp":"x","version":3}"#);
        assert_eq!(header.header, Some(Header { version: 3, forked_from: Some("/old.jsonl".into()) }));
        assert_eq!(parse(r#"{"type":"session"}"#).header.unwrap().version, 1);
        assert!(parse(r#"{"type":"session","version":"next"}"#).header.unwrap().version > 3);
        let named = parse(r#"{"type":"session_info","name":"Otter maps","id":"n"}"#);
        assert_eq!(named.title.as_deref(), Some("Otter maps"));
        let keyed = parse(r#"{"type":"message","message":{"role":"toolResult","idempotencyKey":"once"}}"#);
        assert_eq!((keyed.idempotency_key.as_deref(), keyed.role.as_deref()), (Some("once"), Some("toolResult")));
        assert_eq!(parse(r#"{"type":"message","message":[]}"#).role, None);
        assert_eq!(parse(r#"{"type":7}"#).kind, EventKind::Opaque);
        assert_eq!(parse("{}").kind, EventKind::Opaque);
    }

    #[test]
    fn an_image_of_megabytes_costs_no_tree() {
        let image = "A".repeat(3 * 1024 * 1024);
        let line = format!(
            r#"{{"type":"message","id":"i","message":{{"role":"user","content":[{{"type":"image","data":"{image}"}},{{"type":"text","text":"see"}}]}}}}"#
        );
        assert_eq!(parse(&line).message, Some(SearchableMessage { role: Role::User, text: "see".into() }));
    }
}
