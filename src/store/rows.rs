//! Rows and their bytes: one version byte, then the fields in postcard's wire format, in the order written here.

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::model::{MessageId, Ordinal, Role, SessionFacts, SessionId, SessionKey, Timestamp};
use crate::transcript::{Event, EventError, Head, Redaction, TreeRow};

/// The version byte of every row.
const ROW_VERSION: u8 = 1;

/// The bytes of a row.
pub fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    encode_onto(vec![ROW_VERSION], row)
}

fn encode_onto<T: Serialize>(buffer: Vec<u8>, row: &T) -> Vec<u8> {
    // Writing to memory has no way to fail for the plain structs of this file.
    postcard::to_extend(row, buffer).unwrap_or_default()
}

pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&ROW_VERSION, rest)) => {
            postcard::from_bytes(rest).map_err(|e| StoreError::damaged(format!("{what}: {e}")))
        }
        Some((version, _)) => Err(StoreError::damaged(format!("{what}: row version {version} is unknown"))),
        None => Err(StoreError::damaged(format!("{what}: empty row"))),
    }
}

/// The short internal number of a transcript: given once, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TranscriptNumber(pub u64);

/// What is given out next. Every counter only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Next transcript number.
    pub next_transcript: u64,
    /// Next document number.
    pub next_document: u64,
    /// Next session ordinal.
    pub next_ordinal: u32,
    /// Next death number.
    pub next_death: u64,
    /// Events stored now.
    pub events: u64,
}

/// FTS5's N and total over the documents that may be found now; pending sessions count for nothing (D14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Live documents.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
}

/// What texts were analysed and redacted with. When this build's differs, every session is pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRow {
    /// Name of the analyzer.
    pub analyzer: String,
    /// Its version.
    pub analyzer_version: u32,
    /// Fingerprint of the redaction rules.
    pub redaction: String,
    /// What was chosen when the store was made: the rules to redact with.
    pub redaction_choice: Redaction,
}

/// One note about the index: checkpoint number and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IndexNote {
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// First document number that is not in the index.
    pub documents: u64,
    /// First death number that is not applied.
    pub deaths: u64,
}

/// The two notes recovery compares with the index's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IndexNotes {
    /// The last checkpoint known to be complete.
    pub confirmed: Option<IndexNote>,
    /// The checkpoint that was begun last.
    pub intent: Option<IndexNote>,
}

/// Why a session waits for a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingReason {
    /// Its import has not ended.
    Import,
    /// A rewind above the synchronous bound (D17).
    Rewind,
    /// Analyzer, redaction or index changed.
    Rebuild,
    /// Its rows could not be read.
    Unreadable,
}

impl PendingReason {
    /// The word `status` shows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Rewind => "rewind",
            Self::Rebuild => "rebuild",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Whether a session's documents may be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// Its documents are those of its active path.
    Ready,
    /// Hidden until it is rebuilt.
    Pending(PendingReason),
}

/// One session: naming, lineage, and the watermark of its transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The transcript's public name.
    pub session_id: SessionId,
    /// The conversation bucket it belongs to now.
    pub session_key: SessionKey,
    /// When the first event was stored.
    pub created_at: Timestamp,
    /// Last activity.
    pub updated_at: Timestamp,
    /// Naming and lineage.
    pub facts: SessionFacts,
    /// The name the transcript itself gives; shown where `facts` has none.
    pub title: Option<String>,
    /// Ready, or why not.
    pub state: SessionState,
    /// The ordinal its documents carry.
    pub ordinal: Ordinal,
    /// Leaf, append cursor and what a forward append needs; `None` while a rebuild has to find it.
    pub head: Option<Head>,
    /// Seq of the next event; the transcript holds 0 … `next_seq` − 1.
    pub next_seq: u64,
    /// Bytes of raw lines.
    pub event_bytes: u64,
    /// Documents under `ordinal`.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Grows with every change that is not a forward append; fences a rebuild against stale plans.
    pub revision: u64,
}

impl SessionRow {
    /// The name people know it by, if it has one.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.facts.label.as_deref().or(self.title.as_deref())
    }
}

/// One stored event. The raw line stands last, byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRow<'a> {
    /// What the tree scan reads, the effective parent in it.
    pub tree: TreeRow,
    /// Whether `tree`'s parent was set by the store and differs from the line's (D20, or a line without one).
    pub rebased: bool,
    /// The event's time; for an untimed append the commit time (D9).
    pub timestamp: Timestamp,
    /// Whether `timestamp` was set by the store.
    pub timed: bool,
    /// Whether it is a header.
    pub is_header: bool,
    /// Length of the searchable text in bytes before analysis, 0 for none.
    pub text_bytes: u32,
    /// What the line means in OpenClaw's shape, where it has another (foreign formats, lines without ids).
    #[serde(borrow)]
    pub normalised: Option<&'a [u8]>,
    /// The line as given.
    pub raw: &'a [u8],
}

impl EventRow<'_> {
    /// What the line says.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::parse(self.normalised.unwrap_or(self.raw))
    }
}

/// One document: a searchable message of an active path. The text stands last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentRow<'a> {
    /// Which transcript.
    pub transcript: TranscriptNumber,
    /// Which build of it.
    pub ordinal: Ordinal,
    /// Which event.
    pub seq: u64,
    /// The message id.
    pub message_id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// When.
    pub timestamp: Timestamp,
    /// Tokens in `text`.
    pub length: u32,
    /// The searchable text.
    pub text: &'a str,
}

impl EventRow<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_with_room(self, self.raw.len())
    }
}

impl DocumentRow<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_with_room(self, self.text.len())
    }
}

fn encode_with_room<T: Serialize>(row: &T, payload: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(payload + 128);
    buffer.push(ROW_VERSION);
    encode_onto(buffer, row)
}

/// Documents that the index may hold and that must not be found any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Death {
    /// Every document of this ordinal.
    Ordinal(Ordinal),
    /// Single documents of an ordinal.
    Documents {
        /// Their session's ordinal.
        ordinal: Ordinal,
        /// Their numbers.
        numbers: Vec<u64>,
    },
}

/// How far a file has been imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRow {
    /// The session it feeds.
    pub session_id: SessionId,
    /// Whether the session is this file's: when the file is rewritten, so is the session (D26).
    pub owns: bool,
    /// First byte not yet imported.
    pub offset: u64,
    /// Lines before it.
    pub line: u64,
    /// Stands for the bytes before it, to notice a rewrite.
    pub mark: u64,
}
