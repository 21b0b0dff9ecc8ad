//! From query to hits: pieces → phrases → documents → exact score → best hits → excerpt.
//!
//! Reads the index view and, through [`TextSource`](crate::model::TextSource), the texts of the hits. Visibility is
//! decided before: the filter holds the ordinals that may be met at all.

pub mod bm25;
mod character_excerpt;
mod collector;
pub mod excerpt;
mod execute;
mod filter;
pub mod instances;
mod phrase;
pub mod phrase_set;
mod pruning;
pub mod query;

pub use collector::Order;
pub use execute::{Found, Search, SearchFailure, execute};
pub use filter::{Filter, OrdinalSet};
