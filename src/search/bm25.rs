//! FTS5's bm25, to the last bit: IEEE doubles in its order of operations, never fused.

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// What a phrase counts that stands in half of the documents or more.
const LEAST_IDF: f64 = 1e-6;

/// The weight of a phrase that `num_docs_with_phrase` of `num_docs` documents hold.
#[must_use]
pub fn idf(num_docs: u64, num_docs_with_phrase: u64) -> f64 {
    let without = num_docs.saturating_sub(num_docs_with_phrase) as f64;
    let idf = ((without + 0.5) / (num_docs_with_phrase as f64 + 0.5)).ln();
    if idf > 0.0 { idf } else { LEAST_IDF }
}

/// Scores the documents of one view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    average_length: f64,
}

impl Bm25 {
    /// From the number of documents, those without any token included, and of their tokens.
    #[must_use]
    pub fn new(num_docs: u64, num_tokens: u64) -> Self {
        Self { average_length: num_tokens as f64 / num_docs as f64 }
    }

    /// Tokens of an average document.
    #[must_use]
    pub fn average_length(&self) -> f64 {
        self.average_length
    }

    /// What a document's length adds below the fraction bar; the same for all its phrases.
    #[must_use]
    pub fn length_norm(&self, num_tokens: u32) -> f64 {
        K1 * (1.0 - B + B * f64::from(num_tokens) / self.average_length)
    }

    /// A document's score: the sum over the query's phrases, in query order with repeats, each given as its idf and
    /// its number of instances in the document. Positive; FTS5's rank is its negative.
    #[must_use]
    pub fn score(&self, num_tokens: u32, phrases: impl IntoIterator<Item = (f64, u32)>) -> f64 {
        let length_norm = self.length_norm(num_tokens);
        phrases.into_iter().fold(0.0, |score, (idf, frequency)| score + phrase_score(idf, frequency, length_norm))
    }
}

/// What one phrase adds to a document's score.
#[must_use]
pub fn phrase_score(idf: f64, frequency: u32, length_norm: f64) -> f64 {
    idf * saturated(frequency, length_norm)
}

/// What a frequency counts in a document, before the phrase's idf.
#[must_use]
pub fn saturated(frequency: u32, length_norm: f64) -> f64 {
    let frequency = f64::from(frequency);
    (frequency * (K1 + 1.0)) / (frequency + length_norm)
}

/// What no frequency counts more than.
pub const SATURATION: f64 = K1 + 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_phrases_weigh_their_logarithm() {
        assert_eq!(idf(5, 1), (4.5_f64 / 1.5).ln());
        assert_eq!(idf(5, 2), (3.5_f64 / 2.5).ln());
        assert_eq!(idf(1_000_000, 0), 2_000_001_f64.ln());
    }

    #[test]
    fn phrases_in_half_of_the_documents_weigh_next_to_nothing() {
        assert_eq!(idf(4, 2), 1e-6);
        assert_eq!(idf(5, 3), 1e-6);
        // A logarithm that is positive stands, however small.
        assert_eq!(idf(4_000_001, 2_000_000), (2_000_001.5_f64 / 2_000_000.5).ln());
        assert!(idf(4_000_001, 2_000_000) < 1e-6);
        assert_eq!(idf(1, 1), 1e-6);
        // More than all: no statistics can say so, but a damaged index must not give NaN.
        assert_eq!(idf(1, 5), 1e-6);
        assert_eq!(idf(0, 0), 1e-6);
    }

    #[test]
    fn scores_are_sqlites_to_the_last_bit() {
        // SQLite's figures for the documents "a b", "a c c", "b", "d e f g" and "".
        let bm25 = Bm25::new(5, 10);
        let (a, b, c) = (idf(5, 2), idf(5, 2), idf(5, 1));
        assert_eq!(bm25.score(3, [(c, 2)]), 1.3243545397642968);
        assert_eq!(bm25.score(3, [(a, 1), (c, 2)]), 1.603689981487568);
        assert_eq!(bm25.score(2, [(a, 1), (a, 1), (b, 1)]), 1.0094167098636386);
    }
}
