//! Text of transcripts as a terminal may show it: harmless, set to a width, quoted for a shell.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use sessions_search::Timestamp;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// `1 session`, `2 sessions`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `812 bytes`, `1.4 MiB`.
pub(crate) fn sized(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return counted(bytes, "byte");
    }
    let mut size = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while size >= 1_024.0 && unit + 1 < UNITS.len() {
        size /= 1_024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Time in the local zone, to the minute.
pub(crate) fn local_time(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(instant) if time.is_known() => instant.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        // The last hours of the year 9999 have no local time.
        _ if time.is_known() => time.to_string(),
        _ => "unknown time    ".to_owned(),
    }
}

/// Text of a transcript can't move the cursor, set the title or hide what stands beside it.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_control(c) && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// The same, line breaks and tabs shown as spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_control(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// C0, C1, line separators and the marks that reorder text: all of them can change what a terminal shows elsewhere.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A word that a shell reads back unchanged, and that shows nothing but itself.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    // zsh looks for a program behind a leading `=`.
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('=') {
        return text.to_owned();
    }
    if !text.chars().any(is_control) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if is_control(c) => {
                // Three octal digits are the one escape that ends by itself.
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                    let _ = write!(word, "\\{byte:03o}");
                });
            }
            c => word.push(c),
        }
    }
    word + "'"
}

/// `--name value`, also for a value that looks like an option.
pub(crate) fn shell_option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!(" {name}{between}{}", shell_word(value))
}

/// Columns that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// One line, cut at a width.
pub(crate) fn clipped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| text.width() > *width) else { return text.to_owned() };
    let mut left = width.saturating_sub(1);
    let mut clipped: String = text
        .graphemes(true)
        .take_while(|grapheme| {
            let fits = grapheme.width() <= left;
            left = left.saturating_sub(grapheme.width());
            fits
        })
        .collect();
    clipped.push('…');
    clipped
}

/// Part of a line, in a style: the escape that begins it, or nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'t> {
    pub(crate) text: &'t str,
    pub(crate) style: &'t str,
}

/// What ends every style.
pub(crate) const RESET: &str = "\x1b[0m";

