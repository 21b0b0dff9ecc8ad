//! A text in Unicode's compatibility composition (NFKC), and where each of its bytes came from.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// A text in NFKC.
pub(super) struct Nfkc<'t> {
    text: Cow<'t, str>,
    edits: Vec<Edit>,
}

/// A stretch that normalisation changed.
struct Edit {
    /// Its bytes now.
    normal: Range<usize>,
    /// Its bytes before.
    original: Range<usize>,
}

impl<'t> Nfkc<'t> {
    /// Normalises `text`.
    ///
    /// It is taken apart where normalisation of one part can't reach into the next, so that every part knows its own
    /// origin.
    pub(super) fn new(text: &'t str) -> Self {
        let mut normal = String::new();
        let mut edits = Vec::new();
        // What stands before `copied` is in `normal`.
        let mut copied = 0;
        let mut parts = Parts { text, at: 0 };
        while let Some(Part { range, is_normal }) = parts.next_part() {
            if is_normal {
                continue;
            }
            let part = &text[range.clone()];
            if part.chars().eq(part.nfkc()) {
                continue;
            }
            normal.push_str(&text[copied..range.start]);
            let start = normal.len();
            normal.extend(part.nfkc());
            copied = range.end;
            edits.push(Edit { normal: start..normal.len(), original: range });
        }
        if edits.is_empty() {
            return Self { text: Cow::Borrowed(text), edits };
        }
        normal.push_str(&text[copied..]);
        Self { text: Cow::Owned(normal), edits }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of the original that became `range` (not empty): all of every part it touches.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        if self.edits.is_empty() {
            return range;
        }
        self.original_start(range.start)..self.original_end(range.end)
    }

    fn original_start(&self, at: usize) -> usize {
        let next = self.edits.partition_point(|edit| edit.normal.end <= at);
        match self.edits.get(next) {
            Some(edit) if edit.normal.start <= at => edit.original.start,
            _ => self.unchanged(next, at),
        }
    }

    fn original_end(&self, at: usize) -> usize {
        let next = self.edits.partition_point(|edit| edit.normal.end < at);
        match self.edits.get(next) {
            Some(edit) if edit.normal.start < at => edit.original.end,
            _ => self.unchanged(next, at),
        }
    }

    /// The origin of a byte that lies between two edits, before the edit number `next`.
    fn unchanged(&self, next: usize, at: usize) -> usize {
        match next.checked_sub(1).and_then(|last| self.edits.get(last)) {
            Some(edit) => at - edit.normal.end + edit.original.end,
            None => at,
        }
    }
}

/// A part of a text that is normalised by itself.
struct Part {
    range: Range<usize>,
    /// Known to be normal without a closer look.
    is_normal: bool,
}

struct Parts<'t> {
    text: &'t str,
    at: usize,
}

impl Parts<'_> {
    fn next_part(&mut self) -> Option<Part> {
        let start = self.at;
        let mut rest = self.text[start..].char_indices();
        let mut is_normal = is_always_normal(rest.next()?.1);
        for (at, c) in rest {
            if is_always_normal(c) {
                // A long stretch of such characters is one part, until something may join its last one.
                if is_normal {
                    continue;
                }
                return Some(self.part(start + at, is_normal));
            }
            if starts_part(c) {
                return Some(self.part(start + at, is_normal));
            }
            if is_normal {
                // It may join the character before, and only that one.
                let before = self.text[start..start + at].char_indices().next_back().map_or(0, |(at, _)| at);
                if before > 0 {
                    return Some(self.part(start + before, true));
                }
                is_normal = false;
            }
        }
        Some(self.part(self.text.len(), is_normal))
    }

    fn part(&mut self, end: usize, is_normal: bool) -> Part {
        let range = self.at..end;
        self.at = end;
        Part { range, is_normal }
    }
}

/// Whether this is one of the many characters that NFKC leaves alone and that join none before them. `false` says
/// nothing.
fn is_always_normal(c: char) -> bool {
    matches!(c, ..'\u{A0}' | '\u{430}'..='\u{44F}' | '\u{E01}'..='\u{E30}' | '\u{3041}'..='\u{3096}'
        | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

/// Whether nothing before this character has a say in what becomes of it, nor it in what becomes of that.
fn starts_part(c: char) -> bool {
    let mut first = None;
    decompose_compatible(c, |decomposed| {
        first.get_or_insert(decomposed);
    });
    let first = first.unwrap_or(c);
    canonical_combining_class(first) == 0 && is_nfkc_quick(std::iter::once(first)) != IsNormalized::Maybe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        let normal = Nfkc::new(text);
        assert_eq!(normal.text(), text.nfkc().collect::<String>(), "{text:?}");
        let mut last = 0..0;
        for (at, c) in normal.text().char_indices() {
            let original = normal.original(at..at + c.len_utf8());
            assert!(original.start < original.end, "{text:?}: {c:?} comes from nothing");
            assert!(original.start >= last.start && original.end >= last.end, "{text:?}: {c:?} goes back");
            assert!(original.start <= last.end, "{text:?}: something before {c:?} is lost");
            // What a character came from holds it.
            assert!(text[original.clone()].nfkc().any(|made| made == c), "{text:?}: {c:?} from {original:?}");
            last = original;
        }
        assert_eq!(last.end, text.len(), "{text:?}");
    }

    #[test]
    fn every_character_beside_others_is_normalised_and_knows_its_origin() {
        // Nothing is assigned in the planes left out.
        for c in ('\0'..'\u{32000}').chain('\u{E0000}'..'\u{E0200}') {
            // The last contexts may join: a letter with marks in the wrong order, Hangul, kana.
            check(&format!("a{c}e\u{301}{c}\u{323}{c}"));
            check(&format!("\u{1112}{c}\u{1161}{c}가{c}か{c}\u{3099}x"));
        }
    }

    #[test]
    fn a_character_that_becomes_several_lends_them_its_bytes() {
        let normal = Nfkc::new("a㍿ﬁ が");
        assert_eq!(normal.text(), "a株式会社fi が");
        assert_eq!(normal.original(1..4), 1..4);
        assert_eq!(normal.original(4..10), 1..4);
        assert_eq!(normal.original(13..14), 4..7);
        assert_eq!(normal.original(14..15), 4..7);
        assert_eq!(normal.original(15..16), 7..8);
        assert_eq!(normal.original(16..19), 8..11);
    }

    proptest! {
        #[test]
        fn any_text_is_normalised(text in "\\PC{0,24}") {
            check(&text);
        }

        #[test]
        fn texts_that_join_are_normalised(
            text in "[aeo\u{300}-\u{330}\u{1100}-\u{11C2}\u{3131}-\u{318E}가-힣か-ゴ\u{3099}\u{309A}\u{FF66}-\u{FFDC}\u{E33}\u{E38}\u{E48}①-⑳]{0,16}"
        ) {
            check(&text);
        }
    }
}
