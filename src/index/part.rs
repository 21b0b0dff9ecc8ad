//! What search may ask of one part of the index, be it a segment on disk or a run of the tail.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;

use super::impacts::ImpactsCursor;
use crate::model::{DocNumber, Ordinal, Role, Timestamp};

/// A document's id within one part, from 0.
pub type LocalDoc = u32;

/// What a cursor stands on when it is exhausted. Equal to tantivy's, so that both kinds of cursor agree.
pub const NO_MORE_DOCS: LocalDoc = tantivy::TERMINATED;

/// What is kept of a document beside its postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocFacts {
    /// Its number in the store.
    pub number: DocNumber,
    /// Its session's ordinal.
    pub ordinal: Ordinal,
    /// When it was said.
    pub timestamp: Timestamp,
    /// Who said it.
    pub role: Role,
    /// Tokens in it, exact.
    pub length: u32,
}

/// The postings of one term in one part: documents in ascending order, each with its positions.
///
/// A cursor is made standing on its first document, or on [`NO_MORE_DOCS`].
pub trait PostingCursor {
    /// The document it stands on.
    fn doc(&self) -> LocalDoc;
    /// Goes to the next document and returns it.
    fn advance(&mut self) -> LocalDoc;
    /// Goes to the first document at or after `target`, which must not lie before [`Self::doc`].
    fn seek(&mut self, target: LocalDoc) -> LocalDoc;
    /// How often the term occurs in the document.
    fn freq(&self) -> u32;
    /// Replaces `positions` by the term's positions in the document, ascending.
    fn positions(&mut self, positions: &mut Vec<u32>);
    /// Documents that hold the term, dead ones included.
    fn doc_freq(&self) -> u32;
}

/// One immutable part of the index.
pub trait Part {
    /// The postings of a term.
    type Cursor<'p>: PostingCursor
    where
        Self: 'p;

    /// Documents in the part, dead ones included: their ids are 0 … `num_docs` − 1.
    fn num_docs(&self) -> u32;
    /// The postings of exactly this term. Without `positions` the cursor may be unable to give them.
    fn cursor(&self, term: &str, positions: bool) -> io::Result<Option<Self::Cursor<'_>>>;
    /// Gives the postings of every term that starts with `prefix` to `each`, one after the other: there can be many.
    /// Without `positions` the cursors may be unable to give them.
    fn for_each_with_prefix<'p>(
        &'p self,
        prefix: &str,
        positions: bool,
        each: &mut dyn FnMut(Self::Cursor<'p>),
    ) -> io::Result<()>;
    /// How much a term can count at most, block by block, where that is worth knowing; it may not be.
    ///
    /// `weigh` gives what a frequency counts in a document of a length, under `average_length`: the more, the shorter
    /// the document is beside the average.
    fn impacts(
        &self,
        term: &str,
        average_length: f64,
        weigh: &dyn Fn(u32, u32) -> f64,
    ) -> io::Result<Option<ImpactsCursor>> {
        let _ = (term, average_length, weigh);
        Ok(None)
    }
    /// Everything known of a document.
    fn facts(&self, doc: LocalDoc) -> DocFacts;
    /// Its exact length in tokens.
    fn length(&self, doc: LocalDoc) -> u32;
    /// When it was said.
    fn timestamp(&self, doc: LocalDoc) -> Timestamp;
    /// Its session's ordinal.
    fn ordinal(&self, doc: LocalDoc) -> Ordinal;
    /// Documents of this part that must not be found.
    fn dead(&self) -> &DeadDocs;
}

/// The documents of one part that must not be found, under one hidden set.
#[derive(Debug, Default)]
pub struct DeadDocs {
    sorted: Vec<LocalDoc>,
    bits: Vec<u64>,
    /// Dead documents that hold a term, by term: they are taken from its document frequency.
    holding: Mutex<HashMap<Box<str>, u32>>,
}

/// Above this share of dead documents a scan of the postings is cheaper than seeking each dead one.
const SCAN_SHARE: f64 = 0.02;

impl DeadDocs {
    /// Takes ascending document ids without duplicates.
    #[must_use]
    pub fn from_sorted(sorted: Vec<LocalDoc>) -> Self {
        let mut bits = vec![0u64; sorted.last().map_or(0, |&last| last as usize / 64 + 1)];
        for &doc in &sorted {
            bits[doc as usize / 64] |= 1 << (doc % 64);
        }
        Self { sorted, bits, holding: Mutex::default() }
    }

    /// Whether no document is dead.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// How many are dead.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether this one is dead.
    #[must_use]
    pub fn contains(&self, doc: LocalDoc) -> bool {
        self.bits.get(doc as usize / 64).is_some_and(|word| word & (1 << (doc % 64)) != 0)
    }

    /// How many dead documents hold `term`, whose fresh cursor is `cursor`.
    pub fn count_holding<C: PostingCursor>(&self, term: &str, num_docs: u32, mut cursor: C) -> u32 {
        if self.is_empty() {
            return 0;
        }
        if let Some(&known) = self.holding.lock().get(term) {
            return known;
        }
        let mut count = 0;
        if self.len() as f64 > f64::from(num_docs) * SCAN_SHARE {
            let mut doc = cursor.doc();
            while doc != NO_MORE_DOCS {
                count += u32::from(self.contains(doc));
                doc = cursor.advance();
            }
        } else {
            for &dead in &self.sorted {
                if cursor.doc() < dead && cursor.seek(dead) == NO_MORE_DOCS {
                    break;
                }
                count += u32::from(cursor.doc() == dead);
            }
        }
        self.holding.lock().insert(term.into(), count);
        count
    }
}
