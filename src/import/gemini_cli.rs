//! Gemini CLI's chats: `tmp/<project>/chats/session-<time>-<8 hex>.json`, one object that is written anew each time, and
//! since version 0.40 `.jsonl`, a log that is appended to.
//!
//! # Sessions
//!
//! The id is `sessionId`, else the file's name. A sub-agent's chat lies in a folder named after its parent's session. A
//! resumed `.json` goes on as a `.jsonl` beside it, which holds all of it: the `.json` is then another copy, and where it
//! was imported before, the `.jsonl` takes its place.
//!
//! # The object
//!
//! Each message is one line, read without holding the others; what stands around them gives the session's facts. A file
//! that changed is read anew once it is whole again; cut short, it takes nothing away.
//!
//! # The log
//!
//! The writer's own rules make a list of messages of it: a line with an `id` is a message, and the same id again takes
//! its place in the list; `$rewindTo` removes a message and all after it, or all when it is not there; `$set` sets facts,
//! and `$set.messages`, unless empty, is the new list.
//!
//! The list as the whole file leaves it is found out before the file is read. A message of the list is stored with the
//! line that put it there, in its last form; that form's own line, and every line whose message is gone, is stored without
//! it. The messages of `$set.messages` are further rows of that line. So each id comes once (D22), in the list's order,
//! and text that was taken back is not searched.
//!
//! Lines that came later may change what earlier ones were stored as: such a file is read anew. One that only has more
//! messages at its end goes on.
//!
//! # Rows
//!
//! | message | stored as |
//! | --- | --- |
//! | `user`; its `displayContent`, what was typed, where it has one | `message` |
//! | `user` that the program wrote ([`INJECTED`] text) | `custom_message`: not searched |
//! | `user` that answers tool calls | `message` of role `toolResult` |
//! | `gemini`, `model` | `message` of role `assistant`: thoughts, text, tool calls with their results |
//! | `info`, `warning`, `error`, any other | `custom_message` |

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::lines::LineReader;
use super::normalized::{Blocks, Object, begins_with_any, is, member, members, non_blank};
use super::object_reader::{ObjectReader, Piece};
use super::rows::{self, LineItems, ReadRows, Row, RowError};
use super::walk::FoundFile;
use super::{
    Agents, DiscoverOptions, Discovery, Format, ImportError, Importer, Item, Items, OpenError, Position, SkipReason,
    Source,
};
use crate::limits::MAX_EVENT_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey, Timestamp, is_js_space};
use crate::transcript::json::{Json, JsonKind};
use crate::transcript::{EventError, LineRepairs, object_of, sanitize};

/// The importer of [`Format::GeminiCli`].
pub(super) struct GeminiCli;

/// How text begins that the program put into a `user` message.
const INJECTED: &[&str] =
    &["<session_context>", "<state_snapshot>", "This is the Gemini CLI. We are setting up the context for our chat."];

/// The arrays that hold messages; the second in files of other programs and in saved checkpoints, which are taken only
/// when they are named.
const LISTS: &[&str] = &["messages", "history"];

impl Importer for GeminiCli {
    fn claim(
        &self,
        files: &mut Vec<FoundFile>,
        options: &DiscoverOptions,
        agents: &mut Agents,
        discovery: &mut Discovery,
    ) -> Result<(), ImportError> {
        for file in std::mem::take(files) {
            let facts = match Form::of(&file) {
                Some(Form::Log) => facts_of_log(&file),
                Some(Form::Object) => facts_of_object(&file),
                None => {
                    files.push(file);
                    continue;
                }
            };
            match facts {
                Err(reason) => discovery.skip(&file.path, reason),
                Ok(facts) if facts.are_of_chat(&file, options.format.is_some()) => {
                    let agent = agents.of_file(&file.canonical, options)?;
                    add_source(file, facts, agent, discovery);
                }
                Ok(_) => files.push(file),
            }
        }
        Ok(())
    }

