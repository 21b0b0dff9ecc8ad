//! From a query to ranked hits: pieces, phrases, scores, excerpts.

pub mod bm25;
pub mod excerpt;
pub mod instances;
pub mod phrase_set;
pub mod query;
