//! The part of a message that shows best why it was found: FTS5's `snippet(…, ' … ', 48)`.

use std::ops::Range;

use super::instances::{Instance, MatchedText, TokenSpan};
use super::phrase_set::PhraseSet;
use crate::limits::EXCERPT_TOKENS;

/// What stands where text is left out.
pub(super) const ELLIPSIS: &str = " … ";

/// What the first instance of a phrase in a window counts; every further one counts 1.
const FIRST_INSTANCE: u64 = 1_000;
/// What a window that starts with a sentence counts more.
const SENTENCE_BONUS: u64 = 100;
/// The same when the sentence is the first of the text.
const FIRST_SENTENCE_BONUS: u64 = 120;

/// How close to SQLite an excerpt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExcerptStyle {
    /// For people: no NUL is shown but the text around it is, and what is visible of a match is marked.
    #[default]
    Readable,
    /// To the byte what `snippet()` gives, which loses text after a NUL and marks no match that began before the window.
    Fts5,
}

/// An excerpt and what it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The text to show.
    pub text: String,
    /// The bytes of `text` that matched: ascending, not overlapping, none empty.
    pub matches: Vec<Range<usize>>,
}

impl Excerpt {
    /// The excerpt of a text, at its full length of [`EXCERPT_TOKENS`] tokens.
    #[must_use]
    pub fn new(matched: &MatchedText<'_>, phrases: &PhraseSet, style: ExcerptStyle) -> Self {
        let window = choose_window(matched, phrases, EXCERPT_TOKENS);
        render(matched, phrases, window, EXCERPT_TOKENS, style)
    }

    /// Cuts the text to its first `max_utf16` UTF-16 units and adds `…`, if it is longer. A character outside the BMP,
    /// a pair of units, is kept whole or left out.
    pub fn cut(&mut self, max_utf16: usize) {
        // No character has more UTF-16 units than UTF-8 bytes.
        if self.text.len() <= max_utf16 {
            return;
        }
        let mut num_units = 0;
        let past_limit = self.text.char_indices().find(|(_, c)| {
            num_units += c.len_utf16();
            num_units > max_utf16
        });
        let Some((end, _)) = past_limit else { return };
        self.text.truncate(end);
        self.text.push('…');
        self.matches.retain_mut(|range| {
            range.end = range.end.min(end);
            range.start < range.end
        });
    }
}

/// The tokens to show, at most `num_tokens`: those that hold the most distinct phrases, then the start of a sentence,
/// then the most instances; among equals the first (fts5-semantics §6).
///
/// SQLite scores every candidate afresh, quadratic in the number of instances. Both kinds of candidates only ever move
/// forward, so two windows that slide give the same in linear time.
#[must_use]
pub fn choose_window(matched: &MatchedText<'_>, phrases: &PhraseSet, num_tokens: usize) -> Range<usize> {
    let MatchedText { text, spans, instances } = matched;
    if spans.len() <= num_tokens {
        return 0..spans.len();
    }
    let mut from_instance = SlidingWindow::new(instances, phrases, num_tokens);
    let mut from_sentence = SlidingWindow::new(instances, phrases, num_tokens);
    let (mut best_score, mut best_start) = (0, 0);
    let (mut sentence, mut next_token) = (0, 1);
    for instance in instances {
        let offset = instance.offset as usize;
        from_instance.move_to(offset);
        if from_instance.score() > best_score {
            best_score = from_instance.score();
            best_start = from_instance.centred_start(spans.len());
        }
        while let Some(span) = spans.get(next_token).filter(|_| next_token <= offset) {
            if starts_sentence(text, *span) {
                sentence = next_token;
            }
            next_token += 1;
        }
        if sentence < offset {
            from_sentence.move_to(sentence);
            let bonus = if sentence == 0 { FIRST_SENTENCE_BONUS } else { SENTENCE_BONUS };
            if from_sentence.score() + bonus > best_score {
                best_score = from_sentence.score() + bonus;
                best_start = sentence;
            }
        }
    }
    best_start..spans.len().min(best_start + num_tokens)
}

/// Whether a token that is not the text's first begins a sentence: white space before it, and `.` or `:` before that.
fn starts_sentence(text: &str, span: TokenSpan) -> bool {
    let before = text.as_bytes().get(..span.start as usize).unwrap_or_default();
    let end = before.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    end.is_some_and(|end| end + 1 < before.len() && matches!(before[end], b'.' | b':'))
}

