//! Where the value of a label ends: at its closing quote, else at white space or what stands between values.

use std::ops::Range;

use super::mask::{MAX_MASK_BYTES, is_masked};

/// Furthest that a closing quote is looked for, in bytes. Keeps a text of quotes that nobody closes linear.
const MAX_QUOTED_BYTES: usize = 64 * 1024;

/// What stands where a value may begin.
pub(super) enum Start {
    /// A quoted value, without its quotes.
    Quoted(Range<usize>),
    /// A quote that its line does not close: the value begins here and ends as a bare one does.
    Unclosed(usize),
    /// No quote.
    Bare,
}

/// Reads the quote at `at`, escaped ones too: in JSON inside JSON a quote stands behind backslashes, and the one that
/// closes it behind as many.
pub(super) fn start(text: &str, at: usize) -> Start {
    let bytes = text.as_bytes();
    let escapes = count(&bytes[at..], b'\\');
    let open = at + escapes;
    let Some(first) = text[open..].chars().next() else { return Start::Bare };
    let close = match first {
        '"' | '\'' | '`' => first,
        '“' if escapes == 0 => '”',
        '‘' if escapes == 0 => '’',
        '«' if escapes == 0 => '»',
        '「' if escapes == 0 => '」',
        _ => return Start::Bare,
    };
    let mut from = open + first.len_utf8();
    if escapes == 0 && close.is_ascii() {
        match count(&bytes[open..], bytes[open]) {
            1 => {}
            2 => return Start::Quoted(from..from),
            quotes => from = open + quotes.min(3),
        }
    }
    let mut skipped = 0;
    for (offset, c) in text[from..].char_indices() {
        let here = from + offset;
        if c == '\\' {
            skipped += 1;
            continue;
        }
        if c == close && skipped <= escapes {
            return Start::Quoted(from..here - skipped);
        }
        // Curly quotes do not nest here: what opens again was never closed.
        if matches!(c, '\n' | '\r') || (c == first && c != close) || offset > MAX_QUOTED_BYTES {
            break;
        }
        skipped = 0;
    }
    Start::Unclosed(from)
}

/// A value without quotes from `from` on. What may stand behind a value and is none of it, closing brackets and
/// commas, stays outside. `ends` names further characters that end it.
pub(super) fn bare(text: &str, from: usize, ends: &[char]) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut end = text.len();
    for (offset, c) in text[from..].char_indices() {
        let here = from + offset;
        let next = bytes.get(here + 1).copied().unwrap_or(b' ');
        let is_over = match c {
            '\\' => matches!(next, b'n' | b'r' | b't' | b'u' | b'"' | b'\'' | b'`' | b' ' | b'\n' | b'\r'),
            // Inside a word a quote is part of it.
            '"' | '\'' | '`' => {
                offset == 0 || !bytes[here - 1].is_ascii_alphanumeric() || !next.is_ascii_alphanumeric()
            }
            '<' => next == b'/',
            '&' => is_next_pair(&bytes[here + 1..]),
            ',' | ';' | '#' => false,
            _ => c.is_whitespace() || is_wide_punctuation(c),
        };
        // A value that was masked up to here is done, whatever follows.
        let may_be_mask = matches!(c, ',' | ';' | '#' | '&') && (1..=MAX_MASK_BYTES).contains(&offset);
        let was_masked = may_be_mask && is_masked(&text[from..here]);
        if is_over || was_masked || ends.contains(&c) {
            end = here;
            break;
        }
    }
    let range = trimmed(text, from..end);
    // The brace that ends a shell reference belongs to it.
    let is_reference = text[range.clone()].starts_with("${") && text[range.end..end].starts_with('}');
    range.start..range.end + usize::from(is_reference)
}

/// The same without the delimiters that may stand behind a value.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let kept = text[range.clone()]
        .trim_end_matches(['"', '\'', '`', '\\', ',', ';', ')', '}', ']', '、', '。', '，', '；', '）', '”', '’']);
    range.start..range.start + kept.len()
}

/// Whether `name=`, or the rest of `&amp;name=`, follows an ampersand.
fn is_next_pair(after: &[u8]) -> bool {
    let after = after.strip_prefix(b"amp;").unwrap_or(after);
    let name = after.iter().take(64).take_while(|b| b.is_ascii_alphanumeric() || b"_.%-[]".contains(b)).count();
    name > 0 && after.get(name) == Some(&b'=')
}

/// Punctuation that ends a word in scripts without spaces.
fn is_wide_punctuation(c: char) -> bool {
    matches!(c, '，' | '。' | '；' | '、' | '：' | '！' | '？' | '（' | '）' | '【' | '】' | '「' | '」' | '『' | '』')
        || matches!(c, '《' | '》' | '“' | '”' | '‘' | '’' | '«' | '»')
}

fn count(bytes: &[u8], byte: u8) -> usize {
    bytes.iter().take_while(|&&b| b == byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Option<&str> {
        match start(text, 0) {
            Start::Quoted(range) => Some(&text[range]),
            _ => None,
        }
    }

    #[test]
    fn a_quote_is_closed_by_its_like() {
        for (text, value) in [
            (r#""plain" x"#, Some("plain")),
            (r#""with \" inside" x"#, Some(r#"with \" inside"#)),
            (r#"'it"s' x"#, Some(r#"it"s"#)),
            (r#"\"once\" x"#, Some("once")),
            (r#"\"once \\\" deeper\" x"#, Some(r#"once \\\" deeper"#)),
            (r#"\\\"twice\\\" x"#, Some("twice")),
            // The string around it ends first.
            (r#"\"once" x"#, Some("once")),
            (r#""" x"#, Some("")),
            (r#""""three""" x"#, Some("three")),
            ("“curly” x", Some("curly")),
            ("“open “curly” x", None),
            ("\"open\nnext\"", None),
            ("bare\"", None),
        ] {
            assert_eq!(quoted(text), value, "{text}");
        }
    }

    #[test]
    fn a_bare_value_ends_where_the_next_thing_begins() {
        for (text, value) in [
            ("abc,def rest", "abc,def"),
            ("abc), rest", "abc"),
            ("abc&x=1", "abc"),
            ("abc&def rest", "abc&def"),
            ("abc&amp;x=1", "abc"),
            ("abc\\nX=1", "abc"),
            ("ab\\cd rest", "ab\\cd"),
            ("don't\" rest", "don't"),
            ("abc</b>", "abc"),
            ("abc，然后", "abc"),
            ("abc😀def rest", "abc😀def"),
            ("***;rest", "***"),
            ("abcdef…wxyz,rest", "abcdef…wxyz"),
            (")", ""),
            ("${ABC},", "${ABC}"),
        ] {
            assert_eq!(&text[bare(text, 0, &[])], value, "{text}");
        }
    }
}
