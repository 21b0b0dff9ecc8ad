//! One search over one pinned index view.

use std::io;

use super::bm25::{Bm25, idf};
use super::collector::{Candidate, Collector};
use super::filter::Filter;
use super::phrase::{PhraseDocs, phrase_docs};
use super::phrase_set::{DistinctPhrase, PhraseSet};
use super::pruning::Pruning;
use crate::index::{DocFacts, IndexView, LocalDoc, NO_MORE_DOCS, Part, PostingCursor};
use crate::model::{TextSource, TextSourceError};

use super::Order;

/// What to find.
pub struct Search<'q> {
    /// What the query asks for; all of it must match, and repeats count again (fts5-semantics §3.2).
    pub phrases: &'q PhraseSet,
    /// What a document must be besides.
    pub filter: &'q Filter,
    /// The order of the answer.
    pub order: Order,
    /// How many of the best to keep.
    pub keep: usize,
    /// Whether to keep each hit's frequencies.
    pub explain: bool,
    /// Whether documents that can't be among the best may be passed over. The answer is the same.
    pub prune: bool,
    /// Asked now and then; once it says yes the search ends with [`SearchFailure::Stopped`].
    pub stop: &'q dyn Fn() -> bool,
}

/// One document found.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// Everything known of it.
    pub facts: DocFacts,
    /// FTS5's −bm25: larger is better.
    pub score: f64,
    /// Frequency of each piece, when explained.
    pub freqs: Option<Box<[u32]>>,
}

/// FTS5's numbers of one piece.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieceStatistics {
    /// Live documents that hold the whole phrase.
    pub n: u64,
    /// Its weight.
    pub idf: f64,
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The best, best first.
    pub ranked: Vec<Ranked>,
    /// One entry a piece.
    pub pieces: Vec<PieceStatistics>,
    /// Average document length in tokens.
    pub average_length: f64,
}

/// Why a search ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchFailure {
    /// The index could not be read.
    #[error("reading the index failed: {0}")]
    Index(#[from] io::Error),
    /// The store could not give a row.
    #[error(transparent)]
    Text(#[from] TextSourceError),
    /// Deadline passed or cancelled.
    #[error("the search was stopped")]
    Stopped,
}

/// How many documents are visited between two questions whether to stop.
const STOP_INTERVAL: u32 = if cfg!(test) { 64 } else { 4_096 };

/// Runs one search.
///
/// # Errors
/// [`SearchFailure`]: unreadable index or store, or stopped.
pub fn execute(view: &IndexView, search: &Search<'_>, texts: &dyn TextSource) -> Result<Found, SearchFailure> {
    let distinct = search.phrases.distinct();
    let pieces = search.phrases.in_query_order();
    let segments: Vec<_> = view.segments().collect::<io::Result<_>>()?;
    let runs: Vec<_> = view.runs().collect();
    // FTS5's idf needs the exact number of rows of every phrase before the first score.
    let mut counts = vec![0u64; distinct.len()];
    let mut gathered_segments = Vec::with_capacity(segments.len());
    for segment in &segments {
        gathered_segments.push(gather(segment, distinct, &mut counts, search.stop)?);
    }
    let mut gathered_runs = Vec::with_capacity(runs.len());
    for run in &runs {
        gathered_runs.push(gather(run, distinct, &mut counts, search.stop)?);
    }

    let bm25 = Bm25::new(view.num_documents, view.num_tokens);
    let idfs: Vec<f64> = counts.iter().map(|&n| idf(view.num_documents, n)).collect();
    let scorer = Scorer { pieces, idfs: &idfs, bm25 };
    let mut collector = Collector::new(search.order, search.keep, texts);
    if !pieces.is_empty() && counts.iter().all(|&n| n > 0) {
        for (segment, docs) in segments.iter().zip(gathered_segments) {
            collect_part(segment, docs, search, &scorer, &mut collector)?;
        }
        for (run, docs) in runs.iter().zip(gathered_runs) {
            collect_part(run, docs, search, &scorer, &mut collector)?;
        }
    }
    let ranked = collector.into_best()?;
    Ok(Found {
        ranked: ranked.into_iter().map(|c| Ranked { facts: c.facts, score: c.score, freqs: c.freqs }).collect(),
        pieces: pieces.iter().map(|&p| PieceStatistics { n: counts[p], idf: idfs[p] }).collect(),
        average_length: bm25.average_length(),
    })
}

/// The documents of every phrase in one part; adds each phrase's n to `counts`. `None` when a phrase has none here.
fn gather<'p, P: Part>(
    part: &'p P,
    distinct: &[DistinctPhrase],
    counts: &mut [u64],
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<PhraseDocs<P::Cursor<'p>>>>, SearchFailure> {
    let mut all = Some(Vec::with_capacity(distinct.len()));
    for (phrase, count) in distinct.iter().zip(counts) {
        if stop() {
            return Err(SearchFailure::Stopped);
        }
        let (n, docs) = phrase_docs(part, &phrase.phrase)?;
        *count += n;
        match (&mut all, docs) {
            (Some(list), Some(docs)) => list.push(docs),
            _ => all = None,
        }
    }
    Ok(all)
}

