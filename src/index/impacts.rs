//! How much a term can count at most, block by block: what lets a search pass over documents that can't be among the
//! best.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::part::{LocalDoc, NO_MORE_DOCS, Part, PostingCursor};

/// Postings in a block: as many as tantivy decodes at a time.
const BLOCK_POSTINGS: u32 = 128;

/// Terms of fewer documents are visited faster than they are described.
const LEAST_DOCS: u32 = 8 * BLOCK_POSTINGS;

/// Blocks that the cache of one segment holds at most: 8 bytes each.
const MAX_CACHED_BLOCKS: usize = 64 * 1024;

/// A change of the average length by this factor makes the bounds too loose to be of use.
const MAX_DRIFT: f64 = 1.1;

/// The last document of each block of a term's postings and the most the term counts in any document of the block.
#[derive(Debug)]
pub struct Impacts {
    average_length: f64,
    blocks: Vec<(LocalDoc, f32)>,
}

impl Impacts {
    /// Visits every posting. `weigh` gives what a frequency counts in a document of a length, under `average_length`.
    fn new<P: Part>(part: &P, mut cursor: P::Cursor<'_>, average_length: f64, weigh: &dyn Fn(u32, u32) -> f64) -> Self {
        let mut blocks = Vec::with_capacity((cursor.doc_freq() / BLOCK_POSTINGS + 1) as usize);
        let (mut most, mut in_block) = (0.0f64, 0);
        let mut doc = cursor.doc();
        while doc != NO_MORE_DOCS {
            most = most.max(weigh(cursor.freq(), part.length(doc)));
            in_block += 1;
            let next = cursor.advance();
            if in_block == BLOCK_POSTINGS || next == NO_MORE_DOCS {
                // Rounded up: a bound that is too small would lose a hit.
                blocks.push((doc, (most as f32).next_up()));
                (most, in_block) = (0.0, 0);
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

    /// The last document of the block that `doc` falls into, and the most the term counts up to there.
    pub fn bound(&mut self, doc: LocalDoc) -> (LocalDoc, f64) {
        let blocks = &self.impacts.blocks;
        while blocks.get(self.at).is_some_and(|&(last, _)| last < doc) {
            self.at += 1;
        }
        match blocks.get(self.at) {
            Some(&(last, most)) => (last, f64::from(most) * self.factor),
            None => (NO_MORE_DOCS, 0.0),
        }
    }
}