    fn open(&self, source: &Source, from: Position) -> Result<Items, OpenError> {
        let path = &source.path;
        if Form::of_path(path) == Form::Object {
            let len_bytes = std::fs::metadata(path)?.len();
            let reader = ObjectReader::new(File::open(path)?, LISTS, MAX_EVENT_BYTES);
            return Ok(Box::new(Messages { reader, number: 0, passed: from.line, len_bytes, is_done: false }));
        }
        let list = List::of(path, from)?;
        let lines = LineReader::from_position(File::open(path)?, from, MAX_EVENT_BYTES)?;
        let at = list.entries.partition_point(|entry| entry.home.line <= from.line);
        let last_line = list.last_line;
        let format = Lines { path: path.clone(), entries: list.entries, at };
        Ok(Box::new(LineItems::new(lines, format).up_to_line(last_line)))
    }

    fn is_restated(&self, source: &Source) -> io::Result<bool> {
        if Form::of_path(&source.path) == Form::Log {
            return Ok(false);
        }
        let mut reader = ObjectReader::new(File::open(&source.path)?, &[], MAX_KEY_BYTES);
        loop {
            match reader.next_piece()? {
                Piece::Member { .. } | Piece::Element(_) => {}
                last => return Ok(last == Piece::End),
            }
        }
    }
}

/// Whether a file is a log of this format.
pub(super) fn is_own(file: &FoundFile) -> bool {
    Form::of(file) == Some(Form::Log) && facts_of_log(file).is_ok_and(|facts| facts.is_ours)
}

/// The two forms of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Log,
    Object,
}

impl Form {
    /// The form of a file that may be a chat.
    fn of(file: &FoundFile) -> Option<Self> {
        let name = file.name();
        (file.is_given || name.ends_with(".jsonl") || name.ends_with(".json")).then(|| Self::of_path(&file.path))
    }

    fn of_path(path: &Path) -> Self {
        if path.extension().is_some_and(|extension| extension == "json") { Self::Object } else { Self::Log }
    }
}

/// What a file tells of the session beside its messages.
#[derive(Debug, Default)]
struct ChatFacts {
    session_id: Option<String>,
    title: Option<String>,
    updated_at: Option<Timestamp>,
    is_sub_agent: bool,
    /// Only this program writes that.
    is_ours: bool,
    /// Has messages such as this program's, and says no more.
    has_messages: bool,
}

impl ChatFacts {
    /// Whether the file is taken. `is_chosen`: a person said that it is of this format.
    fn are_of_chat(&self, file: &FoundFile, is_chosen: bool) -> bool {
        self.is_ours
            || (self.has_messages && (file.is_given || is_chosen))
            || (is_chosen && Form::of_path(&file.path) == Form::Log)
    }
}

fn facts_of_log(file: &FoundFile) -> Result<ChatFacts, SkipReason> {
    let mut facts = ChatFacts::default();
    let any = file.look_at_first_lines(|line| {
        let (text, _) = sanitize(line);
        let Ok(object) = object_of(&text) else { return ControlFlow::Continue(()) };
        match Record::of(object) {
            Record::Metadata(metadata) => {
                let [id, kind, start, hash, line_type] =
                    members(metadata, ["sessionId", "kind", "startTime", "projectHash", "type"]);
                if line_type.is_some() || (start.is_none() && hash.is_none()) {
                    return ControlFlow::Continue(());
                }
                facts.is_ours = true;
                facts.session_id = non_blank(id).map(Into::into);
                facts.is_sub_agent = is(kind, "subagent");
                return ControlFlow::Break(());
            }
            Record::Message(message) => facts.is_ours |= is_message(message),
            Record::Rewind(_) | Record::Set(_) => facts.is_ours = true,
            Record::Other => {}
        }
        ControlFlow::Continue(())
    });
    match any {
        Ok(true) => Ok(facts),
        Ok(false) => Err(SkipReason::Empty),
        Err(error) => Err(SkipReason::Unreadable(error.to_string())),
    }
}

