//! Text for a terminal: how wide it is there, and where a line of it is broken.

use std::io;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Narrower than this, breaking lines makes them no easier to read.
const NARROWEST: usize = 20;

/// What a tab takes at most.
const TAB: usize = 8;

/// What stands at no line's begin in Chinese and Japanese.
const CLOSING: &str = "。、，．！？：；）」』】〉》";

/// The columns there are to write in: `$COLUMNS`, else what the terminal on standard output says. `None` where nobody
/// says: then lines are left whole, for the program that reads them.
pub(crate) fn columns() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let of_terminal =
        || terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| usize::from(columns));
    told.or_else(of_terminal).filter(|&columns| columns >= NARROWEST)
}

/// The columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(|cluster| if cluster == "\t" { TAB } else { cluster.width() }).sum()
}

/// The lines of a text that has no line breaks, none wider than `room`, the spaces at their ends left out. Broken after
/// spaces and beside wide characters; where there are neither, anywhere but within a character as people see it.
pub(crate) fn broken(text: &str, room: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let (mut start, mut used, mut break_at, mut after_wide) = (0, 0, 0, false);
    for (at, cluster) in text.grapheme_indices(true) {
        let (taken, is_space) = (width(cluster), cluster == " ");
        if !is_space && (taken > 1 || after_wide) && !CLOSING.contains(cluster) {
            break_at = at;
        }
        while !is_space && used + taken > room && at > start {
            let says_nothing = text[start..break_at.max(start)].trim().is_empty();
            let end = if says_nothing { at } else { break_at };
            lines.push(start..start + text[start..end].trim_end_matches(' ').len());
            (start, used) = (end, width(&text[end..at]));
        }
        used += taken;
        if is_space {
            break_at = at + 1;
        }
        after_wide = taken > 1;
    }
    lines.push(start..start + text[start..].trim_end_matches(' ').len());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, room: usize) -> Vec<&str> {
        broken(text, room).into_iter().map(|line| &text[line]).collect()
    }

    #[test]
    fn lines_break_after_spaces_and_beside_wide_characters() {
        assert_eq!(lines("the otter map is here", 10), ["the otter", "map is", "here"]);
        assert_eq!(lines("", 10), [""]);
        assert_eq!(lines("exactly-10", 10), ["exactly-10"]);
        assert_eq!(lines("昨晚我们修改了登录服务", 10), ["昨晚我们修", "改了登录服", "务"]);
        assert_eq!(lines("检查apiKey配置", 9), ["检查", "apiKey配", "置"]);
    }

    #[test]
    fn a_character_as_people_see_it_stays_whole() {
        assert_eq!(lines("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 4), ["👩‍👩‍👧👩‍👩‍👧", "👩‍👩‍👧"]);
        assert_eq!(lines("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
        assert_eq!(lines("我们改了。好", 8), ["我们改", "了。好"]);
    }

    #[test]
    fn no_line_is_wider_than_its_room_and_nothing_is_lost() {
        let text =
            "    indented  code(with, few) spaces🚀🚀 and 昨晚、我们修改了 a-very-long-word-without-any-space\tx é";
        for room in 8..60 {
            for line in lines(text, room) {
                assert!(width(line) <= room, "{room}: {line:?}");
            }
            let kept = |text: &str| text.replace(' ', "");
            assert_eq!(kept(&lines(text, room).concat()), kept(text), "{room}");
        }
    }
}
