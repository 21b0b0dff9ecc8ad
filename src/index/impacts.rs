//! How much a term can count at most, block by block: what lets a search pass over documents that can't be among the
//! best.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::part::{LocalDoc, NO_MORE_DOCS, Part, PostingCursor};
use crate::model::Timestamp;

/// Postings in a block: as many as tantivy decodes at a time.
const BLOCK_POSTINGS: u32 = 128;

/// Terms of fewer documents are visited faster than they are described.
const LEAST_DOCS: u32 = 8 * BLOCK_POSTINGS;

/// Blocks that the cache of one segment holds at most: 24 bytes each.
const MAX_CACHED_BLOCKS: usize = 64 * 1024;

/// A change of the average length by this factor makes the bounds too loose to be of use.
const MAX_DRIFT: f64 = 1.1;

/// One block of a term's postings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impact {
    /// Its last document.
    pub last: LocalDoc,
    /// The most the term counts in any of its documents.
    pub most: f64,
    /// The newest of those in which it counts that much.
    pub newest: Timestamp,
}

/// The blocks of a term's postings, in order.
#[derive(Debug)]
struct Impacts {
    average_length: f64,
    blocks: Vec<Impact>,
}

impl Impacts {
    /// Visits every posting. `weigh` gives what a frequency counts in a document of a length, under `average_length`.
    fn new<P: Part>(part: &P, mut cursor: P::Cursor<'_>, average_length: f64, weigh: &dyn Fn(u32, u32) -> f64) -> Self {
        let mut blocks = Vec::with_capacity((cursor.doc_freq() / BLOCK_POSTINGS + 1) as usize);
        let empty = Impact { last: 0, most: 0.0, newest: Timestamp::UNKNOWN };
        let (mut block, mut in_block) = (empty, 0);
        let mut doc = cursor.doc();
        while doc != NO_MORE_DOCS {
            let weight = weigh(cursor.freq(), part.length(doc));
            if weight >= block.most {
                let timestamp = part.timestamp(doc);
                block.newest = if weight > block.most { timestamp } else { block.newest.max(timestamp) };
                block.most = weight;
            }
            in_block += 1;
            let next = cursor.advance();
            if in_block == BLOCK_POSTINGS || next == NO_MORE_DOCS {
                blocks.push(Impact { last: doc, ..block });
                (block, in_block) = (empty, 0);
            }
            doc = next;
        }
        Self { average_length, blocks }
    }
}

/// The impacts of the terms that were asked for of one segment. What they say does not depend on what is deleted.
#[derive(Debug, Default)]
pub(super) struct ImpactsCache(Mutex<HashMap<Box<str>, Arc<Impacts>>>);

impl ImpactsCache {
    /// The term's impacts and the factor by which they are too small under this average length; `None` for a term of
    /// few documents.
    pub(super) fn get<'p, P: Part>(
        &self,
        part: &'p P,
        term: &str,
        cursor: impl FnOnce() -> std::io::Result<Option<P::Cursor<'p>>>,
        average_length: f64,
        weigh: &dyn Fn(u32, u32) -> f64,
    ) -> std::io::Result<Option<ImpactsCursor>> {
        let known = self.0.lock().get(term).cloned();
        if let Some(known) = known {
            let drift = average_length / known.average_length;
            if (1.0 / MAX_DRIFT..=MAX_DRIFT).contains(&drift) {
                // Longer documents than average count less: with a larger average each counts for more, and for at
                // most as many times more; with a smaller one for less.
                return Ok(Some(ImpactsCursor::new(known, drift.max(1.0))));
            }
        }
        let Some(cursor) = cursor()?.filter(|cursor| cursor.doc_freq() >= LEAST_DOCS) else { return Ok(None) };
        let impacts = Arc::new(Impacts::new(part, cursor, average_length, weigh));
        let mut cached = self.0.lock();
        let num_blocks: usize = cached.values().map(|impacts| impacts.blocks.len()).sum();
        if num_blocks + impacts.blocks.len() > MAX_CACHED_BLOCKS {
            cached.clear();
        }
        cached.insert(term.into(), Arc::clone(&impacts));
        Ok(Some(ImpactsCursor::new(impacts, 1.0)))
    }
}

/// Goes through a term's blocks, forwards only.
#[derive(Debug)]
pub struct ImpactsCursor {
    impacts: Arc<Impacts>,
    factor: f64,
    at: usize,
}

impl ImpactsCursor {
    fn new(impacts: Arc<Impacts>, factor: f64) -> Self {
        Self { impacts, factor, at: 0 }
    }

    /// The block that `doc` falls into, with its place among the blocks; `None` after the last.
    pub fn block(&mut self, doc: LocalDoc) -> Option<(usize, Impact)> {
        let blocks = &self.impacts.blocks;
        while blocks.get(self.at).is_some_and(|block| block.last < doc) {
            self.at += 1;
        }
        let block = blocks.get(self.at)?;
        Some((self.at, Impact { most: block.most * self.factor, ..*block }))
    }

    /// The last document of a block.
    #[must_use]
    pub fn last_of(&self, place: usize) -> Option<LocalDoc> {
        self.impacts.blocks.get(place).map(|block| block.last)
    }

    /// Whether the blocks say exactly what the term counts, not only what it does not exceed.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.factor == 1.0
    }

    /// The places of the best blocks, in order, each with the document after which it begins.
    #[must_use]
    pub fn best(&self, count: usize) -> Vec<(usize, Option<LocalDoc>)> {
        let blocks = &self.impacts.blocks;
        let mut places: Vec<usize> = (0..blocks.len()).collect();
        let count = count.min(places.len());
        if count == 0 {
            return Vec::new();
        }
        let best_first = |&a: &usize, &b: &usize| {
            let key = |place: usize| (blocks[place].most, blocks[place].newest);
            let ((most_a, newest_a), (most_b, newest_b)) = (key(a), key(b));
            most_b.total_cmp(&most_a).then(newest_b.cmp(&newest_a))
        };
        places.select_nth_unstable_by(count - 1, best_first);
        places.truncate(count);
        places.sort_unstable();
        places.into_iter().map(|place| (place, place.checked_sub(1).map(|before| blocks[before].last))).collect()
    }
}
