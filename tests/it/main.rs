//! Integration tests: one binary. Where a test goes:
//!
//! - `extract`, `tree`: from a transcript's line to its text, and to the active branch
//! - `import_<format>`: what files become, and that every line is accounted for

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod extract;
mod import_openclaw;
mod tree;
