//! The fields of the index (`index-schema/index.json`), and how analysed text enters them.

use tantivy::schema::{Field, INDEXED, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};

use crate::analysis::TOKEN_SEPARATOR;

/// Grows whenever fields change; part of the fingerprint.
pub const INDEX_VERSION: u32 = 1;

/// The name under which tantivy knows how to take analysed text apart.
const TOKENIZER: &str = "token-text";

/// The fields, in the order of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    /// The tokens, with positions.
    pub(super) text: Field,
    /// The session's ordinal: indexed, so that the documents of a dead session are found without a scan.
    pub(super) ordinal: Field,
    /// The document's number.
    pub(super) number: Field,
    /// Its exact length in tokens.
    pub(super) length: Field,
    /// Its time in milliseconds, 0 for unknown.
    pub(super) timestamp: Field,
    /// 0 user, 1 assistant.
    pub(super) role: Field,
}

/// The schema and its fields.
pub(super) fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions)
        .set_fieldnorms(true);
    let text = builder.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let fast = || NumericOptions::default().set_fast();
    let ordinal = builder.add_u64_field("ordinal", fast() | INDEXED);
    let number = builder.add_u64_field("number", fast());
    let length = builder.add_u64_field("length", fast());
    let timestamp = builder.add_i64_field("timestamp", fast());
    let role = builder.add_u64_field("role", fast());
    (builder.build(), Fields { text, ordinal, number, length, timestamp, role })
}

/// Makes the tokenizer known to an index.
pub(super) fn register(index: &tantivy::Index) {
    index.tokenizers().register(TOKENIZER, TextAnalyzer::from(SeparatedTokens::default()));
}

/// Splits at the separator and changes nothing: analysis happened before, once, for tail and segments alike.
#[derive(Clone, Default)]
struct SeparatedTokens {
    token: Token,
}

impl Tokenizer for SeparatedTokens {
    type TokenStream<'a> = SeparatedStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> SeparatedStream<'a> {
        self.token.reset();
        SeparatedStream { rest: (!text.is_empty()).then_some(text), token: &mut self.token }
    }
}

struct SeparatedStream<'a> {
    rest: Option<&'a str>,
    token: &'a mut Token,
}

impl TokenStream for SeparatedStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(rest) = self.rest else { return false };
        let (token, rest) = match rest.split_once(TOKEN_SEPARATOR) {
            Some((token, rest)) => (token, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        self.token.text.clear();
        self.token.text.push_str(token);
        // The first position is 0: `Token::default` starts before it.
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
