//! One stored message as people read it: redacted, its parts told apart, data left out.

use serde_json::Value;

use super::history::{HistoryBlock, HistoryMessage};
use crate::model::MessageId;
use crate::store::EventRow;
use crate::transcript::{Redactor, sanitize};

/// One message as history shows it.
pub(super) struct Rendered {
    pub(super) message: HistoryMessage,
    /// Whether a text of it was cut.
    pub(super) truncated: bool,
    /// Whether a text of it was redacted.
    pub(super) redacted: bool,
    /// Longest text, in UTF-16 code units.
    max_text_utf16: usize,
}

impl Rendered {
    /// Whether the tool filter leaves anything of the message.
    pub(super) fn is_shown(&self, include_tools: bool) -> bool {
        let message = &self.message;
        let is_tool = matches!(message.role.as_str(), "toolResult" | "tool");
        (include_tools || !is_tool)
            && (!message.text.is_empty() || message.blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()))
    }

    /// With texts of at most `max_text_utf16` units.
    pub(super) fn new(row: &EventRow<'_>, redactor: &Redactor, include_tools: bool, max_text_utf16: usize) -> Self {
        let (line, _) = sanitize(row.normalised.unwrap_or(row.raw));
        let event: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        let id = event.get("id").and_then(Value::as_str).and_then(|id| MessageId::parse(id).ok());
        let message = event.get("message").unwrap_or(&Value::Null);
        let mut rendered = Self {
            message: HistoryMessage {
                message_id: id.map(|id| id.as_str().to_owned()),
                role: String::new(),
                timestamp: row.timestamp,
                text: String::new(),
                blocks: None,
            },
            truncated: false,
            redacted: false,
            max_text_utf16,
        };
        // Anyone can write anything there: it is masked and cut as every other text is.
        let role = message.get("role").and_then(Value::as_str).unwrap_or("unknown");
        rendered.message.role = rendered.text(role, redactor);
        let content = message.get("content");
        let string = content.and_then(Value::as_str).or_else(|| message.get("text").and_then(Value::as_str));
        if let Some(text) = string {
            rendered.message.text = rendered.text(text, redactor);
        } else if let Some(blocks) = content.and_then(Value::as_array) {
            rendered.blocks(blocks, redactor, include_tools);
        }
        rendered
    }

    fn blocks(&mut self, blocks: &[Value], redactor: &Redactor, include_tools: bool) {
        let mut shown = Vec::new();
        let mut texts = Vec::new();
        let mut raw_texts: Vec<String> = Vec::new();
        for block in blocks {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown");
            let is_tool = matches!(kind, "toolCall" | "tool_use" | "toolResult" | "tool_result" | "server_tool_use");
            if is_tool && !include_tools {
                continue;
            }
            let is_text = is_text_kind(kind);
            let raw_text = block
                .get("text")
                .or_else(|| block.get("thinking"))
                .or_else(|| block.get("partialJson"))
                .or_else(|| block.get("content"))
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or_else(|| block.get("arguments").or_else(|| block.get("input")).map(Value::to_string));
            let text = raw_text.as_ref().map(|text| self.text(text, redactor));
            if is_text && let (Some(text), Some(raw)) = (&text, raw_text) {
                texts.push(text.clone());
                raw_texts.push(raw);
            }
            let data = image_data(block);
            // An importer that leaves data out says how much it was.
            let omitted = block.get("omitted").and_then(Value::as_bool).filter(|omitted| *omitted);
            shown.push(HistoryBlock {
                kind: self.text(kind, redactor),
                text,
                name: block.get("name").and_then(Value::as_str).map(|name| self.text(name, redactor)),
                omitted: data.map(|_| true).or(omitted),
                bytes: data.map(decoded_len).or_else(|| omitted.and(block.get("bytes")).and_then(Value::as_u64)),
            });
        }
        if raw_texts.len() > 1 {
            let whole = raw_texts.join("\n");
            let parts: Vec<_> = raw_texts.iter().map(|text| redactor.redact(text)).collect();
            if *redactor.redact(&whole) != *parts.join("\n") {
                // A secret that goes over several blocks, such as a private key, is one only in all of them together.
                texts = vec![self.text(&whole, redactor)];
                let mut is_first = true;
                shown.retain_mut(|block: &mut HistoryBlock| {
                    if !is_text_kind(&block.kind) || block.text.is_none() {
                        return true;
                    }
                    block.text = texts.first().cloned();
                    std::mem::take(&mut is_first)
                });
            }
        }
        self.message.text = texts.join("\n");
        let only_text = shown.iter().all(|block| is_text_kind(&block.kind));
        self.message.blocks = (!only_text).then_some(shown);
    }

    /// Redacts, then cuts.
    fn text(&mut self, text: &str, redactor: &Redactor) -> String {
        let redacted = redactor.redact(text);
        self.redacted |= *redacted != *text;
        let mut units = 0;
        for (at, c) in redacted.char_indices() {
            units += c.len_utf16();
            if units > self.max_text_utf16 {
                self.truncated = true;
                return format!("{}\n…(truncated)…", &redacted[..at]);
            }
        }
        redacted.into_owned()
    }
}

/// Whether a block is text that was said.
pub(super) fn is_text_kind(kind: &str) -> bool {
    matches!(kind, "text" | "input_text" | "output_text")
}

/// The base64 data of an image or file block.
fn image_data(block: &Value) -> Option<&str> {
    let direct = block.get("data").and_then(Value::as_str);
    direct.or_else(|| block.get("source").and_then(|source| source.get("data")).and_then(Value::as_str))
}

/// Bytes that base64 text stands for.
fn decoded_len(data: &str) -> u64 {
    let symbols = data.trim_end_matches('=').len() as u64;
    symbols * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_leave_their_size() {
        assert_eq!(decoded_len("aGVsbG8="), 5);
        assert_eq!(decoded_len("aGVsbG8h"), 6);
    }
}
