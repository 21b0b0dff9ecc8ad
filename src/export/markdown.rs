//! A conversation as Markdown.
//!
//! What was said keeps its own Markdown. It can't take over what stands around it: headings in it are two levels lower
//! than those between messages, HTML in it is text, and a fence that it leaves open is closed.

use std::io;

use super::text::{self, Piece};
use super::{Heading, Part, Step, Turn};

/// Writes one conversation.
pub struct Writer<W> {
    out: W,
}

impl<W: io::Write> Writer<W> {
    pub(super) fn begin(mut out: W, heading: &Heading<'_>) -> io::Result<Self> {
        let title = heading.label.unwrap_or_else(|| heading.key.as_str());
        writeln!(out, "# {}\n", escaped_line(&text::one_line(title)))?;
        writeln!(out, "- Session key: {}", code(heading.key.as_str()))?;
        writeln!(out, "- Session id: {}", code(heading.id.as_str()))?;
        writeln!(out, "- Last activity: {}", text::time(heading.updated_at))?;
        if heading.is_redacted {
            writeln!(out, "- Credentials are masked")?;
        }
        Ok(Self { out })
    }

    pub(super) fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Turn(turn) => self.turn(turn),
            Step::Summary(summary) => {
                write!(self.out, "\n---\n\n*What was said before, summed up:*\n\n")?;
                self.prose(summary)
            }
            Step::Reset => write!(self.out, "\n---\n\n*The conversation began anew here.*\n"),
        }
    }

    fn turn(&mut self, turn: &Turn) -> io::Result<()> {
        writeln!(self.out, "\n## {} · {}", escaped_line(&text::speaker(turn)), text::time(turn.timestamp))?;
        for part in &turn.parts {
            self.out.write_all(b"\n")?;
            match part {
                Part::Text(said) if text::is_tool_result(turn) => self.code(said, "")?,
                Part::Text(said) => self.prose(said)?,
                Part::Aside { text, .. } => {
                    writeln!(self.out, "*{}*", escaped_line(&text::aside_title(part)))?;
                    if let Some(said) = text.as_deref().filter(|text| !text.trim().is_empty()) {
                        self.out.write_all(b"\n")?;
                        self.code(said, "")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn prose(&mut self, said: &str) -> io::Result<()> {
        let said = text::harmless(said);
        for (at, piece) in text::pieces(&said).into_iter().enumerate() {
            if at > 0 {
                self.out.write_all(b"\n")?;
            }
            match piece {
                Piece::Code { language, text } => self.code(text, language)?,
                Piece::Prose(prose) => {
                    let mut lines = Lines::new();
                    for line in prose.trim_end().lines().skip_while(|line| line.trim().is_empty()) {
                        writeln!(self.out, "{}", lines.line(line))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// In a fence longer than any in it.
    fn code(&mut self, code: &str, language: &str) -> io::Result<()> {
        let code = text::harmless(code);
        let runs = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(runs.max(2) + 1);
        let language: String = language.chars().filter(|c| c.is_alphanumeric() || "+-_#.".contains(*c)).collect();
        let end = if code.is_empty() || code.ends_with('\n') { "" } else { "\n" };
        write!(self.out, "{fence}{language}\n{code}{end}{fence}\n")
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Makes the lines of one text safe to stand below a heading between messages.
struct Lines {
    /// The line before is empty, or there is none.
    after_blank: bool,
    /// Backticks before, in the same paragraph, have no partner in their line: where code ends is not certain any more.
    is_stray: bool,
}

impl Lines {
    fn new() -> Self {
        Self { after_blank: true, is_stray: false }
    }

    fn line(&mut self, line: &str) -> String {
        let after_blank = std::mem::replace(&mut self.after_blank, line.trim().is_empty());
        self.is_stray &= !self.after_blank;
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let marks = body.len() - body.trim_start_matches('#').len();
        if indent <= 3 && (1..=6).contains(&marks) {
            let rest = body.get(marks..).unwrap_or_default();
            if rest.is_empty() || rest.starts_with([' ', '\t']) {
                return format!("{}{}", "#".repeat((marks + 2).min(6)), self.escaped(rest));
            }
        }
        // A line of `=` or `-` makes a heading of the one above it.
        let underline = body.trim_end();
        let is_underline = ["=", "-"].iter().any(|mark| underline.trim_start_matches(mark).is_empty());
        if indent <= 3 && !after_blank && !underline.is_empty() && is_underline {
            return format!("\\{underline}");
        }
        self.escaped(line)
    }

    /// The line with every `<` that is not certainly in code made text.
    fn escaped(&mut self, line: &str) -> String {
        let mut escaped = String::with_capacity(line.len() + 8);
        let (mut rest, was_stray) = (line, self.is_stray);
        while let Some(at) = rest.find(['`', '<', '\\']) {
            let (before, from) = rest.split_at(at);
            escaped.push_str(before);
            let used = match from.as_bytes().first() {
                Some(b'`') => {
                    let run = from.len() - from.trim_start_matches('`').len();
                    let span = code_span(from, run);
                    self.is_stray |= span.is_none();
                    span.filter(|_| !was_stray).unwrap_or(run)
                }
                Some(b'\\') => 1 + from.chars().nth(1).map_or(0, char::len_utf8),
                _ => {
                    escaped.push('\\');
                    1
                }
            };
            let (taken, left) = from.split_at(used.min(from.len()));
            escaped.push_str(taken);
            rest = left;
        }
        escaped.push_str(rest);
        escaped
    }
}

fn escaped_line(line: &str) -> String {
    Lines::new().escaped(line)
}

/// The length of the code that a run of backticks begins, where another of the same length ends it.
fn code_span(from: &str, run: usize) -> Option<usize> {
    let mut at = run;
    while let Some(next) = from.get(at..)?.find('`') {
        let begin = at + next;
        let after = from.get(begin..)?;
        let len = after.len() - after.trim_start_matches('`').len();
        if len == run {
            return Some(begin + len);
        }
        at = begin + len;
    }
    None
}

/// A name as code in a line.
fn code(name: &str) -> String {
    let name = text::one_line(name);
    let runs = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(runs + 1);
    let pad = if runs > 0 { " " } else { "" };
    format!("{ticks}{pad}{name}{pad}{ticks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(said: &str) -> String {
        let mut bytes = Vec::new();
        Writer { out: &mut bytes }.prose(said).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_message_can_not_take_over_the_page() {
        assert_eq!(prose("# big\n## x\n####### no\n#tag"), "### big\n#### x\n####### no\n#tag\n");
        assert_eq!(prose("Title\n---\n\n---\nB\n==="), "Title\n\\---\n\n---\nB\n\\===\n");
        assert_eq!(prose("<script>x</script> `a<b` a<b"), "\\<script>x\\</script> `a<b` a\\<b\n");
        assert_eq!(prose("<!-- open"), "\\<!-- open\n");
        assert_eq!(prose("```sh\nls <x\n"), "```sh\nls <x\n```\n");
        assert_eq!(prose("a\n````\n```\n````\nb"), "a\n\n````\n```\n````\n\nb\n");
        assert_eq!(prose("` a\n` <b> `c`\n\n`<b>`"), "` a\n` \\<b> `c`\n\n`<b>`\n");
        assert_eq!(prose("~~~ \"><b\nx\n~~~"), "```b\nx\n```\n");
        assert_eq!(prose("\x1b[31mred"), "\u{fffd}[31mred\n");
    }

    #[test]
    fn what_is_escaped_stays_escaped() {
        assert_eq!(escaped_line(r"\<b> and \\<b>"), r"\<b> and \\\<b>");
        assert_eq!(escaped_line(r"\`<b>`"), r"\`\<b>`");
        assert_eq!(escaped_line("`open <b>"), "`open \\<b>");
        assert_eq!(escaped_line("``a ` <b>`` <b>"), "``a ` <b>`` \\<b>");
    }

    #[test]
    fn names_are_code_in_a_line() {
        assert_eq!(code("agent:main"), "`agent:main`");
        assert_eq!(code("a`b``c\nd"), "``` a`b``c d ```");
    }
}
