//! Where the phrases of a query stand in a text.

use std::collections::{BTreeSet, HashMap};

use super::phrase_set::PhraseSet;
use crate::analysis::{Analyzer, Phrase, TermMatch, Token};

/// The bytes of one token of a text. Texts are far below 4 GiB ([`MAX_EVENT_BYTES`](crate::limits::MAX_EVENT_BYTES)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenSpan {
    /// Its first byte.
    pub start: u32,
    /// The byte after it.
    pub end: u32,
}

/// One occurrence of a phrase. Occurrences may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// The position of its first token.
    pub offset: u32,
    /// Which of [`PhraseSet::distinct`] it is.
    pub phrase: u32,
}

/// A text's tokens and the instances among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedText<'t> {
    /// The text.
    pub text: &'t str,
    /// Its tokens; the one at position *k* is the *k*-th.
    pub spans: Vec<TokenSpan>,
    /// All instances of all phrases, sorted by offset, then phrase.
    pub instances: Vec<Instance>,
}

/// Finds the phrases of one query in texts.
#[derive(Debug)]
pub struct PhraseFinder<'p> {
    phrases: &'p PhraseSet,
    /// For each distinct phrase, its terms' numbers.
    terms: Vec<Vec<usize>>,
    exact: HashMap<&'p str, usize>,
    prefixes: HashMap<&'p str, usize>,
    prefix_lens: BTreeSet<usize>,
    /// For each first byte, the token lengths that could match as bits; bit 63 stands for all above too. Spares nearly
    /// every token the look-up.
    lens_by_first_byte: [u64; 256],
}

impl<'p> PhraseFinder<'p> {
    /// Prepares the search for `phrases`.
    #[must_use]
    pub fn new(phrases: &'p PhraseSet) -> Self {
        let mut finder = Self {
            phrases,
            terms: Vec::new(),
            exact: HashMap::new(),
            prefixes: HashMap::new(),
            prefix_lens: BTreeSet::new(),
            lens_by_first_byte: [0; 256],
        };
        for distinct in phrases.distinct() {
            let terms = distinct.phrase.terms.iter().map(|t| finder.add_term(&t.term)).collect();
            finder.terms.push(terms);
        }
        finder
    }

    fn add_term(&mut self, term: &'p TermMatch) -> usize {
        let next = self.exact.len() + self.prefixes.len();
        let (TermMatch::Exact(text) | TermMatch::Prefix(text)) = term;
        let len = len_bit(text.len());
        let (numbers, lens) = match term {
            TermMatch::Exact(_) => (&mut self.exact, len),
            TermMatch::Prefix(_) => {
                self.prefix_lens.insert(text.len());
                (&mut self.prefixes, !(len - 1))
            }
        };
        match text.bytes().next() {
            Some(first) => self.lens_by_first_byte[first as usize] |= lens,
            None => self.lens_by_first_byte.iter_mut().for_each(|all| *all |= lens),
        }
        *numbers.entry(text).or_insert(next)
    }

    /// Tokenizes `text` and finds every instance in it.
    #[must_use]
    pub fn find<'t>(&self, analyzer: &dyn Analyzer, text: &'t str) -> MatchedText<'t> {
        let mut spans = Vec::new();
        let mut positions = vec![Vec::new(); self.exact.len() + self.prefixes.len()];
        analyzer.tokenize(text, &mut |token| {
            if let (Ok(start), Ok(end)) = (u32::try_from(token.start), u32::try_from(token.end)) {
                self.note_terms(token, spans.len() as u32, &mut positions);
                spans.push(TokenSpan { start, end });
            }
        });
        let mut instances = Vec::new();
        for (number, distinct) in self.phrases.distinct().iter().enumerate() {
            let starts = starts(&distinct.phrase, self.terms[number].iter().map(|&term| positions[term].as_slice()));
            instances.extend(starts.into_iter().map(|offset| Instance { offset, phrase: number as u32 }));
        }
        instances.sort_unstable();
        MatchedText { text, spans, instances }
    }

    /// Adds `position` to the terms that accept the token there.
    fn note_terms(&self, token: Token<'_>, position: u32, positions: &mut [Vec<u32>]) {
        let Some(&first) = token.text.as_bytes().first() else { return };
        if self.lens_by_first_byte[first as usize] & len_bit(token.text.len()) == 0 {
            return;
        }
        if let Some(&term) = self.exact.get(token.text) {
            positions[term].push(position);
        }
        for &len in &self.prefix_lens {
            if let Some(&term) = token.text.get(..len).and_then(|start| self.prefixes.get(start)) {
                positions[term].push(position);
            }
        }
    }
}

