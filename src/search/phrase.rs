//! Which documents of a part hold a phrase, and how often.

use std::io;

use crate::analysis::{Phrase, TermMatch};
use crate::index::{LocalDoc, NO_MORE_DOCS, Part, PostingCursor};

/// Documents of one part that hold a phrase, with its frequency in each; live ones only in a list, dead ones too
/// behind a cursor.
pub(super) enum PhraseDocs<C> {
    /// A phrase of one exact term: the postings themselves.
    Term(C),
    /// Anything else: worked out once, because FTS5's idf needs the exact number of rows before any score.
    List(ListCursor),
}

impl<C: PostingCursor> PhraseDocs<C> {
    pub(super) fn doc(&self) -> LocalDoc {
        match self {
            Self::Term(cursor) => cursor.doc(),
            Self::List(list) => list.doc(),
        }
    }

    pub(super) fn advance(&mut self) -> LocalDoc {
        match self {
            Self::Term(cursor) => cursor.advance(),
            Self::List(list) => list.advance(),
        }
    }

    pub(super) fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        if self.doc() >= target {
            return self.doc();
        }
        match self {
            Self::Term(cursor) => cursor.seek(target),
            Self::List(list) => list.seek(target),
        }
    }

    pub(super) fn freq(&self) -> u32 {
        match self {
            Self::Term(cursor) => cursor.freq(),
            Self::List(list) => list.freq(),
        }
    }

    /// Documents in it at most.
    pub(super) fn size_hint(&self) -> u32 {
        match self {
            Self::Term(cursor) => cursor.doc_freq(),
            Self::List(list) => list.docs.len() as u32,
        }
    }
}

/// A cursor over (document, frequency) pairs in memory.
pub(super) struct ListCursor {
    docs: Vec<(LocalDoc, u32)>,
    at: usize,
}

impl ListCursor {
    fn new(docs: Vec<(LocalDoc, u32)>) -> Self {
        Self { docs, at: 0 }
    }

    fn doc(&self) -> LocalDoc {
        self.docs.get(self.at).map_or(NO_MORE_DOCS, |&(doc, _)| doc)
    }

    fn advance(&mut self) -> LocalDoc {
        self.at = (self.at + 1).min(self.docs.len());
        self.doc()
    }

    fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        self.at += self.docs[self.at..].partition_point(|&(doc, _)| doc < target);
        self.doc()
    }

    fn freq(&self) -> u32 {
        self.docs.get(self.at).map_or(0, |&(_, freq)| freq)
    }
}

/// The phrase's documents in one part and FTS5's n for it there: live documents that hold the whole phrase.
/// `None` when no document of the part can hold it.
pub(super) fn phrase_docs<'p, P: Part>(
    part: &'p P,
    phrase: &Phrase,
) -> io::Result<(u64, Option<PhraseDocs<P::Cursor<'p>>>)> {
    if let [only] = phrase.terms.as_slice()
        && let TermMatch::Exact(term) = &only.term
    {
        let Some(cursor) = part.cursor(term, false)? else { return Ok((0, None)) };
        let mut live = cursor.doc_freq();
        if !part.dead().is_empty()
            && let Some(second) = part.cursor(term, false)?
        {
            live -= part.dead().count_holding(term, part.num_docs(), second);
        }
        return Ok((u64::from(live), (live > 0).then_some(PhraseDocs::Term(cursor))));
    }
    let docs = if let [only] = phrase.terms.as_slice()
        && let TermMatch::Prefix(prefix) = &only.term
    {
        prefix_docs(part, prefix)?
    } else {
        let mut terms: Vec<PlacedTerm<'_, _>> = Vec::with_capacity(phrase.terms.len());
        for term in &phrase.terms {
            if let Some(known) = terms.iter_mut().find(|known| *known.term == term.term) {
                known.offsets.push(term.offset);
                continue;
            }
            let Some(stream) = TermStream::open(part, &term.term)? else { return Ok((0, None)) };
            terms.push(PlacedTerm { term: &term.term, offsets: vec![term.offset], stream });
        }
        intersect(part, terms)
    };
    let n = docs.len() as u64;
    Ok((n, (n > 0).then(|| PhraseDocs::List(ListCursor::new(docs)))))
}

