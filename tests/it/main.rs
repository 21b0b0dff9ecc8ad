//! The integration tests: one binary, so that the engine is linked once. Where a new test goes:
//!
//! - [`analysis`]: what the tokens of a text are.
//! - [`differential`]: the whole engine against SQLite FTS5 over the same messages.
//! - [`excerpt`]: which part of a text is shown, and what is marked in it.
//! - [`extract`]: from a transcript's line to its searchable text.
//! - [`import_engine`]: importing into a store, in bulk and through the tail.
//! - [`import_openclaw`]: which files of OpenClaw and pi are taken, as which sessions, line by line.
//! - [`options`]: what a search may be asked besides words.
//! - [`ranking`]: what matches, how it scores, in which order.
//! - [`recovery`]: reopening, and an index folder that is lost, old, foreign or damaged.
//! - [`requester`]: what a session gets from the stores of several agents.
//! - [`tree`]: which rows of a session are on the active branch.
//! - [`visibility`]: who may see what, by the rules alone.
//! - [`unicode_runs`]: the generated table behind the analyzer; also how to write it anew.
//!
//! What they share: [`oracle`] is SQLite FTS5 as the judge of texts and of whole searches, [`queries`] makes the
//! queries to ask both, [`corpus`] the messages, [`random`] is seeded, [`world`] fills several agents' stores, and [`data`] finds what is not part of the repository by environment
//! variables; without them the tests that need it say so and pass.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod analysis;
mod corpus;
mod data;
mod differential;
mod excerpt;
mod extract;
mod import_engine;
mod import_openclaw;
mod options;
mod oracle;
mod queries;
mod random;
mod ranking;
mod recovery;
mod requester;
mod tree;
mod unicode_runs;
mod visibility;
mod world;
