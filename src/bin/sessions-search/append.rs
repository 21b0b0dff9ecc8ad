//! `append`: events from standard input, each answered when it is on disk.

use std::io::{self, BufRead as _, Read as _};

use serde::Serialize;
use sessions_search::limits::MAX_EVENT_BYTES;
use sessions_search::{AppendRequest, EventPlace, LineError, MessageId, SessionFacts, SessionId, SessionKey};

use crate::args::AppendArgs;
use crate::environment::now;
use crate::failure::{DONE, Failure, USAGE};
use crate::output::Output;
use crate::run::Place;

impl Place<'_> {
    pub(crate) fn append(&self, args: &AppendArgs) -> Result<u8, Failure> {
        let parse_key = |text: &Option<String>| text.as_deref().map(SessionKey::parse).transpose();
        let session_key = SessionKey::parse(&args.session_key)?;
        let session_id = args.session_id.as_deref().map(SessionId::parse).transpose()?;
        let facts = SessionFacts {
            label: args.label.clone(),
            spawned_by: parse_key(&args.spawned_by)?,
            parent: parse_key(&args.parent)?,
            ..SessionFacts::default()
        };
        let engine = self.open(&self.root, true)?;

        let mut input = Lines { input: io::stdin().lock(), number: 0 };
        let mut answers = Answers { output: self.output, is_read: true, refused: false };
        loop {
            let mut batch = Vec::new();
            let mut too_long = None;
            while batch.len() < args.batch as usize && too_long.is_none() {
                match input.next()? {
                    None => break,
                    Some((_, Line::Text(line))) if line.iter().all(u8::is_ascii_whitespace) => {}
                    Some((number, Line::Text(line))) => batch.push((number, line)),
                    Some((number, Line::TooLong(bytes))) => too_long = Some((number, bytes)),
                }
            }
            let ended = batch.len() < args.batch as usize && too_long.is_none();
            if !batch.is_empty() {
                let (numbers, lines): (Vec<u64>, Vec<Vec<u8>>) = batch.into_iter().unzip();
                let mut request = AppendRequest::new(session_key.clone(), lines);
                request.session_id.clone_from(&session_id);
                request.facts = facts.clone();
                for (number, result) in numbers.into_iter().zip(engine.append(request, now())?) {
                    answers.give(number, &result)?;
                }
            }
            if let Some((number, bytes)) = too_long {
                let error = format!("{bytes} bytes long, at most {MAX_EVENT_BYTES} are stored");
                answers.refuse(number, &error)?;
            }
            if ended {
                break;
            }
        }
        self.close(engine);
        Ok(if answers.refused { USAGE } else { DONE })
    }
}

/// The answer to one event of `append`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'e> {
    seq: u64,
    message_id: Option<&'e str>,
    indexed: bool,
}

/// The answer to a line of `append` that was not stored.
#[derive(Serialize)]
struct Refused<'e> {
    error: &'e str,
    line: u64,
}

/// Answers of `append`, one a line.
struct Answers<'o> {
    output: &'o Output,
    /// Nobody may read the answers; the events are stored all the same.
    is_read: bool,
    refused: bool,
}

impl Answers<'_> {
    fn give(&mut self, line: u64, result: &Result<EventPlace, LineError>) -> Result<(), Failure> {
        match result {
            Ok(EventPlace { seq, message_id, indexed }) => {
                let message_id = message_id.as_ref().map(MessageId::as_str);
                self.print(&Stored { seq: *seq, message_id, indexed: *indexed })
            }
            Err(error) => self.refuse(line, &error.to_string()),
        }
    }

    fn refuse(&mut self, line: u64, error: &str) -> Result<(), Failure> {
        self.refused = true;
        self.print(&Refused { error, line })
    }

    fn print<T: Serialize>(&mut self, answer: &T) -> Result<(), Failure> {
        if !self.is_read {
            return Ok(());
        }
        match self.output.json(answer) {
            Err(Failure::ClosedPipe) => {
                self.is_read = false;
                Ok(())
            }
            other => other,
        }
    }
}

/// Standard input, line by line, with the number of each from 1.
struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: io::BufRead> Lines<R> {
    fn next(&mut self) -> io::Result<Option<(u64, Line)>> {
        let line = read_line(&mut self.input)?;
        self.number += 1;
        Ok(line.map(|line| (self.number, line)))
    }
}

/// One line of standard input.
enum Line {
    Text(Vec<u8>),
    /// Its length in bytes.
    TooLong(u64),
}

/// Reads one line in bounded memory; what is too long is read over.
fn read_line(input: &mut impl io::BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let room = MAX_EVENT_BYTES as u64 + 2;
    if input.by_ref().take(room).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if line.len() as u64 == room {
        let mut bytes = line.len() as u64;
        loop {
            let available = input.fill_buf()?;
            if available.is_empty() {
                return Ok(Some(Line::TooLong(bytes)));
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(available.len(), |at| at + 1);
            bytes += used as u64;
            input.consume(used);
            if end.is_some() {
                return Ok(Some(Line::TooLong(bytes - 1)));
            }
        }
    }
    Ok(Some(Line::Text(line)))
}
