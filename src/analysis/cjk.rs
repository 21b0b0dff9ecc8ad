//! Words, and every character of scripts without spaces: any part of a run of Chinese, Japanese, Korean or Thai is found.

use std::ops::Range;

use super::nfkc::Nfkc;
use super::scripts::{Class, class, has_break_hints};
use super::unicode_table::{Action, action};
use super::{Analyzer, ExcerptUnit, Phrase, PhraseTerm, TermMatch, Token, UnicodeWord};

/// Words as [`UnicodeWord`] cuts them, and every character of scripts that are written without spaces.
///
/// The text is brought into NFKC, so that full-width letters, half-width kana and decomposed letters meet the ordinary
/// ones. Then a *run* of characters of Han, Kana, Hangul, Thai and other scripts without spaces has a position for each
/// of its characters; the token there is that character with the two after it, or what is left of the run. Everything
/// else is words, one position each; the border of a run is a border of words.
///
/// A query piece matches where its words stand whole and its runs as they are, one after the other; of the first and
/// the last run it needs only the part that the piece holds. So three and more characters of a run are a phrase of
/// such tokens, one or two are the beginnings of them.
///
/// Emoji are beside that: they separate words or belong to them as in [`UnicodeWord`], and a piece of nothing but
/// emoji is looked for among the text's emoji, which have positions after all others.
///
/// ```
/// use sessions_search::{Analyzer, Cjk};
/// let mut tokens = Vec::new();
/// Cjk.tokenize("请检查apiKey。", &mut |token| tokens.push(token.text.to_owned()));
/// assert_eq!(tokens, ["请检查", "检查", "查", "apikey"]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Cjk;

/// Characters in a token of a run that does not end before.
const GRAM: usize = 3;

impl Analyzer for Cjk {
    fn name(&self) -> &'static str {
        "cjk"
    }

    fn version(&self) -> u32 {
        1
    }

    fn tokenize(&self, text: &str, sink: &mut dyn FnMut(Token<'_>)) {
        if text.is_ascii() {
            return UnicodeWord.tokenize(text, sink);
        }
        let normal = Nfkc::new(text);
        let mut give = |text: &str, range: Range<usize>| {
            let Range { start, end } = normal.original(range);
            sink(Token { text, start, end });
        };
        let mut units = Units::new(normal.text(), Class::Unspaced);
        while let Some(unit) = units.next_unit() {
            match unit {
                Unit::Words(range) => UnicodeWord.tokenize(&normal.text()[range.clone()], &mut |token| {
                    give(token.text, range.start + token.start..range.start + token.end);
                }),
                Unit::Run => units.run.for_each_gram(&mut give),
            }
        }
        if units.has_emoji {
            let mut units = Units::new(normal.text(), Class::Emoji);
            while let Some(unit) = units.next_unit() {
                if matches!(unit, Unit::Run) {
                    units.run.for_each_gram(&mut give);
                }
            }
        }
    }

    fn phrase(&self, piece: &str, prefix: bool) -> Phrase {
        let normal = Nfkc::new(piece);
        let mut parts = Vec::new();
        let mut units = Units::new(normal.text(), Class::Unspaced);
        while let Some(unit) = units.next_unit() {
            match unit {
                Unit::Words(range) => UnicodeWord
                    .tokenize(&normal.text()[range], &mut |token| parts.push(PiecePart::Word(token.text.to_owned()))),
                Unit::Run => parts.push(PiecePart::Run(units.run.clone())),
            }
        }
        if units.has_emoji && !normal.text().chars().any(is_word_of_more_than_emoji) {
            parts.clear();
            let mut units = Units::new(normal.text(), Class::Emoji);
            while let Some(unit) = units.next_unit() {
                if matches!(unit, Unit::Run) {
                    parts.push(PiecePart::Run(units.run.clone()));
                }
            }
        }
        let mut phrase = Phrase::default();
        let mut parts = parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            let next = parts.peek();
            match part {
                PiecePart::Word(word) if prefix && next.is_none() => push(&mut phrase, 0, TermMatch::Prefix(word)),
                PiecePart::Word(word) => push(&mut phrase, 0, TermMatch::Exact(word)),
                PiecePart::Run(run) => push_run(&mut phrase, &run, next),
            }
        }
        phrase
    }

    fn excerpt_unit(&self) -> ExcerptUnit {
        ExcerptUnit::Characters
    }
}

/// A part of a query piece.
enum PiecePart {
    Word(String),
    Run(Run),
}

/// Adds a term that stands `offset` positions after what the phrase covers so far, and covers it.
fn push(phrase: &mut Phrase, offset: u32, term: TermMatch) {
    phrase.terms.push(PhraseTerm { offset: phrase.num_positions + offset, term });
    phrase.num_positions += offset + 1;
}

