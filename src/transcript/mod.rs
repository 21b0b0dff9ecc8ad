//! From a transcript's line to its searchable text, and from a session's rows to its active branch.
//!
//! Pure: no I/O, and nothing here knows the store or the index.
//!
//! | question | file |
//! | --- | --- |
//! | what does this line say? | `event` |
//! | which text of it is searched? | `extract`, then `redact` |
//! | which rows are visible, and where does the next one go? | `tree` |
//! | how is a line read without building a tree of it? | `json` |
//! | is this line the same as that one, and how is it exported? | `line` |

mod event;
mod extract;
pub(crate) mod json;
mod line;
mod redact;
mod tree;

pub(crate) use event::object_of;
pub use event::{Event, EventError, EventKind, Header, LeafControl, Parent, ParentLink, TimestampNote};
pub use extract::SearchableMessage;
pub use line::{LineChanges, LineRepairs, rewrite_line, same_json_value, sanitize};
pub use redact::{Redaction, Redactor, RejectedPattern};
pub use tree::{Forward, Head, Reset, Resolution, TreeNode, TreeRow, TreeScan, history_start};
