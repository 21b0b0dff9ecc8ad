//! Text to tokens, query piece to phrase. Pure: never sees the store, the index or serde.

mod analyzer;

pub use analyzer::{Analyzer, Phrase, PhraseTerm, TermMatch, Token};
