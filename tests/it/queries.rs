//! Queries as people and agents type them, made from the texts they are to find.

use sessions_search::__internal::{is_js_space, query};

use crate::random::Random;

/// Makes legal queries (not blank, not too long): one to four words from the texts, sometimes many or very long ones.
pub(crate) struct QueryGenerator<'t> {
    random: Random,
    /// For each text that has any, its words.
    texts: Vec<Vec<&'t str>>,
}

const SPACES: &[&str] = &[" ", " ", " ", "  ", "\t", "\n", "\u{a0}", "\u{3000}", "\u{feff}", "\u{2028}"];
const JOINTS: &[&str] = &["-", "-", "_", ".", "/", ":", "'", "’", "\u{200b}", "\u{85}", "🎉", "、", "·", "\u{0}"];
const AROUND: &[&str] = &["\"", "'", "(", ")", "*", "^", "+", "…", ",", "!", "?", "。", "`", "{", "}", "\\", "%", ":"];
const ALONE: &[&str] = &[
    "AND",
    "OR",
    "NOT",
    "NEAR",
    "NEAR(a b)",
    "text:a",
    "\"",
    "\"\"",
    "-",
    "*",
    "🎉",
    "🤖",
    "👍🏽",
    "検索",
    "日本語",
    "한국어",
    "ที่",
    "हिन्दी",
    "\u{301}",
    "ß",
    "ﬁ",
    "İstanbul",
    "ΣΊΣΥΦΟΣ",
    "don't",
    "C++",
    "1e6",
    "a.b.c",
];

impl<'t> QueryGenerator<'t> {
    /// Draws words from `texts`; equal seeds give equal queries.
    pub(crate) fn new(seed: u64, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let words = |text: &'t str| text.split(is_js_space).filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let texts = texts.into_iter().map(words).filter(|words| !words.is_empty()).collect();
        Self { random: Random::new(seed), texts }
    }

    /// The next query.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let query = self.candidate();
            if query::split(&query).is_ok() {
                return query;
            }
        }
    }

    fn candidate(&mut self) -> String {
        let num_pieces = if self.random.below(40) == 0 { 5 + self.random.below(60) } else { 1 + self.random.below(4) };
        let near = self.random.below(self.texts.len().max(1));
        let mut pieces: Vec<String> = Vec::new();
        for _ in 0..num_pieces {
            // Mostly words of one text, so that there are hits; sometimes of another, so that there are none.
            let from = if self.random.below(8) == 0 { self.random.below(self.texts.len().max(1)) } else { near };
            let piece = match self.random.below(24) {
                0 if !pieces.is_empty() => pieces[self.random.below(pieces.len())].clone(),
                1 => self.random.pick(ALONE).to_owned(),
                2..7 => self.phrase(from),
                _ => self.word(from),
            };
            let piece = self.disguise(piece);
            pieces.push(piece);
        }
        if self.random.below(60) == 0 {
            pieces.push("long".repeat(100 + self.random.below(900)));
        }
        let mut query = String::new();
        for piece in pieces {
            query.push_str(&piece);
            query.push_str(self.random.pick(SPACES));
        }
        query
    }

    fn word(&mut self, text: usize) -> String {
        self.texts.get(text).map_or("word", |words| self.random.pick(words)).to_owned()
    }

    /// Words that stand side by side, joined as one piece.
    fn phrase(&mut self, text: usize) -> String {
        let Some(words) = self.texts.get(text) else { return "two-words".to_owned() };
        let first = self.random.below(words.len());
        let len = if self.random.below(30) == 0 { 30 } else { 2 + self.random.below(2) };
        words[first..words.len().min(first + len)].join(self.random.pick(JOINTS))
    }

    /// Other spellings, most of which match the same.
    fn disguise(&mut self, piece: String) -> String {
        match self.random.below(12) {
            0 => piece.to_uppercase(),
            1 => piece.to_lowercase(),
            2 => piece.replace('e', "é").replace('a', "Å").replace('o', "ộ"),
            3 => piece.replace('e', "e\u{301}").replace('o', "o\u{332}"),
            4 => format!("\"{piece}\""),
            5 => format!("{}{piece}{}", self.random.pick(AROUND), self.random.pick(AROUND)),
            6 => format!("{piece}🎉"),
            7 => piece.chars().take(1 + self.random.below(4)).collect(),
            _ => piece,
        }
    }
}
