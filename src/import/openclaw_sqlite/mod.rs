//! OpenClaw's own store since 2026.8: one SQLite database per agent. Only with the feature `openclaw-sqlite`.
//!
//! # Sessions
//!
//! Each window is a session, under the key that `session_windows` states. Names and lineage of the window that
//! `session_nodes` calls current are those of its entry, which is the one that stood in `sessions.json`; an earlier
//! window has what its row says.
//!
//! # Events
//!
//! A row of `transcript_events` is what was a line of the JSONL, byte for byte, as text or as one zstd frame; its place is
//! its `seq`. What OpenClaw moved out of that table is read too: the beginning of a session from its cold archive, in the
//! database or in `sessions/cold/`, and the transcripts that resets left. Those of deleted sessions are read when asked
//! for.
//!
//! # The database
//!
//! Comes from anywhere, and may be in use: `connection` opens it so that nothing of it or beside it changes. What it
//! states is bounded like a file's: an event by the longest line, a frame by what it declares and that, and columns that
//! would be computed are as good as missing.

mod connection;
mod events;
mod sessions;

use std::io;
use std::path::Path;

use super::walk::FoundFile;
use super::{Agents, DiscoverOptions, Discovery, ImportError, Inside, Items, Position, SkipReason, Source};

/// Adds the sessions of a database, or the reason why there are none.
pub(super) fn add_sources(
    file: &FoundFile,
    options: &DiscoverOptions,
    agents: &mut Agents,
    discovery: &mut Discovery,
) -> Result<(), ImportError> {
    let found = connection::open(&file.path).and_then(|database| sessions::found(&database, &file.canonical));
    match found {
        Ok(Some(found)) => sessions::add(file, found, options, agents, discovery),
        Ok(None) => {
            discovery.skip(&file.path, SkipReason::Database);
            Ok(())
        }
        Err(error) => {
            discovery.skip(&file.path, SkipReason::Unreadable(error.to_string()));
            Ok(())
        }
    }
}

/// Reads one session from a place on.
pub(super) fn open(source: &Source, inside: &Inside, from: Position) -> io::Result<Items> {
    events::open(source, inside, from)
}

/// Stands for what the database holds of a session before a place.
pub(super) fn mark(path: &Path, inside: &Inside, position: Position) -> io::Result<u64> {
    events::mark(path, inside, position)
}

fn io_error(error: rusqlite::Error) -> io::Error {
    io::Error::other(format!("SQLite: {error}"))
}
