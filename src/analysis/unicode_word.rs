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
    /// A letter or digit.
    Word,
    /// Not ASCII: ask the table.
    Other,
}

static LEADS: [Lead; 256] = {
    let mut leads = [Lead::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        leads[byte] = if (byte as u8).is_ascii_alphanumeric() { Lead::Word } else { Lead::Separate };
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
        let start = self.skip_separators()?;
        let run = AsciiRun::at(bytes, start);
        let mut at = start + run.len;
        let mut has_upper = run.has_upper;
        self.folded.clear();
        // `folded` holds what the source up to `copied` became; most tokens change little, so the rest comes in runs.
        let mut copied = start;
        'token: while let Some(&byte) = bytes.get(at) {
            match LEADS[byte as usize] {
                Lead::Separate => break 'token,
                Lead::Word => {
                    let run = AsciiRun::at(bytes, at);
                    has_upper |= run.has_upper;
                    at += run.len;
                }
                Lead::Other => {
                    for c in self.text[at..].chars() {
                        if c.is_ascii() {
                            continue 'token;
                        }
                        let after = at + c.len_utf8();
                        match action(c) {
                            Action::Separate => break 'token,
                            Action::Keep => {}
                            Action::Drop => {
                                self.folded.push_str(&self.text[copied..at]);
                                copied = after;
                            }
                            Action::Replace(c) => {
                                self.folded.push_str(&self.text[copied..at]);
                                self.folded.push(c);
                                copied = after;
                            }
                        }
                        at = after;
                    }
                }
            }
        }
        self.at = at;
        let text = if copied == start && !has_upper && at - start <= MAX_TOKEN_BYTES {
            &self.text[start..at]
        } else {
            self.folded.push_str(&self.text[copied..at]);
            if has_upper {
                self.folded.make_ascii_lowercase();
            }
            cut(&mut self.folded);
            &self.folded
        };
        Some(Token { text, start, end: at })
    }

    /// Where the next token starts.
    fn skip_separators(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            match LEADS[*bytes.get(at)? as usize] {
                Lead::Separate => at += 1,
                Lead::Word => return Some(at),
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

/// A run of ASCII letters and digits.
struct AsciiRun {
    len: usize,
    has_upper: bool,
}

impl AsciiRun {
    /// The run that starts at `start`, eight bytes a step: the length of a word is what a processor predicts worst.
    fn at(bytes: &[u8], start: usize) -> Self {
        let mut run = Self { len: 0, has_upper: false };
        while let Some(chunk) = bytes.get(start + run.len..).and_then(|rest| rest.first_chunk::<8>()) {
            let eight = u64::from_le_bytes(*chunk);
            let letters = bytes_within(eight | (ONES * 0x20), b'a', b'z');
            let word = letters | bytes_within(eight, b'0', b'9');
            // Bit 5 tells a small letter; here it stands where the mask has its bit.
            let upper = letters & !(eight << 2);
            let len = (!word & HIGH_BITS).trailing_zeros() as usize / 8;
            let before = upper & (1u64.checked_shl(8 * len as u32).unwrap_or(0).wrapping_sub(1));
            run.has_upper |= before != 0;
            run.len += len;
            if len < 8 {
                return run;
            }
        }
        while let Some(byte) = bytes.get(start + run.len).filter(|byte| byte.is_ascii_alphanumeric()) {
            run.has_upper |= byte.is_ascii_uppercase();
            run.len += 1;
        }
        run
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * ONES;

/// The high bit of each byte that is ASCII and from `first` to `last`.
fn bytes_within(eight: u64, first: u8, last: u8) -> u64 {
    let low_bits = eight & !HIGH_BITS;
    let from_first = low_bits + ONES * u64::from(0x80 - first);
    let past_last = low_bits + ONES * u64::from(0x7F - last);
    from_first & !past_last & !eight & HIGH_BITS
}

/// Cuts a token as FTS5 does, to its first [`MAX_TOKEN_BYTES`] bytes.
///
/// FTS5 may cut inside a character, and then tokens that share the odd bytes are equal. A `str` can't hold those, so
/// each becomes the private character U+F0000 + byte: two cut tokens are equal exactly when FTS5's are, and no uncut
/// one is equal to a cut one, for it would be longer than the limit.
fn cut(token: &mut String) {
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
