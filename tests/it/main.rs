//! The integration tests: one binary, so that the engine is linked once. Where a new test goes:
//!
//! - [`analysis`]: what the tokens of a text are.
//! - [`unicode_runs`]: the generated table behind the analyzer; also how to write it anew.
//! - [`oracle`]: SQLite FTS5 as the judge of whole searches, and the generator of queries to ask both.
//!
//! Data that is not part of the repository is named by environment variables (see [`data`]); without them the tests
//! that need it say so and pass.

mod analysis;
mod data;
mod oracle;
mod random;
mod unicode_runs;