/// Live documents with a term that starts with `prefix`, and how many of its positions have one: no two terms share a
/// position, so their frequencies add up.
fn prefix_docs<P: Part>(part: &P, prefix: &str) -> io::Result<Vec<(LocalDoc, u32)>> {
    let mut freqs = FreqSums::new(part.num_docs());
    part.for_each_with_prefix(prefix, false, &mut |mut cursor| {
        let mut doc = cursor.doc();
        while doc != NO_MORE_DOCS {
            freqs.add(doc, cursor.freq());
            doc = cursor.advance();
        }
    })?;
    let mut docs = freqs.into_sorted();
    if !part.dead().is_empty() {
        docs.retain(|&(doc, _)| !part.dead().contains(doc));
    }
    Ok(docs)
}

/// Frequencies by document, from many lists.
struct FreqSums {
    num_docs: u32,
    /// While there are few: as they come.
    pairs: Vec<(LocalDoc, u32)>,
    /// Once there are many: one entry a document of the part.
    by_doc: Vec<u32>,
}

impl FreqSums {
    /// From this share of a part's documents on an entry for each is cheaper than sorting.
    const MANY: u32 = 64;

    fn new(num_docs: u32) -> Self {
        Self { num_docs, pairs: Vec::new(), by_doc: Vec::new() }
    }

    fn add(&mut self, doc: LocalDoc, freq: u32) {
        if let Some(sum) = self.by_doc.get_mut(doc as usize) {
            *sum += freq;
            return;
        }
        self.pairs.push((doc, freq));
        if self.pairs.len() > (self.num_docs / Self::MANY) as usize {
            self.by_doc.resize(self.num_docs as usize, 0);
            for (doc, freq) in self.pairs.drain(..) {
                self.by_doc[doc as usize] += freq;
            }
        }
    }

    fn into_sorted(mut self) -> Vec<(LocalDoc, u32)> {
        if !self.by_doc.is_empty() {
            return (0..).zip(self.by_doc).filter(|&(_, freq)| freq > 0).collect();
        }
        self.pairs.sort_unstable();
        self.pairs.dedup_by(|later, sum| {
            let same = later.0 == sum.0;
            if same {
                sum.1 += later.1;
            }
            same
        });
        self.pairs
    }
}

/// The postings of one term of a phrase: of one exact term, or of every term with a prefix.
enum TermStream<C> {
    Exact(C),
    Union(UnionCursor),
}

impl<C: PostingCursor> TermStream<C> {
    fn open<'p, P: Part<Cursor<'p> = C> + 'p>(part: &'p P, term: &TermMatch) -> io::Result<Option<Self>> {
        match term {
            TermMatch::Exact(text) => Ok(part.cursor(text, true)?.map(Self::Exact)),
            TermMatch::Prefix(prefix) => {
                let union = UnionCursor::new(part, prefix)?;
                Ok((union.doc() != NO_MORE_DOCS).then_some(Self::Union(union)))
            }
        }
    }

    fn doc(&self) -> LocalDoc {
        match self {
            Self::Exact(cursor) => cursor.doc(),
            Self::Union(union) => union.doc(),
        }
    }

    fn advance(&mut self) -> LocalDoc {
        match self {
            Self::Exact(cursor) => cursor.advance(),
            Self::Union(union) => union.seek_index(union.at + 1),
        }
    }

    fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        if self.doc() >= target {
            return self.doc();
        }
        match self {
            Self::Exact(cursor) => cursor.seek(target),
            Self::Union(union) => union.seek(target),
        }
    }

    fn positions(&mut self, positions: &mut Vec<u32>) {
        match self {
            Self::Exact(cursor) => cursor.positions(positions),
            Self::Union(union) => union.positions(positions),
        }
    }

    fn size_hint(&self) -> u32 {
        match self {
            Self::Exact(cursor) => cursor.doc_freq(),
            Self::Union(union) => union.docs.len() as u32,
        }
    }
}

/// The postings of many terms as one, worked out in memory: (document, position) pairs, sorted.
struct UnionCursor {
    docs: Vec<(LocalDoc, u32)>,
    positions: Vec<u32>,
    at: usize,
}

impl UnionCursor {
    fn new<P: Part>(part: &P, prefix: &str) -> io::Result<Self> {
        let mut pairs: Vec<(LocalDoc, u32)> = Vec::new();
        let mut positions = Vec::new();
        part.for_each_with_prefix(prefix, true, &mut |mut cursor| {
            while cursor.doc() != NO_MORE_DOCS {
                cursor.positions(&mut positions);
                pairs.extend(positions.iter().map(|&position| (cursor.doc(), position)));
                cursor.advance();
            }
        })?;
        pairs.sort_unstable();
        let mut docs: Vec<(LocalDoc, u32)> = Vec::new();
        for (i, &(doc, _)) in pairs.iter().enumerate() {
            if docs.last().is_none_or(|&(last, _)| last != doc) {
                docs.push((doc, i as u32));
            }
        }
        Ok(Self { docs, positions: pairs.into_iter().map(|(_, position)| position).collect(), at: 0 })
    }

