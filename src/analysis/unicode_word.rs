//! Words as SQLite FTS5 cuts them: `unicode61 remove_diacritics 2`.

use super::unicode_table::{Action, action};
use super::{Analyzer, Phrase, PhraseTerm, TermMatch, Token};
use crate::limits::MAX_TOKEN_BYTES;

/// The default analyzer: exactly SQLite FTS5's `unicode61 remove_diacritics 2`.
///
/// A token is a run of token characters, each folded on its own: lower case, and Latin letters without their marks.
/// What FTS5 does not know as a separator belongs to words, so newer emoji do, and runs of Han, kana or Hangul are one
/// token each.
///
/// ```
/// use sessions_search::{Analyzer, UnicodeWord};
/// let mut words = Vec::new();
/// UnicodeWord.tokenize("Déjà-vu, 検索 OK", &mut |token| words.push(token.text.to_owned()));
/// assert_eq!(words, ["deja", "vu", "検索", "ok"]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct UnicodeWord;

impl Analyzer for UnicodeWord {
    fn name(&self) -> &'static str {
        "unicode-word"
    }

    fn version(&self) -> u32 {
        1
    }

    fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
        let mut scanner = Scanner { text, at: 0, folded: String::new() };
        while let Some(token) = scanner.next_token() {
            sink(token);
        }
    }

    fn phrase(&self, piece: &str, prefix: bool) -> Phrase {
        let mut phrase = Phrase::default();
        self.tokenize(piece, &mut |token| {
            let term = TermMatch::Exact(token.text.to_owned());
            phrase.terms.push(PhraseTerm { offset: phrase.num_positions, term });
            phrase.num_positions += 1;
        });
        if prefix
            && let Some(last) = phrase.terms.last_mut()
            && let TermMatch::Exact(text) = &mut last.term
        {
            last.term = TermMatch::Prefix(std::mem::take(text));
        }
        phrase
    }
}

/// What the first byte of a scalar tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Separate,
    Keep,
    Upper,
    /// Not ASCII: ask the table.
    Other,
}

static LEADS: [Lead; 256] = {
    let mut leads = [Lead::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        leads[byte] = match byte as u8 {
            b'0'..=b'9' | b'a'..=b'z' => Lead::Keep,
            b'A'..=b'Z' => Lead::Upper,
            _ => Lead::Separate,
        };
        byte += 1;
    }
    leads
};

/// Walks over a text, token by token.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The token's text where it differs from the source; kept to spare an allocation a token.
    folded: String,
}

impl Scanner<'_> {
    fn next_token(&mut self) -> Option<Token<'_>> {
        let bytes = self.text.as_bytes();
        let mut at = self.skip_separators()?;
        let start = at;
        while bytes.get(at).is_some_and(|&b| LEADS[b as usize] == Lead::Keep) {
            at += 1;
        }
        if bytes.get(at).is_none_or(|&b| LEADS[b as usize] == Lead::Separate) {
            self.at = at;
            return Some(Token { text: cut(&self.text[start..at], &mut self.folded), start, end: at });
        }

        // `folded` holds what the source up to `copied` became; most tokens change little, so the rest is copied in runs.
        self.folded.clear();
        let mut copied = start;
        while let Some(&byte) = bytes.get(at) {
            let (action, len) = match LEADS[byte as usize] {
                Lead::Separate => break,
                Lead::Keep => (Action::Keep, 1),
                Lead::Upper => (Action::Replace(byte.to_ascii_lowercase() as char), 1),
                Lead::Other => {
                    let c = self.text[at..].chars().next()?;
                    (action(c), c.len_utf8())
                }
            };
            match action {
                Action::Separate => break,
                Action::Keep => {}
                Action::Drop => {
                    self.folded.push_str(&self.text[copied..at]);
                    copied = at + len;
                }
                Action::Replace(c) => {
                    self.folded.push_str(&self.text[copied..at]);
                    self.folded.push(c);
                    copied = at + len;
                }
            }
            at += len;
        }
        self.at = at;
        if copied > start {
            self.folded.push_str(&self.text[copied..at]);
            cut_in_place(&mut self.folded);
            Some(Token { text: &self.folded, start, end: at })
        } else {
            Some(Token { text: cut(&self.text[start..at], &mut self.folded), start, end: at })
        }
    }

    /// Where the next token starts.
    fn skip_separators(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            match LEADS[*bytes.get(at)? as usize] {
                Lead::Separate => at += 1,
                Lead::Keep | Lead::Upper => return Some(at),
                Lead::Other => {
                    let c = self.text[at..].chars().next()?;
                    match action(c) {
                        Action::Separate | Action::Drop => at += c.len_utf8(),
                        Action::Keep | Action::Replace(_) => return Some(at),
                    }
                }
            }
        }
    }
}

/// `text` when it is short enough, else its cut form, made in `buffer`.
fn cut<'a>(text: &'a str, buffer: &'a mut String) -> &'a str {
    if text.len() <= MAX_TOKEN_BYTES {
        return text;
    }
    buffer.clear();
    buffer.push_str(text);
    cut_in_place(buffer);
    buffer
}

/// Cuts a token as FTS5 does, to its first [`MAX_TOKEN_BYTES`] bytes.
///
/// FTS5 may cut inside a character, and then tokens that share the odd bytes are equal. A `str` can't hold those, so
/// each becomes the private character U+F0000 + byte: two cut tokens are equal exactly when FTS5's are, and no uncut
/// one is equal to a cut one, for it would be longer than the limit.
fn cut_in_place(token: &mut String) {
    if token.len() <= MAX_TOKEN_BYTES {
        return;
    }
    let whole = token.floor_char_boundary(MAX_TOKEN_BYTES);
    let odd: String = token.as_bytes()[whole..MAX_TOKEN_BYTES]
        .iter()
        .filter_map(|&byte| char::from_u32(0xF_0000 + u32::from(byte)))
        .collect();
    token.truncate(whole);
    token.push_str(&odd);
}
