//! The way from a file's lines to items, the same for every format that has lines: which line counts, which is blank,
//! rejected or torn, and what is said about it. What a line means is the format's own [`ReadRows`].

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use super::lines::LineReader;
use super::normalized::members;
use super::{ImportedEvent, Item, LineWarning, Position, SideSession};
use crate::model::is_js_space;
use crate::transcript::json::Json;
use crate::transcript::{Event, EventError, EventKind, LineRepairs};

/// What one line, or a part of it, is stored as.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) event: Event,
    /// The event in the shape of contract §1.6, where the line has another.
    pub(super) normalized: Option<Vec<u8>>,
    /// Another session than the file's own.
    pub(super) side: Option<Arc<SideSession>>,
}

impl Row {
    /// A row of a format with a shape of its own. `repairs` are those of the line.
    ///
    /// Where the event cannot be stored in full, as when what was written around it nests it too deeply, it is stored as
    /// `bare` says; only ids that are too long reject the line.
    pub(super) fn normalized(
        normalized: String,
        bare: impl FnOnce() -> String,
        repairs: LineRepairs,
    ) -> Result<Self, EventError> {
        let mut normalized = normalized.into_bytes();
        let mut event = match Event::parse(&normalized) {
            Ok(event) => event,
            Err(error @ EventError::IdTooLong { .. }) => return Err(error),
            Err(_) => {
                normalized = bare().into_bytes();
                Event::parse(&normalized)?
            }
        };
        event.repairs = repairs;
        Ok(Self { event, normalized: Some(normalized), side: None })
    }
}

/// The row of an event that was appended to a session of another format: an export writes it as it was given, in
/// OpenClaw's shape, which no line of the other formats has.
pub(super) fn appended(object: Json<'_>, line: &[u8]) -> Option<Row> {
    let [kind, uuid, session_id, payload] = members(object, ["type", "uuid", "sessionId", "payload"]);
    let kind = EventKind::of_type(&kind.and_then(Json::as_str)?);
    if matches!(kind, EventKind::Header | EventKind::Opaque) || uuid.or(session_id).or(payload).is_some() {
        return None;
    }
    let event = Event::parse(line).ok()?;
    let is_whole = match kind {
        EventKind::Message => event.role.is_some(),
        EventKind::Leaf => event.leaf.is_some(),
        _ => event.id.is_some(),
    };
    is_whole.then_some(Row { event, normalized: None, side: None })
}

/// Why a line gives no row.
#[derive(Debug)]
pub(super) enum RowError {
    /// The line cannot be stored, the next may.
    Line(EventError),
    /// The file cannot be read on.
    Io(io::Error),
}

impl From<EventError> for RowError {
    fn from(error: EventError) -> Self {
        Self::Line(error)
    }
}

impl From<io::Error> for RowError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How a format reads one line.
pub(super) trait ReadRows: Send {
    /// The rows of a line that is not blank: its own first, which stands for the line, then what else it holds.
    fn rows(&mut self, line: u64, text: &[u8]) -> Result<Vec<Row>, RowError>;
}

/// The items of a file with lines.
pub(super) struct LineItems<R, F> {
    lines: LineReader<R>,
    format: F,
    /// The place before the next line.
    at: Position,
    /// Lines after this one are left for later.
    last_line: u64,
    /// What every item gives as its end instead of its own place: sources that do not grow line by line.
    fixed_offset: Option<u64>,
    queue: VecDeque<Item>,
    is_done: bool,
}

impl<R: Read, F: ReadRows> LineItems<R, F> {
    /// Reads on from where `lines` stands.
    pub(super) fn new(lines: LineReader<R>, format: F) -> Self {
        let at = lines.position();
        Self { lines, format, at, last_line: u64::MAX, fixed_offset: None, queue: VecDeque::new(), is_done: false }
    }

    /// Reads no further than this line.
    pub(super) fn up_to_line(mut self, line: u64) -> Self {
        self.last_line = line;
        self
    }

    /// For a file whose lines have no place in it, as when it is compressed: `offset` stands for each.
    pub(super) fn with_offset(mut self, offset: u64) -> Self {
        self.fixed_offset = Some(offset);
        self
    }

    fn read_line(&mut self) -> io::Result<()> {
        let Some(line) = self.lines.next_line()? else {
            self.is_done = true;
            return Ok(());
        };
        if line.number > self.last_line {
            self.is_done = true;
            if !line.ended {
                let bytes = line.text.map_or_else(|bytes| bytes, |text| text.len() as u64);
                self.queue.push_back(Item::Torn { line: line.number, bytes });
            }
            return Ok(());
        }
        self.is_done = !line.ended;
        let place = |at: Position| Position { offset: self.fixed_offset.unwrap_or(at.offset), ..at };
        let (number, before, end) = (line.number, place(self.at), place(line.end));
        self.at = line.end;
        let rows = match line.text {
            Ok(text) if is_blank(text) && line.ended => {
                self.queue.push_back(Item::Skipped { line: number, end });
                return Ok(());
            }
            Ok(text) => self.format.rows(number, text).map(|rows| (rows, text)),
            Err(bytes) => Err(EventError::TooLong { bytes }.into()),
        };
        match rows {
            // An object that is complete cannot be the beginning of a longer one: it counts without its line end.
            Ok((rows, text)) => {
                let last = rows.len().saturating_sub(1);
                for (at, row) in rows.into_iter().enumerate() {
                    // A line is done when all its rows are.
                    let end = if at == last { end } else { before };
                    let raw = if at == 0 { text.to_vec() } else { Vec::new() };
                    self.queue.push_back(Item::Event(Box::new(imported(number, end, raw, row, at > 0))));
                }
            }
            Err(RowError::Line(_)) if !line.ended => {
                let bytes = line.text.map_or_else(|bytes| bytes, |text| text.len() as u64);
                self.queue.push_back(Item::Torn { line: number, bytes });
            }
            Err(RowError::Line(reason)) => self.queue.push_back(Item::Rejected { line: number, reason, end }),
            Err(RowError::Io(error)) => return Err(error),
        }
        Ok(())
    }
}

impl<R: Read, F: ReadRows> Iterator for LineItems<R, F> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<io::Result<Item>> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(Ok(item));
            }
            if self.is_done {
                return None;
            }
            if let Err(error) = self.read_line() {
                self.is_done = true;
                return Some(Err(error));
            }
        }
    }
}

/// Nothing but white space, as JavaScript's `trim` sees it.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.utf8_chunks().all(|chunk| chunk.invalid().is_empty() && chunk.valid().chars().all(is_js_space))
}

/// The item of a row, with what is to be said about it.
pub(super) fn imported(line: u64, end: Position, raw: Vec<u8>, row: Row, is_part: bool) -> ImportedEvent {
    let Row { event, normalized, side } = row;
    let repairs = event.repairs;
    let mut warnings = Vec::new();
    if repairs.lone_surrogates > 0 && !is_part {
        warnings.push(LineWarning::LoneSurrogates(repairs.lone_surrogates));
    }
    if repairs.invalid_utf8 > 0 && !is_part {
        warnings.push(LineWarning::InvalidUtf8(repairs.invalid_utf8));
    }
    if event.kind == EventKind::Message {
        warnings.extend(event.timestamp_note.map(LineWarning::UnknownTime));
    }
    if event.id.is_none() && event.message.is_some() {
        warnings.push(LineWarning::NoId);
    }
    ImportedEvent { line, raw, normalized, event, end, warnings, side, is_part }
}