/// The instances that start in a stretch of tokens which only moves forward.
struct SlidingWindow<'a> {
    instances: &'a [Instance],
    phrases: &'a PhraseSet,
    num_tokens: usize,
    /// Which of `instances` start inside.
    inside: Range<usize>,
    /// How many of them each phrase has.
    counts: Vec<u64>,
    /// How many there are, repeats of phrases counted.
    num_instances: u64,
    /// How many phrases are among them, repeats counted.
    num_phrases: u64,
}

impl<'a> SlidingWindow<'a> {
    fn new(instances: &'a [Instance], phrases: &'a PhraseSet, num_tokens: usize) -> Self {
        let counts = vec![0; phrases.distinct().len()];
        Self { instances, phrases, num_tokens, inside: 0..0, counts, num_instances: 0, num_phrases: 0 }
    }

    /// Moves on, so that the window starts with the token at `start`.
    fn move_to(&mut self, start: usize) {
        while let Some(entering) = self.instances.get(self.inside.end)
            && (entering.offset as usize) < start + self.num_tokens
        {
            let repeats = u64::from(self.phrases.distinct()[entering.phrase as usize].repeats);
            let count = &mut self.counts[entering.phrase as usize];
            if *count == 0 {
                self.num_phrases += repeats;
            }
            *count += 1;
            self.num_instances += repeats;
            self.inside.end += 1;
        }
        while let Some(leaving) = self.instances.get(self.inside.start)
            && (leaving.offset as usize) < start
        {
            let repeats = u64::from(self.phrases.distinct()[leaving.phrase as usize].repeats);
            let count = &mut self.counts[leaving.phrase as usize];
            *count -= 1;
            if *count == 0 {
                self.num_phrases -= repeats;
            }
            self.num_instances -= repeats;
            self.inside.start += 1;
        }
    }

    fn score(&self) -> u64 {
        self.num_phrases * (FIRST_INSTANCE - 1) + self.num_instances
    }

    /// Where to start instead, so that the instances stand in the middle of what is shown.
    fn centred_start(&self, text_tokens: usize) -> usize {
        let Some((first, last)) =
            self.instances[self.inside.clone()].first().zip(self.instances[..self.inside.end].last())
        else {
            return 0;
        };
        let num_tokens = self.num_tokens as i64;
        let first_start = i64::from(first.offset);
        let last_end =
            i64::from(last.offset) + i64::from(self.phrases.distinct()[last.phrase as usize].phrase.num_positions);
        // The division truncates towards zero, also where the instances are longer than the window.
        let centred = first_start - (num_tokens - (last_end - first_start)) / 2;
        centred.min(text_tokens as i64 - num_tokens).max(0) as usize
    }
}

/// The text of the tokens in `window`, which is full when it has `num_tokens`.
#[must_use]
pub fn render(
    matched: &MatchedText<'_>,
    phrases: &PhraseSet,
    window: Range<usize>,
    num_tokens: usize,
    style: ExcerptStyle,
) -> Excerpt {
    let MatchedText { text, spans, instances } = matched;
    let byte_start = |token: usize| spans.get(token).map_or(text.len(), |span| span.start as usize);
    let byte_end = |token_after: usize| match token_after.checked_sub(1).and_then(|token| spans.get(token)) {
        Some(span) => span.end as usize,
        None => 0,
    };
    let mut writer = Writer { excerpt: Excerpt::default(), text, at: 0, style };
    if window.start > 0 {
        writer.excerpt.text.push_str(ELLIPSIS);
        writer.at = byte_start(window.start);
    }
    for range in joined_instances(instances, phrases) {
        let shown = match style {
            ExcerptStyle::Readable => range.start.max(window.start)..range.end.min(window.end),
            ExcerptStyle::Fts5 if range.start < window.start => continue,
            ExcerptStyle::Fts5 => range.start..range.end.min(window.end),
        };
        if !shown.is_empty() {
            writer.copy_to(byte_start(shown.start));
            writer.copy_match_to(byte_end(shown.end));
        }
    }
    if window.len() == num_tokens {
        writer.copy_to(byte_end(window.end));
    }
    if window.end >= spans.len() {
        writer.copy_to(text.len());
    } else {
        writer.excerpt.text.push_str(ELLIPSIS);
    }
    writer.excerpt
}

