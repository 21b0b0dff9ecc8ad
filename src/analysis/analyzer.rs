//! The seam between text and index: an analyzer says what a text's tokens are and what a query piece must match.

/// One occurrence of a token in a text. Token *k* of a text stands at position *k*: no gaps, no two at one position.
///
/// Its text is not empty, holds no NUL, and is at most [`MAX_TOKEN_BYTES`](crate::limits::MAX_TOKEN_BYTES) long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The folded token: what is compared.
    pub text: &'a str,
    /// First byte of the token in the text.
    pub start: usize,
    /// Byte after the token in the text.
    pub end: usize,
}

/// What one term of a phrase accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TermMatch {
    /// Exactly this token.
    Exact(String),
    /// Any token that starts with this.
    Prefix(String),
}

/// One term of a phrase and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhraseTerm {
    /// Positions after the start of the phrase.
    pub offset: u32,
    /// What must stand there.
    pub term: TermMatch,
}

/// What a query piece must match: its terms, each at its offset from one start position.
///
/// An empty phrase (no terms) comes from a piece without any token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Phrase {
    /// The terms by ascending offset; the first stands at offset 0.
    pub terms: Vec<PhraseTerm>,
    /// Positions the phrase covers (FTS5: its number of tokens).
    pub num_positions: u32,
}

impl Phrase {
    /// The tokens as they are compared, a prefix with `*` after it.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.terms
            .iter()
            .map(|term| match &term.term {
                TermMatch::Exact(text) => text.clone(),
                TermMatch::Prefix(text) => format!("{text}*"),
            })
            .collect()
    }
}

/// What the length of an excerpt is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExcerptUnit {
    /// 48 tokens, as FTS5's `snippet()` does it. For analyzers whose tokens are words: one after the other in the text.
    #[default]
    Tokens,
    /// Characters as people see them. For analyzers that have a token for every character, or tokens that overlap.
    Characters,
}

/// Turns texts into tokens and query pieces into phrases.
///
/// Documents and queries of a store always go through the same analyzer; its name and version are part of the
/// schema fingerprint, and a change hides every session until it is indexed anew. An own one is made known to the
/// engine with [`OpenOptions::analyzers`](crate::OpenOptions::analyzers).
///
/// ```
/// use std::sync::Arc;
/// use sessions_search::{Analyzer, Engine, OpenOptions, Phrase, PhraseTerm, TermMatch, Token};
///
/// /// Lines, compared as they are.
/// struct Lines;
///
/// impl Analyzer for Lines {
///     fn name(&self) -> &'static str {
///         "lines"
///     }
///     fn version(&self) -> u32 {
///         1
///     }
///     fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
///         let mut start = 0;
///         for line in text.split(['\n', '\0']) {
///             if !line.is_empty() {
///                 sink(Token { text: line, start, end: start + line.len() });
///             }
///             start += line.len() + 1;
///         }
///     }
///     fn phrase(&self, piece: &str, _prefix: bool) -> Phrase {
///         let term = TermMatch::Exact(piece.to_owned());
///         Phrase { terms: vec![PhraseTerm { offset: 0, term }], num_positions: 1 }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// let mut options = OpenOptions::default();
/// options.create = true;
/// options.analyzers.add(Arc::new(Lines))?;
/// options.analyzer = "lines".to_owned();
/// let engine = Engine::open(root, options)?;
/// assert_eq!(engine.status()?.analyzer, "lines");
/// # Ok(())
/// # }
/// ```
pub trait Analyzer: Send + Sync + 'static {
    /// The name stores are made with, such as `unicode-word`.
    fn name(&self) -> &'static str;

    /// Grows whenever any text could give other tokens than before.
    fn version(&self) -> u32;

    /// Gives every token of `text` to `sink`, by position.
    fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>));

    /// What a document must hold to match `piece`. With `prefix`, the last token may be the start of a word
    /// (FTS5's `"piece" *`).
    fn phrase(&self, piece: &str, prefix: bool) -> Phrase;

    /// What excerpts of a store with this analyzer are measured in.
    fn excerpt_unit(&self) -> ExcerptUnit {
        ExcerptUnit::Tokens
    }
}