    fn doc(&self) -> LocalDoc {
        self.docs.get(self.at).map_or(NO_MORE_DOCS, |&(doc, _)| doc)
    }

    fn seek_index(&mut self, at: usize) -> LocalDoc {
        self.at = at.min(self.docs.len());
        self.doc()
    }

    fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        let step = self.docs[self.at..].partition_point(|&(doc, _)| doc < target);
        self.seek_index(self.at + step)
    }

    fn positions(&self, positions: &mut Vec<u32>) {
        positions.clear();
        let Some(&(_, start)) = self.docs.get(self.at) else { return };
        let end = self.docs.get(self.at + 1).map_or(self.positions.len(), |&(_, next)| next as usize);
        positions.extend_from_slice(&self.positions[start as usize..end]);
    }
}

/// A term of a phrase, and where in it the term stands.
struct PlacedTerm<'q, C> {
    term: &'q TermMatch,
    offsets: Vec<u32>,
    stream: TermStream<C>,
}

/// Live documents in which every term stands at its offsets from one start; the frequency counts the starts, overlaps
/// included (FTS5 §3.2).
fn intersect<P: Part, C: PostingCursor>(part: &P, mut terms: Vec<PlacedTerm<'_, C>>) -> Vec<(LocalDoc, u32)> {
    // The rarest leads; positions are compared shifted by the offset, so the order of terms does not matter.
    terms.sort_by_key(|term| term.stream.size_hint());
    let mut found = Vec::new();
    let (mut starts, mut positions, mut set) = (Vec::new(), Vec::new(), PositionSet::default());
    let Some((lead, rest)) = terms.split_first_mut() else { return found };
    let Some((&lead_offset, lead_again)) = lead.offsets.split_first() else { return found };
    let mut doc = lead.stream.doc();
    'docs: while doc != NO_MORE_DOCS {
        for term in rest.iter_mut() {
            let reached = term.stream.seek(doc);
            if reached == NO_MORE_DOCS {
                break 'docs;
            }
            if reached != doc {
                doc = lead.stream.seek(reached);
                continue 'docs;
            }
        }
        if !part.dead().contains(doc) {
            lead.stream.positions(&mut positions);
            let before_start = positions.iter().take_while(|&&position| position < lead_offset).count();
            starts.clear();
            starts.extend(positions[before_start..].iter().map(|&position| position - lead_offset));
            if !lead_again.is_empty() {
                keep_common(&mut starts, &positions, lead_again, &mut set);
            }
            for term in rest.iter_mut() {
                if starts.is_empty() {
                    break;
                }
                term.stream.positions(&mut positions);
                keep_common(&mut starts, &positions, &term.offsets, &mut set);
            }
            if !starts.is_empty() {
                found.push((doc, starts.len() as u32));
            }
        }
        doc = lead.stream.advance();
    }
    found
}

/// A set of positions, emptied by whoever filled it.
#[derive(Default)]
struct PositionSet(Vec<u64>);

impl PositionSet {
    /// Adds positions, of which the last is the highest.
    fn add(&mut self, positions: &[u32]) {
        let Some(&last) = positions.last() else { return };
        let words = last as usize / 64 + 1;
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
        for &position in positions {
            self.0[position as usize / 64] |= 1 << (position % 64);
        }
    }

    fn contains(&self, position: u32) -> bool {
        self.0.get(position as usize / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    fn remove(&mut self, positions: &[u32]) {
        for &position in positions {
            self.0[position as usize / 64] = 0;
        }
    }
}

/// Up to so many comparisons are made one by one.
const FEW_COMPARISONS: usize = 8;

/// Keeps the starts at which `positions` has start + offset for each offset. `set` is empty, before and after.
fn keep_common(starts: &mut Vec<u32>, positions: &[u32], offsets: &[u32], set: &mut PositionSet) {
    if starts.len() * positions.len() <= FEW_COMPARISONS {
        starts.retain(|&start| offsets.iter().all(|&offset| positions.contains(&start.saturating_add(offset))));
        return;
    }
    // A merge of the two lists would be as long, and wait at every step for the one before.
    set.add(positions);
    let mut kept = 0;
    for read in 0..starts.len() {
        let start = starts[read];
        starts[kept] = start;
        kept += usize::from(offsets.iter().all(|&offset| set.contains(start.saturating_add(offset))));
    }
    starts.truncate(kept);
    set.remove(positions);
}
