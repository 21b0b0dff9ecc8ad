//! Passing over documents that can't be among the best, without looking at them. What is found stays the same.

use std::collections::BTreeSet;
use std::io;

use super::bm25::{Bm25, SATURATION, saturated};
use crate::analysis::{Phrase, TermMatch};
use crate::index::{ImpactsCursor, LocalDoc, NO_MORE_DOCS, Part};
use crate::model::Timestamp;

/// A bound is a sum of products, each rounded; a score is another. This is far more than all of that.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Fewer documents are looked at faster than they are passed over.
const LEAST_DOCS: u32 = 1_024;

/// Blocks that are looked at first: what they hold is hard to beat.
const FIRST_BLOCKS: usize = 16;

/// The bounds of a query's phrases in one part.
pub(super) struct Pruning {
    /// For each phrase its idf times its repeats, and where its blocks are known those.
    phrases: Vec<(f64, Option<ImpactsCursor>)>,
    /// One phrase that the query asks for once, its bounds exact: no block with them can hold anything better.
    exact: bool,
    /// Blocks of the only phrase that were looked at before.
    seen: BTreeSet<usize>,
    /// Up to here documents have to be looked at.
    until: Option<LocalDoc>,
}

impl Pruning {
    /// Whether there is enough to pass over: the rarest phrase stands in `num_docs` documents, `keep` are wanted.
    pub(super) fn pays(num_docs: u32, keep: usize) -> bool {
        num_docs >= LEAST_DOCS && (num_docs as usize) / 4 > keep
    }

    /// From phrases, each with its idf and how often it is asked for. `None` where no phrase has blocks: then nothing
    /// could be passed over.
    pub(super) fn new<'q, P: Part>(
        part: &P,
        phrases: impl Iterator<Item = (&'q Phrase, f64, u32)>,
        bm25: Bm25,
    ) -> io::Result<Option<Self>> {
        let weigh = |frequency, length| saturated(frequency, bm25.length_norm(length));
        let mut bounds = Vec::new();
        let mut is_repeated = false;
        for (phrase, idf, repeats) in phrases {
            let impacts = match phrase.terms.as_slice() {
                [only] => match &only.term {
                    TermMatch::Exact(term) => part.impacts(term, bm25.average_length(), &weigh)?,
                    TermMatch::Prefix(_) => None,
                },
                _ => None,
            };
            is_repeated |= repeats > 1;
            bounds.push((idf * f64::from(repeats), impacts));
        }
        let exact = match bounds.as_slice() {
            [(_, Some(impacts))] => impacts.is_exact() && !is_repeated,
            _ => false,
        };
        let worth = bounds.iter().any(|(_, impacts)| impacts.is_some());
        Ok(worth.then_some(Self { phrases: bounds, exact, seen: BTreeSet::new(), until: None }))
    }

    /// Of a query of one phrase: the first and last document of the best blocks, in order. [`Self::next`] leaves them
    /// out from now on.
    pub(super) fn first_blocks(&mut self) -> Vec<(LocalDoc, LocalDoc)> {
        let [(_, Some(impacts))] = self.phrases.as_mut_slice() else { return Vec::new() };
        let mut ranges = Vec::new();
        for (place, before) in impacts.best(FIRST_BLOCKS) {
            let first = before.map_or(0, |last| last + 1);
            if let Some(last) = impacts.last_of(place) {
                ranges.push((first, last));
                self.seen.insert(place);
            }
        }
        ranges
    }

    /// The first document from `doc` on that could be better than `worst`: its score, and its time where scores tie.
    pub(super) fn next(&mut self, doc: LocalDoc, worst: Option<(f64, Timestamp)>) -> LocalDoc {
        let mut doc = doc;
        if self.until.is_some_and(|until| doc <= until) {
            return doc;
        }
        while doc != NO_MORE_DOCS {
            let (mut end, mut most, mut newest) = (NO_MORE_DOCS - 1, 0.0, Timestamp::UNKNOWN);
            let mut seen = false;
            for (weight, impacts) in &mut self.phrases {
                let bound = match impacts {
                    Some(impacts) => {
                        let Some((place, block)) = impacts.block(doc) else { return NO_MORE_DOCS };
                        seen |= self.seen.contains(&place);
                        end = end.min(block.last);
                        newest = block.newest;
                        block.most
                    }
                    None => SATURATION,
                };
                most += *weight * bound;
            }
            let may_be_better = match worst {
                _ if seen => false,
                None => true,
                Some((score, time)) if self.exact => most > score || most == score && newest >= time,
                Some((score, _)) => most * ROUNDING >= score,
            };
            if may_be_better {
                self.until = Some(end);
                return doc;
            }
            doc = end + 1;
        }
        NO_MORE_DOCS
    }
}
