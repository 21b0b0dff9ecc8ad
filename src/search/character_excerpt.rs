//! Excerpts measured in characters as people see them, for texts whose tokens are no words.
//!
//! The choice is made as FTS5 makes it: the stretch that holds the most of what was asked for, from the start of a
//! sentence where one is near. Only the measure is another one. Columns of a terminal come close to what a reader takes
//! in at once in any script: a Chinese character says as much as half a word.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use super::excerpt::{ELLIPSIS, Excerpt, ExcerptStyle, Writer};
use super::instances::MatchedText;
use super::phrase_set::PhraseSet;
use crate::analysis::is_unspaced;
use crate::limits::{EXCERPT_COLUMNS, MAX_EXCERPT_UTF16};

impl Excerpt {
    /// The excerpt of a text in at most [`EXCERPT_COLUMNS`] columns and `max_utf16` UTF-16 units; no character as people
    /// see it (grapheme) is cut, unless one alone is too long.
    #[must_use]
    pub fn of_characters(matched: &MatchedText<'_>, phrases: &PhraseSet, max_utf16: Option<usize>) -> Self {
        let max_utf16 = max_utf16.unwrap_or(MAX_EXCERPT_UTF16);
        // Where little room is, all of it is for the text: what is too much is cut off in the end.
        let room_of_marks = if max_utf16 >= 32 { 2 * ELLIPSIS.chars().count() } else { 0 };
        let columns = EXCERPT_COLUMNS.min(max_utf16 - room_of_marks);
        let window = Window { text: matched.text, columns };
        let instances = instance_ranges(matched, phrases);
        let shown = if window.holds_all() { 0..matched.text.len() } else { window.choose(&instances, phrases) };
        let mut excerpt = render(matched.text, shown, &instances);
        excerpt.cut(max_utf16);
        excerpt
    }
}

/// Where a phrase stands, in bytes.
struct InstanceRange {
    range: Range<usize>,
    phrase: u32,
}

/// The instances by their first byte.
fn instance_ranges(matched: &MatchedText<'_>, phrases: &PhraseSet) -> Vec<InstanceRange> {
    let of_instance = |instance: &super::instances::Instance| {
        let phrase = &phrases.distinct()[instance.phrase as usize].phrase;
        let first = instance.offset as usize;
        let spans = matched.spans.get(first..first + phrase.num_positions as usize)?;
        let range = spans.first()?.start as usize..spans.last()?.end as usize;
        Some(InstanceRange { range, phrase: instance.phrase })
    };
    let mut ranges: Vec<InstanceRange> = matched.instances.iter().filter_map(of_instance).collect();
    ranges.sort_by_key(|instance| (instance.range.start, instance.phrase));
    ranges
}

/// Columns a character takes; never fewer than it has UTF-16 units.
fn columns_of(c: char) -> usize {
    if is_unspaced(c) { 2 } else { c.len_utf16() }
}

/// How much of a text there is room for.
struct Window<'t> {
    text: &'t str,
    columns: usize,
}

