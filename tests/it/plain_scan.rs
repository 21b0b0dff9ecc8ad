//! What the analyzer `cjk` is to find, by a scan too simple to be wrong: normalised texts as lines that must contain a
//! normalised piece. It knows neither selectors nor break hints nor emoji, so texts with those are not for it.

use std::sync::LazyLock;

use regex::Regex;
use sessions_search::{Analyzer as _, UnicodeWord};
use unicode_normalization::UnicodeNormalization as _;

/// Takes texts and pieces apart.
pub(crate) struct PlainScan {
    runs: Regex,
}

impl PlainScan {
    pub(crate) fn new() -> Self {
        let scripts =
            r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}";
        let letters =
            format!(r"[[{scripts}]&&[\p{{L}}\p{{M}}\p{{N}}]]|[ー〱-〵〆〼\u{{3099}}\u{{309A}}\u{{302A}}-\u{{302D}}]");
        Self { runs: Regex::new(&format!("(?:{letters})+")).unwrap() }
    }

    /// The runs (`true`) and words of a text, in order.
    pub(crate) fn units(&self, text: &str) -> Vec<(bool, String)> {
        let text: String = text.nfkc().collect();
        let mut units = Vec::new();
        let words = |text: &str, units: &mut Vec<(bool, String)>| {
            UnicodeWord.tokenize(text, &mut |token| units.push((false, token.text.to_owned())));
        };
        let mut at = 0;
        for run in self.runs.find_iter(&text) {
            words(&text[at..run.start()], &mut units);
            units.push((true, run.as_str().to_owned()));
            at = run.end();
        }
        words(&text[at..], &mut units);
        units
    }

    /// A text as the line that is scanned: NUL on both sides of every unit.
    pub(crate) fn text(&self, text: &str) -> String {
        self.units(text).into_iter().fold("\0".to_owned(), |line, (_, unit)| line + &unit + "\0")
    }

    /// What a line must contain; `None` when the piece has nothing to search.
    pub(crate) fn piece(&self, piece: &str) -> Option<String> {
        let units = self.units(piece);
        let (first, last) = (units.first()?, units.last()?);
        let line = units.iter().map(|(_, unit)| unit.as_str()).collect::<Vec<_>>().join("\0");
        // Runs of the text may begin before and end after; words may not.
        let edge = |unit: &(bool, String)| if unit.0 { "" } else { "\0" };
        Some(format!("{}{line}{}", edge(first), edge(last)))
    }
}

/// Whether the plain scan may miss what `cjk` finds beside words.
pub(crate) fn has_emoji(piece: &str) -> bool {
    static EMOJI: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]").unwrap());
    EMOJI.is_match(piece)
}
