//! A line as bytes: made readable, compared, and rewritten for export.

use std::borrow::Cow;

use super::event::Parent;
use super::json::{Json, JsonKind};
use crate::model::Timestamp;

/// What had to be replaced by U+FFFD before a line could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct LineRepairs {
    /// Escapes of one half of a surrogate pair, such as `\ud83d` alone.
    pub lone_surrogates: u32,
    /// Runs of bytes that are no UTF-8.
    pub invalid_utf8: u32,
}

impl LineRepairs {
    /// Whether anything was replaced.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The line as text: invalid UTF-8 and escapes of lone surrogates, which no Rust text can hold, become U+FFFD.
#[must_use]
pub fn sanitize(line: &[u8]) -> (Cow<'_, str>, LineRepairs) {
    let mut repairs = LineRepairs::default();
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(line.len() + 8);
            for chunk in line.utf8_chunks() {
                text.push_str(chunk.valid());
                if !chunk.invalid().is_empty() {
                    text.push(char::REPLACEMENT_CHARACTER);
                    repairs.invalid_utf8 = repairs.invalid_utf8.saturating_add(1);
                }
            }
            Cow::Owned(text)
        }
    };
    let lone = lone_surrogates(&text);
    if lone.is_empty() {
        return (text, repairs);
    }
    repairs.lone_surrogates = u32::try_from(lone.len()).unwrap_or(u32::MAX);
    let mut repaired = String::with_capacity(text.len());
    let mut done = 0;
    for at in lone {
        repaired.push_str(text.get(done..at).unwrap_or_default());
        repaired.push_str("\\ufffd");
        done = at + SURROGATE_ESCAPE_BYTES;
    }
    repaired.push_str(text.get(done..).unwrap_or_default());
    (Cow::Owned(repaired), repairs)
}

/// Length of `\ud83d`.
const SURROGATE_ESCAPE_BYTES: usize = 6;

/// Where escapes of lone surrogates begin.
fn lone_surrogates(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let unit_at = |at: usize| -> Option<u16> {
        let escape = bytes.get(at..at + SURROGATE_ESCAPE_BYTES)?;
        let digits = escape.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == b'\\')) {
        at += found;
        at += match unit_at(at) {
            Some(0xd800..=0xdbff) if matches!(unit_at(at + SURROGATE_ESCAPE_BYTES), Some(0xdc00..=0xdfff)) => {
                2 * SURROGATE_ESCAPE_BYTES
            }
            Some(0xd800..=0xdfff) => {
                lone.push(at);
                SURROGATE_ESCAPE_BYTES
            }
            _ => 2,
        };
    }
    lone
}

/// Whether two lines are the same JSON value (D22): order of keys, white space and spelling do not count.
///
/// Lines that are no JSON are the same only when they are the same bytes.
#[must_use]
pub fn same_json_value(a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    let ((a, _), (b, _)) = (sanitize(a), sanitize(b));
    match (Json::parse(&a), Json::parse(&b)) {
        (Ok(a), Ok(b)) => a.same_value(b),
        _ => false,
    }
}

/// What an exported line says differently from the line as given.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineChanges<'a> {
    /// The parent the row was rebased onto (D20).
    pub parent: Option<&'a Parent>,
    /// The time a line without a usable one was given (D9).
    pub timestamp: Option<Timestamp>,
}

