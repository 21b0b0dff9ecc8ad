//! The phrases of a query with repeats folded together.

use std::collections::HashMap;

use crate::analysis::Phrase;

/// The distinct phrases of a query and how often each is asked for.
///
/// A query may ask for one word thousands of times, and every time counts: in the score and in the choice of the
/// excerpt. The work is done once for each distinct phrase.
#[derive(Debug, Clone, Default)]
pub struct PhraseSet {
    distinct: Vec<DistinctPhrase>,
    in_query_order: Vec<usize>,
}

/// A phrase and how often the query asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinctPhrase {
    /// What must stand in the text.
    pub phrase: Phrase,
    /// At least 1.
    pub repeats: u32,
}

impl PhraseSet {
    /// Folds the phrases of a query together.
    #[must_use]
    pub fn new(phrases: &[Phrase]) -> Self {
        let mut number_of: HashMap<&Phrase, usize> = HashMap::new();
        let mut set = Self::default();
        // From the end, for FTS5 sorts the instances at one position by phrase, and the last of them is the one whose
        // length counts: so a repeated phrase must stand where its last repeat does.
        for phrase in phrases.iter().rev() {
            let number = *number_of.entry(phrase).or_insert_with(|| {
                set.distinct.push(DistinctPhrase { phrase: phrase.clone(), repeats: 0 });
                set.distinct.len() - 1
            });
            set.distinct[number].repeats += 1;
            set.in_query_order.push(number);
        }
        set.distinct.reverse();
        set.in_query_order.reverse();
        for number in &mut set.in_query_order {
            *number = set.distinct.len() - 1 - *number;
        }
        set
    }

    /// The distinct phrases, by their last place in the query. [`Instance::phrase`](super::instances::Instance) is a
    /// place in this list.
    #[must_use]
    pub fn distinct(&self) -> &[DistinctPhrase] {
        &self.distinct
    }

    /// For each phrase of the query, in order and with repeats, its place in [`distinct`](Self::distinct).
    #[must_use]
    pub fn in_query_order(&self) -> &[usize] {
        &self.in_query_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analyzer, UnicodeWord};

    #[test]
    fn repeats_are_folded_at_their_last_place() {
        let phrases = ["a", "b", "a", "c-d", "b"].map(|piece| UnicodeWord.phrase(piece, false));
        let set = PhraseSet::new(&phrases);
        let distinct: Vec<_> = set.distinct().iter().map(|d| (&d.phrase, d.repeats)).collect();
        assert_eq!(distinct, [(&phrases[0], 2), (&phrases[3], 1), (&phrases[1], 2)]);
        assert_eq!(set.in_query_order(), [0, 2, 0, 1, 2]);
    }

    #[test]
    fn an_exact_word_and_a_prefix_differ() {
        let phrases = [UnicodeWord.phrase("foo", false), UnicodeWord.phrase("foo", true)];
        assert_eq!(PhraseSet::new(&phrases).in_query_order(), [0, 1]);
        assert_eq!(PhraseSet::new(&[]).distinct(), []);
    }
}
