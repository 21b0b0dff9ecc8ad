//! A query as typed, to the phrases a message must hold.

use crate::analysis::{Analyzer, Phrase};
use crate::limits::MAX_QUERY_UTF16;
use crate::model::is_js_space;

/// Why a text is no query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Nothing but white space.
    #[error("query must not be empty")]
    Empty,
    /// Longer than [`MAX_QUERY_UTF16`] after trimming.
    #[error("query is {found} UTF-16 units long, at most {limit} are allowed; shorten it")]
    TooLong {
        /// Its length.
        found: usize,
        /// The bound.
        limit: usize,
    },
}

/// A query, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedQuery<'q> {
    /// The pieces that are searched, in order. Repeats stay: each counts in the score.
    pub pieces: Vec<&'q str>,
    /// What each of `pieces` asks for; none is empty.
    pub phrases: Vec<Phrase>,
    /// The pieces without any token, in order. FTS5 finds nothing when there is one; we go on without them (D1).
    pub ignored: Vec<&'q str>,
}

impl<'q> ParsedQuery<'q> {
    /// Splits `query` and analyzes its pieces. With `prefix`, the last token of the last piece that has one may be the
    /// start of a word (D18).
    ///
    /// # Errors
    /// [`QueryError`] when the query is blank or too long.
    pub fn parse(query: &'q str, analyzer: &dyn Analyzer, prefix: bool) -> Result<Self, QueryError> {
        let mut parsed = Self::default();
        for piece in split(query)? {
            let phrase = analyzer.phrase(piece, false);
            if phrase.terms.is_empty() {
                parsed.ignored.push(piece);
            } else {
                parsed.pieces.push(piece);
                parsed.phrases.push(phrase);
            }
        }
        if prefix
            && let Some(piece) = parsed.pieces.last()
            && let Some(phrase) = parsed.phrases.last_mut()
        {
            *phrase = analyzer.phrase(piece, true);
        }
        Ok(parsed)
    }
}

/// The pieces of `query`: what stands between runs of JavaScript's white space.
///
/// # Errors
/// [`QueryError`] when the query is blank or, trimmed, too long.
pub fn split(query: &str) -> Result<impl Iterator<Item = &str>, QueryError> {
    let trimmed = query.trim_matches(is_js_space);
    if trimmed.is_empty() {
        return Err(QueryError::Empty);
    }
    // No character has more UTF-16 units than UTF-8 bytes.
    if trimmed.len() > MAX_QUERY_UTF16 {
        let found = trimmed.chars().map(char::len_utf16).sum();
        if found > MAX_QUERY_UTF16 {
            return Err(QueryError::TooLong { found, limit: MAX_QUERY_UTF16 });
        }
    }
    Ok(trimmed.split(is_js_space).filter(|piece| !piece.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{TermMatch, UnicodeWord};

    fn pieces(query: &str) -> Vec<&str> {
        split(query).unwrap().collect()
    }

    fn terms(phrase: &Phrase) -> Vec<&TermMatch> {
        phrase.terms.iter().map(|t| &t.term).collect()
    }

    #[test]
    fn white_space_is_javascripts() {
        assert_eq!(pieces(" \u{feff}foo\u{3000}\u{2028}bar\t"), ["foo", "bar"]);
        assert_eq!(pieces("a\u{85}b c\u{180e}d e\u{200b}f"), ["a\u{85}b", "c\u{180e}d", "e\u{200b}f"]);
        assert_eq!(split(" \u{a0}\u{feff}\n").err(), Some(QueryError::Empty));
        assert_eq!(split("").err(), Some(QueryError::Empty));
    }

    #[test]
    fn length_is_utf16_after_trimming() {
        let padded = format!("  {}\n", "é".repeat(MAX_QUERY_UTF16));
        assert_eq!(pieces(&padded).len(), 1);
        let too_long = |found| Some(QueryError::TooLong { found, limit: MAX_QUERY_UTF16 });
        assert_eq!(split(&"é".repeat(MAX_QUERY_UTF16 + 1)).err(), too_long(4_097));
        assert_eq!(pieces(&"🤖".repeat(2_048)).len(), 1);
        assert_eq!(split(&"🤖".repeat(2_049)).err(), too_long(4_098));
    }

    #[test]
    fn a_piece_becomes_one_phrase() {
        let parsed = ParsedQuery::parse("Foo-Bar\0x don't", &UnicodeWord, false).unwrap();
        assert_eq!(parsed.pieces, ["Foo-Bar\0x", "don't"]);
        let exact = |text: &str| TermMatch::Exact(text.to_owned());
        assert_eq!(terms(&parsed.phrases[0]), [&exact("foo"), &exact("bar"), &exact("x")]);
        assert_eq!(parsed.phrases[0].num_positions, 3);
        assert_eq!(parsed.phrases[1].terms[1].offset, 1);
    }

    #[test]
    fn pieces_without_a_token_are_named_and_repeats_stay() {
        let parsed = ParsedQuery::parse("deploy - 🎉 deploy 🤖", &UnicodeWord, false).unwrap();
        assert_eq!(parsed.pieces, ["deploy", "deploy", "🤖"]);
        assert_eq!(parsed.ignored, ["-", "🎉"]);
        assert_eq!(parsed.phrases[0], parsed.phrases[1]);
    }

    #[test]
    fn prefix_is_the_last_token_of_the_last_piece_that_has_one() {
        let parsed = ParsedQuery::parse("foo foo-ba …", &UnicodeWord, true).unwrap();
        assert_eq!(terms(&parsed.phrases[0]), [&TermMatch::Exact("foo".into())]);
        assert_eq!(terms(&parsed.phrases[1]), [&TermMatch::Exact("foo".into()), &TermMatch::Prefix("ba".into())]);
        assert_eq!(ParsedQuery::parse("… -", &UnicodeWord, true).unwrap().phrases, []);
    }
}
