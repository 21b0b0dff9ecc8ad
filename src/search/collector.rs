//! Keeps the best documents in the order of D10; ids are read only where everything before them ties.

use std::cmp::Ordering;

use crate::index::DocFacts;
use crate::model::{MessageId, SessionId, TextSource, TextSourceError, Timestamp};

/// The order of an answer (D10, D18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Score descending, then time descending, then message id and session id ascending.
    #[default]
    Relevance,
    /// Time descending, then message id and session id ascending.
    Recent,
}

/// A document that matches, with its exact score.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) facts: DocFacts,
    pub(super) score: f64,
    /// Frequencies by piece, kept only for `--explain`.
    pub(super) freqs: Option<Box<[u32]>>,
    ids: Option<(MessageId, SessionId)>,
}

impl Candidate {
    pub(super) fn new(facts: DocFacts, score: f64) -> Self {
        Self { facts, score, freqs: None, ids: None }
    }
}

/// The best `keep` documents seen so far. Candidates gather in a buffer that is sorted and cut when it is full.
pub(super) struct Collector<'t> {
    order: Order,
    keep: usize,
    buffer: Vec<Candidate>,
    /// Score and facts of the worst kept one, once `keep` are known.
    threshold: Option<(f64, DocFacts)>,
    texts: &'t dyn TextSource,
}

/// Room beyond `keep`, so that not every match is sorted in. Little: what must be beaten is known after a cut alone.
const SLACK: usize = 16;

impl<'t> Collector<'t> {
    pub(super) fn new(order: Order, keep: usize, texts: &'t dyn TextSource) -> Self {
        Self { order, keep, buffer: Vec::new(), threshold: None, texts }
    }

    /// Whether a document could still be kept, ids aside.
    pub(super) fn may_keep(&self, score: f64, facts: &DocFacts) -> bool {
        match &self.threshold {
            Some((worst, worst_facts)) => compare(self.order, (score, facts), (*worst, worst_facts)).is_le(),
            None => self.keep > 0,
        }
    }

    /// The score a document must reach to be kept, and its time where that ties, when order is by score and enough are
    /// known.
    pub(super) fn worst(&self) -> Option<(f64, Timestamp)> {
        let worst = self.threshold.map(|(score, facts)| (score, facts.timestamp));
        worst.filter(|_| self.order == Order::Relevance)
    }

    /// Sorts in what was taken since, so that [`Self::worst`] is what it can be.
    pub(super) fn settle(&mut self) -> Result<(), TextSourceError> {
        if self.buffer.len() >= self.keep { self.cut() } else { Ok(()) }
    }

    /// Takes a document in, if it belongs among the best.
    pub(super) fn collect(&mut self, candidate: Candidate) -> Result<(), TextSourceError> {
        if self.may_keep(candidate.score, &candidate.facts) {
            self.buffer.push(candidate);
            if self.buffer.len() >= self.keep.saturating_add((self.keep / 2).max(SLACK)) {
                self.cut()?;
            }
        }
        Ok(())
    }

    /// The best, best first.
    pub(super) fn into_best(mut self) -> Result<Vec<Candidate>, TextSourceError> {
        self.cut()?;
        Ok(self.buffer)
    }

    /// Sorts the buffer and keeps the best. Ids are read only of candidates that tie in everything before them.
    fn cut(&mut self) -> Result<(), TextSourceError> {
        let order = self.order;
        let key = |c: &Candidate| (c.score, c.facts);
        self.buffer.sort_by(|a, b| compare(order, (a.score, &a.facts), (b.score, &b.facts)));
        let mut start = 0;
        while start < self.buffer.len().min(self.keep) {
            let (score, facts) = key(&self.buffer[start]);
            let tied = self.buffer[start..]
                .iter()
                .take_while(|c| compare(order, (score, &facts), (c.score, &c.facts)).is_eq())
                .count();
            if tied > 1 {
                let group = &mut self.buffer[start..start + tied];
                for candidate in group.iter_mut().filter(|c| c.ids.is_none()) {
                    candidate.ids = Some(self.texts.ids(candidate.facts.number)?);
                }
                group.sort_by(|a, b| a.ids.cmp(&b.ids));
            }
            start += tied;
        }
        self.buffer.truncate(self.keep);
        if self.buffer.len() == self.keep {
            self.threshold = self.buffer.last().map(key);
        }
        Ok(())
    }
}

/// Before ids. Scores are finite: bm25 of finite counts.
fn compare(order: Order, a: (f64, &DocFacts), b: (f64, &DocFacts)) -> Ordering {
    let by_time = b.1.timestamp.cmp(&a.1.timestamp);
    match order {
        Order::Relevance => b.0.total_cmp(&a.0).then(by_time),
        Order::Recent => by_time,
    }
}
