//! Whether a file goes on from where it was read to, and how one relates to a session stored already (D26).

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ImportError, Item, Position, Reader};
use crate::transcript::EventKind;

/// How far a file was read, with a mark of what stood before that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    position: Position,
    /// Hash of the last bytes before the place.
    mark: u64,
}

/// Bytes before a resume point that must still be the same. A transcript only grows; one that was rewritten differs
/// there, for each of its lines holds an id or a time.
const MARK_BYTES: u64 = 4_096;

impl ResumePoint {
    /// The resume point at a place that an item of this file gave as its end. In a file that has become shorter
    /// meanwhile it fits nothing: the next reading starts over.
    ///
    /// # Errors
    /// What the file says.
    pub fn at(path: &Path, position: Position) -> io::Result<Self> {
        match mark_before(&mut File::open(path)?, position.offset) {
            Ok(mark) => Ok(Self { position, mark }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self { position, mark: 0 }),
            Err(error) => Err(error),
        }
    }

    /// A resume point kept earlier: the place and [`ResumePoint::mark`].
    #[must_use]
    pub fn kept(position: Position, mark: u64) -> Self {
        Self { position, mark }
    }

    /// Stands for what the file holds before the place.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The place.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Whether the file still holds before the place what it held then.
    pub(super) fn fits(&self, file: &mut File) -> io::Result<bool> {
        match mark_before(file, self.position.offset) {
            Ok(mark) => Ok(mark == self.mark),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn mark_before(file: &mut File, offset: u64) -> io::Result<u64> {
    let length = offset.min(MARK_BYTES);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.seek(SeekFrom::Start(offset - length))?;
    file.read_exact(&mut bytes)?;
    Ok(fnv1a(&bytes))
}

/// FNV-1a: the same on every machine and in every version, as values that are stored must be.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What tells a copy's own session id from others (D26).
pub(super) fn path_hash(path: &Path) -> u32 {
    let hash = fnv1a(path.as_os_str().as_encoded_bytes());
    (hash ^ (hash >> 32)) as u32
}

/// The lines of a stored session, as hashes.
#[derive(Debug, Clone, Default)]
pub struct StoredLines {
    headers: HashSet<u64>,
    lines: HashSet<u64>,
    last: Option<u64>,
}

/// How a file relates to a stored session of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// It holds the session's last line, and after it lines that the session lacks.
    Extends {
        /// The place after the last line in common.
        from: Position,
    },
    /// It shares lines with the session and holds none that could follow them: skip it.
    OtherCopy,
    /// It shares no line with the session: it is a session of its own ([`Source::apart`](super::Source::apart)).
    Unrelated,
}

impl StoredLines {
    /// Adds the next stored line of the session, as it was imported. A part of a line is none.
    pub fn push(&mut self, raw: &[u8], is_header: bool) {
        if raw.is_empty() {
            return;
        }
        let hash = hash_of(raw);
        if is_header {
            self.headers.insert(hash);
        } else {
            self.lines.insert(hash);
            self.last = Some(hash);
        }
    }

    /// How a file, read from its beginning, relates to these lines.
    ///
    /// A header alone in common says nothing, for it repeats in every file of a session id; only of a session that has
    /// no other line yet it does.
    ///
    /// # Errors
    /// What reading says.
    pub fn relation_of(&self, reader: Reader) -> Result<Relation, ImportError> {
        let (mut last_common, mut has_new, mut is_mixed) = (None, false, false);
        let mut ids = HashSet::new();
        for item in reader {
            let Item::Event(event) = item? else { continue };
            if event.is_part || event.side.is_some() {
                continue;
            }
            let hash = hash_of(&event.raw);
            if event.event.kind == EventKind::Header {
                if self.lines.is_empty() && self.headers.contains(&hash) {
                    last_common = Some((None, event.end));
                }
                continue;
            }
            // Of lines with one id only the first is stored (D22): a later one is neither common nor new.
            if event.event.id.as_ref().is_some_and(|id| !ids.insert(hash_of(id.as_str().as_bytes()))) {
                continue;
            }
            if self.lines.contains(&hash) {
                last_common = Some((Some(hash), event.end));
                is_mixed |= has_new;
            } else {
                has_new = true;
            }
        }
        Ok(match last_common {
            None => Relation::Unrelated,
            Some((last, from)) if has_new && !is_mixed && last == self.last => Relation::Extends { from },
            Some(_) => Relation::OtherCopy,
        })
    }
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
