//! Looking a store over, and nothing else: what it holds is compared with itself, and by real queries with its texts.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use crate::analysis::{Analyzer, TokenText};
pub use crate::commit::{Finding, FindingKind};
use crate::commit::{Findings, View, verify};
use crate::index::{DocFacts, GroupedText, IndexView, Run, Tail};
use crate::search::bm25::{Bm25, idf};
use crate::search::phrase_set::PhraseSet;
use crate::search::query::ParsedQuery;
use crate::search::{Filter, Order, Search, SearchFailure, execute};
use crate::store::{SessionState, StoreError, StoreLocation};

use super::{Engine, OpenOptions};

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerifyReport {
    /// Nothing is wrong.
    pub clean: bool,
    /// What is wrong: the first 1,000 faults.
    pub findings: Vec<Finding>,
    /// All of them.
    pub findings_total: u64,
    /// Sessions looked at.
    pub sessions: u64,
    /// Events read.
    pub events: u64,
    /// Documents compared with their events.
    pub documents: u64,
    /// Queries compared with a plain scan of the texts, for a deep verification.
    pub queries: u64,
}

impl Engine {
    /// Compares everything one agent's store holds, both ways: checksums with bytes, events with the active path,
    /// searchable messages with their documents and the reverse, documents with the index, counts with what is counted.
    /// With `deep`, also every posting of the index with the texts, and the answers to real queries with a plain scan.
    ///
    /// Nothing is changed, neither by this nor by what opening a store would mend. It needs the store for itself: let
    /// an [`Engine`] on it go first.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Busy`], [`StoreError::Format`], and what reading the disk can meet.
    /// Damage is no error but a finding.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use sessions_search::{Engine, OpenOptions};
    /// # let folder = tempfile::tempdir()?;
    /// # let mut options = OpenOptions::default();
    /// # options.create = true;
    /// # Engine::open(folder.path(), options)?.close()?;
    /// let report = Engine::verify(folder.path(), &OpenOptions::default(), true)?;
    /// assert!(report.clean, "{:?}", report.findings);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(root: &Path, options: &OpenOptions, deep: bool) -> Result<VerifyReport, StoreError> {
        let location = StoreLocation::new(root, &options.agent);
        let mut seen = verify(&location, &options.committer(), deep)?;
        let mut queries = 0;
        if deep && let Some(view) = &seen.view {
            // What is wrong with the index is said already where its reader panics.
            let compare = || compare_queries(view, view.pipeline.analyzer(), &mut seen.findings);
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)) {
                Ok(Ok(compared)) => queries = compared,
                Ok(Err(error)) => seen.findings.add(FindingKind::IndexDamaged, format!("a search failed: {error}")),
                Err(_) => seen.findings.add(FindingKind::IndexDamaged, "a search failed"),
            }
        }
        Ok(VerifyReport {
            clean: seen.findings.total == 0,
            findings: seen.findings.list,
            findings_total: seen.findings.total,
            sessions: seen.sessions,
            events: seen.events,
            documents: seen.documents,
            queries,
        })
    }
}

/// Documents whose words become queries, spread over the store.
const SAMPLED_DOCUMENTS: u64 = 64;
/// Hits of a query that are compared; of one with more, their number alone.
const MAX_COMPARED_HITS: usize = 10_000;
/// Documents of the plain scan that are in memory at a time.
const SCAN_DOCUMENTS: usize = 4_096;

/// One query and what the plain scan says of it.
struct Sample {
    query: String,
    phrases: PhraseSet,
    /// Documents that hold it.
    n: u64,
    /// The first of them, with their length and the query's frequency.
    hits: BTreeMap<u64, (u32, u32)>,
}

