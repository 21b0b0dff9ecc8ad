//! From a query to ranked hits: pieces, phrases, scores, excerpts.

pub mod query;
