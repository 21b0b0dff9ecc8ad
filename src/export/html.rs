//! A conversation as one page that a browser opens: nothing is loaded, nothing runs, and what was said is text.

use std::io;

use super::text::{self, Piece};
use super::{Heading, Part, Step, Turn};

/// Neither script nor anything from elsewhere, whatever stands in a message.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("page.css");

/// Writes one conversation.
pub struct Writer<W> {
    out: W,
    turns: u64,
}

impl<W: io::Write> Writer<W> {
    pub(super) fn begin(mut out: W, heading: &Heading<'_>) -> io::Result<Self> {
        let title = text::one_line(heading.label.unwrap_or_else(|| heading.key.as_str()));
        let title = escaped(&title);
        write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"sessions-search\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1 dir=\"auto\">{title}</h1>\n<dl>\n"
        )?;
        let facts = [
            ("Session key", heading.key.as_str().to_owned()),
            ("Session id", heading.id.as_str().to_owned()),
            ("Last activity", text::time(heading.updated_at)),
        ];
        for (name, value) in facts {
            writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&text::one_line(&value)))?;
        }
        if heading.is_redacted {
            out.write_all(b"<dt>Credentials</dt><dd>masked</dd>\n")?;
        }
        out.write_all(b"</dl>\n")?;
        Ok(Self { out, turns: 0 })
    }

    pub(super) fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Turn(turn) => self.turn(turn),
            Step::Summary(summary) => {
                self.out.write_all(b"<div class=\"break\">What was said before was summed up.</div>\n<article>\n")?;
                self.folded("Summary", summary)?;
                self.out.write_all(b"</article>\n")
            }
            Step::Reset => self.out.write_all(b"<div class=\"break\">The conversation began anew here.</div>\n"),
        }
    }

    fn turn(&mut self, turn: &Turn) -> io::Result<()> {
        self.turns += 1;
        let class = match turn.role.as_str() {
            "user" => "user",
            "assistant" => "assistant",
            _ if text::is_tool_result(turn) => "tool",
            _ => "other",
        };
        let (number, speaker) = (self.turns, escaped(&text::speaker(turn)).into_owned());
        write!(self.out, "<article class=\"{class}\" id=\"m{number}\">\n<header><b>{speaker}</b>")?;
        let time = text::time(turn.timestamp);
        if turn.timestamp.is_known() {
            writeln!(self.out, "<time datetime=\"{}\">{time}</time></header>", turn.timestamp.to_iso_millis())?;
        } else {
            writeln!(self.out, "<span class=\"none\">{time}</span></header>")?;
        }
        for part in &turn.parts {
            match part {
                Part::Text(said) if text::is_tool_result(turn) => self.code(&text::harmless(said))?,
                Part::Text(said) => self.said(said)?,
                Part::Aside { text: said, .. } => {
                    let title = text::aside_title(part);
                    match said.as_deref().filter(|said| !said.trim().is_empty()) {
                        Some(said) => self.folded(&title, said)?,
                        None => writeln!(self.out, "<div class=\"aside\" dir=\"auto\">{}</div>", escaped(&title))?,
                    }
                }
            }
        }
        self.out.write_all(b"</article>\n")
    }

    fn folded(&mut self, title: &str, said: &str) -> io::Result<()> {
        writeln!(self.out, "<details><summary dir=\"auto\">{}</summary>", escaped(title))?;
        self.code(&text::harmless(said))?;
        self.out.write_all(b"</details>\n")
    }

    /// Fenced code as code, code in a line too; everything else as it was typed.
    fn said(&mut self, said: &str) -> io::Result<()> {
        let said = text::harmless(said);
        for piece in text::pieces(&said) {
            match piece {
                Piece::Code { text, .. } => self.code(text)?,
                Piece::Prose(prose) => {
                    self.out.write_all(b"<div class=\"said\" dir=\"auto\">")?;
                    self.prose(prose.trim_end().trim_start_matches('\n'))?;
                    self.out.write_all(b"</div>\n")?;
                }
            }
        }
        Ok(())
    }

    fn prose(&mut self, prose: &str) -> io::Result<()> {
        for (at, line) in prose.split('\n').enumerate() {
            if at > 0 {
                self.out.write_all(b"\n")?;
            }
            let mut rest = line;
            while let Some((before, code, after)) = code_in_line(rest) {
                write!(self.out, "{}<code>{}</code>", escaped(before), escaped(code))?;
                rest = after;
            }
            self.out.write_all(escaped(rest).as_bytes())?;
        }
        Ok(())
    }

    fn code(&mut self, code: &str) -> io::Result<()> {
        // A parser drops a line feed right after the tag.
        let first = if code.starts_with('\n') { "\n" } else { "" };
        writeln!(self.out, "<pre dir=\"ltr\"><code>{first}{}</code></pre>", escaped(code.trim_end_matches('\n')))
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.write_all(b"</main>\n</body>\n</html>\n")?;
        self.out.flush()
    }
}

/// The first text between single backticks: what stands before it, the text, what follows.
fn code_in_line(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    (!code.is_empty()).then_some((before, code, after))
}

/// Text that stays text wherever it stands in the page, between quotes too.
fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(said: &str) -> String {
        let mut bytes = Vec::new();
        Writer { out: &mut bytes, turns: 0 }.said(said).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_was_said_is_text() {
        assert_eq!(
            said("<script>alert('&\"')</script>"),
            "<div class=\"said\" dir=\"auto\">&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;</div>\n"
        );
        assert_eq!(
            said("use `a<b` and `open\n```html\n\n<b>\n```\n"),
            "<div class=\"said\" dir=\"auto\">use <code>a&lt;b</code> and `open</div>\n\
             <pre dir=\"ltr\"><code>\n\n&lt;b&gt;</code></pre>\n"
        );
        assert_eq!(said("\x1b]0;title\x07"), "<div class=\"said\" dir=\"auto\">\u{fffd}]0;title\u{fffd}</div>\n");
    }
}