/// Longer keys than any of these are not looked at.
const MAX_KEY_BYTES: usize = 1024;

/// Unless an object shows by then what it is, the rest of it is not read.
const MAX_UNKNOWN_BYTES: u64 = 1024 * 1024;

fn facts_of_object(file: &FoundFile) -> Result<ChatFacts, SkipReason> {
    read_facts(&file.path).map_err(|error| SkipReason::Unreadable(error.to_string()))
}

fn read_facts(path: &Path) -> io::Result<ChatFacts> {
    const MAX_FACT_BYTES: usize = 1024 * 1024;
    let mut facts = ChatFacts::default();
    let mut reader = ObjectReader::new(File::open(path)?, LISTS, MAX_FACT_BYTES);
    let (mut has_project, mut elements) = (false, 0_u32);
    loop {
        match reader.next_piece()? {
            Piece::Member { key, value: Ok(json) } => {
                let (text, _) = sanitize(&json);
                let value = Json::parse(&text).ok();
                let text = || non_blank(value).map(|text| text.trim().to_owned());
                match key.as_str() {
                    "sessionId" => facts.session_id = text(),
                    "projectHash" => has_project = text().is_some(),
                    "summary" => facts.title = text(),
                    "kind" => facts.is_sub_agent = is(value, "subagent"),
                    "lastUpdated" => facts.updated_at = text().and_then(|text| Timestamp::parse_iso(&text).ok()),
                    _ => {}
                }
            }
            Piece::Element(Ok(json)) if elements == 0 => {
                elements += 1;
                let (text, _) = sanitize(&json);
                facts.has_messages = object_of(&text).is_ok_and(is_message);
            }
            Piece::Member { .. } | Piece::Element(_) => {}
            Piece::End | Piece::Broken => break,
        }
        facts.is_ours = facts.session_id.is_some() && (has_project || facts.has_messages);
        if !facts.is_ours && !facts.has_messages && reader.bytes_read() > MAX_UNKNOWN_BYTES {
            break;
        }
    }
    Ok(facts)
}

/// Whether an object looks like a message of a chat: of one of its types, with what those say at the top level.
fn is_message(message: Json<'_>) -> bool {
    let [kind, role, content, parts, thoughts, foreign] =
        members(message, ["type", "role", "content", "parts", "thoughts", "message"]);
    let kind = kind.or(role).and_then(Json::as_str).unwrap_or_default();
    let is_known = matches!(&*kind, "user" | "gemini" | "model" | "info" | "warning" | "error");
    is_known && foreign.is_none() && (content.is_some() || parts.is_some() || thoughts.is_some())
}

fn add_source(file: FoundFile, facts: ChatFacts, agent: AgentId, discovery: &mut Discovery) {
    let name = file.name();
    let form = Form::of_path(&file.path);
    if form == Form::Object
        && let Some(log) = log_beside(&file, &facts)
    {
        discovery.skip(&file.path, SkipReason::OtherCopyOf(log));
        return;
    }
    let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = facts.session_id.unwrap_or(stem);
    let parent = parent_folder(&file.canonical, facts.is_sub_agent).filter(|parent| *parent != id);
    let spawned_by = parent.and_then(|parent| {
        let parent = SessionId::parse(&parent).ok()?;
        SessionKey::of_transcript(&agent, Format::GeminiCli.name(), &parent).ok()
    });
    let stored =
        SessionFacts { label: facts.title, spawned_by, updated_at: facts.updated_at, ..SessionFacts::default() };
    let object = (form == Form::Log).then(|| file.canonical.with_extension("json"));
    let Ok(id) = SessionId::parse(&id).or_else(|_| SessionId::parse(&name)) else {
        discovery.skip(&file.path, SkipReason::UnknownFormat);
        return;
    };
    if let Some(source) = discovery.add_source(file, Format::GeminiCli, agent, id, stored) {
        source.replaces = object;
    }
}