/// Asks the view what its own texts say, and compares. Gives the number of queries.
fn compare_queries(view: &View, analyzer: &dyn Analyzer, findings: &mut Findings) -> Result<u64, SearchFailure> {
    let mut samples = samples(view, analyzer)?;
    scan(view, analyzer, &mut samples)?;
    let bm25 = Bm25::new(view.index.num_documents, view.index.num_tokens);
    for sample in &samples {
        let found = run(&view.index, sample, view)?;
        let n = found.pieces.first().map_or(0, |piece| piece.n);
        let query = &sample.query;
        if n != sample.n {
            let detail = format!("the index counts {n} documents with {query:?}, the texts {}", sample.n);
            findings.add(FindingKind::IndexDamaged, detail);
        }
        if sample.n as usize > MAX_COMPARED_HITS {
            continue;
        }
        let mut expected = sample.hits.clone();
        for hit in found.ranked {
            let number = hit.facts.number.0;
            let Some((length, frequency)) = expected.remove(&number) else {
                let detail = format!("{query:?} finds document {number}, whose text does not hold it");
                findings.add(FindingKind::ExtraDocument, detail);
                continue;
            };
            let score = bm25.score(length, [(idf(view.index.num_documents, sample.n), frequency)]);
            if n == sample.n && score.to_bits() != hit.score.to_bits() {
                let detail = format!("{query:?} gives document {number} the score {}, not {score}", hit.score);
                findings.add(FindingKind::WrongLength, detail);
            }
        }
        for number in expected.keys() {
            let detail = format!("{query:?} does not find document {number}, whose text holds it");
            findings.add(FindingKind::MissingDocument, detail);
        }
    }
    Ok(samples.len() as u64)
}

fn run(index: &IndexView, sample: &Sample, view: &View) -> Result<crate::search::Found, SearchFailure> {
    let search = Search {
        phrases: &sample.phrases,
        filter: &Filter::default(),
        order: Order::Recent,
        keep: MAX_COMPARED_HITS,
        explain: true,
        prune: true,
        stop: &|| false,
    };
    execute(index, &search, view)
}

/// Words and pairs of words of documents spread evenly over the store.
fn samples(view: &View, analyzer: &dyn Analyzer) -> Result<Vec<Sample>, SearchFailure> {
    let mut queries = std::collections::BTreeSet::new();
    let last = view.snapshot.counters().map_err(unreadable)?.next_document;
    let step = (last / SAMPLED_DOCUMENTS).max(1);
    for from in (0..last).step_by(step as usize) {
        let sample = |_, row: crate::store::DocumentRow<'_>| {
            let mut words = row.text.split_whitespace().filter(|word| word.len() <= 64);
            let skip = (from / step) as usize % row.text.split_whitespace().count().max(1);
            if let Some(word) = words.nth(skip) {
                queries.insert(word.to_owned());
                // A piece of several tokens is a phrase.
                queries.extend(words.next().map(|next| format!("{word}-{next}")));
            }
            Ok(ControlFlow::Break(()))
        };
        view.snapshot.for_each_document(from, sample).map_err(unreadable)?;
    }
    let mut samples = Vec::new();
    for query in queries {
        if let Ok(parsed) = ParsedQuery::parse(&query, analyzer, false)
            && !parsed.phrases.is_empty()
        {
            let phrases = PhraseSet::new(&parsed.phrases);
            samples.push(Sample { query, phrases, n: 0, hits: BTreeMap::new() });
        }
    }
    Ok(samples)
}

/// Looks for every sample in every text that can be found, without the index.
fn scan(view: &View, analyzer: &dyn Analyzer, samples: &mut [Sample]) -> Result<(), SearchFailure> {
    let mut tail = Tail::default();
    let mut failure = None;
    let mut search = |tail: Tail| {
        let batch = IndexView { tail, num_documents: 1, ..IndexView::default() };
        for sample in &mut *samples {
            match run(&batch, sample, view) {
                Ok(found) => {
                    sample.n += found.pieces.first().map_or(0, |piece| piece.n);
                    for hit in found.ranked {
                        if sample.hits.len() <= MAX_COMPARED_HITS {
                            let frequency = hit.freqs.and_then(|freqs| freqs.first().copied()).unwrap_or(0);
                            sample.hits.insert(hit.facts.number.0, (hit.facts.length, frequency));
                        }
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
    };
    let each = |number, row: crate::store::DocumentRow<'_>| {
        let is_searchable = view
            .sessions
            .get(row.transcript)
            .is_some_and(|session| session.ordinal == row.ordinal && session.state == SessionState::Ready);
        if is_searchable {
            let (ordinal, timestamp, role, length) = (row.ordinal, row.timestamp, row.role, row.length);
            let facts = DocFacts { number, ordinal, timestamp, role, length };
            tail.push(Run::single(facts, &GroupedText::new(&TokenText::new(analyzer, row.text))));
            if tail.num_docs() == SCAN_DOCUMENTS {
                search(std::mem::take(&mut tail));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    view.snapshot.for_each_document(0, each).map_err(unreadable)?;
    search(tail);
    failure.map_or(Ok(()), Err)
}

fn unreadable(error: StoreError) -> SearchFailure {
    SearchFailure::Index(io::Error::other(error))
}
