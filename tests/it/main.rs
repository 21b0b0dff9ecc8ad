//! The integration tests: one binary, so that the engine is linked once. Where a new test goes:
//!
//! - [`analysis`]: what the tokens of a text are.
//! - [`bulk_faults`]: a bulk import whose index fails meanwhile.
//! - [`cases`]: what users of such tools reported.
//! - [`cjk`]: what the analyzer `cjk` finds, against a plain scan; its excerpts.
//! - [`cli`]: the program, its exit codes and the shapes of its answers.
//! - [`concurrency`]: many at once; engines that meet or go in the middle of something.
//! - [`crash`]: the power fails at any moment, opening included.
//! - [`differential`]: the whole engine against SQLite FTS5 over the same messages.
//! - [`durability`]: what power cuts and failing disks have taught, one bug a test.
//! - [`escape`]: trying to get at what a caller may not see, and what a visible set costs.
//! - [`excerpt`]: which part of a text is shown, and what is marked in it.
//! - [`export`]: sessions written out, and back again.
//! - [`extract`]: from a transcript's line to its searchable text.
//! - [`faults`]: the disk fails at any call, and works again.
//! - [`histories`]: random histories of a store against a plain model.
//! - [`human`]: every command's words at 80 and 40 columns, and that printed commands do what they say.
//! - [`import_accounting`]: that no line of any format is lost, in spoiled and in real files.
//! - [`import_claude_code`], [`import_codex`], [`import_gemini_cli`]: what their files become, by the public engine.
//! - [`import_engine`]: importing into a store, in bulk and through the tail.
//! - [`import_openclaw`]: which files of OpenClaw and pi are taken, as which sessions, line by line.
//! - [`import_openclaw_sqlite`]: OpenClaw's own database, and that it gives what its JSONL gives.
//! - [`import_replaced`]: sources that were edited, cut or written anew.
//! - [`import_rules`]: which part of the code may name which.
//! - [`kill`]: a process is killed at random moments.
//! - [`lifecycle`]: every way a transcript changes.
//! - [`mcp`]: the program on a session's eyes, and the MCP server frame by frame.
//! - [`options`]: what a search may be asked besides words.
//! - [`pinned`]: readers, publishers and a compaction at one cell, in every order of their steps (loom).
//! - [`ranking`]: what matches, how it scores, in which order.
//! - [`readme`]: what the README shows is what happens.
//! - [`reconcile`]: sessions that wait for a rebuild, and what happens to them meanwhile.
//! - [`recovery`]: reopening, and an index folder that is lost, old, foreign or damaged.
//! - [`redaction`]: that no answer shows or confirms a secret. The rules themselves: `src/transcript/redact/tests.rs`.
//! - [`regressions`]: faults found by using it, each with a test named after it.
//! - [`reindex`]: a store that gets another analyzer or redaction.
//! - [`requester`]: what a session gets from the stores of several agents.
//! - [`schema`]: what `index-schema/` says of the bytes on disk.
//! - [`terminal`]: what people see, at the widths of their terminals: colours, pager, progress.
//! - [`tree`]: which rows of a session are on the active branch.
//! - [`unicode_runs`]: the generated table behind the analyzer; also how to write it anew.
//! - [`upkeep`]: verify, compact, backup.
//! - [`visibility`]: who may see what, by the rules alone.
//!
//! What they share: [`oracle`] is SQLite FTS5 as the judge of texts and of whole searches, [`plain_scan`] the judge of
//! parts of runs, [`queries`] makes the queries to ask both, [`corpus`] the messages, [`imported`] is a folder and the
//! store it is imported into, [`program`] runs the real program, [`random`] is seeded, [`world`] fills the stores of
//! several agents, [`stores`] shows what is in such, [`json_schema`] holds answers against JSON schemas, [`disk`] stands
//! in for the real one, [`model`] is a small store and what must be found in it, and [`data`] finds what is not part of the
//! repository by environment variables; without them the tests that need it say so and pass.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod analysis;
mod bulk_faults;
mod cases;
mod cjk;
mod cli;
mod concurrency;
mod corpus;
mod crash;
mod data;
mod differential;
mod disk;
mod durability;
mod escape;
mod excerpt;
mod export;
mod extract;
mod faults;
mod histories;
mod human;
mod import_accounting;
mod import_claude_code;
mod import_codex;
mod import_engine;
mod import_gemini_cli;
mod import_openclaw;
mod import_openclaw_sqlite;
mod import_replaced;
mod import_rules;
mod imported;
mod journal;
mod json_schema;
mod kill;
mod lifecycle;
mod mcp;
mod model;
mod options;
mod oracle;
mod pinned;
mod plain_scan;
mod program;
mod queries;
mod random;
mod ranking;
mod readme;
mod reconcile;
mod recovery;
mod redaction;
mod regressions;
mod reindex;
mod requester;
mod schema;
mod stores;
mod terminal;
mod tools;
mod tree;
mod unicode_runs;
mod upkeep;
mod visibility;
mod world;
