//! Whether a file goes on from where it was read to, and how one relates to a session stored already (D26).

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{ImportError, Item, Position, Reader};
use crate::transcript::EventKind;

/// How far a file was read, with a mark of what stood before that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    position: Position,
    /// Hash of all bytes before the place.
    mark: u64,
}

impl ResumePoint {
    /// The resume point at a place that an item of this file gave as its end.
    ///
    /// # Errors
    /// What the file says.
    pub fn at(path: &Path, position: Position) -> io::Result<Self> {
        PrefixMarks::begin(path)?.at(position)
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
}

/// Makes the resume points of one file, one after the other: each byte is hashed once, for a point's mark goes on from
/// the one before.
#[derive(Debug)]
pub(super) struct PrefixMarks {
    file: File,
    hash: PrefixHash,
}

impl PrefixMarks {
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, hash: PrefixHash::default() })
    }

    /// The resume point at a place. In a file that has become shorter meanwhile it fits nothing: the next reading finds
    /// it rewritten.
    pub(super) fn at(&mut self, position: Position) -> io::Result<ResumePoint> {
        if position.offset < self.hash.len_bytes {
            self.file.seek(SeekFrom::Start(0))?;
            self.hash = PrefixHash::default();
        }
        let mut buffer = [0; 64 * 1024];
        while self.hash.len_bytes < position.offset {
            let room = usize::try_from(position.offset - self.hash.len_bytes).unwrap_or(usize::MAX).min(buffer.len());
            let part = buffer.get_mut(..room).unwrap_or_default();
            match self.file.read(part) {
                Ok(0) => return Ok(ResumePoint { position, mark: 0 }),
                Ok(read) => self.hash.push(part.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ResumePoint { position, mark: self.hash.finish() })
    }
}

/// A hash over a growing prefix, eight bytes at a time. The same on every machine and in every version, as values that
/// are stored must be; how the bytes come in pieces makes no difference.
#[derive(Debug, Clone)]
struct PrefixHash {
    state: u64,
    len_bytes: u64,
    /// The bytes after the last whole eight.
    rest: [u8; 8],
}

impl Default for PrefixHash {
    fn default() -> Self {
        Self { state: FNV_OFFSET, len_bytes: 0, rest: [0; 8] }
    }
}

impl PrefixHash {
    fn push(&mut self, bytes: &[u8]) {
        let held = (self.len_bytes % 8) as usize;
        self.len_bytes += bytes.len() as u64;
        let (head, bytes) = bytes.split_at(bytes.len().min((8 - held) % 8));
        for (place, byte) in self.rest.iter_mut().skip(held).zip(head) {
            *place = *byte;
        }
        if held > 0 {
            if held + head.len() < 8 {
                return;
            }
            self.state = mixed(self.state, u64::from_le_bytes(self.rest));
        }
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.state = mixed(self.state, u64::from_le_bytes(eight));
        }
        for (place, byte) in self.rest.iter_mut().zip(words.remainder()) {
            *place = *byte;
        }
    }

    fn finish(&self) -> u64 {
        let held = (self.len_bytes % 8) as usize;
        let mut rest = self.rest;
        rest.iter_mut().skip(held).for_each(|byte| *byte = 0);
        mixed(mixed(self.state, u64::from_le_bytes(rest)), self.len_bytes)
    }
}

/// FNV-1a's step with a word in place of a byte, and its high bits brought down, which multiplying alone never does.
fn mixed(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(FNV_PRIME);
    mixed ^ (mixed >> 32)
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Stands for a file's size, times and identity: while it is the same, so is the file. 0 where that may not hold: a file
/// changed less than two seconds ago can change again within one tick of its clock.
pub(super) fn stamp_of(facts: &Metadata, now_millis: i64) -> u64 {
    const SETTLED_MILLIS: i128 = 2_000;
    let Some(modified) = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()) else { return 0 };
    if modified.as_millis() as i128 + SETTLED_MILLIS > i128::from(now_millis) {
        return 0;
    }
    let mut bytes = Vec::new();
    bytes.extend(facts.len().to_le_bytes());
    bytes.extend(modified.as_nanos().to_le_bytes());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        bytes.extend(facts.dev().to_le_bytes());
        bytes.extend(facts.ino().to_le_bytes());
        bytes.extend(facts.ctime().to_le_bytes());
        bytes.extend(facts.ctime_nsec().to_le_bytes());
    }
    fnv1a(&bytes).max(1)
}

/// FNV-1a: the same on every machine and in every version, as values that are stored must be.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_depends_on_every_byte_and_on_no_boundary() {
        let bytes: Vec<u8> = (0..100_u8).collect();
        let hash = |parts: &[&[u8]]| {
            let mut hash = PrefixHash::default();
            parts.iter().for_each(|part| hash.push(part));
            hash.finish()
        };
        for end in 0..bytes.len() {
            let whole = hash(&[&bytes[..end]]);
            for cut in 0..=end {
                assert_eq!(hash(&[&bytes[..cut], &bytes[cut..end]]), whole, "{cut} of {end}");
                let by_bytes: Vec<&[u8]> = bytes[cut..end].chunks(3).collect();
                assert_eq!(hash(&[&[&bytes[..cut]], by_bytes.as_slice()].concat()), whole);
            }
            for at in 0..end {
                let mut edited = bytes[..end].to_vec();
                edited[at] ^= 0x80;
                assert_ne!(hash(&[&edited]), whole, "{at} of {end}");
            }
            assert_ne!(hash(&[&bytes[..end], &[0]]), whole);
        }
    }
}
