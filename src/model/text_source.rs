//! How search reaches the texts of its hits without knowing where they are kept.

use super::{DocNumber, EventSeq, MessageId, Role, SessionId, SessionKey, Timestamp};

/// Everything an answer needs of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// The session's key now.
    pub session_key: SessionKey,
    /// The transcript.
    pub session_id: SessionId,
    /// The session's label, if it has one.
    pub label: Option<String>,
    /// The message.
    pub message_id: MessageId,
    /// Where the event stands in its transcript.
    pub seq: EventSeq,
    /// Who speaks.
    pub role: Role,
    /// When.
    pub timestamp: Timestamp,
    /// The searchable text: redacted, and what the index was made from.
    pub text: String,
}

/// The store could not give a document that the index holds.
#[derive(Debug, thiserror::Error)]
#[error("document {number:?} could not be read: {detail}")]
pub struct TextSourceError {
    /// The document asked for.
    pub number: DocNumber,
    /// What the store said.
    pub detail: String,
}

/// Texts and ids of documents, read from one pinned snapshot.
pub trait TextSource {
    /// The message and session id, for ties (D10).
    ///
    /// # Errors
    /// [`TextSourceError`] when the row is missing or unreadable.
    fn ids(&self, number: DocNumber) -> Result<(MessageId, SessionId), TextSourceError>;

    /// The whole document.
    ///
    /// # Errors
    /// [`TextSourceError`] when the row is missing or unreadable.
    fn document(&self, number: DocNumber) -> Result<DocumentText, TextSourceError>;
}
