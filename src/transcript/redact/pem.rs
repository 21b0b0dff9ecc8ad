//! Private keys in PEM (contract §8.4, class 18): from the line that begins one to the line that ends it.
//!
//! They come before everything else. A label may stand right before the first line, and its value would end there.

use std::ops::Range;

use super::mask::MASK;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const BODY: &str = "…redacted…";

/// Found in every text that may hold a private key.
pub(super) const TRIGGER: &str = "-----BEGIN [A-Z0-9 ]*PRIVATE KEY";

/// The text with the bodies of private keys masked. A key whose end is missing stays as it is.
pub(super) fn masked(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(begin) = marker(text, at, BEGIN) {
        let Some(end) = marker(text, begin.end, END) else { break };
        let block = &text[begin.start..end.end];
        if block.contains('\n') {
            // What stands before the last line, such as a quotation mark, stays before both.
            let line = text[begin.end..end.start].rsplit('\n').next().unwrap_or_default();
            let margin = if line.chars().all(|c| matches!(c, ' ' | '\t' | '>')) { line } else { "" };
            let body = format!("\n{margin}{BODY}\n{margin}");
            if text[begin.end..end.start] != body {
                out.push_str(&text[copied..begin.end]);
                out.push_str(&body);
                copied = end.start;
            }
        } else {
            out.push_str(&text[copied..begin.start]);
            out.push_str(MASK);
            copied = end.end;
        }
        at = end.end;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// The next `-----BEGIN … PRIVATE KEY-----`, or the same with END.
fn marker(text: &str, from: usize, word: &str) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let start = at + text[at..].find(word)?;
        at = start + word.len();
        let label =
            text[at..].bytes().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ').count();
        let kind = text[at..at + label].trim_end();
        let is_key = kind.ends_with("PRIVATE KEY") || kind.ends_with("PRIVATE KEY BLOCK");
        if is_key && text[at + label..].starts_with(DASHES) {
            return Some(start..at + label + DASHES.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_loses_its_body() {
        for (text, expected) in [
            (
                "see\n-----BEGIN PRIVATE KEY-----\notter\nsea\n-----END PRIVATE KEY-----\nok",
                "see\n-----BEGIN PRIVATE KEY-----\n…redacted…\n-----END PRIVATE KEY-----\nok",
            ),
            (
                "> -----BEGIN RSA PRIVATE KEY-----\r\n> otter\r\n> -----END RSA PRIVATE KEY-----",
                "> -----BEGIN RSA PRIVATE KEY-----\n> …redacted…\n> -----END RSA PRIVATE KEY-----",
            ),
            ("k: \"-----BEGIN PRIVATE KEY-----\\notter\\n-----END PRIVATE KEY-----\"", "k: \"***\""),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----otter\nsea-----END PGP PRIVATE KEY BLOCK-----",
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n…redacted…\n-----END PGP PRIVATE KEY BLOCK-----",
            ),
        ] {
            assert_eq!(masked(text).as_deref(), Some(expected), "{text}");
            assert_eq!(masked(expected), None, "{expected}");
        }
    }

    #[test]
    fn what_is_no_whole_private_key_stays() {
        for text in [
            "-----BEGIN PRIVATE KEY-----\notter\nsea",
            "-----BEGIN CERTIFICATE-----\notter\n-----END CERTIFICATE-----",
            "-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----",
        ] {
            assert_eq!(masked(text), None, "{text}");
        }
    }
}
