//! The integration tests: one binary, so that the engine is linked once. Where a new test goes:
//!
//! - [`analysis`]: what the tokens of a text are.
//! - [`concurrency`]: many at once; engines that meet or go in the middle of something.
//! - [`crash`]: the power fails at any moment, opening included.
//! - [`differential`]: the whole engine against SQLite FTS5 over the same messages.
//! - [`durability`]: what power cuts and failing disks have taught, one bug a test.
//! - [`excerpt`]: which part of a text is shown, and what is marked in it.
//! - [`extract`]: from a transcript's line to its searchable text.
//! - [`faults`]: the disk fails at any call, and works again.
//! - [`import_openclaw`]: which files of OpenClaw and pi are taken, as which sessions, line by line.
//! - [`kill`]: a process is killed at random moments.
//! - [`options`]: what a search may be asked besides words.
//! - [`ranking`]: what matches, how it scores, in which order.
//! - [`recovery`]: reopening, and an index folder that is lost, old, foreign or damaged.
//! - [`tree`]: which rows of a session are on the active branch.
//! - [`unicode_runs`]: the generated table behind the analyzer; also how to write it anew.
//!
//! What they share: [`oracle`] is SQLite FTS5 as the judge of texts and of whole searches, [`queries`] makes the
//! queries to ask both, [`corpus`] the messages, [`random`] is seeded, [`disk`] stands in for the real one,
//! [`model`] is a small store and what must be found in it, and [`data`] finds what is not part of the repository by environment
//! variables; without them the tests that need it say so and pass.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod analysis;
mod concurrency;
mod corpus;
mod crash;
mod data;
mod differential;
mod disk;
mod durability;
mod excerpt;
mod extract;
mod faults;
mod import_openclaw;
mod kill;
mod model;
mod options;
mod oracle;
mod queries;
mod random;
mod ranking;
mod recovery;
mod tree;
mod unicode_runs;