/// The log that an object goes on as: of the same name, and of the same session.
fn log_beside(object: &FoundFile, facts: &ChatFacts) -> Option<PathBuf> {
    let path = object.path.with_extension("jsonl");
    if !std::fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_file()) {
        return None;
    }
    let log = FoundFile { canonical: path.clone(), path, len_bytes: 0, stamp: 0, is_given: false };
    let of_log = facts_of_log(&log).ok()?;
    (of_log.is_ours && of_log.session_id == facts.session_id).then_some(log.path)
}

/// The session in whose folder a sub-agent's chat lies: `chats/<session id>/<id>.jsonl`.
fn parent_folder(file: &Path, is_sub_agent: bool) -> Option<String> {
    let folder = file.parent()?;
    let is_below_chats = folder.parent().and_then(Path::file_name).is_some_and(|name| name == "chats");
    let name = folder.file_name()?.to_string_lossy().into_owned();
    (is_below_chats || (is_sub_agent && name != "chats")).then_some(name)
}

/// The messages of an object.
struct Messages {
    reader: ObjectReader<File>,
    number: u64,
    /// Messages that were read before.
    passed: u64,
    len_bytes: u64,
    is_done: bool,
}

impl Iterator for Messages {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<io::Result<Item>> {
        while !self.is_done {
            match self.reader.next_piece() {
                Ok(Piece::Element(json)) => {
                    self.number += 1;
                    if self.number > self.passed {
                        return Some(Ok(self.item(json)));
                    }
                }
                Ok(Piece::Member { .. }) => {}
                Ok(Piece::End) => self.is_done = true,
                Ok(Piece::Broken) => {
                    self.is_done = true;
                    return Some(Ok(Item::Torn { line: self.number + 1, bytes: 0 }));
                }
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Messages {
    fn item(&self, json: Result<Vec<u8>, u64>) -> Item {
        let line = self.number;
        let end = Position { offset: self.len_bytes, line };
        let raw = match json {
            Ok(raw) => raw,
            Err(bytes) => return Item::Rejected { line, reason: EventError::TooLong { bytes }, end },
        };
        let (text, repairs) = sanitize(&raw);
        match object_of(&text).and_then(|object| Message::of(object).row(repairs)) {
            Ok(row) => Item::Event(Box::new(rows::imported(line, end, raw, row, false))),
            Err(reason) => Item::Rejected { line, reason, end },
        }
    }
}

/// What a line of the log says.
enum Record<'a> {
    /// Back to before the message of this id.
    Rewind(String),
    Message(Json<'a>),
    Set(Json<'a>),
    Metadata(Json<'a>),
    Other,
}

impl<'a> Record<'a> {
    fn of(object: Json<'a>) -> Self {
        let [rewind, id, set, session_id] = members(object, ["$rewindTo", "id", "$set", "sessionId"]);
        if let Some(id) = rewind.and_then(Json::as_str) {
            return Self::Rewind(trimmed(&id));
        }
        if id.is_some_and(|id| id.kind() == JsonKind::String) {
            return Self::Message(object);
        }
        if let Some(set) = set.filter(|set| set.kind() == JsonKind::Object) {
            return Self::Set(set);
        }
        if non_blank(session_id).is_some() { Self::Metadata(object) } else { Self::Other }
    }

    /// The list that the line sets, where it sets one.
    fn messages(&self) -> Vec<Json<'a>> {
        match self {
            Self::Set(facts) | Self::Metadata(facts) => {
                member(Some(*facts), "messages").into_iter().flat_map(Json::elements).collect()
            }
            Self::Rewind(_) | Self::Message(_) | Self::Other => Vec::new(),
        }
    }
}

/// An id as the store compares it.
fn trimmed(id: &str) -> String {
    id.trim_matches(is_js_space).to_owned()
}

/// The place of a message in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: u64,
    /// Bytes before the line.
    offset: u64,
    /// Its place in `$set.messages`, from 1; 0: the line is the message.
    part: u32,
}

/// A message of the list.
#[derive(Debug)]
struct Entry {
    id: String,
    /// The line that put it into the list.
    home: Place,
    /// Where its last form stands.
    content: Place,
    /// Of that form, as it is stored.
    hash: u64,
}

/// The list that a log leaves.
#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    by_id: HashMap<String, usize>,
    last_line: u64,
    /// Lines that were read before.
    passed: u64,
    /// A line after those changed what one of them is stored as.
    is_disturbed: bool,
}

impl List {
    fn of(path: &Path, from: Position) -> Result<Self, OpenError> {
        let mut list = Self { passed: from.line, ..Self::default() };
        let mut lines = LineReader::new(File::open(path)?, MAX_EVENT_BYTES);
        loop {
            let offset = lines.position().offset;
            let Some(line) = lines.next_line()? else { break };
            let place = Place { line: line.number, offset, part: 0 };
            let is_read = match line.text {
                Ok(text) => list.take(place, text),
                Err(_) => false,
            };
            // One that is being written is read next time.
            if line.ended || is_read {
                list.last_line = line.number;
            }
        }
        if list.is_disturbed { Err(OpenError::Restated) } else { Ok(list) }
    }

    /// Takes in a line. `false`: it is no object.
    fn take(&mut self, place: Place, raw: &[u8]) -> bool {
        let (text, _) = sanitize(raw);
        let Ok(object) = object_of(&text) else { return false };
        if rows::appended(object, raw).is_some() {
            return true;
        }
        let record = Record::of(object);
        match &record {
            Record::Rewind(id) => self.truncate(place, self.by_id.get(id).copied().unwrap_or(0)),
            Record::Message(message) => self.put(place, *message),
            Record::Set(_) | Record::Metadata(_) => {
                let messages = record.messages();
                if !messages.is_empty() {
                    self.truncate(place, 0);
                }
                for (part, message) in (1..).zip(messages) {
                    self.put(Place { part, ..place }, message);
                }
            }
            Record::Other => {}
        }
        true
    }

    fn put(&mut self, content: Place, message: Json<'_>) {
        if message.kind() != JsonKind::Object {
            return;
        }
        let id = member(Some(message), "id").and_then(Json::as_str).map(|id| trimmed(&id)).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        Message::of(message).normalized().hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(entry) = self.by_id.get(&id).and_then(|at| self.entries.get_mut(*at)) {
            if entry.hash != hash {
                self.is_disturbed |= entry.home.line <= self.passed && content.line > self.passed;
                (entry.content, entry.hash) = (content, hash);
            }
            return;
        }
        if !id.is_empty() {
            self.by_id.insert(id.clone(), self.entries.len());
        }
        self.entries.push(Entry { id, home: content, content, hash });
    }

    fn truncate(&mut self, by: Place, len: usize) {
        for entry in self.entries.drain(len..) {
            self.is_disturbed |= entry.home.line <= self.passed && by.line > self.passed;
            self.by_id.remove(&entry.id);
        }
    }
}

/// Reads the lines of a log whose list is known.
struct Lines {
    path: PathBuf,
    /// The list; its order is that of its homes.
    entries: Vec<Entry>,
    /// The first message of the list whose home is yet to come.
    at: usize,
}

impl ReadRows for Lines {
    fn rows(&mut self, number: u64, raw: &[u8]) -> Result<Vec<Row>, RowError> {
        let (text, repairs) = sanitize(raw);
        let object = object_of(&text)?;
        if let Some(row) = rows::appended(object, raw) {
            return Ok(vec![row]);
        }
        let record = Record::of(object);
        let here = self.entries.get(self.at..).unwrap_or_default();
        let here = here.get(..here.partition_point(|entry| entry.home.line <= number)).unwrap_or_default();
        self.at += here.len();
        if let (Record::Message(message), [entry]) = (&record, here) {
            return Ok(vec![self.message(*message, entry, repairs)?]);
        }
        let mut rows = vec![own_row(&record, object, repairs)?];
        let messages = record.messages();
        for entry in here {
            let Some(message) = messages.get((entry.home.part as usize).wrapping_sub(1)) else { continue };
            rows.push(self.message(*message, entry, repairs)?);
        }
        Ok(rows)
    }
}

impl Lines {
    /// The row of a message of the list, whose home holds `message`.
    fn message(&self, message: Json<'_>, entry: &Entry, repairs: LineRepairs) -> Result<Row, RowError> {
        if entry.content == entry.home {
            return Ok(Message::of(message).row(repairs)?);
        }
        let before = Position { offset: entry.content.offset, line: entry.content.line - 1 };
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "changed while it was read; import it again");
        let mut lines = LineReader::from_position(File::open(&self.path)?, before, MAX_EVENT_BYTES)?;
        let line = lines.next_line()?.ok_or_else(changed)?;
        let (text, later_repairs) = sanitize(line.text.map_err(|_| changed())?);
        let object = object_of(&text).map_err(|_| changed())?;
        let in_list =
            entry.content.part.checked_sub(1).map(|part| Record::of(object).messages().get(part as usize).copied());
        let message = in_list.map_or(Some(object), |message| message).ok_or_else(changed)?;
        Ok(Message::of(message).row(later_repairs)?)
    }
}

/// What a line is stored as, beside the messages it brings.
fn own_row(record: &Record<'_>, object: Json<'_>, repairs: LineRepairs) -> Result<Row, EventError> {
    let [timestamp] = members(object, ["timestamp"]);
    let bare = || Object::of_type("gemini-cli:log").value("timestamp", timestamp).finish();
    let facts = match record {
        Record::Set(facts) | Record::Metadata(facts) => *facts,
        Record::Rewind(_) | Record::Message(_) | Record::Other => return Row::normalized(bare(), bare, repairs),
    };
    let [id, start, updated, summary] = members(facts, ["sessionId", "startTime", "lastUpdated", "summary"]);
    let title = non_blank(summary).map(|title| title.trim().to_owned());
    let normalized = match (record, &title) {
        (Record::Metadata(_), _) => {
            Object::of_type("session").member("version", "3").value("id", id).value("timestamp", start).finish()
        }
        (_, Some(title)) => Object::of_type("session_info").text("name", title).value("timestamp", updated).finish(),
        (_, None) => Object::of_type("gemini-cli:log").value("timestamp", updated).finish(),
    };
    let mut row = Row::normalized(normalized, bare, repairs)?;
    row.event.title = title;
    Ok(row)
}

/// A message of a chat.
struct Message<'a> {
    id: Option<Json<'a>>,
    timestamp: Option<Json<'a>>,
    kind: String,
    content: Option<Json<'a>>,
    typed: Option<Json<'a>>,
    thoughts: Option<Json<'a>>,
    tool_calls: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    fn of(message: Json<'a>) -> Self {
        let [id, timestamp, kind, role, content, parts, typed, thoughts, tool_calls] = members(
            message,
            ["id", "timestamp", "type", "role", "content", "parts", "displayContent", "thoughts", "toolCalls"],
        );
        let kind = kind.or(role).and_then(Json::as_str).unwrap_or_default().into_owned();
        Self { id, timestamp, kind, content: content.or(parts), typed, thoughts, tool_calls }
    }

