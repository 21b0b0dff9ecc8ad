//! What both ways to read a conversation do with its texts.

use std::borrow::Cow;

use super::{Part, Turn};
use crate::model::Timestamp;

/// The text without what could act on a terminal or reorder what stands around it; line ends are `\n`.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            c if is_harmful(c) => clean.push('\u{fffd}'),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Controls save tab and line feed, and the marks that embed, override or isolate a direction. Those that only say the
/// direction of what they stand beside are needed to write Arabic and Hebrew.
fn is_harmful(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same on one line.
pub(super) fn one_line(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

/// Who speaks, as people would say it.
pub(super) fn speaker(turn: &Turn) -> String {
    match turn.role.as_str() {
        "user" => "User".to_owned(),
        "assistant" => "Assistant".to_owned(),
        "toolResult" | "tool" => "Tool result".to_owned(),
        other => one_line(other),
    }
}

/// Whether a message is a tool's answer.
pub(super) fn is_tool_result(turn: &Turn) -> bool {
    matches!(turn.role.as_str(), "toolResult" | "tool")
}

/// What an aside is, in one line.
pub(super) fn aside_title(part: &Part) -> String {
    let Part::Aside { kind, name, omitted_bytes, .. } = part else { return String::new() };
    let what = match kind.as_str() {
        "toolCall" | "tool_use" | "server_tool_use" => "Tool call",
        "toolResult" | "tool_result" => "Tool result",
        "thinking" | "redacted_thinking" | "reasoning" => "Thinking",
        "image" => "Image",
        other => other,
    };
    let mut title = one_line(what);
    if let Some(name) = name {
        title += ": ";
        title += &one_line(name);
    }
    if let Some(bytes) = omitted_bytes {
        title += &format!(" ({bytes} bytes left out)");
    }
    title
}

/// A time to read.
pub(super) fn time(timestamp: Timestamp) -> String {
    if !timestamp.is_known() {
        return "unknown time".to_owned();
    }
    let iso = timestamp.to_iso_millis();
    match iso.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        None => iso,
    }
}

/// A piece of a text: said in words, or in a fence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Lines outside fences.
    Prose(&'t str),
    /// What stands between two fences, and the word behind the first.
    Code { language: &'t str, text: &'t str },
}

/// The fenced code of a text, as CommonMark finds it; a fence that is never closed goes to the end.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let mut open: Option<(Fence, &str)> = None;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        match &open {
            None => {
                if let Some((fence, language)) = Fence::opened_by(line) {
                    push_prose(&mut pieces, text.get(begin..start).unwrap_or_default());
                    open = Some((fence, language));
                    begin = end;
                }
            }
            Some((fence, language)) if fence.is_closed_by(line) => {
                pieces.push(Piece::Code { language, text: text.get(begin..start).unwrap_or_default() });
                open = None;
                begin = end;
            }
            Some(_) => {}
        }
    }
    let rest = text.get(begin..).unwrap_or_default();
    match open {
        Some((_, language)) => pieces.push(Piece::Code { language, text: rest }),
        None => push_prose(&mut pieces, rest),
    }
    pieces
}

fn push_prose<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str) {
    if !text.trim().is_empty() {
        pieces.push(Piece::Prose(text));
    }
}

/// The beginning of a fenced code block.
struct Fence {
    mark: char,
    len: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<(Self, &str)> {
        let (mark, len, rest) = Self::run(line)?;
        let language = rest.trim();
        // A run of backticks with one behind it is code in a line.
        if mark == '`' && language.contains('`') {
            return None;
        }
        Some((Self { mark, len }, language.split_whitespace().next().unwrap_or_default()))
    }

    fn is_closed_by(&self, line: &str) -> bool {
        Self::run(line).is_some_and(|(mark, len, rest)| mark == self.mark && len >= self.len && rest.trim().is_empty())
    }

    /// At least three of one mark, at most three columns in: the mark, how many, and what follows.
    fn run(line: &str) -> Option<(char, usize, &str)> {
        let unindented = line.trim_start_matches(' ');
        if line.len() - unindented.len() > 3 {
            return None;
        }
        let mark = unindented.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = unindented.trim_start_matches(mark);
        let len = unindented.len() - rest.len();
        (len >= 3).then_some((mark, len, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_reordering_marks_do_nothing() {
        assert_eq!(
            harmless("a\x1b[2J\u{9b}b\r\nc\rd\te\u{202e}f\u{2067}"),
            "a\u{fffd}[2J\u{fffd}b\nc\nd\te\u{fffd}f\u{fffd}"
        );
        assert!(matches!(harmless("plain\n\u{200f}שלום"), Cow::Borrowed(_)));
        assert_eq!(one_line("a\nb\tc\0"), "a b c\u{fffd}");
    }

    #[test]
    fn fenced_code_is_told_from_prose() {
        let code = |language, text| Piece::Code { language, text };
        assert_eq!(pieces("no code"), [Piece::Prose("no code")]);
        assert_eq!(
            pieces("see\n```rust ignore\nlet a = \"```\";\n```\nend"),
            [Piece::Prose("see\n"), code("rust", "let a = \"```\";\n"), Piece::Prose("end")]
        );
        assert_eq!(pieces("~~~~\n~~~\n```\n~~~~"), [code("", "~~~\n```\n")]);
        assert_eq!(pieces("```\nnever closed"), [code("", "never closed")]);
        assert_eq!(pieces("```in line``` only"), [Piece::Prose("```in line``` only")]);
        assert_eq!(pieces("    ```\nindented"), [Piece::Prose("    ```\nindented")]);
        assert_eq!(pieces("```\n```"), [code("", "")]);
        assert_eq!(pieces(" \n"), []);
    }

    #[test]
    fn times_are_read_in_utc() {
        assert_eq!(time(Timestamp::from_millis(1_782_892_861_000).unwrap()), "2026-07-01 08:01 UTC");
        assert_eq!(time(Timestamp::UNKNOWN), "unknown time");
    }
}
