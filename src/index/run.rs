//! The tail: documents after the last checkpoint, in memory, as a few immutable runs.
//!
//! A run is a small inverted index. Each publish adds one run; neighbours of about the same size are merged, so that
//! a tail of n documents has at most about log₂ n runs and an append costs O(log n) copies in the long run, while
//! every view keeps the runs it pinned.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Hidden;
use super::part::{DeadDocs, DocFacts, LocalDoc, NO_MORE_DOCS, Part, PostingCursor};
use crate::analysis::TokenText;
use crate::model::{Ordinal, Timestamp};

/// A text's tokens grouped by term: a run of one document that has no number yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupedText {
    terms: Terms,
    positions: Vec<u32>,
}

/// Sorted terms in one allocation; term `i` owns postings `starts[i] .. starts[i + 1]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Terms {
    texts: String,
    ends: Vec<u32>,
    starts: Vec<u32>,
}

impl Terms {
    /// None yet, with room for those of both.
    fn with_room_for(a: &Self, b: &Self) -> Self {
        let num_terms = a.len() + b.len();
        Self {
            texts: String::with_capacity(a.texts.len() + b.texts.len()),
            ends: Vec::with_capacity(num_terms),
            starts: Vec::with_capacity(num_terms),
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn text(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.texts[start..self.ends[i] as usize]
    }

    fn push(&mut self, text: &str, first_posting: u32) {
        self.texts.push_str(text);
        self.ends.push(self.texts.len() as u32);
        self.starts.push(first_posting);
    }

    /// Postings of term `i`, given how many there are in all.
    fn postings(&self, i: usize, total: usize) -> Range<usize> {
        let end = self.starts.get(i + 1).map_or(total, |&start| start as usize);
        self.starts[i] as usize..end
    }

    fn find(&self, text: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.text(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

impl GroupedText {
    /// Groups a text's tokens by term.
    #[must_use]
    pub fn new(tokens: &TokenText) -> Self {
        let tokens: Vec<&str> = tokens.iter().collect();
        let mut order: Vec<u32> = (0..tokens.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| tokens[a as usize].cmp(tokens[b as usize]).then(a.cmp(&b)));
        let mut terms = Terms::default();
        let mut last: Option<&str> = None;
        for (i, &position) in order.iter().enumerate() {
            let text = tokens[position as usize];
            if last != Some(text) {
                terms.push(text, i as u32);
                last = Some(text);
            }
        }
        Self { terms, positions: order }
    }
}

/// One document's place among a term's postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Posting {
    doc: LocalDoc,
    /// First of its positions; they end where the next posting's begin.
    positions: u32,
}

/// An immutable inverted index over a few documents, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Run {
    docs: Vec<DocFacts>,
    terms: Terms,
    postings: Vec<Posting>,
    positions: Vec<u32>,
    dead: Mutex<Option<(u64, Arc<DeadDocs>)>>,
}

impl Run {
    /// A run of one document.
    #[must_use]
    pub fn single(facts: DocFacts, text: &GroupedText) -> Self {
        let mut terms = text.terms.clone();
        let postings = terms.starts.iter().map(|&positions| Posting { doc: 0, positions }).collect();
        for (i, start) in terms.starts.iter_mut().enumerate() {
            *start = i as u32;
        }
        Self { docs: vec![facts], terms, postings, positions: text.positions.clone(), dead: Mutex::default() }
    }

    /// One run of both: `later`'s documents after this one's.
    #[must_use]
    pub fn merged(&self, later: &Self) -> Self {
        let mut merged = Self {
            docs: [self.docs.as_slice(), later.docs.as_slice()].concat(),
            terms: Terms::with_room_for(&self.terms, &later.terms),
            postings: Vec::with_capacity(self.postings.len() + later.postings.len()),
            positions: Vec::with_capacity(self.positions.len() + later.positions.len()),
            dead: Mutex::default(),
        };
        let shift = self.docs.len() as u32;
        let (mut a, mut b) = (0, 0);
        while a < self.terms.len() || b < later.terms.len() {
            let order = match (a < self.terms.len(), b < later.terms.len()) {
                (true, true) => self.terms.text(a).cmp(later.terms.text(b)),
                (true, false) => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            };
            let text = if order.is_le() { self.terms.text(a) } else { later.terms.text(b) };
            merged.terms.push(text, merged.postings.len() as u32);
            if order.is_le() {
                merged.copy_postings(self, a, 0);
                a += 1;
            }
            if order.is_ge() {
                merged.copy_postings(later, b, shift);
                b += 1;
            }
        }
        merged
    }

    fn copy_postings(&mut self, from: &Self, term: usize, shift: u32) {
        for i in from.terms.postings(term, from.postings.len()) {
            self.postings.push(Posting { doc: from.postings[i].doc + shift, positions: self.positions.len() as u32 });
            self.positions.extend_from_slice(&from.positions[from.positions_of(i)]);
        }
    }

    fn positions_of(&self, posting: usize) -> Range<usize> {
        let end = self.postings.get(posting + 1).map_or(self.positions.len(), |next| next.positions as usize);
        self.postings[posting].positions as usize..end
    }

    fn cursor_at(&self, term: usize) -> RunCursor<'_> {
        let range = self.terms.postings(term, self.postings.len());
        RunCursor { run: self, next: range.start, start: range.start, end: range.end }
    }

    /// The documents, in the order of their numbers.
    #[must_use]
    pub fn docs(&self) -> &[DocFacts] {
        &self.docs
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.docs.len() * size_of::<DocFacts>()
            + self.terms.texts.len()
            + self.terms.len() * 8
            + self.postings.len() * size_of::<Posting>()
            + self.positions.len() * 4
    }

    /// The documents of this run that `hidden` hides; computed once per state of it.
    #[must_use]
    pub fn dead_under(&self, hidden: &Hidden) -> Arc<DeadDocs> {
        let mut cached = self.dead.lock();
        if let Some((version, dead)) = cached.as_ref()
            && *version == hidden.version()
        {
            return Arc::clone(dead);
        }
        let sorted = if hidden.is_empty() {
            Vec::new()
        } else {
            let is_dead = |facts: &DocFacts| hidden.hides(facts.ordinal, facts.number);
            self.docs.iter().enumerate().filter(|(_, facts)| is_dead(facts)).map(|(i, _)| i as u32).collect()
        };
        let dead = Arc::new(DeadDocs::from_sorted(sorted));
        *cached = Some((hidden.version(), Arc::clone(&dead)));
        dead
    }
}

/// A run as one view sees it: with that view's dead documents.
#[derive(Debug)]
pub struct RunInView<'v> {
    run: &'v Run,
    dead: Arc<DeadDocs>,
}

impl<'v> RunInView<'v> {
    /// Pairs a run with what `hidden` hides of it.
    #[must_use]
    pub fn new(run: &'v Run, hidden: &Hidden) -> Self {
        Self { run, dead: run.dead_under(hidden) }
    }
}

impl Part for RunInView<'_> {
    type Cursor<'p>
        = RunCursor<'p>
    where
        Self: 'p;

