//! What stands in a secret's place (contract §8.2), and how a text that was masked before is recognised.

use std::collections::BTreeMap;
use std::ops::Range;

use super::labels::is_scheme;

/// A secret of which nothing is shown.
pub(super) const MASK: &str = "***";
/// Between the two hints of a long secret.
const ELLIPSIS: char = '…';
/// Shorter secrets, in UTF-16 units, show nothing.
const MIN_HINTED_UTF16: usize = 18;
/// Units shown of the start.
const HEAD_UTF16: usize = 6;
/// Units shown of the end.
const TAIL_UTF16: usize = 4;

/// Bytes of the longest mask: every unit is at most three.
pub(super) const MAX_MASK_BYTES: usize = (HEAD_UTF16 + 1 + TAIL_UTF16) * 3;

/// A part of a text that must not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Secret {
    /// Where it is.
    pub(super) range: Range<usize>,
    /// Whether a long one shows its start and end.
    pub(super) hints: bool,
}

impl Secret {
    /// A secret that is masked by its length.
    pub(super) fn hinted(range: Range<usize>) -> Self {
        Self { range, hints: true }
    }

    /// A secret of which nothing is shown, whatever its length.
    pub(super) fn hidden(range: Range<usize>) -> Self {
        Self { range, hints: false }
    }
}

/// `***`, or for 18 units and more the first six, `…`, the last four.
pub(super) fn mask(secret: &str) -> String {
    if is_shorter_utf16(secret, MIN_HINTED_UTF16) {
        return MASK.to_owned();
    }
    let head = &secret[..end_of_units(secret.chars(), HEAD_UTF16)];
    let tail = &secret[secret.len() - end_of_units(secret.chars().rev(), TAIL_UTF16)..];
    // A hint that cuts an escape sequence open would break the JSON around it.
    let before_tail = secret[..secret.len() - tail.len()].chars().next_back();
    if head.contains('\\') || tail.contains('\\') || before_tail == Some('\\') {
        return MASK.to_owned();
    }
    format!("{head}{ELLIPSIS}{tail}")
}

/// Whether a value is what [`mask`] leaves, after an authorization scheme too: such a value stays.
///
/// Values of mask characters alone stay as well, or a run of asterisks would be masked again and again.
pub(super) fn is_masked(value: &str) -> bool {
    if is_mask(value) {
        return true;
    }
    let Some((scheme, rest)) = value.split_once([' ', '\t']) else { return false };
    is_scheme(scheme) && !rest.is_empty() && is_mask(rest)
}

/// Whether a range lies inside a mask: what a pattern finds in a hint is no secret of its own.
pub(super) fn is_in_mask(text: &str, range: &Range<usize>) -> bool {
    let from = range.end - end_of_units(text[range.start..range.end].chars().rev(), HEAD_UTF16);
    let to = range.end + end_of_units(text[range.end..].chars(), HEAD_UTF16);
    let near = text[..from].char_indices().next_back().map_or(from, |(before, _)| before);
    let Some(at) = text[near..to].find(ELLIPSIS).map(|offset| near + offset).or_else(|| {
        let before = range.start - end_of_units(text[..range.start].chars().rev(), TAIL_UTF16);
        text[before..range.start].find(ELLIPSIS).map(|offset| before + offset)
    }) else {
        return false;
    };
    let tail = at + ELLIPSIS.len_utf8();
    let start = at - end_of_units(text[..at].chars().rev(), HEAD_UTF16);
    let end = tail + end_of_units(text[tail..].chars(), TAIL_UTF16);
    let region = &text[start..end];
    start <= range.start && range.end <= end && is_mask(region) && !region.contains(char::is_whitespace)
}

fn is_mask(value: &str) -> bool {
    if value.chars().all(|c| c == '*' || c == ELLIPSIS) {
        return true;
    }
    let Some((head, tail)) = value.split_once(ELLIPSIS) else { return false };
    // A hint is a unit shorter where a surrogate pair would have been cut.
    let is_hint = |hint: &str, units: usize| {
        !is_shorter_utf16(hint, units - 1) && is_shorter_utf16(hint, units + 1) && !hint.contains(ELLIPSIS)
    };
    is_hint(head, HEAD_UTF16) && is_hint(tail, TAIL_UTF16)
}

fn is_shorter_utf16(text: &str, units: usize) -> bool {
    // Every unit is at most three bytes of UTF-8, and at least one.
    text.len() < units || (text.len() < units * 3 && text.encode_utf16().count() < units)
}

/// Bytes of the characters that fit into so many UTF-16 units; a pair is never split.
fn end_of_units(chars: impl Iterator<Item = char>, units: usize) -> usize {
    let (mut used, mut bytes) = (0, 0);
    for c in chars {
        used += c.len_utf16();
        if used > units {
            break;
        }
        bytes += c.len_utf8();
    }
    bytes
}

/// The secrets found in one text, whoever found them.
#[derive(Debug, Default)]
pub(super) struct Secrets(BTreeMap<usize, Secret>);

impl Secrets {
    /// Adds a secret. Where one begins that was found before, that one stays: it knows better where it ends.
    pub(super) fn add(&mut self, secret: Secret) {
        if !secret.range.is_empty() {
            self.0.entry(secret.range.start).or_insert(secret);
        }
    }

    /// The text with the secrets masked, those that overlap as one. `None` where that changes nothing.
    pub(super) fn masked(self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut copied = 0;
        let mut secrets = self.0.into_values().filter(|secret| !is_masked(&text[secret.range.clone()])).peekable();
        while let Some(Secret { mut range, mut hints }) = secrets.next() {
            while let Some(next) = secrets.next_if(|next| next.range.start < range.end) {
                range.end = range.end.max(next.range.end);
                hints &= next.hints;
            }
            out.push_str(&text[copied..range.start]);
            out.push_str(&if hints { mask(&text[range.clone()]) } else { MASK.to_owned() });
            copied = range.end;
        }
        if copied == 0 {
            return None;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_decides_what_is_shown() {
        for (secret, expected) in [
            ("", "***"),
            ("tiny", "***"),
            ("seventeen-chars-x", "***"),
            ("eighteen-chars-xyz", "eighte…-xyz"),
            ("abcde😀xxxxxxxxxwxyz", "abcde…wxyz"),
            ("abcdefxxxxxxxxx😀abc", "abcdef…abc"),
            ("abcd😀xxxxxxxxx😀ab", "abcd😀…😀ab"),
            // 17 units in 51 bytes.
            ("一二三四五六七八九十一二三四五六七", "***"),
            ("一二三四五六七八九十一二三四五六七八", "一二三四五六…五六七八"),
        ] {
            assert_eq!(mask(secret), expected, "{secret}");
        }
    }

    #[test]
    fn hints_never_cut_an_escape() {
        assert_eq!(mask(r#"abc\"defghijklmnopqrst"#), "***");
        assert_eq!(mask(r#"abcdefghijklmnopq\"rst"#), "***");
        assert_eq!(mask(r#"abcdefghijkl\"mnopqrst"#), "abcdef…qrst");
    }

    #[test]
    fn masks_are_recognised() {
        for masked in ["***", "********", "…", "abcdef…wxyz", "abcde…xyz", "Bearer abcdef…wxyz", "Digest ***", ""]
        {
            assert!(is_masked(masked), "{masked}");
        }
        for open in [
            "tiny",
            "abc…",
            "…wxyz",
            "hunter22…and",
            "abcdef…wxyz!",
            "abcdef…wx…z",
            "***x",
            "a b ***",
            "hunter2 ***",
            "Bearer ",
        ] {
            assert!(!is_masked(open), "{open}");
        }
    }
}
