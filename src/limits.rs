//! Every bound, with its unit in the name and its reason.

/// Longest query after trimming, in UTF-16 code units (contract §5.1).
pub const MAX_QUERY_UTF16: usize = 4_096;
/// Hits when no limit is given (contract §5.1).
pub const DEFAULT_SEARCH_LIMIT: usize = 10;
/// Largest limit for tools, the gateway function and `--as` (contract §5.1).
pub const MAX_TOOL_SEARCH_LIMIT: usize = 25;
/// Most session keys in a call of the gateway function (contract §5.1).
pub const MAX_GATEWAY_KEYS: usize = 200;
/// Largest limit for the operator and the library (interface.md).
pub const MAX_SEARCH_LIMIT: usize = 10_000;
/// Tokens in an excerpt (contract §5.4).
pub const EXCERPT_TOKENS: usize = 48;
/// Longest excerpt of a store whose analyzer is for scripts without spaces, in columns of a terminal: 120 Chinese
/// characters or 40 English words, so about what [`EXCERPT_TOKENS`] words say.
pub const EXCERPT_COLUMNS: usize = 240;
/// Length of an excerpt when none is asked, in UTF-16 code units (D28).
pub const DEFAULT_EXCERPT_UTF16: usize = 300;
/// Longest excerpt, in UTF-16 code units (D28).
pub const MAX_EXCERPT_UTF16: usize = 500;
/// Bytes of the `results` array of a tool's answer (contract §5.7).
pub const MAX_TOOL_RESULT_BYTES: usize = 32_768;
/// Messages of a history page when no limit is given (interface.md).
pub const DEFAULT_HISTORY_LIMIT: usize = 50;
/// Most messages of a history page (interface.md).
pub const MAX_HISTORY_LIMIT: usize = 1_000;
/// Bytes of a history page (contract §7.1).
pub const MAX_HISTORY_BYTES: usize = 81_920;
/// Length of one text in history, in UTF-16 code units (contract §7.1).
pub const MAX_HISTORY_TEXT_UTF16: usize = 4_000;
/// Longest agent id (contract §1.1); it names a folder.
pub const MAX_AGENT_ID_BYTES: usize = 64;
/// Longest session id, key or message id. Ids are database keys and travel in every answer.
pub const MAX_ID_BYTES: usize = 65_536;
/// Longest transcript line that is stored; longer ones are rejected with this number. Holds any answer with inline
/// images seen so far, and bounds the memory of an import: one line is held at a time.
pub const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
/// Longest index of sessions (`sessions.json`) that an import reads; it is held in memory whole. At 20 KB an entry,
/// which is much, this is 13,000 sessions.
pub const MAX_SESSION_INDEX_BYTES: u64 = 256 * 1024 * 1024;
/// Deepest nesting of a transcript line that is stored: what `serde_json` reads into a tree, so that every stored line
/// can be shown and exported.
pub const MAX_JSON_DEPTH: usize = 127;
/// Longest token, in bytes after folding; FTS5 cuts there (fts5-semantics §1.4).
pub const MAX_TOKEN_BYTES: usize = 32_768;
/// A rewrite of a session is resolved inside its transaction up to this many events … (D17)
pub const SYNC_RESOLVE_EVENTS: u64 = 4_000;
/// … and this many bytes of raw JSON (D17).
pub const SYNC_RESOLVE_BYTES: u64 = 4 * 1024 * 1024;
/// Sessions of a list when no limit is given (interface.md).
pub const DEFAULT_LIST_LIMIT: usize = 50;
/// Most sessions of a list.
pub const MAX_LIST_LIMIT: usize = 10_000;
/// Largest window of a zstd frame that an import decodes: four times what zstd's strongest ordinary level uses. It is
/// the memory a compressed file may ask for, beside one line.
pub const MAX_ZSTD_WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// A zstd file may expand to this many times its size, far more than any transcript does …
pub const MAX_ZSTD_EXPANSION: u64 = 1_000;
/// … and this many bytes on top, so that small files need no ratio.
pub const MAX_ZSTD_FREE_BYTES: u64 = 64 * 1024 * 1024;