/// The line with the given members set, every other byte as it was. A member that is not there is put at the end.
///
/// The line must be one that [`Event::parse`](super::Event::parse) accepts; any other comes back unchanged.
#[must_use]
pub fn rewrite_line(line: &[u8], changes: LineChanges<'_>) -> Vec<u8> {
    let object = Json::of_known_line(line);
    let Some(closing) = line.trim_ascii_end().len().checked_sub(1) else {
        return line.to_vec();
    };
    if object.kind() != JsonKind::Object || line.get(closing) != Some(&b'}') {
        return line.to_vec();
    }
    let mut is_empty = true;
    let (mut parent_at, mut timestamp_at) = (None, None);
    for member in object.members() {
        is_empty = false;
        match &*member.key {
            "parentId" => parent_at = Some(member.value.span()),
            "timestamp" => timestamp_at = Some(member.value.span()),
            _ => {}
        }
    }
    let parent = changes.parent.map(|parent| match parent {
        Parent::Root => "null".to_owned(),
        Parent::Below(id) => quoted(id.as_str()),
    });
    let timestamp = changes.timestamp.map(|timestamp| quoted(&timestamp.to_iso_millis()));

    let mut edits = Vec::new();
    let mut tail = String::new();
    for (key, place, value) in [("parentId", parent_at, parent), ("timestamp", timestamp_at, timestamp)] {
        let Some(value) = value else { continue };
        if let Some(place) = place {
            edits.push((place, value));
        } else {
            let comma = if is_empty && tail.is_empty() { "" } else { "," };
            tail.push_str(&format!("{comma}\"{key}\":{value}"));
        }
    }
    edits.push((closing..closing, tail));
    edits.sort_by_key(|(place, _)| place.start);

    let mut rewritten = Vec::with_capacity(line.len() + 128);
    let mut done = 0;
    for (place, value) in edits {
        rewritten.extend_from_slice(line.get(done..place.start).unwrap_or_default());
        rewritten.extend_from_slice(value.as_bytes());
        done = place.end;
    }
    rewritten.extend_from_slice(line.get(done..).unwrap_or_default());
    rewritten
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::MessageId;
    use crate::transcript::Event;

    #[test]
    fn lone_surrogates_and_invalid_bytes_are_replaced_and_counted() {
        let event = Event::parse(
            br#"{"type":"message","id":"a","message":{"role":"user","content":"cut \ud83d and \udc4d pair \ud83d\udc4d twice \uD83D\uD83D\uDC4D esc \\ud83d"}}"#,
        )
        .unwrap();
        assert_eq!(event.message.unwrap().text, "cut \u{fffd} and \u{fffd} pair 👍 twice \u{fffd}👍 esc \\ud83d");
        assert_eq!(event.repairs, LineRepairs { lone_surrogates: 3, invalid_utf8: 0 });

        let line =
            b"{\"type\":\"message\",\"id\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"caf\xe9 \xff\xfe end\"}}";
        let event = Event::parse(line).unwrap();
        assert_eq!(event.message.unwrap().text, "caf\u{fffd} \u{fffd}\u{fffd} end");
        assert_eq!(event.repairs, LineRepairs { lone_surrogates: 0, invalid_utf8: 3 });
        assert!(matches!(sanitize(b"plain \\u0041"), (Cow::Borrowed(_), repairs) if !repairs.any()));
    }

    #[test]
    fn values_are_compared_as_javascript_would() {
        let same = |a: &str, b: &str| same_json_value(a.as_bytes(), b.as_bytes());
        assert!(same(r#"{"a":1,"b":[true,null]}"#, r#" { "b": [true, null], "a": 1.0 } "#));
        assert!(same(r#"{"a":"\u0041\n"}"#, "{\"a\":\"A\\u000a\"}"));
        assert!(same(r#"{"a":1,"a":2}"#, r#"{"a":2}"#));
        assert!(same("not json", "not json"));
        assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":null}"#));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[1,2,3]}"#));
        assert!(!same(r#"{"a":"1"}"#, r#"{"a":1}"#));
        assert!(!same(r#"{"a":true}"#, r#"{"a":false}"#));
        assert!(!same("not json", "{}"));
    }

    #[test]
    fn a_rewritten_line_differs_in_nothing_else() {
        let below = Parent::Below(MessageId::parse("n\"1").unwrap());
        let at = Timestamp::from_millis(1_782_892_801_000);
        let rewrite = |line: &str, parent: Option<&Parent>, timestamp| {
            String::from_utf8(rewrite_line(line.as_bytes(), LineChanges { parent, timestamp })).unwrap()
        };
        let line = r#"{ "id":"a", "parentId" : "old" ,"message":{"parentId":"x"},"timestamp":7}  "#;
        assert_eq!(rewrite(line, None, None), line);
        assert_eq!(
            rewrite(line, Some(&below), at),
            r#"{ "id":"a", "parentId" : "n\"1" ,"message":{"parentId":"x"},"timestamp":"2026-07-01T08:00:01.000Z"}  "#
        );
        assert_eq!(rewrite(r#"{"id":"a" }"#, Some(&Parent::Root), None), r#"{"id":"a" ,"parentId":null}"#);
        assert_eq!(
            rewrite("{}", Some(&Parent::Root), at),
            r#"{"parentId":null,"timestamp":"2026-07-01T08:00:01.000Z"}"#
        );
        assert_eq!(
            rewrite(r#"{"parentId":"a","parentId":"b"}"#, Some(&Parent::Root), None),
            r#"{"parentId":"a","parentId":null}"#
        );
        assert_eq!(rewrite("[1]", Some(&Parent::Root), at), "[1]");
        let invalid = b"{\"id\":\"a\xff\",\"timestamp\":\"soon\"}";
        assert_eq!(
            rewrite_line(invalid, LineChanges { parent: None, timestamp: at }),
            b"{\"id\":\"a\xff\",\"timestamp\":\"2026-07-01T08:00:01.000Z\"}"
        );
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
            "[a-z\"\\\\{}\\[\\]:, \u{e9}\u{1f44d}\n]{0,8}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("type".to_owned()),
            Just("id".to_owned()),
            Just("parentId".to_owned()),
            Just("timestamp".to_owned()),
            Just("message".to_owned()),
            Just("content".to_owned()),
            "[a-c\"\\\\]{0,3}"
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(key.clone(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Event::parse(&bytes);
            let _ = same_json_value(&bytes, b"{}");
            let _ = rewrite_line(&bytes, LineChanges { parent: Some(&Parent::Root), timestamp: None });
        }

        #[test]
        fn broken_json_does_not_either(value in json(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut line = value.to_string().into_bytes();
            let at = cut.index(line.len());
            let _ = Event::parse(&line[..at]);
            line[at] = byte;
            let _ = (Event::parse(&line), same_json_value(&line, value.to_string().as_bytes()));
            let _ = rewrite_line(&line, LineChanges { parent: Some(&Parent::Root), timestamp: None });
        }

        #[test]
        fn a_value_is_itself_however_it_is_written(value in json(), other in json()) {
            let (compact, pretty) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
            prop_assert!(same_json_value(compact.as_bytes(), pretty.as_bytes()));
            let equal = value == other;
            prop_assert_eq!(same_json_value(compact.as_bytes(), other.to_string().as_bytes()), equal);
        }

        #[test]
        fn a_rewrite_sets_the_parent_and_keeps_the_rest(value in json()) {
            let line = value.to_string();
            let parent = Parent::Below(MessageId::parse("p").unwrap());
            let rewritten = rewrite_line(line.as_bytes(), LineChanges { parent: Some(&parent), timestamp: None });
            let mut expected = value;
            if let Some(object) = expected.as_object_mut() {
                object.insert("parentId".into(), "p".into());
            }
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&rewritten).unwrap(), expected);
        }
    }
}