impl Window<'_> {
    fn holds_all(&self) -> bool {
        let mut columns = 0;
        self.text.chars().all(|c| {
            columns += columns_of(c);
            columns <= self.columns
        })
    }

    /// The bytes to show.
    fn choose(&self, instances: &[InstanceRange], phrases: &PhraseSet) -> Range<usize> {
        let Some(best) = self.best_stretch(instances, phrases) else {
            return 0..self.forward(0, self.columns);
        };
        let first = grapheme_floor(self.text, best.start);
        let whole = grapheme_ceil(self.text, best.end);
        // One grapheme that alone is too long is cut later.
        let last = Some(whole.min(self.forward(first, self.columns))).filter(|&last| last > first).unwrap_or(whole);
        let spare = self.columns.saturating_sub(self.columns_in(first..last));
        let (mut start, at_sentence) = self.back_to_sentence(first, spare / 2);
        let mut end = self.forward(last, spare - self.columns_in(start..first));
        if end == self.text.len() && !at_sentence {
            let left = spare.saturating_sub(self.columns_in(start..first) + self.columns_in(last..end));
            start = self.backward(start, left);
        }
        let is_bad_start = |at| is_inside_word(self.text, at) || self.text[at..].starts_with(char::is_whitespace);
        while 0 < start && start < first && is_bad_start(start) {
            start = self.grapheme_after(start);
        }
        let mut whole_words = end;
        while whole_words > last && is_inside_word(self.text, whole_words) {
            whole_words = self.grapheme_before(whole_words);
        }
        if !is_inside_word(self.text, whole_words) {
            end = whole_words;
        }
        start..end
    }

    /// The stretch from an instance on that holds the most distinct phrases, then the most instances; among equals the
    /// first.
    fn best_stretch(&self, instances: &[InstanceRange], phrases: &PhraseSet) -> Option<Range<usize>> {
        let columns = ColumnsBefore::new(self.text, instances);
        let mut counts = vec![0u64; phrases.distinct().len()];
        let (mut num_phrases, mut num_instances) = (0, 0);
        let mut next = 0;
        let mut best: Option<(u64, Range<usize>)> = None;
        for (at, instance) in instances.iter().enumerate() {
            let start = instance.range.start;
            while let Some(entering) = instances.get(next)
                && (next == at || columns.at(entering.range.end) - columns.at(start) <= self.columns)
            {
                let repeats = u64::from(phrases.distinct()[entering.phrase as usize].repeats);
                let count = &mut counts[entering.phrase as usize];
                num_phrases += if *count == 0 { repeats } else { 0 };
                *count += 1;
                num_instances += repeats;
                next += 1;
            }
            let score = num_phrases * 999 + num_instances;
            if best.as_ref().is_none_or(|(least, _)| score > *least) {
                let end = instances[at..next].iter().map(|inside| inside.range.end).max().unwrap_or(start);
                best = Some((score, start..end));
            }
            let repeats = u64::from(phrases.distinct()[instance.phrase as usize].repeats);
            let count = &mut counts[instance.phrase as usize];
            *count -= 1;
            num_phrases -= if *count == 0 { repeats } else { 0 };
            num_instances -= repeats;
        }
        best.map(|(_, stretch)| stretch)
    }

    fn columns_in(&self, range: Range<usize>) -> usize {
        self.text.get(range).unwrap_or_default().chars().map(columns_of).sum()
    }

    /// As far as `columns` reach from a grapheme's start.
    fn forward(&self, from: usize, columns: usize) -> usize {
        let mut left = columns;
        let mut at = from;
        for grapheme in self.text[from..].graphemes(true) {
            let Some(rest) = left.checked_sub(grapheme.chars().map(columns_of).sum()) else { break };
            left = rest;
            at += grapheme.len();
        }
        at
    }

    /// As far back as `columns` reach from a grapheme's start.
    fn backward(&self, from: usize, columns: usize) -> usize {
        let mut left = columns;
        let mut at = from;
        for grapheme in self.text[..from].graphemes(true).rev() {
            let Some(rest) = left.checked_sub(grapheme.chars().map(columns_of).sum()) else { break };
            left = rest;
            at -= grapheme.len();
        }
        at
    }

    /// The nearest start of a sentence that `columns` reach, and `true`; else as far back as they reach.
    fn back_to_sentence(&self, from: usize, columns: usize) -> (usize, bool) {
        let mut left = columns;
        let mut at = from;
        let mut graphemes = self.text[..from].graphemes(true).rev();
        loop {
            if starts_sentence(self.text, at) {
                return (at, true);
            }
            let Some(grapheme) = graphemes.next() else { return (at, true) };
            let Some(rest) = left.checked_sub(grapheme.chars().map(columns_of).sum()) else { return (at, false) };
            left = rest;
            at -= grapheme.len();
        }
    }

    fn grapheme_after(&self, at: usize) -> usize {
        at + self.text[at..].graphemes(true).next().map_or(0, str::len)
    }

    fn grapheme_before(&self, at: usize) -> usize {
        at - self.text[..at].graphemes(true).next_back().map_or(0, str::len)
    }
}

/// How many columns stand before the starts and ends of instances, from one walk over the text.
struct ColumnsBefore(Vec<(usize, usize)>);

impl ColumnsBefore {
    fn new(text: &str, instances: &[InstanceRange]) -> Self {
        let mut offsets: Vec<usize> = instances.iter().flat_map(|i| [i.range.start, i.range.end]).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let (mut at, mut columns) = (0, 0);
        let known = offsets.into_iter().map(|offset| {
            columns += text.get(at..offset).unwrap_or_default().chars().map(columns_of).sum::<usize>();
            at = offset;
            (offset, columns)
        });
        Self(known.collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.binary_search_by_key(&offset, |&(offset, _)| offset).map_or(0, |found| self.0[found].1)
    }
}

/// Whether a sentence starts at a byte: at the start of a line, after a full stop of a script without spaces, or after
/// another one and white space.
fn starts_sentence(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    if after.starts_with(char::is_whitespace) {
        return false;
    }
    let trimmed = before.trim_end_matches([' ', '\t', '\u{3000}']);
    match trimmed.chars().next_back() {
        None | Some('\n' | '。' | '！' | '？' | '．' | '។' | '။') => true,
        Some('.' | '!' | '?' | ':') => trimmed.len() < before.len(),
        Some(_) => false,
    }
}

/// Whether a cut at a byte would part a word of a script with spaces.
fn is_inside_word(text: &str, at: usize) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() && !is_unspaced(c);
    let (before, after) = text.split_at(at);
    before.chars().next_back().is_some_and(is_of_word) && after.chars().next().is_some_and(is_of_word)
}

/// The start of the grapheme that holds a byte.
fn grapheme_floor(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        _ => at,
    }
}

/// The end of the grapheme that holds the byte before `at`.
fn grapheme_ceil(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
        _ => at,
    }
}

fn render(text: &str, shown: Range<usize>, instances: &[InstanceRange]) -> Excerpt {
    let mut writer = Writer::new(text, shown.start, ExcerptStyle::Readable);
    let mut mark = |range: Range<usize>| {
        writer.copy_to(range.start);
        writer.copy_match_to(range.end);
    };
    let mut joined: Option<Range<usize>> = None;
    for InstanceRange { range, .. } in
        instances.iter().filter(|i| i.range.start < shown.end && i.range.end > shown.start)
    {
        let start = grapheme_floor(text, range.start).max(shown.start);
        let end = grapheme_ceil(text, range.end).min(shown.end);
        match &mut joined {
            _ if end <= start => {}
            Some(before) if start < before.end => before.end = before.end.max(end),
            _ => joined.replace(start..end).into_iter().for_each(&mut mark),
        }
    }
    joined.into_iter().for_each(&mut mark);
    writer.copy_to(shown.end);
    writer.finish(shown.end < text.len())
}