/// The token ranges the instances cover; those that share a token are one.
fn joined_instances(instances: &[Instance], phrases: &PhraseSet) -> impl Iterator<Item = Range<usize>> {
    let range = |instance: &Instance| {
        let start = instance.offset as usize;
        start..start + phrases.distinct()[instance.phrase as usize].phrase.num_positions as usize
    };
    let mut rest = instances.iter().map(range).peekable();
    std::iter::from_fn(move || {
        let mut joined = rest.next()?;
        while let Some(next) = rest.next_if(|next| next.start < joined.end) {
            joined.end = joined.end.max(next.end);
        }
        Some(joined)
    })
}

/// Copies a text in steps.
pub(super) struct Writer<'t> {
    excerpt: Excerpt,
    text: &'t str,
    /// The byte up to which the text is copied.
    at: usize,
    style: ExcerptStyle,
}

impl<'t> Writer<'t> {
    /// Starts at a byte of the text; where that is not its first, something is left out.
    pub(super) fn new(text: &'t str, start: usize, style: ExcerptStyle) -> Self {
        let left_out = if start > 0 { ELLIPSIS } else { "" };
        Self { excerpt: Excerpt { text: left_out.to_owned(), matches: Vec::new() }, text, at: start, style }
    }

    /// The excerpt, with what says that the text goes on where it does.
    pub(super) fn finish(mut self, goes_on: bool) -> Excerpt {
        if goes_on {
            self.excerpt.text.push_str(ELLIPSIS);
        }
        self.excerpt
    }

    pub(super) fn copy_to(&mut self, end: usize) {
        let step = self.text.get(self.at..end).unwrap_or_default();
        match self.style {
            ExcerptStyle::Readable => step.split('\0').for_each(|part| self.excerpt.text.push_str(part)),
            ExcerptStyle::Fts5 => self.excerpt.text.extend(step.split('\0').next()),
        }
        self.at = self.at.max(end);
    }

    /// The same, and marks what is copied.
    pub(super) fn copy_match_to(&mut self, end: usize) {
        let start = self.excerpt.text.len();
        self.copy_to(end);
        if self.excerpt.text.len() > start {
            self.excerpt.matches.push(start..self.excerpt.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, max_utf16: usize) -> String {
        let mut excerpt = Excerpt { text: text.to_owned(), matches: Vec::new() };
        excerpt.cut(max_utf16);
        excerpt.text
    }

    #[test]
    fn cuts_count_utf16_units_and_keep_pairs_whole() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc…");
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("a🤖b", 4), "a🤖b");
        assert_eq!(cut("a🤖b", 3), "a🤖…");
        assert_eq!(cut("a🤖b", 2), "a…");
        assert_eq!(cut("🤖", 0), "…");
    }

    #[test]
    fn every_cut_is_within_the_limit_and_whole() {
        let text = format!("{}обед 👩\u{200d}👩\u{200d}👧\u{200d}👦 é e\u{301}", "x".repeat(99));
        let units = |text: &str| text.encode_utf16().count();
        for max_utf16 in 0..units(&text) + 2 {
            let cut = cut(&text, max_utf16);
            match cut.strip_suffix('…') {
                Some(kept) => {
                    let next = text[kept.len()..].chars().next().unwrap();
                    assert!(text.starts_with(kept) && units(kept) <= max_utf16);
                    assert!(units(kept) + next.len_utf16() > max_utf16);
                }
                None => assert!(cut == text && units(&text) <= max_utf16),
            }
        }
    }

    #[test]
    fn cuts_clip_the_matches() {
        let mut excerpt = Excerpt { text: "one two six ten".to_owned(), matches: vec![0..3, 4..7, 8..11] };
        excerpt.cut(11);
        assert_eq!(excerpt.matches, [0..3, 4..7, 8..11]);
        excerpt.cut(6);
        assert_eq!(excerpt.matches, [0..3, 4..6]);
        assert_eq!(excerpt.text, "one tw…");
        excerpt.cut(0);
        assert_eq!(excerpt, Excerpt { text: "…".to_owned(), matches: Vec::new() });
    }

    #[test]
    fn sentences_start_after_a_full_stop_or_colon_and_white_space() {
        let starts = |before: &str| starts_sentence(before, TokenSpan { start: before.len() as u32, end: 0 });
        for yes in ["a. ", "a: ", ".\n", ": \t\r\n ", "a.b. "] {
            assert!(starts(yes), "{yes:?}");
        }
        for no in ["a.", "a! ", "a? ", "。 ", "a.\u{a0}", "a.\u{b} ", "a.\" ", "a.) ", " ", "", "\n\n"] {
            assert!(!starts(no), "{no:?}");
        }
    }
}