fn len_bit(len: usize) -> u64 {
    1 << len.min(63)
}

/// The offsets, ascending, at which all terms of `phrase` stand, given the positions of each.
fn starts<'a>(phrase: &Phrase, positions: impl Iterator<Item = &'a [u32]>) -> Vec<u32> {
    let mut terms: Vec<(u32, &[u32])> = phrase.terms.iter().map(|term| term.offset).zip(positions).collect();
    // The rarest first: it bounds what the others have to be asked for.
    terms.sort_by_key(|(_, positions)| positions.len());
    let Some(((offset, rarest), others)) = terms.split_first() else { return Vec::new() };
    let mut starts: Vec<u32> = rarest.iter().filter_map(|position| position.checked_sub(*offset)).collect();
    for &(offset, mut positions) in others {
        starts.retain(|start| {
            positions = skip_to(positions, start + offset);
            positions.first() == Some(&(start + offset))
        });
    }
    starts
}

/// What is left of ascending `positions` from `wanted` on, by steps that double: near ones are found at once, far ones
/// in logarithmic time.
fn skip_to(positions: &[u32], wanted: u32) -> &[u32] {
    let mut end = 1;
    while positions.get(end - 1).is_some_and(|&position| position < wanted) {
        end *= 2;
    }
    let start = end / 2;
    let end = end.min(positions.len());
    &positions[start + positions[start..end].partition_point(|&position| position < wanted)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::UnicodeWord;

    fn instances(text: &str, pieces: &[&str], prefix: bool) -> Vec<(u32, u32)> {
        let last = pieces.len() - 1;
        let phrases: Vec<Phrase> =
            pieces.iter().enumerate().map(|(i, piece)| UnicodeWord.phrase(piece, prefix && i == last)).collect();
        let set = PhraseSet::new(&phrases);
        let matched = PhraseFinder::new(&set).find(&UnicodeWord, text);
        matched.instances.iter().map(|instance| (instance.offset, instance.phrase)).collect()
    }

    #[test]
    fn overlapping_instances_all_count() {
        assert_eq!(instances("a a a b", &["a-a", "b"], false), [(0, 0), (1, 0), (3, 1)]);
    }

    #[test]
    fn instances_are_sorted_by_offset_then_phrase() {
        assert_eq!(
            instances("x a b. A b", &["b", "a-b", "a"], false),
            [(1, 1), (1, 2), (2, 0), (3, 1), (3, 2), (4, 0)]
        );
    }

    #[test]
    fn a_prefix_takes_every_longer_word_and_the_word_itself() {
        assert_eq!(instances("car cart ca art scar CARS", &["car"], true), [(0, 0), (1, 0), (5, 0)]);
        assert_eq!(instances("red car, red art, red carts", &["red-car"], true), [(0, 0), (4, 0)]);
        assert_eq!(instances("été eté ét e", &["ét"], true), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(instances("дом домик до", &["дом"], true), [(0, 0), (1, 0)]);
        let long = "x".repeat(70);
        assert_eq!(instances(&format!("{long} {long}y x"), &[&long], true), [(0, 0), (1, 0)]);
        assert_eq!(instances(&format!("{long} {long}y x"), &[&long], false), [(0, 0)]);
    }

    #[test]
    fn an_exact_word_and_the_same_prefix_stand_side_by_side() {
        assert_eq!(instances("foo foot", &["foo", "foo"], true), [(0, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn skipping_finds_the_first_position_that_is_not_before() {
        let positions: Vec<u32> = (0..50).map(|n| n * 3).collect();
        for wanted in 0..160 {
            let expected = positions.iter().position(|&p| p >= wanted).unwrap_or(positions.len());
            assert_eq!(skip_to(&positions, wanted), &positions[expected..]);
        }
        assert_eq!(skip_to(&[], 1), &[0; 0]);
    }
}
