//! The integration tests: one binary, so that the engine is linked once. Where a new test goes:
//!
//! - [`analysis`]: what the tokens of a text are.
//! - [`cjk`]: what the analyzer `cjk` finds, against a plain scan; its excerpts.
//! - [`cases`]: what users of such tools reported.
//! - [`bulk_faults`]: a bulk import whose index fails meanwhile.
//! - [`cli`]: the program, its exit codes and the shapes of its answers.
//! - [`differential`]: the whole engine against SQLite FTS5 over the same messages.
//! - [`excerpt`]: which part of a text is shown, and what is marked in it.
//! - [`extract`]: from a transcript's line to its searchable text.
//! - [`import_accounting`]: that no line of any format is lost, in spoiled and in real files.
//! - [`import_claude_code`], [`import_codex`], [`import_gemini_cli`]: what their files become, by the public engine.
//! - [`import_engine`]: importing into a store, in bulk and through the tail.
//! - [`import_openclaw`]: which files of OpenClaw and pi are taken, as which sessions, line by line.
//! - [`import_replaced`]: sources that were edited, cut or written anew.
//! - [`import_rules`]: which part of the code may name which.
//! - [`lifecycle`]: every way a transcript changes.
//! - [`options`]: what a search may be asked besides words.
//! - [`ranking`]: what matches, how it scores, in which order.
//! - [`readme`]: what the README shows is what happens.
//! - [`redaction`]: that no answer shows or confirms a secret. The rules themselves: `src/transcript/redact/tests.rs`.
//! - [`recovery`]: reopening, and an index folder that is lost, old, foreign or damaged.
//! - [`reindex`]: a store that gets another analyzer or redaction.
//! - [`schema`]: what `index-schema/` says of the bytes on disk.
//! - [`regressions`]: faults found by using it, each with a test named after it.
//! - [`tree`]: which rows of a session are on the active branch.
//! - [`unicode_runs`]: the generated table behind the analyzer; also how to write it anew.
//!
//! What they share: [`oracle`] is SQLite FTS5 as the judge of texts and of whole searches, [`queries`] makes the
//! queries to ask both, [`corpus`] the messages, [`imported`] is a folder and the store it is imported into, [`program`]
//! runs the real program, [`random`] is seeded, and [`data`] finds what is not part of the repository by environment variables; without them the tests that need it say so and
//! pass.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod analysis;
mod bulk_faults;
mod cases;
mod cjk;
mod cli;
mod corpus;
mod data;
mod differential;
mod excerpt;
mod extract;
mod import_accounting;
mod import_claude_code;
mod import_codex;
mod import_engine;
mod import_gemini_cli;
mod import_openclaw;
mod import_replaced;
mod import_rules;
mod imported;
mod lifecycle;
mod options;
mod oracle;
mod program;
mod queries;
mod random;
mod ranking;
mod readme;
mod recovery;
mod redaction;
mod regressions;
mod reindex;
mod schema;
mod tree;
mod unicode_runs;
