//! Integration tests: one binary. Where a test goes:
//!
//! - `extract`, `tree`: from a transcript's line to its text, and to the active branch

mod extract;
mod tree;