/// Adds a run of which the text's run may begin before, where it is the first of the piece, and go on after, where it
/// is the last. That is how positions work out: they say by themselves where a run begins, for the position before it
/// is the end of something else.
fn push_run(phrase: &mut Phrase, run: &Run, next: Option<&PiecePart>) {
    let num_chars = run.chars.len();
    if num_chars < GRAM {
        // The token at a run's last characters is no longer than what is left of it.
        let term = if next.is_some() { TermMatch::Exact } else { TermMatch::Prefix };
        push(phrase, 0, term(run.kept.clone()));
        phrase.num_positions += num_chars as u32 - 1;
        return;
    }
    let first_position = phrase.num_positions;
    let last_gram = num_chars - GRAM;
    // Every other token says all there is to say: neighbours must share a character, or they could be of two runs.
    for at in (0..last_gram).step_by(GRAM - 1).chain([last_gram]) {
        let term = TermMatch::Exact(run.gram(at).to_owned());
        phrase.terms.push(PhraseTerm { offset: first_position + at as u32, term });
    }
    if let Some(PiecePart::Run(_)) = next {
        // A word could not stand where the run goes on; another run could only seem to begin there.
        let at = num_chars - 2;
        let term = TermMatch::Exact(run.gram(at).to_owned());
        phrase.terms.push(PhraseTerm { offset: first_position + at as u32, term });
    }
    phrase.num_positions = first_position + num_chars as u32;
}

/// Whether a piece with this character is about something else than emoji.
fn is_word_of_more_than_emoji(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    match class(c) {
        Class::Unspaced => true,
        Class::Other => matches!(action(c), Action::Keep | Action::Replace(_)),
        Class::Emoji | Class::Selector | Class::Joiner => false,
    }
}

/// What a text is made of, one after the other.
enum Unit {
    /// Words and what separates them.
    Words(Range<usize>),
    /// A run, which is then in [`Units::run`].
    Run,
}

/// Takes a normalised text apart into runs of one class of characters, and words.
struct Units<'t> {
    text: &'t str,
    at: usize,
    of: Class,
    /// The run that was found last; kept to spare its allocations.
    run: Run,
    has_emoji: bool,
}

impl<'t> Units<'t> {
    fn new(text: &'t str, of: Class) -> Self {
        Self { text, at: 0, of, run: Run::default(), has_emoji: false }
    }

    fn next_unit(&mut self) -> Option<Unit> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if byte.is_ascii() {
                self.at += 1;
                continue;
            }
            let c = self.text[self.at..].chars().next()?;
            let class = class(c);
            if class == self.of {
                if self.at > start {
                    return Some(Unit::Words(start..self.at));
                }
                self.read_run();
                return Some(Unit::Run);
            }
            self.has_emoji |= class == Class::Emoji;
            self.at += c.len_utf8();
        }
        (self.at > start).then_some(Unit::Words(start..self.at))
    }

    /// Reads the run that starts here.
    fn read_run(&mut self) {
        self.run.clear();
        let mut last = '\0';
        for (at, c) in self.text[self.at..].char_indices() {
            let range = self.at + at..self.at + at + c.len_utf8();
            if c.is_ascii() {
                return self.at = range.start;
            }
            match class(c) {
                class if class == self.of => {
                    self.run.push(c, range);
                    last = c;
                }
                Class::Selector => self.run.extend_last(range.end),
                Class::Joiner if self.of == Class::Emoji || has_break_hints(last) => {}
                // As inside a word: the mark is dropped, and what it stands in goes on.
                Class::Other if action(c) == Action::Drop => self.run.extend_last(range.end),
                _ => return self.at = range.start,
            }
        }
        self.at = self.text.len();
    }
}

/// Characters in a row of one class.
#[derive(Debug, Clone, Default)]
struct Run {
    /// The characters that count.
    kept: String,
    chars: Vec<RunChar>,
}

#[derive(Debug, Clone)]
struct RunChar {
    /// The byte after it in [`Run::kept`].
    end: usize,
    /// Its bytes in the text, and what belongs to it.
    range: Range<usize>,
}

impl Run {
    fn clear(&mut self) {
        self.kept.clear();
        self.chars.clear();
    }

    fn push(&mut self, c: char, range: Range<usize>) {
        self.kept.push(c);
        self.chars.push(RunChar { end: self.kept.len(), range });
    }

    fn extend_last(&mut self, end: usize) {
        if let Some(last) = self.chars.last_mut() {
            last.range.end = end;
        }
    }

    /// The token at character `at`.
    fn gram(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.chars[before].end);
        let end = self.chars[(at + GRAM).min(self.chars.len()) - 1].end;
        &self.kept[start..end]
    }

    /// Gives the token at each character, and that character's bytes.
    fn for_each_gram(&self, give: &mut impl FnMut(&str, Range<usize>)) {
        for (at, c) in self.chars.iter().enumerate() {
            give(self.gram(at), c.range.clone());
        }
    }
}
