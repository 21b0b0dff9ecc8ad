//! Writes sessions for others: their lines as they are, or a conversation to read.
//!
//! Pure: bytes go to an [`io::Write`](std::io::Write), and nothing here knows a store or a disk.
//!
//! | question | file |
//! | --- | --- |
//! | what does a stored line become? | `jsonl` |
//! | what stands in `sessions.json`? | `index` |
//! | how does a conversation look to people? | `markdown`, `html`; what they share is in `text` |
//! | what is the file of a session called? | `file_name` |

mod file_name;
mod html;
mod index;
mod jsonl;
mod markdown;
mod text;

use std::io;

pub use file_name::FileNames;
pub use index::{IndexedKey, IndexedWindow, write_index};
pub use jsonl::{LineWriter, StoredLine};

use crate::model::{SessionId, SessionKey, Timestamp};

/// What an export writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ExportFormat {
    /// The stored lines, byte for byte and not redacted, for programs.
    #[default]
    Jsonl,
    /// The conversation, redacted as the store is, for people.
    Markdown,
    /// The same as one page that a browser opens.
    Html,
}

impl ExportFormat {
    /// The name that people write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }

    /// How the names of its files end.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }
}

/// What stands above a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Heading<'a> {
    /// The session's key.
    pub key: &'a SessionKey,
    /// Its id.
    pub id: &'a SessionId,
    /// The name people know it by.
    pub label: Option<&'a str>,
    /// Last activity.
    pub updated_at: Timestamp,
    /// Whether credentials are masked.
    pub is_redacted: bool,
}

/// One step of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Somebody says something.
    Turn(Turn),
    /// What was said before was summed up.
    Summary(String),
    /// The conversation began anew.
    Reset,
}

/// What one message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its role as written.
    pub role: String,
    /// When.
    pub timestamp: Timestamp,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that was said.
    Text(String),
    /// Anything else: a tool call, its result, a thought.
    Aside {
        /// Its type as written.
        kind: String,
        /// The tool's name.
        name: Option<String>,
        /// What it says.
        text: Option<String>,
        /// Data that was left out, such as an image's, in bytes.
        omitted_bytes: Option<u64>,
    },
}

/// Writes one conversation, step by step.
pub enum ConversationWriter<W> {
    /// As Markdown.
    Markdown(markdown::Writer<W>),
    /// As a page.
    Html(html::Writer<W>),
}

impl<W: io::Write> ConversationWriter<W> {
    /// Begins a Markdown text.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn markdown(out: W, heading: &Heading<'_>) -> io::Result<Self> {
        markdown::Writer::begin(out, heading).map(Self::Markdown)
    }

    /// Begins a page.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn html(out: W, heading: &Heading<'_>) -> io::Result<Self> {
        html::Writer::begin(out, heading).map(Self::Html)
    }

    /// Writes the next step.
    ///
    /// # Errors
    /// What the output fails with.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        match self {
            Self::Markdown(writer) => writer.step(step),
            Self::Html(writer) => writer.step(step),
        }
    }

    /// Ends the text.
    ///
    /// # Errors
    /// What the output fails with.
    pub fn end(self) -> io::Result<()> {
        match self {
            Self::Markdown(writer) => writer.end(),
            Self::Html(writer) => writer.end(),
        }
    }
}