    fn num_docs(&self) -> u32 {
        self.run.docs.len() as u32
    }

    fn cursor(&self, term: &str, _positions: bool) -> io::Result<Option<RunCursor<'_>>> {
        Ok(self.run.terms.find(term).ok().map(|i| self.run.cursor_at(i)))
    }

    fn for_each_with_prefix<'p>(
        &'p self,
        prefix: &str,
        _positions: bool,
        each: &mut dyn FnMut(RunCursor<'p>),
    ) -> io::Result<()> {
        let first = self.run.terms.find(prefix).unwrap_or_else(|i| i);
        (first..self.run.terms.len())
            .take_while(|&i| self.run.terms.text(i).starts_with(prefix))
            .for_each(|i| each(self.run.cursor_at(i)));
        Ok(())
    }

    fn facts(&self, doc: LocalDoc) -> DocFacts {
        self.run.docs[doc as usize]
    }

    fn length(&self, doc: LocalDoc) -> u32 {
        self.run.docs[doc as usize].length
    }

    fn timestamp(&self, doc: LocalDoc) -> Timestamp {
        self.run.docs[doc as usize].timestamp
    }

    fn ordinal(&self, doc: LocalDoc) -> Ordinal {
        self.run.docs[doc as usize].ordinal
    }

    fn dead(&self) -> &DeadDocs {
        &self.dead
    }
}

/// The postings of one term in a run.
#[derive(Debug, Clone)]
pub struct RunCursor<'r> {
    run: &'r Run,
    start: usize,
    next: usize,
    end: usize,
}

