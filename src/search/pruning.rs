//! Passing over documents that can't be among the best, without looking at them. What is found stays the same.

use std::io;

use super::bm25::{Bm25, SATURATION, saturated};
use crate::analysis::{Phrase, TermMatch};
use crate::index::{ImpactsCursor, LocalDoc, NO_MORE_DOCS, Part};

/// A bound is a sum of products, each rounded; a score is another. This is far more than all of that.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Fewer documents are looked at faster than they are passed over.
const LEAST_DOCS: u32 = 1_024;

/// The bounds of a query's phrases in one part.
pub(super) struct Pruning {
    /// For each phrase its idf times its repeats, and where its blocks are known those.
    phrases: Vec<(f64, Option<ImpactsCursor>)>,
    /// Up to here documents have to be looked at.
    until: Option<LocalDoc>,
}

impl Pruning {
    /// Whether there is enough to pass over: the rarest phrase stands in `num_docs` documents, `keep` are wanted.
    pub(super) fn pays(num_docs: u32, keep: usize) -> bool {
        num_docs >= LEAST_DOCS && (num_docs as usize) / 4 > keep
    }

    /// `None` where no phrase has blocks: then nothing could be passed over.
    pub(super) fn new<'q, P: Part>(
        part: &P,
        phrases: impl Iterator<Item = (&'q Phrase, f64)>,
        bm25: Bm25,
    ) -> io::Result<Option<Self>> {
        let weigh = |frequency, length| saturated(frequency, bm25.length_norm(length));
        let mut bounds = Vec::new();
        for (phrase, weight) in phrases {
            let impacts = match phrase.terms.as_slice() {
                [only] => match &only.term {
                    TermMatch::Exact(term) => part.impacts(term, bm25.average_length(), &weigh)?,
                    TermMatch::Prefix(_) => None,
                },
                _ => None,
            };
            bounds.push((weight, impacts));
        }
        let worth = bounds.iter().any(|(_, impacts)| impacts.is_some());
        Ok(worth.then_some(Self { phrases: bounds, until: None }))
    }

    /// The first document from `doc` on that could reach `threshold`.
    pub(super) fn next(&mut self, doc: LocalDoc, threshold: f64) -> LocalDoc {
        let mut doc = doc;
        if self.until.is_some_and(|until| doc <= until) {
            return doc;
        }
        while doc != NO_MORE_DOCS {
            let (mut end, mut most) = (NO_MORE_DOCS - 1, 0.0);
            for (weight, impacts) in &mut self.phrases {
                let bound = match impacts {
                    Some(impacts) => {
                        let (last, bound) = impacts.bound(doc);
                        if last == NO_MORE_DOCS {
                            return NO_MORE_DOCS;
                        }
                        end = end.min(last);
                        bound
                    }
                    None => SATURATION,
                };
                most += *weight * bound;
            }
            if most * ROUNDING >= threshold {
                self.until = Some(end);
                return doc;
            }
            doc = end + 1;
        }
        NO_MORE_DOCS
    }
}
