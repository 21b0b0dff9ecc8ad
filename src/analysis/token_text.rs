//! A text's tokens in one string, worked out once and read by tail and segments alike.

use super::Analyzer;

/// Stands between tokens. No analyzer may emit it inside one: for FTS5 NUL is a separator.
pub const TOKEN_SEPARATOR: char = '\0';

/// The tokens of a text, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenText {
    joined: String,
    length: u32,
}

impl TokenText {
    /// Runs the analyzer over a text.
    #[must_use]
    pub fn new(analyzer: &dyn Analyzer, text: &str) -> Self {
        let mut joined = String::with_capacity(text.len() + 8);
        let mut length = 0;
        analyzer.tokenize(text, &mut |token| {
            if length > 0 {
                joined.push(TOKEN_SEPARATOR);
            }
            debug_assert!(!token.text.contains(TOKEN_SEPARATOR));
            joined.push_str(token.text);
            length += 1;
        });
        Self { joined, length }
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The tokens with separators between them.
    #[must_use]
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// The tokens, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.joined.split(TOKEN_SEPARATOR).take(self.length as usize)
    }
}