    fn row(&self, repairs: LineRepairs) -> Result<Row, EventError> {
        let bare = || self.entry("custom").text("customType", "gemini-cli").finish();
        Row::normalized(self.normalized(), bare, repairs)
    }

    fn entry(&self, kind: &str) -> Object {
        Object::of_type(kind).value("id", self.id).value("timestamp", self.timestamp)
    }

    fn normalized(&self) -> String {
        let mut said = Said { is_user: self.kind == "user", ..Said::default() };
        for thought in self.thoughts.into_iter().flat_map(Json::elements) {
            let [subject, description] = members(thought, ["subject", "description"]).map(non_blank);
            let thought: Vec<_> = [subject, description].into_iter().flatten().collect();
            said.blocks.thinking(&thought.join(": "));
        }
        let mut typed = Said { is_user: true, ..Said::default() };
        typed.content(self.typed.filter(|_| said.is_user));
        if typed.blocks.has_text() {
            said = typed;
        } else {
            said.content(self.content);
        }
        for call in self.tool_calls.into_iter().flat_map(Json::elements) {
            said.tool_call(call);
        }
        let is_user = said.is_user;
        let Said { blocks, has_injected, has_response, .. } = said;
        let role = match &*self.kind {
            "user" if has_response && !blocks.has_text() => "toolResult",
            "user" if blocks.has_text() || !has_injected => "user",
            "gemini" | "model" | "assistant" => "assistant",
            _ => {
                let custom_type = if is_user { "gemini-cli:injected" } else { "gemini-cli:notice" };
                let entry = self.entry("custom_message").text("customType", custom_type);
                return entry.member("content", &blocks.finish()).member("display", "false").finish();
            }
        };
        let message = Object::new().text("role", role).member("content", &blocks.finish()).finish();
        self.entry("message").member("message", &message).finish()
    }
}

/// The content of a message, part by part.
#[derive(Default)]
struct Said {
    is_user: bool,
    blocks: Blocks,
    has_injected: bool,
    has_response: bool,
}

impl Said {
    /// A string, a part, or several.
    fn content(&mut self, content: Option<Json<'_>>) {
        let Some(content) = content else { return };
        match content.kind() {
            JsonKind::Array => content.elements().for_each(|part| self.part(part)),
            JsonKind::String => self.text(content.as_str().unwrap_or_default().trim_matches(is_js_space)),
            _ => self.part(content),
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_user && begins_with_any(text, INJECTED) {
            self.has_injected = true;
            self.blocks.other("injected", text);
        } else {
            self.blocks.text(text);
        }
    }

    fn part(&mut self, part: Json<'_>) {
        if let Some(text) = part.as_str() {
            return self.text(&text);
        }
        let [text, thought, inline, file, call, response] =
            members(part, ["text", "thought", "inlineData", "fileData", "functionCall", "functionResponse"]);
        match text.and_then(Json::as_str) {
            Some(text) if thought.is_some_and(Json::is_true) => self.blocks.thinking(&text),
            Some(text) => self.text(&text),
            None => {}
        }
        if inline.is_some() || file.is_some() {
            self.blocks.data("image", member(inline, "data").and_then(Json::as_str).as_deref());
        }
        if let Some(call) = call {
            self.tool_call(call);
        }
        if let Some(response) = response {
            self.has_response = true;
            self.response(response);
        }
    }

    fn tool_call(&mut self, call: Json<'_>) {
        let [id, name, args, result] = members(call, ["id", "name", "args", "result"]);
        self.blocks.tool_call(non_blank(id).as_deref(), non_blank(name).as_deref(), args);
        for part in result.into_iter().flat_map(Json::elements) {
            if let Some(response) = member(Some(part), "functionResponse") {
                self.response(response);
            }
        }
    }

    /// What a tool answered: its output, else its JSON.
    fn response(&mut self, response: Json<'_>) {
        let Some(response) = member(Some(response), "response") else { return };
        match member(Some(response), "output").and_then(Json::as_str) {
            Some(output) => self.blocks.other("toolResult", &output),
            None => self.blocks.other("toolResult", response.as_json()),
        }
    }
}