/// Sets one line of harmless text below its head: two columns in, broken where words end or beside a wide character.
/// Without a width it stays one line.
pub(crate) fn set_in(to: &mut String, spans: &[Span<'_>], width: Option<usize>) {
    const INDENT: &str = "  ";
    // Nothing is readable in less; a terminal that is narrower breaks it once more.
    let width = width.map(|width| width.saturating_sub(INDENT.len()).max(8));
    let units: Vec<(&str, &str)> =
        spans.iter().flat_map(|span| span.text.graphemes(true).map(|grapheme| (grapheme, span.style))).collect();
    for line in lines(&units, width) {
        to.push_str(if line.is_empty() { "" } else { INDENT });
        let mut style = "";
        for (grapheme, of_this) in line {
            if *of_this != style {
                to.push_str(if style.is_empty() { "" } else { RESET });
                to.push_str(of_this);
                style = of_this;
            }
            match *grapheme {
                "\t" if width.is_some() => to.push_str("    "),
                text => to.push_str(text),
            }
        }
        to.push_str(if style.is_empty() { "" } else { RESET });
        to.push('\n');
    }
}

/// Breaks a line into lines of at most `width` columns; the white space at a break goes.
fn lines<'u, 't>(units: &'u [(&'t str, &'t str)], width: Option<usize>) -> Vec<&'u [(&'t str, &'t str)]> {
    let Some(width) = width else { return vec![units] };
    let mut lines = Vec::new();
    let (mut start, mut columns, mut at) = (0, 0, 0);
    let mut last_break = 0;
    while at < units.len() {
        let grapheme = units[at].0;
        if at > start && breaks_between(units[at - 1].0, grapheme) {
            last_break = at;
        }
        columns += columns_of(grapheme);
        if columns > width && at > start && !is_space(grapheme) {
            let end = if last_break > start { last_break } else { at };
            lines.push(trimmed(&units[start..end]));
            (start, at, columns) = (end, end, 0);
            continue;
        }
        at += 1;
    }
    lines.push(trimmed(&units[start..]));
    lines
}

fn trimmed<'u, 't>(line: &'u [(&'t str, &'t str)]) -> &'u [(&'t str, &'t str)] {
    let end = line.iter().rposition(|(grapheme, _)| !is_space(grapheme)).map_or(0, |last| last + 1);
    &line[..end]
}

fn is_space(grapheme: &str) -> bool {
    // A no-break space is white space, too, and says what it is for.
    grapheme.chars().all(|c| c.is_whitespace() && c != '\u{a0}')
}

fn columns_of(grapheme: &str) -> usize {
    if grapheme == "\t" { 4 } else { grapheme.width() }
}

fn breaks_between(before: &str, after: &str) -> bool {
    if is_space(after) {
        return false;
    }
    let closes = "、。，．：；！？）」』】〉》・ー…”’),.;:!?".contains(after);
    let opens = "（「『【〈《“‘(".contains(before);
    is_space(before) || (before.width() > 1 || after.width() > 1) && !closes && !opens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, width: usize) -> String {
        let mut to = String::new();
        set_in(&mut to, &[Span { text, style: "" }], Some(width));
        to
    }

    #[test]
    fn terminal_escapes_are_made_harmless() {
        assert_eq!(harmless("a\x1b[2Jb\u{202e}c\u{9b}d\te"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\te");
        assert_eq!(harmless("a\u{2028}b"), "a\u{fffd}b");
        assert_eq!(one_line("a\nb\tc"), "a b c");
    }

    #[test]
    fn shell_words_read_back_unchanged() {
        assert_eq!(shell_word("agent:main:main"), "agent:main:main");
        assert_eq!(shell_word("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!((shell_word(""), shell_word("=ls"), shell_word("a=b")), ("''".into(), "'=ls'".into(), "a=b".into()));
        assert_eq!(shell_word("e\x1b[1m'\\"), r"$'e\033[1m\'\\'");
        assert_eq!(shell_word("a\u{202e}1"), r"$'a\342\200\2561'");
        assert_eq!(shell_option("--message-id", "-x"), " --message-id=-x");
        assert_eq!(shell_option("--message-id", "x"), " --message-id x");
    }

    #[test]
    fn sizes_as_people_read_them() {
        let sizes = [0, 1, 1_023, 1_024, 1_500_000, u64::MAX].map(sized);
        assert_eq!(sizes, ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "1.4 MiB", "16777216.0 TiB"]);
    }

    #[test]
    fn lines_break_where_words_end() {
        assert_eq!(set("the otter map is here", 12), "  the otter\n  map is\n  here\n");
        assert_eq!(set("abcdefghijklmnopq", 12), "  abcdefghij\n  klmnopq\n", "a word longer than the line");
        assert_eq!(set("    code", 12), "      code\n", "indentation stays");
        assert_eq!((set("", 12), set("   ", 12)), ("\n".into(), "\n".into()));
        assert_eq!(set("abcdefghij  klm", 12), "  abcdefghij\n  klm\n", "spaces at a break go");
    }

    #[test]
    fn wide_characters_count_twice_and_break_anywhere() {
        assert_eq!(set("昨晚我们修改了登录服务", 12), "  昨晚我们修\n  改了登录服\n  务\n");
        assert_eq!(set("我们修改了。登录", 12), "  我们修改\n  了。登录\n", "no line begins with a full stop");
        assert_eq!(set("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 12), "  👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧\n  👩‍👩‍👧\n", "joined emoji are one character");
        assert_eq!(set("e\u{301}e\u{301}e\u{301}", 12), "  e\u{301}e\u{301}e\u{301}\n");
        assert_eq!(clipped("登录服务器", Some(6)), "登录…");
        assert_eq!((clipped("otter", Some(5)), clipped("otters", Some(5))), ("otter".into(), "otte…".into()));
    }

    #[test]
    fn no_style_reaches_over_the_end_of_a_line() {
        let spans = [Span { text: "the ", style: "" }, Span { text: "otter map", style: "\x1b[1m" }];
        let mut to = String::new();
        set_in(&mut to, &spans, Some(12));
        assert_eq!(to, "  the \x1b[1motter\x1b[0m\n  \x1b[1mmap\x1b[0m\n");
    }
}
