//! Truth: one redb file per agent. Decides what exists; knows nothing of the index.
//!
//! `backend` is the way to the file, `journal` the short one for commits. `tables` names every table and draws its rows, `rows` holds the codecs, `read` the
//! snapshots, `write` the one transaction shape. What is stored is documented in `index-schema/store.md`.

mod backend;
mod copy;
mod error;
mod journal;
mod open;
mod overlay;
mod read;
mod rows;
mod tables;
mod write;

pub use backend::FileHealth;
pub use copy::{copy_to, discard_beside, put_in_place, remove_journal_aside, write_beside};
pub use error::StoreError;
pub use journal::JournalOptions;
pub(crate) use open::DEFAULT_CACHE_BYTES;
pub use open::{Store, StoreLocation, StoreOptions, note_owner};
pub use read::Snapshot;
pub use rows::{
    Counters, Death, DocumentRow, EventRow, IndexNote, IndexNotes, PendingReason, SchemaRow, SessionRow, SessionState,
    SourceRow, Statistics, TranscriptNumber, encode as encode_row,
};
pub use write::{Durability, WriteTables};
