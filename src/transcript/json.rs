//! A borrowed view of JSON text: finds members and elements by their place, and decodes only what is asked for.
//!
//! Lines reach tens of megabytes (inline images), of which a few short fields matter. Grammar is checked by
//! `serde_json` without building anything; the walk over the checked text is then simple. Nothing here recurses over
//! input except [`Json::same_value`], whose depth the check bounds.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde::de::IgnoredAny;

use crate::limits::MAX_JSON_DEPTH;

/// Why a text is not usable JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// Not one JSON value; what the parser said.
    Syntax(String),
    /// Nested deeper than [`MAX_JSON_DEPTH`].
    TooDeep,
}

/// What kind of value stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// One JSON value inside a checked text, without white space around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a> {
    text: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Json<'a> {
    /// Checks that the text is exactly one JSON value, not nested too deeply.
    pub(crate) fn parse(text: &'a str) -> Result<Self, JsonError> {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| JsonError::Syntax(error.to_string()))?;
        let value = Self::of_known_line(text.as_bytes());
        if value.depth() > MAX_JSON_DEPTH { Err(JsonError::TooDeep) } else { Ok(value) }
    }

    /// A view of bytes that were accepted before, perhaps after repairs: the structure is JSON, strings may hold
    /// invalid UTF-8 or lone surrogates. On other bytes the walk ends early; it never panics.
    pub(crate) fn of_known_line(line: &'a [u8]) -> Self {
        let start = line.len() - line.trim_ascii_start().len();
        Self { text: line, start, end: start + line.trim_ascii().len() }
    }

    /// Where the value stands in the text that was parsed.
    pub(crate) fn span(self) -> Range<usize> {
        self.start..self.end
    }

    fn bytes(self) -> &'a [u8] {
        self.text.get(self.span()).unwrap_or_default()
    }

    /// The value's own JSON; empty where bytes that were not repaired are no text.
    pub(crate) fn as_json(self) -> &'a str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    pub(crate) fn kind(self) -> JsonKind {
        match self.bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    pub(crate) fn is_true(self) -> bool {
        self.bytes() == b"true"
    }

    /// The text of a string, escapes decoded; `None` for every other kind.
    pub(crate) fn as_str(self) -> Option<Cow<'a, str>> {
        let inner = self.bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if inner.contains(&b'\\') {
            serde_json::from_slice::<String>(self.bytes()).ok().map(Cow::Owned)
        } else {
            Some(String::from_utf8_lossy(inner))
        }
    }

    /// The digits of a number as written; `None` for every other kind.
    pub(crate) fn as_number(self) -> Option<&'a str> {
        (self.kind() == JsonKind::Number).then(|| std::str::from_utf8(self.bytes()).ok()).flatten()
    }

    /// Members in order, repeated keys included (the last one counts); none when this is no object.
    pub(crate) fn members(self) -> Members<'a> {
        Members { walk: Walk::inside(self, b'{') }
    }

    /// Elements in order; none when this is no array.
    pub(crate) fn elements(self) -> Elements<'a> {
        Elements { walk: Walk::inside(self, b'[') }
    }

    /// Equality of values as JavaScript sees it: order of keys and spelling of numbers and escapes do not count,
    /// of a repeated key the last one does.
    pub(crate) fn same_value(self, other: Self) -> bool {
        if self.bytes() == other.bytes() {
            return true;
        }
        if self.kind() != other.kind() {
            return false;
        }
        match self.kind() {
            JsonKind::Null => true,
            JsonKind::Bool => false,
            JsonKind::Number => match (self.as_f64(), other.as_f64()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
            JsonKind::String => self.as_str() == other.as_str(),
            JsonKind::Array => {
                let (mut ours, mut theirs) = (self.elements(), other.elements());
                loop {
                    match (ours.next(), theirs.next()) {
                        (None, None) => return true,
                        (Some(a), Some(b)) if a.same_value(b) => {}
                        _ => return false,
                    }
                }
            }
            JsonKind::Object => {
                let ours: HashMap<_, _> = self.members().map(|member| (member.key, member.value)).collect();
                let theirs: HashMap<_, _> = other.members().map(|member| (member.key, member.value)).collect();
                ours.len() == theirs.len()
                    && ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|v| value.same_value(*v)))
            }
        }
    }

    fn as_f64(self) -> Option<f64> {
        self.as_number()?.parse().ok()
    }

    fn depth(self) -> usize {
        let text = self.bytes();
        let (mut at, mut open, mut deepest) = (0, 0_usize, 0);
        while let Some(&byte) = text.get(at) {
            match byte {
                b'"' => at = end_of_string(text, at),
                b'{' | b'[' => {
                    open += 1;
                    deepest = deepest.max(open);
                    at += 1;
                }
                b'}' | b']' => {
                    open = open.saturating_sub(1);
                    at += 1;
                }
                _ => at += 1,
            }
        }
        deepest
    }
}