impl PostingCursor for RunCursor<'_> {
    fn doc(&self) -> LocalDoc {
        if self.next < self.end { self.run.postings[self.next].doc } else { NO_MORE_DOCS }
    }

    fn advance(&mut self) -> LocalDoc {
        self.next = (self.next + 1).min(self.end);
        self.doc()
    }

    fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        let rest = &self.run.postings[self.next..self.end];
        self.next += rest.partition_point(|posting| posting.doc < target);
        self.doc()
    }

    fn freq(&self) -> u32 {
        self.run.positions_of(self.next).len() as u32
    }

    fn positions(&mut self, positions: &mut Vec<u32>) {
        positions.clear();
        positions.extend_from_slice(&self.run.positions[self.run.positions_of(self.next)]);
    }

    fn doc_freq(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

/// The runs after the last checkpoint, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    runs: Vec<Arc<Run>>,
    num_docs: usize,
}

impl Tail {
    /// Adds one run at the end, neighbours of about the same size merged.
    pub fn push(&mut self, run: Run) {
        self.num_docs += run.docs.len();
        let mut run = run;
        while let Some(last) = self.runs.last()
            && last.docs.len() <= run.docs.len()
        {
            run = last.merged(&run);
            self.runs.pop();
        }
        self.runs.push(Arc::new(run));
    }

    /// The runs, oldest first.
    #[must_use]
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Documents in the tail, dead ones included.
    #[must_use]
    pub fn num_docs(&self) -> usize {
        self.num_docs
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.runs.iter().map(|run| run.len_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analyzer, Phrase, Token};
    use crate::model::{DocNumber, Role, Timestamp};

    struct Words;

    impl Analyzer for Words {
        fn name(&self) -> &'static str {
            "words"
        }
        fn version(&self) -> u32 {
            1
        }
        fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
            for word in text.split(' ') {
                sink(Token { text: word, start: 0, end: 0 });
            }
        }
        fn phrase(&self, _: &str, _: bool) -> Phrase {
            Phrase::default()
        }
    }

    fn run(number: u64, text: &str) -> Run {
        let tokens = TokenText::new(&Words, text);
        let facts = DocFacts {
            number: DocNumber(number),
            ordinal: Ordinal(number as u32 % 2),
            timestamp: Timestamp::UNKNOWN,
            role: Role::User,
            length: tokens.len(),
        };
        Run::single(facts, &GroupedText::new(&tokens))
    }

    fn postings(part: &RunInView<'_>, term: &str) -> Vec<(u32, Vec<u32>)> {
        let mut found = Vec::new();
        if let Some(mut cursor) = part.cursor(term, true).unwrap() {
            while cursor.doc() != NO_MORE_DOCS {
                let mut positions = Vec::new();
                cursor.positions(&mut positions);
                assert_eq!(positions.len() as u32, cursor.freq());
                found.push((cursor.doc(), positions));
                cursor.advance();
            }
        }
        found
    }

    #[test]
    fn merged_runs_hold_the_postings_of_both() {
        let mut tail = Tail::default();
        for (i, text) in ["b a b", "a c", "c c", "b"].into_iter().enumerate() {
            tail.push(run(i as u64, text));
        }
        assert_eq!(tail.runs().len(), 1);
        let hidden = Hidden::default();
        let part = RunInView::new(&tail.runs()[0], &hidden);
        assert_eq!(postings(&part, "a"), [(0, vec![1]), (1, vec![0])]);
        assert_eq!(postings(&part, "b"), [(0, vec![0, 2]), (3, vec![0])]);
        assert_eq!(postings(&part, "c"), [(1, vec![1]), (2, vec![0, 1])]);
        assert!(postings(&part, "d").is_empty());
        let mut num_terms = 0;
        part.for_each_with_prefix("", true, &mut |_| num_terms += 1).unwrap();
        assert_eq!(num_terms, 3);
    }

    #[test]
    fn a_tail_keeps_few_runs() {
        let mut tail = Tail::default();
        for i in 0..1_000 {
            tail.push(run(i, "x"));
            assert!(tail.runs().len() <= 10);
        }
        assert_eq!(tail.num_docs(), 1_000);
    }

    #[test]
    fn hidden_documents_are_dead_and_leave_the_frequency() {
        let mut tail = Tail::default();
        for i in 0..8 {
            tail.push(run(i, if i < 6 { "x" } else { "y" }));
        }
        let mut hidden = Hidden::default();
        hidden.hide_ordinal(Ordinal(1));
        hidden.hide_document(DocNumber(0), Ordinal(0));
        let part = RunInView::new(&tail.runs()[0], &hidden);
        let dead: Vec<u32> = (0..8).filter(|&doc| part.dead().contains(doc)).collect();
        assert_eq!(dead, [0, 1, 3, 5, 7]);
        let cursor = part.cursor("x", false).unwrap().unwrap();
        assert_eq!(part.dead().count_holding("x", part.num_docs(), cursor), 4);
    }
}
