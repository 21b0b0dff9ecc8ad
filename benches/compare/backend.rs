//! What both engines can do, in words that are no engine's.

use std::path::Path;

use crate::corpus::Message;

/// One search: words that must all stand in a message, or its newest messages.
#[derive(Debug, Clone)]
pub struct Query {
    /// What it stands for.
    pub class: &'static str,
    pub words: String,
    /// The last word may be the start of one.
    pub prefix: bool,
}

/// One found message.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub message_id: String,
    pub session_key: String,
    pub score: f64,
    pub excerpt: String,
}

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// It is on disk: ours `Durable`, SQLite `synchronous=FULL`.
    OnDisk,
    /// It will be soon: ours `Relaxed`, SQLite `synchronous=NORMAL`.
    Soon,
}

/// Bytes on disk.
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    pub index: u64,
    pub whole: u64,
}

/// Hits asked for; both engines look for one more, which tells whether there are more.
pub const LIMIT: usize = 10;

/// One store of messages, usable from several threads.
pub trait Backend: Send + Sync {
    /// All messages of a corpus, which lie as files in `files` and in memory as `messages`.
    fn import(&self, files: &Path, messages: &[Message]);
    /// One message, acknowledged as the store was opened for.
    fn append(&self, message: &Message);
    /// The best hits, with scores and excerpts.
    fn search(&self, query: &Query, keys: Option<&[String]>) -> Vec<Hit>;
    /// A session and everything it holds.
    fn delete_session(&self, session: &str);
    /// A session's messages by others.
    fn replace_session(&self, session: &str, messages: &[&Message]);
    /// The whole index, from the transcripts.
    fn rebuild(&self);
    /// The whole index, from a copy of the texts that the index holds itself. `false`: there is none.
    fn rebuild_from_own_copy(&self) -> bool {
        false
    }
    /// Background work that is due anyway, now.
    fn settle(&self);
    /// A way to search beside a thread that writes.
    fn reader(&self) -> Reader<'_>;
    /// What it holds on disk.
    fn bytes(&self) -> Bytes;
    fn close(self: Box<Self>);
}

/// Searches beside a thread that writes.
pub type Reader<'s> = Box<dyn Fn(&Query) -> Vec<Hit> + Send + 's>;

/// Opens or makes a store.
pub type Open = fn(&Path, Acknowledge) -> Box<dyn Backend>;
