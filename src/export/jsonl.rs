//! Stored lines as lines of a file again.

use std::borrow::Cow;
use std::io;

use crate::model::{MessageId, Timestamp};
use crate::transcript::{LineChanges, Parent, rewrite_line};

/// A line as it is stored, and what the store knows better than it.
#[derive(Debug, Clone, Copy)]
pub struct StoredLine<'a> {
    /// The line as it was given, without its line end. Empty: it came with the line before.
    pub raw: &'a [u8],
    /// The parent it was rebased onto (D20).
    pub parent: Option<&'a Parent>,
    /// The time it was given (D9).
    pub timestamp: Option<Timestamp>,
    /// The id an import gave it, which is not in the line.
    pub given_id: Option<&'a MessageId>,
}

/// Writes the lines of one session.
#[derive(Debug)]
pub struct LineWriter<W> {
    out: W,
    /// Lines written.
    lines: u64,
}

impl<W: io::Write> LineWriter<W> {
    /// Nothing yet.
    pub fn new(out: W) -> Self {
        Self { out, lines: 0 }
    }

    /// Writes the next line: byte for byte, save what the store knows better.
    ///
    /// Two things keep a file what it was for those who read it. A line known by its number (`line-7`, in formats
    /// without ids) stays at that number: empty lines stand where lines were left out. And a line that goes over several
    /// in its source gets blanks for its line feeds, which JSON allows between values alone.
    ///
    /// # Errors
    /// What the output fails with.
    pub fn line(&mut self, line: StoredLine<'_>) -> io::Result<()> {
        if line.raw.is_empty() {
            return Ok(());
        }
        if let Some(number) = line.given_id.and_then(|id| line_number(id, line.raw)) {
            while self.lines + 1 < number {
                self.write(b"")?;
            }
        }
        let mut text = Cow::Borrowed(line.raw);
        if line.parent.is_some() || line.timestamp.is_some() {
            text = rewrite_line(&text, LineChanges { parent: line.parent, timestamp: line.timestamp }).into();
        }
        if text.contains(&b'\n') {
            text.to_mut().iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        }
        self.write(&text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.lines += 1;
        self.out.write_all(text)?;
        // Who reads it takes one carriage return for part of the line end.
        self.out.write_all(if text.last() == Some(&b'\r') { b"\r\n" } else { b"\n" })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What the output fails with.
    pub fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The number in an id that an import made of it; an id that the line itself has is none.
fn line_number(id: &MessageId, raw: &[u8]) -> Option<u64> {
    let id = id.as_str();
    let number = id.strip_prefix("line-")?.parse().ok()?;
    let is_own = raw.windows(id.len()).any(|window| window == id.as_bytes());
    (!is_own).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: &[(&str, Option<&str>)]) -> String {
        let mut bytes = Vec::new();
        let mut writer = LineWriter::new(&mut bytes);
        for (raw, id) in lines {
            let id = id.map(|id| MessageId::parse(id).unwrap());
            let line = StoredLine { raw: raw.as_bytes(), parent: None, timestamp: None, given_id: id.as_ref() };
            writer.line(line).unwrap();
        }
        writer.end().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn numbered_lines_stay_at_their_numbers() {
        assert_eq!(
            written(&[("{}", None), ("{\"a\":1}", Some("line-4")), ("{\"a\":2}", Some("line-5"))]),
            "{}\n\n\n{\"a\":1}\n{\"a\":2}\n"
        );
        let own = "{\"uuid\":\"line-99999999\"}";
        assert_eq!(written(&[(own, Some("line-99999999"))]), format!("{own}\n"));
        assert_eq!(written(&[("{}", Some("line-1")), ("{}", Some("line-1"))]), "{}\n{}\n");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(written(&[("{\n \"a\": 1\n}", None), ("", None), ("{}\r", None)]), "{  \"a\": 1 }\n{}\r\r\n");
    }
}
