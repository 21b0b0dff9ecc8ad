//! What went wrong, and the exit code that says so (interface.md).

use std::io;

use sessions_search::{
    AppendError, AskError, BackupError, CompactError, DeleteError, ExportError, HistoryError, IdError, ImportError,
    ListError, Refusal, RekeyError, SearchError, StoreError,
};

/// Done, or found.
pub(crate) const DONE: u8 = 0;
/// Nothing found.
pub(crate) const NOTHING: u8 = 1;
/// Bad input or usage.
pub(crate) const USAGE: u8 = 2;
/// Not for this caller.
const FORBIDDEN: u8 = 3;
/// Store busy.
const BUSY: u8 = 4;
/// Store damaged.
pub(crate) const DAMAGED: u8 = 5;
/// Input or output failed.
const IO: u8 = 6;
/// A bug.
const BUG: u8 = 70;

/// Why the program ends without its answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of standard output went away: nothing is wrong.
    ClosedPipe,
    /// The words of the call are off.
    Input(String),
    /// Not to be seen.
    Forbidden(String),
    /// The store is held by another process.
    Busy(String),
    /// The store can't be read.
    Damaged(String),
    /// The system refused.
    Io(String),
    /// The program is wrong.
    Bug,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::ClosedPipe => DONE,
            Self::Input(_) => USAGE,
            Self::Forbidden(_) => FORBIDDEN,
            Self::Busy(_) => BUSY,
            Self::Damaged(_) => DAMAGED,
            Self::Io(_) => IO,
            Self::Bug => BUG,
        }
    }

    /// The `status` of the error as JSON.
    pub(crate) fn status(&self) -> &'static str {
        if matches!(self, Self::Forbidden(_)) { "forbidden" } else { "error" }
    }

    /// The same, after something that was done before.
    pub(crate) fn after(self, done: &str) -> Self {
        let said = |text: String| format!("{done}: {text}");
        match self {
            Self::Input(text) => Self::Input(said(text)),
            Self::Forbidden(text) => Self::Forbidden(said(text)),
            Self::Busy(text) => Self::Busy(said(text)),
            Self::Damaged(text) => Self::Damaged(said(text)),
            Self::Io(text) => Self::Io(said(text)),
            other => other,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::ClosedPipe => "the reader closed the pipe",
            Self::Bug => "this is a bug, see above; what was acknowledged is stored, please report it",
            Self::Input(text) | Self::Forbidden(text) | Self::Busy(text) | Self::Damaged(text) | Self::Io(text) => text,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Io(format!("input or output failed: {error}"))
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Busy { .. } => Self::Busy(text),
            StoreError::Damaged { .. }
            | StoreError::Format { .. }
            | StoreError::Redaction(_)
            | StoreError::UnknownAnalyzer { .. } => Self::Damaged(text),
            StoreError::Missing { .. } | StoreError::TooLarge { .. } => Self::Input(text),
            _ => Self::Io(text),
        }
    }
}

impl From<IdError> for Failure {
    fn from(error: IdError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Store(error) => error.into(),
            ImportError::Files(import) if import.is_io() => Self::Io(import.to_string()),
            refusal => Self::Input(refusal.to_string()),
        }
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => error.into(),
            SearchError::Unreadable { .. } => Self::Damaged(error.to_string()),
            SearchError::Incognito { .. } => Self::Forbidden(error.to_string()),
            refusal => Self::Input(refusal.to_string()),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let text = error.to_string();
        match error {
            ExportError::Store(error) => error.into(),
            ExportError::Incognito { .. } => Self::Forbidden(text),
            ExportError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            ExportError::Write { .. } => Self::Io(text),
            _ => Self::Input(text),
        }
    }
}

impl From<CompactError> for Failure {
    fn from(error: CompactError) -> Self {
        match error {
            CompactError::Store(error) => error.into(),
            CompactError::InUse { .. } => Self::Busy(error.to_string()),
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => error.into(),
            HistoryError::Incognito { .. } => Self::Forbidden(error.to_string()),
            refusal => Self::Input(refusal.to_string()),
        }
    }
}

impl<E: Into<Self>> From<AskError<E>> for Failure {
    fn from(error: AskError<E>) -> Self {
        match error {
            AskError::Refused(refusal @ Refusal::Forbidden(_)) => Self::Forbidden(refusal.to_string()),
            AskError::Refused(refusal) => Self::Input(refusal.to_string()),
            AskError::Failed(error) => error.into(),
        }
    }
}

/// The other operations fail with their own refusals, or with an error of the store underneath.
macro_rules! from_operation {
    ($($error:ident),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                match error {
                    $error::Store(error) => error.into(),
                    refusal => Self::Input(refusal.to_string()),
                }
            }
        }
    )+};
}

from_operation!(AppendError, BackupError, DeleteError, ListError, RekeyError);
