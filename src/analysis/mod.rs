//! Text to tokens, query piece to phrase. Pure: never sees the store, the index or serde.

mod analyzer;
mod cjk;
mod nfkc;
mod registry;
mod scripts;
mod token_text;
mod unicode_runs;
mod unicode_table;
mod unicode_word;

pub use analyzer::{Analyzer, ExcerptUnit, Phrase, PhraseTerm, TermMatch, Token};
pub use cjk::Cjk;
pub use registry::{AnalyzerNameTaken, Analyzers};
pub use scripts::is_unspaced;
pub use token_text::{TOKEN_SEPARATOR, TokenText};
pub use unicode_word::UnicodeWord;
