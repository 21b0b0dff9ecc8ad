//! Writes events in the shape of contract §1.6, for formats whose lines have another.
//!
//! Text of any length is written once, without a tree in between; values of the line are taken over as they stand.

use std::borrow::Cow;

use crate::model::is_js_space;
use crate::transcript::json::{Json, JsonKind};

/// An object under construction.
#[derive(Debug)]
pub(super) struct Object {
    json: String,
}

impl Object {
    /// An object with no members yet.
    pub(super) fn new() -> Self {
        Self { json: String::from("{") }
    }

    /// An object of this `type`: an event, or a block of a message.
    pub(super) fn of_type(kind: &str) -> Self {
        Self::new().text("type", kind)
    }

    /// Adds a string.
    pub(super) fn text(self, key: &str, text: &str) -> Self {
        self.member(key, &quoted(text))
    }

    /// Adds a string, where there is one.
    pub(super) fn text_if(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self,
        }
    }

    /// Adds a value of the line as it stands, where there is one.
    pub(super) fn value(self, key: &str, value: Option<Json<'_>>) -> Self {
        match value {
            Some(value) => self.member(key, value.as_json()),
            None => self,
        }
    }

    /// Adds a member whose JSON is given.
    pub(super) fn member(mut self, key: &str, json: &str) -> Self {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.json.push_str(&quoted(key));
        self.json.push(':');
        self.json.push_str(json);
        self
    }

    /// The object's JSON.
    pub(super) fn finish(mut self) -> String {
        self.json.push('}');
        self.json
    }
}

/// The blocks of a message under construction (contract §2): only `text` blocks are searched.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<String>,
    has_text: bool,
}

impl Blocks {
    /// Text that is searched.
    pub(super) fn text(&mut self, text: &str) {
        self.has_text |= !is_blank(text);
        self.blocks.push(Object::of_type("text").text("text", text).finish());
    }

    /// Text that is shown under a name of its own and not searched.
    pub(super) fn other(&mut self, kind: &str, text: &str) {
        self.blocks.push(Object::of_type(kind).text("text", text).finish());
    }

    /// What the model thought.
    pub(super) fn thinking(&mut self, text: &str) {
        self.blocks.push(Object::of_type("thinking").text("thinking", text).finish());
    }

    /// A call of a tool; its arguments, where they are JSON inside a string, as the JSON they are.
    pub(super) fn tool_call(&mut self, id: Option<&str>, name: Option<&str>, arguments: Option<Json<'_>>) {
        let call = Object::of_type("toolCall").text_if("id", id).text_if("name", name);
        let inner = arguments.and_then(Json::as_str);
        let call = match inner.as_deref().map(|text| (text, Json::parse(text))) {
            Some((_, Ok(inner))) if inner.kind() == JsonKind::Object => call.value("arguments", Some(inner)),
            Some((text, _)) => call.text("partialJson", text),
            None => call.value("arguments", arguments),
        };
        self.blocks.push(call.finish());
    }

    /// An image or a file: only its size is kept, for the data stands in the line.
    pub(super) fn data(&mut self, kind: &str, base64: Option<&str>) {
        let bytes = base64.map(|data| {
            let data = data.split_once(";base64,").map_or(data, |(_, data)| data);
            data.trim_end_matches('=').len() as u64 * 3 / 4
        });
        let block = Object::of_type(kind).member("omitted", "true");
        let block = match bytes {
            Some(bytes) => block.member("bytes", &bytes.to_string()),
            None => block,
        };
        self.blocks.push(block.finish());
    }

    /// Whether any text is searched.
    pub(super) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Whether there is any block.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The array's JSON.
    pub(super) fn finish(self) -> String {
        format!("[{}]", self.blocks.join(","))
    }
}

/// The last member of each of these keys, in their order. One walk over the object, however many are asked for.
pub(super) fn members<'a, const N: usize>(object: Json<'a>, keys: [&str; N]) -> [Option<Json<'a>>; N] {
    let mut found = [None; N];
    for member in object.members() {
        if let Some(at) = keys.iter().position(|key| *key == member.key) {
            found[at] = Some(member.value);
        }
    }
    found
}

/// A member of a value that may be there, and may be an object.
pub(super) fn member<'a>(object: Option<Json<'a>>, key: &str) -> Option<Json<'a>> {
    let [found] = members(object?, [key]);
    found
}

/// Whether the value is this string.
pub(super) fn is(value: Option<Json<'_>>, text: &str) -> bool {
    value.and_then(Json::as_str).is_some_and(|value| value == text)
}

/// The text of a value that is a string and not blank.
pub(super) fn non_blank(value: Option<Json<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(Json::as_str).filter(|text| !is_blank(text))
}

/// Whether the text begins with one of these, white space aside.
pub(super) fn begins_with_any(text: &str, beginnings: &[&str]) -> bool {
    let text = text.trim_start_matches(is_js_space);
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

fn is_blank(text: &str) -> bool {
    text.trim_matches(is_js_space).is_empty()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json() {
        let line = Json::parse(r#"{"a":{"deep":[1]},"s":"{\"x\":1}","t":"not json","n":null,"a":2}"#).unwrap();
        let [a, s, t, gone] = members(line, ["a", "s", "t", "gone"]);
        let mut blocks = Blocks::default();
        blocks.text(" \n");
        assert!(!blocks.has_text());
        blocks.text("say \"hi\"\u{2028}");
        blocks.tool_call(Some("c"), Some("ls"), s);
        blocks.tool_call(None, None, t);
        blocks.tool_call(None, Some("x"), a);
        blocks.data("image", Some("data:image/png;base64,aGVsbG8="));
        blocks.data("image", None);
        assert!(blocks.has_text());
        let event = Object::of_type("message").text_if("id", None).value("a", a).value("gone", gone);
        let event = event.member("content", &blocks.finish()).finish();
        assert_eq!(
            event,
            concat!(
                r#"{"type":"message","a":2,"content":[{"type":"text","text":" \n"},"#,
                "{\"type\":\"text\",\"text\":\"say \\\"hi\\\"\u{2028}\"},",
                r#"{"type":"toolCall","id":"c","name":"ls","arguments":{"x":1}},"#,
                r#"{"type":"toolCall","partialJson":"not json"},{"type":"toolCall","name":"x","arguments":2},"#,
                r#"{"type":"image","omitted":true,"bytes":5},{"type":"image","omitted":true}]}"#
            )
        );
        assert!(Json::parse(&event).is_ok());
    }
}
