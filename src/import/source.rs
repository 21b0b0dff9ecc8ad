//! What an import reads: one file, or one part of a database, that holds one session.

use std::io;
use std::path::{Path, PathBuf};

use super::copies::{self, PrefixMarks, ResumePoint};
use super::lines::Position;
use super::{Format, ImportError};
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey};

/// One file that holds one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it lies, as reached from the path given.
    pub path: PathBuf,
    /// The same without links and detours: the name to remember the file by.
    pub canonical_path: PathBuf,
    /// Which part of it, where the file is a database of several sessions.
    pub(super) inside: Option<Inside>,
    /// Who wrote it.
    pub format: Format,
    /// Whose it is.
    pub agent: AgentId,
    /// The session it holds.
    pub session_id: SessionId,
    /// The key of that session.
    pub session_key: SessionKey,
    /// What is known of the session beside its transcript.
    pub facts: SessionFacts,
    /// Set when another source, an earlier one of this list, owns the session id: its path (D26).
    pub copy_of: Option<PathBuf>,
    /// Its size when it was found.
    pub len_bytes: u64,
    /// While this is the same and not 0, so is the file.
    pub stamp: u64,
    /// An index of sessions names the file as this session's.
    pub(super) is_named: bool,
    /// The session is its key's current window.
    pub(super) is_current: bool,
    /// Its place among the windows of its key, oldest first, where an index of sessions says it.
    pub(super) age: usize,
    /// Rows without an id get one by their line: the format's first version has none.
    pub(super) numbers_rows: bool,
    /// See [`Source::replaces`].
    pub(super) replaces: Option<PathBuf>,
}

/// One session of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "openclaw-sqlite"), expect(dead_code, reason = "made by the importer of databases alone"))]
pub(super) enum Inside {
    /// A session in use.
    Session {
        /// Its id in the database.
        id: String,
    },
    /// One that was taken out whole.
    Archive {
        /// Its id in the database.
        id: String,
        /// Which of its archives.
        generation: String,
    },
}

/// A session whose lines stand in the file of another: a sub-agent's that got no file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideSession {
    /// Its id.
    pub session_id: SessionId,
    /// Its key.
    pub session_key: SessionKey,
    /// Naming and lineage.
    pub facts: SessionFacts,
}

impl Source {
    /// What to remember by how far the source was read: its canonical path, and of a database the session too.
    #[must_use]
    pub fn name(&self) -> String {
        let path = self.canonical_path.to_string_lossy();
        match &self.inside {
            None => path.into_owned(),
            Some(Inside::Session { id }) => format!("{path}\n{id}"),
            Some(Inside::Archive { id, generation }) => format!("{path}\n{id} archived {generation}"),
        }
    }

    /// The resume point at a place that an item of this source gave as its end. In a source that has become shorter
    /// meanwhile it fits nothing: the next reading starts over.
    ///
    /// # Errors
    /// [`ImportError::Io`].
    pub fn resume_point(&self, position: Position) -> Result<ResumePoint, ImportError> {
        let point = Marks::of(self).and_then(|mut marks| marks.at(position));
        point.map_err(|source| ImportError::Io { path: self.path.clone(), source })
    }

    /// Whether an index of sessions names the file as that of its key's current window.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Whether rows without an id get one by their line.
    #[must_use]
    pub fn numbers_rows(&self) -> bool {
        self.numbers_rows
    }

    /// An older form of the same session, which this file goes on from: the canonical path of that form. Where the
    /// session was read from there, this file takes its place.
    #[must_use]
    pub fn replaces(&self) -> Option<&Path> {
        self.replaces.as_deref()
    }

    /// The same file as a session of its own, for a copy that turns out to have nothing in common with the session it
    /// is named after (D26).
    #[must_use]
    pub fn apart(self) -> Self {
        let name = self.inside.as_ref().map(|_| PathBuf::from(self.name()));
        let hash = copies::path_hash(name.as_ref().unwrap_or(&self.canonical_path));
        let id = format!("{}~{hash:08x}", self.session_id);
        let apart = match SessionId::parse(&id) {
            Ok(id) => self.in_session(id),
            Err(_) => self,
        };
        Self { copy_of: None, ..apart }
    }

    /// The same file as the session that its import began, whatever it says now.
    #[must_use]
    pub fn in_session(mut self, session_id: SessionId) -> Self {
        if session_id != self.session_id {
            let own_key = |id: &SessionId| SessionKey::of_transcript(&self.agent, self.format.name(), id).ok();
            let keyed_by_id = own_key(&self.session_id).as_ref() == Some(&self.session_key);
            if let Some(key) = own_key(&session_id).filter(|_| keyed_by_id) {
                self.session_key = key;
            }
            self.session_id = session_id;
            self.copy_of = None;
        }
        self
    }
}

/// Stands for what a database holds of a session before a place.
#[cfg(feature = "openclaw-sqlite")]
fn mark_inside(path: &Path, inside: &Inside, position: Position) -> io::Result<u64> {
    super::openclaw_sqlite::mark(path, inside, position)
}

#[cfg(not(feature = "openclaw-sqlite"))]
fn mark_inside(_: &Path, _: &Inside, _: Position) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes the resume points of a source.
pub(super) enum Marks {
    Prefix(PrefixMarks),
    Inside { path: PathBuf, inside: Inside },
}

impl Marks {
    pub(super) fn of(source: &Source) -> io::Result<Self> {
        match &source.inside {
            None => PrefixMarks::begin(&source.path).map(Self::Prefix),
            Some(inside) => Ok(Self::Inside { path: source.path.clone(), inside: inside.clone() }),
        }
    }

    pub(super) fn at(&mut self, position: Position) -> io::Result<ResumePoint> {
        match self {
            Self::Prefix(marks) => marks.at(position),
            // What can't be read of a database ends the reading of a session, not the import: the next starts over.
            Self::Inside { path, inside } => {
                Ok(ResumePoint::kept(position, mark_inside(path, inside, position).unwrap_or_default()))
            }
        }
    }
}