/// A member of an object.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Json<'a>,
}

/// See [`Json::members`].
pub(crate) struct Members<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let key = self.walk.next_value()?;
        let value = self.walk.next_value()?;
        // A key that cannot be decoded (a lone surrogate in a line not yet repaired) is none that we look for.
        Some(Member { key: key.as_str().unwrap_or_default(), value })
    }
}

/// See [`Json::elements`].
pub(crate) struct Elements<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.walk.next_value()
    }
}

/// Steps over the values that stand directly inside one pair of brackets.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn inside(value: Json<'a>, open: u8) -> Self {
        if value.bytes().first() == Some(&open) {
            Self { text: value.text.get(..value.end).unwrap_or_default(), at: value.start + 1 }
        } else {
            Self { text: b"", at: 0 }
        }
    }

    fn next_value(&mut self) -> Option<Json<'a>> {
        while matches!(self.text.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        let start = self.at;
        match self.text.get(start)? {
            b'}' | b']' => return None,
            b'"' => self.at = end_of_string(self.text, start),
            b'{' | b'[' => self.at = end_of_brackets(self.text, start),
            _ => {
                while self.text.get(self.at).is_some_and(|b| !b" \t\n\r,:]}".contains(b)) {
                    self.at += 1;
                }
            }
        }
        Some(Json { text: self.text, start, end: self.at })
    }
}

/// The place after the string that begins at `start`.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The place after the bracket that closes the one at `start`.
fn end_of_brackets(text: &[u8], start: usize) -> usize {
    let (mut at, mut open) = (start, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(text, at);
                continue;
            }
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if open == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        Json::parse(text).unwrap().members().map(|m| format!("{}={}", m.key, m.value.bytes().escape_ascii())).collect()
    }

    #[test]
    fn members_are_found_whatever_stands_between_them() {
        assert_eq!(keys("{}"), Vec::<String>::new());
        assert_eq!(
            keys(" {\"a\" : [1,{\"b\":\"]}\"}] ,\"\\u0063\":\"x\\\"}\", \"d\":-1e9,\"e\":null\t}"),
            ["a=[1,{\\\"b\\\":\\\"]}\\\"}]", "c=\\\"x\\\\\\\"}\\\"", "d=-1e9", "e=null"]
        );
    }

    #[test]
    fn elements_of_nested_arrays_are_not_mixed() {
        let value = Json::parse("[[],[1,2],\"a,b\",3]").unwrap();
        assert_eq!(value.elements().count(), 4);
        assert_eq!(value.elements().nth(2).and_then(|v| v.as_str()).as_deref(), Some("a,b"));
    }

    #[test]
    fn whatever_is_accepted_can_be_read_into_a_tree() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(MAX_JSON_DEPTH)).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&nested(MAX_JSON_DEPTH)).is_ok());
        assert_eq!(Json::parse(&nested(MAX_JSON_DEPTH + 1)).unwrap_err(), JsonError::TooDeep);
        assert_eq!(Json::parse(&nested(1_000_000)).unwrap_err(), JsonError::TooDeep);
        assert!(matches!(Json::parse(&"[".repeat(1_000_000)), Err(JsonError::Syntax(_))));
    }

    #[test]
    fn a_walk_over_broken_text_ends() {
        for text in ["{", "{\"a", "{\"a\":", "[1,", "[\"", "{\"a\":{\"b\"", "[[[", "\"\\", "", "{:::}", "[}]"] {
            let value = Json::of_known_line(text.as_bytes());
            assert!(value.members().count() <= 2 && value.elements().count() <= 2, "{text:?}");
            let _ = (value.as_str(), value.as_number(), value.depth(), value.same_value(value));
        }
    }
}