/// FTS5's score of one document.
struct Scorer<'s> {
    /// For each piece its distinct phrase.
    pieces: &'s [usize],
    idfs: &'s [f64],
    bm25: Bm25,
}

impl Scorer<'_> {
    fn score(&self, freqs: &[u32], length: u32) -> f64 {
        self.bm25.score(length, self.pieces.iter().map(|&phrase| (self.idfs[phrase], freqs[phrase])))
    }
}

/// Visits every live, admitted document that holds all phrases.
fn collect_part<'p, P: Part>(
    part: &'p P,
    docs: Option<Vec<PhraseDocs<P::Cursor<'p>>>>,
    search: &Search<'_>,
    scorer: &Scorer<'_>,
    collector: &mut Collector<'_>,
) -> Result<(), SearchFailure> {
    let Some(mut docs) = docs else { return Ok(()) };
    // The rarest phrase leads; `by_size` keeps the query's order reachable for the score.
    let mut by_size: Vec<usize> = (0..docs.len()).collect();
    by_size.sort_by_key(|&i| docs[i].size_hint());
    let Some((&lead, rest)) = by_size.split_first() else { return Ok(()) };
    let mut pruning = match search.order {
        Order::Relevance if search.prune && Pruning::pays(docs[lead].size_hint(), search.keep) => {
            let phrases = search.phrases.distinct().iter().zip(scorer.idfs);
            Pruning::new(part, phrases.map(|(d, &idf)| (&d.phrase, idf, d.repeats)), scorer.bm25)?
        }
        _ => None,
    };
    let mut visit = Visit { part, search, scorer, collector, freqs: vec![0; docs.len()], until_stop: STOP_INTERVAL };
    if let Some(pruning) = &mut pruning
        && let ([only], [phrase]) = (docs.as_mut_slice(), search.phrases.distinct())
    {
        let first = pruning.first_blocks();
        let (_, again) = phrase_docs(part, &phrase.phrase)?;
        // What the best blocks hold is hard to beat: most others need not be looked at then.
        for (from, to) in first {
            let mut doc = only.seek(from);
            while doc <= to {
                if visit.admits(doc) {
                    visit.document(doc, std::slice::from_ref(only))?;
                }
                doc = only.advance();
            }
        }
        visit.collector.settle()?;
        if let Some(again) = again {
            *only = again;
        }
    }
    let mut doc = docs[lead].doc();
    'docs: while doc != NO_MORE_DOCS {
        visit.ask_whether_to_stop()?;
        if let Some(pruning) = &mut pruning {
            let next = pruning.next(doc, visit.collector.worst());
            if next == NO_MORE_DOCS {
                break;
            }
            if next != doc {
                doc = docs[lead].seek(next);
                continue;
            }
        }
        if visit.admits(doc) {
            for &other in rest {
                let reached = docs[other].seek(doc);
                if reached == NO_MORE_DOCS {
                    break 'docs;
                }
                if reached != doc {
                    doc = docs[lead].seek(reached);
                    continue 'docs;
                }
            }
            visit.document(doc, &docs)?;
        }
        doc = docs[lead].advance();
    }
    Ok(())
}

/// What is done with each document of a part.
struct Visit<'v, 't, P> {
    part: &'v P,
    search: &'v Search<'v>,
    scorer: &'v Scorer<'v>,
    collector: &'v mut Collector<'t>,
    /// Of each phrase in the document at hand.
    freqs: Vec<u32>,
    until_stop: u32,
}

impl<P: Part> Visit<'_, '_, P> {
    fn admits(&self, doc: LocalDoc) -> bool {
        self.search.filter.admits_session(self.part.ordinal(doc)) && !self.part.dead().contains(doc)
    }

    fn ask_whether_to_stop(&mut self) -> Result<(), SearchFailure> {
        self.until_stop -= 1;
        if self.until_stop == 0 {
            if (self.search.stop)() {
                return Err(SearchFailure::Stopped);
            }
            self.until_stop = STOP_INTERVAL;
        }
        Ok(())
    }

    /// Scores an admitted document that every phrase stands on, and offers it to the collector.
    fn document<C: PostingCursor>(&mut self, doc: LocalDoc, docs: &[PhraseDocs<C>]) -> Result<(), SearchFailure> {
        for (freq, docs) in self.freqs.iter_mut().zip(docs) {
            *freq = docs.freq();
        }
        let score = self.scorer.score(&self.freqs, self.part.length(doc));
        if self.collector.worst().is_some_and(|(worst, _)| score < worst) {
            return Ok(());
        }
        let facts = self.part.facts(doc);
        if self.search.filter.admits(&facts) && self.collector.may_keep(score, &facts) {
            let mut candidate = Candidate::new(facts, score);
            if self.search.explain {
                candidate.freqs = Some(self.scorer.pieces.iter().map(|&p| self.freqs[p]).collect());
            }
            self.collector.collect(candidate)?;
        }
        Ok(())
    }
}
