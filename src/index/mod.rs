//! Derived: what makes the texts findable. May be deleted at any time and is rebuilt from the store.
//!
//! A view is made of parts: immutable segments on disk and, for what came after the last checkpoint, the runs of
//! the tail in memory. Every part answers the same few questions ([`Part`]).

mod directory;
mod folder;
mod hidden;
mod impacts;
mod part;
mod run;
mod schema;
mod segment;
mod view;

pub use folder::{IndexError, IndexFolder, IndexPlace, Payload};
pub use hidden::Hidden;
pub use impacts::ImpactsCursor;
pub use part::{DocFacts, LocalDoc, NO_MORE_DOCS, Part, PostingCursor};
pub use run::{GroupedText, Run, Tail};
pub use segment::{Segment, SegmentInView};
pub use view::IndexView;
