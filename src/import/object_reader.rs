//! Reads a file that is one JSON object without holding it: member by member, and some of its arrays element by
//! element.
//!
//! Values come out without the white space around and inside them, on one line each. Only brackets and strings are
//! looked at here; whoever parses a value finds out whether it is JSON.

use std::io::{self, BufRead, BufReader, Read};

/// What comes next in the object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A member that is no list.
    Member {
        /// Its key, as written between the quotes.
        key: String,
        /// Its JSON, or its length when that is over the bound.
        value: Result<Vec<u8>, u64>,
    },
    /// An element of a list: its JSON, or its length when that is over the bound.
    Element(Result<Vec<u8>, u64>),
    /// The object is complete.
    End,
    /// What follows is no part of such an object, or missing. Nothing comes after it.
    Broken,
}

/// A reader of one object.
pub(super) struct ObjectReader<R> {
    source: BufReader<R>,
    /// Bytes taken.
    at: u64,
    lists: &'static [&'static str],
    max_bytes: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// A key may follow, or the end when there was none yet.
    Key {
        is_first: bool,
    },
    /// A comma or the end must follow.
    AfterValue,
    /// An element may follow, or the list's end when there was none yet.
    Element {
        is_first: bool,
    },
    AfterElement,
    Done(bool),
}

