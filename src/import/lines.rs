//! Reads a file line by line with bounded memory.
//!
//! Lines end at `\n` alone; one `\r` before it and a byte order mark at the start of a line are taken off. Other line
//! ends of Unicode are text.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

/// A place between two lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Bytes before it.
    pub offset: u64,
    /// Lines before it.
    pub line: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its text, or its length in bytes when that is over the reader's bound.
    pub(super) text: Result<&'a [u8], u64>,
    /// Whether its end is there. Without one it is the file's last, and may still be growing.
    pub(super) ended: bool,
    /// The place after it.
    pub(super) end: Position,
}

/// A reader of lines that holds at most one of them, and of an overlong one only its beginning.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    at: Position,
    max_bytes: usize,
    buffer: Vec<u8>,
}

const READ_BUFFER_BYTES: usize = 256 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: Read + Seek> LineReader<R> {
    /// Goes on from a place that an earlier reader returned. When the line before it had no end then and has one now,
    /// that end is passed over.
    ///
    /// # Errors
    /// What the file says.
    pub(super) fn from_position(mut file: R, from: Position, max_bytes: usize) -> io::Result<Self> {
        let mut before = [b'\n'];
        if from.offset > 0 {
            file.seek(SeekFrom::Start(from.offset - 1))?;
            file.read_exact(&mut before)?;
        }
        let mut lines = Self::new(file, max_bytes);
        lines.at = from;
        if before != [b'\n'] {
            lines.pass_line_end()?;
        }
        Ok(lines)
    }
}

impl<R: Read> LineReader<R> {
    /// Reads from where `reader` stands, as the beginning of a file. Texts over `max_bytes` are not kept.
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(READ_BUFFER_BYTES, reader),
            at: Position::default(),
            max_bytes,
            buffer: Vec::new(),
        }
    }

    /// The place before the next line.
    pub(super) fn position(&self) -> Position {
        self.at
    }

    /// The next line; `None` at the end of the file.
    ///
    /// # Errors
    /// What the file says. The place in it is then lost: no further line should be asked for.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut length: u64 = 0;
        let ended = loop {
            let available = fill(&mut self.reader)?;
            if available.is_empty() {
                break false;
            }
            let found = available.iter().position(|&byte| byte == b'\n');
            let part = available.get(..found.unwrap_or(available.len())).unwrap_or_default();
            // A byte order mark and a `\r` may still come off.
            let room = (self.max_bytes + BYTE_ORDER_MARK.len() + 1).saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(part.get(..room).unwrap_or(part));
            length += part.len() as u64;
            let used = part.len() + usize::from(found.is_some());
            self.reader.consume(used);
            if found.is_some() {
                break true;
            }
        };
        if length == 0 && !ended {
            return Ok(None);
        }
        self.at.offset += length + u64::from(ended);
        self.at.line += 1;

        let mut taken_off = 0;
        let mut text = self.buffer.as_slice();
        if let Some(rest) = text.strip_prefix(BYTE_ORDER_MARK) {
            text = rest;
            taken_off += BYTE_ORDER_MARK.len() as u64;
        }
        if self.buffer.len() as u64 == length
            && let Some(rest) = text.strip_suffix(b"\r")
        {
            text = rest;
            taken_off += 1;
        }
        let length = length - taken_off;
        let text = if length > self.max_bytes as u64 { Err(length) } else { Ok(text) };
        Ok(Some(Line { number: self.at.line, text, ended, end: self.at }))
    }

    fn pass_line_end(&mut self) -> io::Result<()> {
        let available = fill(&mut self.reader)?;
        let used = match available {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        self.reader.consume(used);
        self.at.offset += used as u64;
        Ok(())
    }
}

/// What is buffered, read anew when nothing is; empty at the end of the file.
fn fill<R: Read>(reader: &mut BufReader<R>) -> io::Result<&[u8]> {
    while reader.buffer().is_empty() {
        match reader.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reader.buffer())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    type Row = (u64, Result<String, u64>, bool, u64);

    fn read(mut lines: LineReader<Cursor<Vec<u8>>>) -> Vec<Row> {
        let mut rows = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = line.text.map(|text| String::from_utf8_lossy(text).into_owned());
            rows.push((line.number, text, line.ended, line.end.offset));
        }
        rows
    }

    fn all(text: &[u8], max_bytes: usize) -> Vec<Row> {
        read(LineReader::new(Cursor::new(text.to_vec()), max_bytes))
    }

    fn ok(number: u64, text: &str, ended: bool, offset: u64) -> Row {
        (number, Ok(text.to_owned()), ended, offset)
    }

    #[test]
    fn lines_end_at_newlines_only() {
        assert_eq!(all(b"", 10), []);
        assert_eq!(all(b"\n", 10), [ok(1, "", true, 1)]);
        assert_eq!(
            all("a\u{2028}b\rc\u{85}\nd".as_bytes(), 20),
            [ok(1, "a\u{2028}b\rc\u{85}", true, 10), ok(2, "d", false, 11)]
        );
        assert_eq!(all(b"a\r\n\r\r\nb\r", 10), [ok(1, "a", true, 3), ok(2, "\r", true, 6), ok(3, "b", false, 8)]);
    }

    #[test]
    fn a_byte_order_mark_is_taken_off() {
        assert_eq!(all(b"\xef\xbb\xbfa\n\xef\xbb\xbf\n", 1), [ok(1, "a", true, 5), ok(2, "", true, 9)]);
    }

    #[test]
    fn an_overlong_line_is_measured_and_passed_over() {
        let mut text = vec![b'x'; 3 * READ_BUFFER_BYTES];
        text.extend_from_slice(b"\r\nnext\r\nabcde\nabcdef\nxxxxxx");
        let bytes = 3 * READ_BUFFER_BYTES as u64;
        let mut lines = LineReader::new(Cursor::new(text), 5);
        assert_eq!(
            lines.next_line().unwrap().map(|line| line.text),
            Some(Err(bytes + 1)),
            "its \\r is not known as one"
        );
        assert!(lines.buffer.capacity() < 100);
        let rows: Vec<_> = read(lines).into_iter().map(|row| (row.1, row.2)).collect();
        assert_eq!(rows, [(Ok("next".into()), true), (Ok("abcde".into()), true), (Err(6), true), (Err(6), false)]);
    }

    #[test]
    fn reading_goes_on_where_it_ended() {
        let text = b"one\ntwo\nthree".to_vec();
        let from = |text: &[u8], offset, line| {
            read(LineReader::from_position(Cursor::new(text.to_vec()), Position { offset, line }, 10).unwrap())
        };
        assert_eq!(from(&text, 4, 1), [ok(2, "two", true, 8), ok(3, "three", false, 13)]);
        assert_eq!(from(&text, 13, 3), []);
        // The last line was taken without its end, which came later.
        assert_eq!(from(b"one\ntwo\nthree\nfour\n", 13, 3), [ok(4, "four", true, 19)]);
        assert_eq!(from(b"one\ntwo\nthree\r\nfour\n", 13, 3), [ok(4, "four", true, 20)]);
        assert_eq!(from(b"one\ntwo\nthree\n", 13, 3), []);
        assert!(
            LineReader::from_position(Cursor::new(b"short".to_vec()), Position { offset: 9, line: 1 }, 10).is_err()
        );
    }
}
