//! What can go wrong with the transcripts on disk, in words a caller can act on. No redb type leaves this folder.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::transcript::RejectedPattern;

/// An error of the transcript store. Cloned to everyone whose write was in the same transaction.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store at that place. Reads create nothing.
    #[error("no store at {path}; `init` or the first import makes it")]
    Missing {
        /// The agent's folder.
        path: PathBuf,
    },
    /// Another process holds the store.
    #[error("the store is held by {holder}; nothing was changed, try again when it is done")]
    Busy {
        /// The holder as its `owner` file names it.
        holder: String,
    },
    /// The operating system refused a read or a write.
    #[error("{doing} failed: {source}; nothing acknowledged is lost, try again when the cause is gone")]
    Io {
        /// What was being done.
        doing: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A commit failed in its last step: the transaction may or may not be on disk.
    #[error("commit failed: {detail}; whether it is stored is unknown until the store is opened again")]
    OutcomeUnknown {
        /// What the database said.
        detail: String,
    },
    /// The file is not readable as a transcript store. It is never "repaired" into emptiness.
    #[error("the transcript store is damaged: {detail}; nothing in it was changed; put back a copy of the file")]
    Damaged {
        /// What was found.
        detail: String,
    },
    /// Written by a newer or unknown version.
    #[error("the store has format {found}, this program reads {expected}; use the version that wrote it")]
    Format {
        /// The format on disk.
        found: u32,
        /// The format this build reads.
        expected: u32,
    },
    /// The database refuses further work until it is opened again.
    #[error("the store must be opened again after an earlier failure: {detail}")]
    Poisoned {
        /// The earlier failure.
        detail: String,
    },
    /// The index can't keep up, or can't be written at all: nothing was stored.
    #[error("index behind: {cause}; nothing was stored, try again when it has caught up")]
    IndexBehind {
        /// What keeps it.
        cause: String,
    },
    /// A redaction pattern that the store was made with means nothing to this build. Opening without it would show what
    /// it masks.
    #[error("{0}; the store was not opened, use the version that made it")]
    Redaction(#[from] RejectedPattern),
    /// The store was made with, or is to be made with, an analyzer that this program does not know.
    #[error("no analyzer {name:?} here, known: {known}; nothing was changed, use a program that has it")]
    UnknownAnalyzer {
        /// The analyzer's name.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A value does not fit into the database.
    #[error("a value of {bytes} bytes is too large to store; nothing was stored")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

impl StoreError {
    /// Names the action that met an I/O error.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source: Arc::new(source) }
    }

    /// A row whose bytes say something else than the format does.
    pub fn damaged(detail: impl Into<String>) -> Self {
        Self::Damaged { detail: detail.into() }
    }

    /// Whether the database handle is unusable from now on.
    #[must_use]
    pub fn poisons(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::OutcomeUnknown { .. } | Self::Poisoned { .. })
    }
}

/// Runs a piece of the database's work. It checks checksums only when it repairs, and meets a rotten page with a panic:
/// that is damage, and must not end the caller.
pub(super) fn guarded<R>(work: impl FnOnce() -> Result<R, StoreError>) -> Result<R, StoreError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(StoreError::damaged(format!("reading it failed: {}", said.unwrap_or("the database gave up"))))
    })
}

impl From<redb::StorageError> for StoreError {
    fn from(error: redb::StorageError) -> Self {
        use redb::StorageError as E;
        match error {
            E::Corrupted(detail) => Self::Damaged { detail },
            E::ValueTooLarge(bytes) => Self::TooLarge { bytes },
            E::Io(source) => {
                Self::Io { doing: "reading or writing the transcript store".into(), source: Arc::new(source) }
            }
            other => Self::Poisoned { detail: other.to_string() },
        }
    }
}

impl From<redb::TableError> for StoreError {
    fn from(error: redb::TableError) -> Self {
        match error {
            redb::TableError::Storage(e) => e.into(),
            other => Self::damaged(other.to_string()),
        }
    }
}

impl From<redb::TransactionError> for StoreError {
    fn from(error: redb::TransactionError) -> Self {
        match error {
            redb::TransactionError::Storage(e) => e.into(),
            other => Self::Poisoned { detail: other.to_string() },
        }
    }
}

impl From<redb::CommitError> for StoreError {
    fn from(error: redb::CommitError) -> Self {
        Self::OutcomeUnknown { detail: error.to_string() }
    }
}

impl From<redb::DatabaseError> for StoreError {
    fn from(error: redb::DatabaseError) -> Self {
        match error {
            redb::DatabaseError::DatabaseAlreadyOpen => Self::Busy { holder: "another process".into() },
            // What redb says of a file that is none of its own, or ends too early.
            redb::DatabaseError::Storage(redb::StorageError::Io(source))
                if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                Self::damaged(source.to_string())
            }
            redb::DatabaseError::Storage(redb::StorageError::Io(source)) => {
                Self::Io { doing: "opening the transcript store".into(), source: Arc::new(source) }
            }
            redb::DatabaseError::Storage(e) => Self::damaged(e.to_string()),
            redb::DatabaseError::UpgradeRequired(found) => {
                Self::Format { found: u32::from(found), expected: super::tables::FORMAT }
            }
            other => Self::damaged(other.to_string()),
        }
    }
}
