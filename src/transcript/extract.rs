//! Which text of a message is searched (contract §2).

use super::json::{Json, JsonKind};
use crate::model::{Role, is_js_space};

/// The searchable part of a message, before redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchableMessage {
    /// Who speaks.
    pub role: Role,
    /// The text; never blank.
    pub text: String,
}

/// The searchable part of an event's `message` object; `None` when its role or its shape yields nothing.
///
/// Whether the event has an id is the caller's question: some formats give one only later.
pub(super) fn searchable_message(message: Json<'_>) -> Option<SearchableMessage> {
    let (mut role, mut content, mut text) = (None, None, None);
    for member in message.members() {
        match &*member.key {
            "role" => role = Some(member.value),
            "content" => content = Some(member.value),
            "text" => text = Some(member.value),
            _ => {}
        }
    }
    let role = Role::parse(&role?.as_str()?)?;
    Some(SearchableMessage { role, text: text_of(content, text)? })
}

/// The first shape that applies decides, also when it turns out blank.
fn text_of(content: Option<Json<'_>>, text: Option<Json<'_>>) -> Option<String> {
    if let Some(content) = content.and_then(Json::as_str) {
        return trimmed(&content);
    }
    if let Some(text) = text.and_then(Json::as_str) {
        return trimmed(&text);
    }
    joined_blocks(content?)
}

fn trimmed(text: &str) -> Option<String> {
    let text = text.trim_matches(is_js_space);
    (!text.is_empty()).then(|| text.to_owned())
}

/// The texts of an array of blocks, untrimmed, a newline between each two.
fn joined_blocks(content: Json<'_>) -> Option<String> {
    let mut joined: Option<String> = None;
    for block in content.elements().filter(|block| block.kind() == JsonKind::Object) {
        let (mut kind, mut text) = (None, None);
        for member in block.members() {
            match &*member.key {
                "type" => kind = Some(member.value),
                "text" => text = Some(member.value),
                _ => {}
            }
        }
        if !kind.and_then(Json::as_str).is_some_and(|kind| matches!(&*kind, "text" | "input_text" | "output_text")) {
            continue;
        }
        let Some(text) = text.and_then(Json::as_str).filter(|text| !text.trim_matches(is_js_space).is_empty()) else {
            continue;
        };
        match &mut joined {
            None => joined = Some(text.into_owned()),
            Some(joined) => {
                joined.push('\n');
                joined.push_str(&text);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &str) -> Option<String> {
        searchable_message(Json::parse(message).unwrap()).map(|m| m.text)
    }

    /// The table of contract §2, and the shapes beside it.
    #[test]
    fn the_first_shape_that_applies_decides() {
        let rows: &[(&str, Option<&str>)] = &[
            (r#"{"role":"user","content":"  pack the tent  "}"#, Some("pack the tent")),
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"tool_use","name":"x"},{"type":"text","text":"two"}]}"#,
                Some("one\ntwo"),
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"  lead"},{"type":"input_text","text":"tail  "}]}"#,
                Some("  lead\ntail  "),
            ),
            (r#"{"role":"user","content":[{"type":"output_text","text":"out"}]}"#, Some("out")),
            (r#"{"role":"user","content":"","text":"hi"}"#, None),
            (r#"{"role":"user","content":[{"type":"text","text":"x"}],"text":"y"}"#, Some("y")),
            (r#"{"role":"user","content":[{"type":"text","text":"x"}],"text":""}"#, None),
            (r#"{"role":"user","content":[{"type":"text","text":"x"}],"text":7}"#, Some("x")),
            (r#"{"role":"user","content":null,"text":" z "}"#, Some("z")),
            (r#"{"role":"user","content":[{"type":"image","text":"caption"},{"type":"thinking","text":"hm"}]}"#, None),
            (r#"{"role":"user","content":[{"type":"text","text":"   "}]}"#, None),
            (r#"{"role":"user","content":[{"type":"text"},{"type":"text","text":null},"bare",[]]}"#, None),
            (r#"{"role":"user","content":42}"#, None),
            (r#"{"role":"user","content":{"type":"text","text":"x"}}"#, None),
            (r#"{"role":"User","content":"x"}"#, None),
            (r#"{"role":"system","content":"x"}"#, None),
            (r#"{"role":"toolResult","content":"x"}"#, None),
            (r#"{"content":"x"}"#, None),
            (r#"{"role":["user"],"content":"x"}"#, None),
            (r#"["user","x"]"#, None),
            (r#"{"role":"user","content":"\ufeff \u0085 \u3000"}"#, Some("\u{85}")),
            (r#"{"role":"user","content":"a\u0000b"}"#, Some("a\0b")),
            (r#"{"role":"system","content":"first","role":"user","content":"last"}"#, Some("last")),
            (r#"{"\u0072ole":"user","c\u006fntent":"escaped keys"}"#, Some("escaped keys")),
        ];
        for (message, expected) in rows {
            assert_eq!(text(message).as_deref(), *expected, "{message}");
        }
    }

    #[test]
    fn a_long_message_is_taken_whole() {
        let long = "x".repeat(140 * 1024);
        assert_eq!(text(&format!(r#"{{"role":"user","content":"{long}"}}"#)), Some(long));
    }
}