impl<R: Read> ObjectReader<R> {
    /// Reads the object that begins where `source` stands. Arrays under a key of `lists` come element by element.
    /// Values over `max_bytes` are measured and not kept.
    pub(super) fn new(source: R, lists: &'static [&'static str], max_bytes: usize) -> Self {
        Self { source: BufReader::new(source), at: 0, lists, max_bytes, state: State::Start }
    }

    /// Bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.at
    }

    /// The next piece; [`Piece::End`] or [`Piece::Broken`] again and again at the end.
    pub(super) fn next_piece(&mut self) -> io::Result<Piece> {
        loop {
            let state = self.state;
            // Unless something better is found.
            self.state = State::Done(false);
            match (state, self.peek_text()?) {
                (State::Done(is_whole), _) => {
                    self.state = state;
                    return Ok(if is_whole { Piece::End } else { Piece::Broken });
                }
                (State::Start, Some(b'{')) => {
                    self.take();
                    self.state = State::Key { is_first: true };
                }
                (State::Key { is_first: true } | State::AfterValue, Some(b'}')) => {
                    self.take();
                    self.state = State::Done(true);
                }
                (State::AfterValue, Some(b',')) => {
                    self.take();
                    self.state = State::Key { is_first: false };
                }
                (State::Key { .. }, Some(b'"')) => {
                    let Some(Ok(key)) = self.value()? else { continue };
                    let key = String::from_utf8_lossy(&key).trim_matches('"').to_owned();
                    if self.peek_text()? != Some(b':') {
                        continue;
                    }
                    self.take();
                    if self.lists.contains(&key.as_str()) && self.peek_text()? == Some(b'[') {
                        self.take();
                        self.state = State::Element { is_first: true };
                        continue;
                    }
                    if let Some(value) = self.value()? {
                        self.state = State::AfterValue;
                        return Ok(Piece::Member { key, value });
                    }
                }
                (State::Element { is_first: true } | State::AfterElement, Some(b']')) => {
                    self.take();
                    self.state = State::AfterValue;
                }
                (State::AfterElement, Some(b',')) => {
                    self.take();
                    self.state = State::Element { is_first: false };
                }
                (State::Element { .. }, Some(_)) => {
                    if let Some(value) = self.value()? {
                        self.state = State::AfterElement;
                        return Ok(Piece::Element(value));
                    }
                }
                _ => {}
            }
        }
    }

    /// The next byte that is no white space (nor part of a byte order mark), left where it is.
    fn peek_text(&mut self) -> io::Result<Option<u8>> {
        loop {
            match fill(&mut self.source)?.first() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.take(),
                Some(0xef | 0xbb | 0xbf) if self.at < 3 => self.take(),
                other => return Ok(other.copied()),
            }
        }
    }

    fn take(&mut self) {
        self.source.consume(1);
        self.at += 1;
    }

    /// One value; `None` when there is none, or when the file ends inside it.
    fn value(&mut self) -> io::Result<Option<Result<Vec<u8>, u64>>> {
        let mut value = Value { json: Vec::new(), len_bytes: 0, max_bytes: self.max_bytes };
        let is_whole = match self.peek_text()? {
            Some(b'"') => self.string(&mut value)?,
            Some(b'{' | b'[') => self.brackets(&mut value)?,
            _ => self.word(&mut value)?,
        };
        Ok(is_whole.then(|| value.finish()))
    }

    /// A string with its quotes.
    fn string(&mut self, value: &mut Value) -> io::Result<bool> {
        let mut is_escaped = true;
        while let Some(&byte) = fill(&mut self.source)?.first() {
            self.take();
            value.push(byte);
            if byte == b'"' && !is_escaped {
                return Ok(true);
            }
            // The opening quote counts as escaped.
            is_escaped = byte == b'\\' && !is_escaped;
        }
        Ok(false)
    }

    /// An object or an array.
    fn brackets(&mut self, value: &mut Value) -> io::Result<bool> {
        let mut open = 0_usize;
        while let Some(byte) = self.peek_text()? {
            if byte == b'"' {
                if !self.string(value)? {
                    break;
                }
                continue;
            }
            self.take();
            value.push(byte);
            match byte {
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A number, `true`, `false`, `null`, or whatever stands in their place.
    fn word(&mut self, value: &mut Value) -> io::Result<bool> {
        while let Some(&byte) = fill(&mut self.source)?.first() {
            if matches!(byte, b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(value.len_bytes > 0);
            }
            self.take();
            value.push(byte);
        }
        Ok(false)
    }
}

/// A value being read.
struct Value {
    json: Vec<u8>,
    len_bytes: u64,
    max_bytes: usize,
}

impl Value {
    fn push(&mut self, byte: u8) {
        self.len_bytes += 1;
        if self.json.len() < self.max_bytes {
            self.json.push(byte);
        }
    }

    fn finish(self) -> Result<Vec<u8>, u64> {
        if self.len_bytes > self.max_bytes as u64 { Err(self.len_bytes) } else { Ok(self.json) }
    }
}

/// What is buffered, read anew when nothing is; empty at the end of the file.
fn fill<R: Read>(source: &mut BufReader<R>) -> io::Result<&[u8]> {
    while source.buffer().is_empty() {
        match source.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(source.buffer())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> String {
        let mut reader = ObjectReader::new(text.as_bytes(), &["list"], 24);
        let mut shown = Vec::new();
        loop {
            let show = |value: Result<Vec<u8>, u64>| match value {
                Ok(json) => String::from_utf8(json).unwrap(),
                Err(bytes) => format!("({bytes} bytes)"),
            };
            shown.push(match reader.next_piece().unwrap() {
                Piece::Member { key, value } => format!("{key}={}", show(value)),
                Piece::Element(value) => format!("+{}", show(value)),
                Piece::End => break shown.push("end".to_owned()),
                Piece::Broken => break shown.push("broken".to_owned()),
            });
            assert!(shown.len() < 100);
        }
        assert!(matches!(reader.next_piece().unwrap(), Piece::End | Piece::Broken));
        shown.join(" ")
    }

    #[test]
    fn members_and_elements_come_one_by_one() {
        assert_eq!(pieces("{}"), "end");
        assert_eq!(
            pieces(
                "\u{feff} { \"a\" : [ 1 , \"x y\\\" ]\" ] ,\n\"list\":[ {\"b\" : 1} , 2,\"s\", null ], \"c\":-1e9 } "
            ),
            r#"a=[1,"x y\" ]"] +{"b":1} +2 +"s" +null c=-1e9 end"#
        );
        assert_eq!(pieces(r#"{"list":[],"list":{"x":1},"list":[[]]}"#), r#"list={"x":1} +[] end"#);
        assert_eq!(
            pieces(r#"{"a":"0123456789012345678901234","list":[[0123456789012345678901234]]}"#),
            "a=(27 bytes) +(27 bytes) end"
        );
    }

    #[test]
    fn what_is_cut_or_no_object_is_broken() {
        for (text, expected) in [
            ("", "broken"),
            ("[]", "broken"),
            ("7", "broken"),
            ("{", "broken"),
            ("{\"a", "broken"),
            ("{\"a\":", "broken"),
            ("{\"a\":}", "broken"),
            ("{\"a\":1", "broken"),
            ("{\"a\":1,}", "a=1 broken"),
            ("{\"a\":1 \"b\":2}", "a=1 broken"),
            ("{\"list\":[1,{\"b\":", "+1 broken"),
            ("{\"list\":[1,]}", "+1 broken"),
            ("{\"list\":[1}", "+1 broken"),
            ("{a:1}", "broken"),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
        let whole = r#"{"a":"\\\"","list":[{"b":[1]},"x"],"c":{}}"#;
        for cut in 0..whole.len() {
            assert!(pieces(&whole[..cut]).ends_with("broken"), "{cut}");
        }
        assert!(pieces(whole).ends_with("end"));
    }
}
