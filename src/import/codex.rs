//! Codex CLI's rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`, also compressed (`.jsonl.zst`).
//!
//! # Sessions
//!
//! A file is the thread that its first `session_meta` names, else the UUID in its name, else its name. A sub-agent's
//! thread names its parent, and a fork the thread it comes from.
//!
//! # Rows
//!
//! Lines have neither ids nor parents: each becomes `line-<n>` and goes on from the one before.
//!
//! | line | stored as |
//! | --- | --- |
//! | `session_meta`; in old builds `{"id","timestamp","instructions"}` | header |
//! | `response_item` message of `user`, `assistant` | `message` |
//! | the same by the program ([`INJECTED`] text) or of another role | `custom_message`: not searched |
//! | `response_item` reasoning, calls and their outputs | `message`: thinking, tool call, role `toolResult` |
//! | `event_msg` `user_message`, `agent_message` | `custom`, for they repeat items; `message` in a file without items |
//! | `event_msg` `thread_name_updated` | `session_info`: the title |
//! | `event_msg` `thread_rolled_back` | `leaf`: back to before the turns that were undone |
//! | `compacted` | `compaction`; the history it repeats is not searched |
//! | any other | `custom` |
//!
//! Old builds write items bare, without the line around them.
//!
//! Whether a file has items is found out before it is read, up to its first. Where a file was read without any and then
//! gets one, it is read anew.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use super::compressed;
use super::lines::LineReader;
use super::normalized::{Blocks, Object, begins_with_any, is, member, members, non_blank};
use super::rows::{LineItems, ReadRows, Row, RowError, appended};
use super::walk::FoundFile;
use super::{
    Agents, DiscoverOptions, Discovery, Format, ImportError, Importer, Items, OpenError, Position, SkipReason, Source,
    is_uuid,
};
use crate::limits::MAX_EVENT_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey, is_js_space};
use crate::transcript::json::{Json, JsonKind};
use crate::transcript::{object_of, sanitize};

/// The importer of [`Format::Codex`].
pub(super) struct Codex;

/// How text begins that the program put into a `user` item.
const INJECTED: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<permissions",
    "<collaboration_mode>",
    "<model_switch>",
    "<personality_spec>",
    "<realtime_conversation>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<skill>",
    "<goal_context>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<hook_prompt",
    "<image name=",
    "<image>",
    "</image>",
];

impl Importer for Codex {
    fn claim(
        &self,
        files: &mut Vec<FoundFile>,
        options: &DiscoverOptions,
        agents: &mut Agents,
        discovery: &mut Discovery,
    ) -> Result<(), ImportError> {
        for file in std::mem::take(files) {
            let name = file.name();
            if !file.is_given && !name.ends_with(".jsonl") && !name.ends_with(".jsonl.zst") {
                files.push(file);
                continue;
            }
            match FirstLines::of(&file) {
                Err(reason) => discovery.skip(&file.path, reason),
                Ok(first) if first.is_ours || options.format.is_some() => {
                    let agent = agents.of_file(&file.canonical, options)?;
                    add_source(file, &first, agent, discovery);
                }
                Ok(_) => files.push(file),
            }
        }
        Ok(())
    }

    fn open(&self, source: &Source, from: Position) -> Result<Items, OpenError> {
        let path = &source.path;
        let has_items = has_items(path, from)?;
        let mut format = Lines { has_items, last: None, turns: Vec::new() };
        if from.line > 0 && has_rollback(path, from)? {
            format.replay(path, from.line)?;
        }
        if !compressed::is_zstd(path) {
            let lines = LineReader::from_position(File::open(path)?, from, MAX_EVENT_BYTES)?;
            return Ok(Box::new(LineItems::new(lines, format)));
        }
        // Its lines have no place in the file: they are counted.
        let len_bytes = std::fs::metadata(path)?.len();
        let lines = lines_after(path, from.line)?;
        Ok(Box::new(LineItems::new(lines, format).with_offset(len_bytes)))
    }
}

/// The lines after the first `passed`, from any kind of file.
fn lines_after(path: &Path, passed: u64) -> io::Result<LineReader<Box<dyn Read + Send>>> {
    let mut lines = LineReader::new(compressed::open(path)?, MAX_EVENT_BYTES);
    while lines.position().line < passed {
        if lines.next_line()?.is_none() {
            break;
        }
    }
    Ok(lines)
}

/// Whether the file has items that are messages. Restated: the first of them comes after `from`, and before it stand
/// events that were taken in their stead.
fn has_items(path: &Path, from: Position) -> Result<bool, OpenError> {
    let mut lines = lines_after(path, 0)?;
    let mut has_early_events = false;
    while let Some(line) = lines.next_line()? {
        let Ok(text) = line.text else { continue };
        let (text, _) = sanitize(text);
        let Ok(object) = object_of(&text) else { continue };
        let line_number = line.number;
        match Line::of(object).content {
            Content::Item(item) if Item::of(item).speaker().is_some() => {
                return if has_early_events && line_number > from.line { Err(OpenError::Restated) } else { Ok(true) };
            }
            Content::Event(event) => {
                let kind = member(Some(event), "type");
                has_early_events |= line_number <= from.line && event_speaker(kind).is_some();
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Whether turns are undone after this place.
fn has_rollback(path: &Path, from: Position) -> io::Result<bool> {
    let mut lines = lines_after(path, from.line)?;
    while let Some(line) = lines.next_line()? {
        let Ok(text) = line.text else { continue };
        let (text, _) = sanitize(text);
        let Ok(object) = object_of(&text) else { continue };
        if let Content::Event(event) = Line::of(object).content
            && is(member(Some(event), "type"), ROLLED_BACK)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

const ROLLED_BACK: &str = "thread_rolled_back";

/// Whether a file's first lines are of this format.
pub(super) fn is_own(file: &FoundFile) -> bool {
    FirstLines::of(file).is_ok_and(|first| first.is_ours)
}

/// What the first lines of a file tell.
#[derive(Default)]
struct FirstLines {
    is_ours: bool,
    id: Option<String>,
    forked_from: Option<String>,
    spawned_by: Option<String>,
}

impl FirstLines {
    fn of(file: &FoundFile) -> Result<Self, SkipReason> {
        let mut first = Self::default();
        let any = file.look_at_first_lines(|line| {
            let (text, _) = sanitize(line);
            match object_of(&text) {
                Ok(object) => first.take(object),
                Err(_) => ControlFlow::Continue(()),
            }
        });
        match any {
            Ok(true) => Ok(first),
            Ok(false) => Err(SkipReason::Empty),
            Err(error) => Err(SkipReason::Unreadable(error.to_string())),
        }
    }

    fn take(&mut self, object: Json<'_>) -> ControlFlow<()> {
        let line = Line::of(object);
        match line.content {
            Content::Header(meta) => {
                self.is_ours = true;
                let [id, session_id, forked_from, parent, source] =
                    members(meta, ["id", "session_id", "forked_from_id", "parent_thread_id", "source"]);
                let spawn = member(member(source, "subagent"), "thread_spawn");
                let parent = non_blank(member(spawn, "parent_thread_id")).or_else(|| non_blank(parent));
                self.id = non_blank(id).or_else(|| non_blank(session_id)).map(Into::into);
                self.forked_from = non_blank(forked_from).map(Into::into);
                self.spawned_by = parent.map(Into::into);
                return ControlFlow::Break(());
            }
            Content::Item(item) if line.is_bare => self.is_ours |= is_bare_item(item),
            Content::Other if line.is_bare => {
                self.is_ours |= non_blank(member(Some(object), "record_type")).is_some();
            }
            _ => self.is_ours = true,
        }
        ControlFlow::Continue(())
    }
}

/// Whether only a line of this format looks like that. Other formats put their messages one level deeper.
fn is_bare_item(item: Json<'_>) -> bool {
    let [kind, role, content, message, timestamp, created_at, uuid, session_id] =
        members(item, ["type", "role", "content", "message", "timestamp", "created_at", "uuid", "sessionId"]);
    let is_foreign = uuid.is_some() || session_id.is_some();
    let has_role = role.and_then(Json::as_str).is_some_and(|role| matches!(&*role, "user" | "assistant" | "system"));
    let has_text = content.is_some() || message.and_then(Json::as_str).is_some();
    has_role && has_text && !is_foreign && (is(kind, "message") || timestamp.or(created_at).is_some())
}

fn add_source(file: FoundFile, first: &FirstLines, agent: AgentId, discovery: &mut Discovery) {
    let name = file.name();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    let named = stem.len().checked_sub(36).and_then(|at| stem.get(at..)).filter(|id| is_uuid(id));
    let key_of = |id: &String| {
        let id = SessionId::parse(id).ok()?;
        SessionKey::of_transcript(&agent, Format::Codex.name(), &id).ok()
    };
    let facts = SessionFacts {
        parent: first.forked_from.as_ref().and_then(key_of),
        spawned_by: first.spawned_by.as_ref().and_then(key_of),
        ..SessionFacts::default()
    };
    let id = first.id.as_deref().or(named).unwrap_or(stem);
    match SessionId::parse(id).or_else(|_| SessionId::parse(&file.name())) {
        Ok(id) => drop(discovery.add_source(file, Format::Codex, agent, id, facts)),
        Err(_) => discovery.skip(&file.path, SkipReason::UnknownFormat),
    }
}

/// A line, taken out of what stands around it.
struct Line<'a> {
    content: Content<'a>,
    timestamp: Option<Json<'a>>,
    /// Nothing stands around it.
    is_bare: bool,
}

enum Content<'a> {
    /// Describes the thread.
    Header(Json<'a>),
    /// A `response_item`.
    Item(Json<'a>),
    /// An `event_msg`.
    Event(Json<'a>),
    /// A compaction.
    Compacted,
    Other,
}

impl<'a> Line<'a> {
    fn of(object: Json<'a>) -> Self {
        let [kind, payload, timestamp, created_at, role, record_type, id, instructions] = members(
            object,
            ["type", "payload", "timestamp", "created_at", "role", "record_type", "id", "instructions"],
        );
        let kind = kind.and_then(Json::as_str).unwrap_or_default();
        let payload = payload.filter(|payload| payload.kind() == JsonKind::Object);
        let (content, is_bare) = match (payload, &*kind) {
            (Some(meta), "session_meta") => (Content::Header(meta), false),
            (Some(item), "response_item") => (Content::Item(item), false),
            (Some(event), "event_msg") => (Content::Event(event), false),
            (Some(_), "compacted") => (Content::Compacted, false),
            (Some(_), "turn_context" | "world_state") => (Content::Other, false),
            (Some(_), other) if other.starts_with("inter_agent_communication") => (Content::Other, false),
            (None, "") if id.is_some() && instructions.is_some() => (Content::Header(object), true),
            (None, kind) if record_type.is_none() && (role.is_some() || !kind.is_empty()) => {
                (Content::Item(object), true)
            }
            _ => (Content::Other, true),
        };
        Self { content, timestamp: timestamp.or(created_at), is_bare }
    }
}

/// A `response_item`, or what old builds wrote in its place.
struct Item<'a> {
    kind: String,
    role: Option<String>,
    content: Option<Json<'a>>,
    name: Option<Json<'a>>,
    call_id: Option<Json<'a>>,
    arguments: Option<Json<'a>>,
    output: Option<Json<'a>>,
    summary: Option<Json<'a>>,
}

impl<'a> Item<'a> {
    fn of(item: Json<'a>) -> Self {
        let [kind, role, content, message, name, function, call_id, arguments, input, action, output, result] = members(
            item,
            [
                "type",
                "role",
                "content",
                "message",
                "name",
                "function",
                "call_id",
                "arguments",
                "input",
                "action",
                "output",
                "result",
            ],
        );
        let [summary] = members(item, ["summary"]);
        Self {
            kind: kind.and_then(Json::as_str).unwrap_or_default().into_owned(),
            role: non_blank(role).map(Into::into),
            content: content.or(message),
            name: name.or_else(|| member(function, "name")),
            call_id,
            arguments: arguments.or(input).or(action),
            output: output.or(result),
            summary,
        }
    }

    fn is_message(&self) -> bool {
        self.role.is_some() && matches!(&*self.kind, "message" | "")
    }

    /// Who speaks, in a message of the conversation.
    fn speaker(&self) -> Option<&str> {
        self.role.as_deref().filter(|role| self.is_message() && matches!(*role, "user" | "assistant"))
    }
}

/// Who speaks in an event of this type.
fn event_speaker(kind: Option<Json<'_>>) -> Option<&'static str> {
    match &*kind.and_then(Json::as_str)? {
        "user_message" => Some("user"),
        "agent_message" => Some("assistant"),
        _ => None,
    }
}

/// Reads the lines of one file.
struct Lines {
    has_items: bool,
    /// The line that the next one goes on from.
    last: Option<u64>,
    /// For each turn of the user, the line before it.
    turns: Vec<Option<u64>>,
}

/// Where a row of its own stands.
struct Place<'a> {
    number: u64,
    timestamp: Option<Json<'a>>,
}

impl Place<'_> {
    fn entry(&self, kind: &str) -> Object {
        Object::of_type(kind).text("id", &line_id(self.number)).value("timestamp", self.timestamp)
    }

    fn message(&self, role: &str, blocks: Blocks) -> String {
        let message = Object::new().text("role", role).member("content", &blocks.finish()).finish();
        self.entry("message").member("message", &message).finish()
    }

    fn bare(&self) -> String {
        self.entry("custom").text("customType", "codex").finish()
    }
}

fn line_id(number: u64) -> String {
    format!("line-{number}")
}

impl ReadRows for Lines {
    fn rows(&mut self, number: u64, raw: &[u8]) -> Result<Vec<Row>, RowError> {
        let (text, repairs) = sanitize(raw);
        let object = object_of(&text)?;
        if let Some(row) = appended(object, raw) {
            return Ok(vec![row]);
        }
        let line = Line::of(object);
        let place = Place { number, timestamp: line.timestamp };
        let normalized = match line.content {
            Content::Header(meta) => {
                let row = Row::normalized(header(meta, line.timestamp), || place.bare(), repairs)?;
                return Ok(vec![row]);
            }
            Content::Item(item) => self.item(&place, &Item::of(item)),
            Content::Event(event) => self.event(&place, event),
            Content::Compacted => Some(place.entry("compaction").finish()),
            Content::Other => None,
        };
        let row = Row::normalized(normalized.unwrap_or_else(|| place.bare()), || place.bare(), repairs)?;
        if row.event.leaf.is_none() {
            self.last = Some(number);
        }
        Ok(vec![row])
    }
}

fn header(meta: Json<'_>, timestamp: Option<Json<'_>>) -> String {
    let [id, session_id, forked_from, own_timestamp] =
        members(meta, ["id", "session_id", "forked_from_id", "timestamp"]);
    Object::of_type("session")
        .member("version", "3")
        .value("id", id.or(session_id))
        .value("timestamp", timestamp.or(own_timestamp))
        .text_if("parentSession", non_blank(forked_from).as_deref())
        .finish()
}

impl Lines {
    /// Learns from the lines before `from` what later ones may go back to.
    fn replay(&mut self, path: &Path, from: u64) -> io::Result<()> {
        let mut lines = lines_after(path, 0)?;
        while lines.position().line < from {
            let Some(line) = lines.next_line()? else { break };
            let number = line.number;
            if let Ok(text) = line.text {
                match self.rows(number, text) {
                    Ok(_) | Err(RowError::Line(_)) => {}
                    Err(RowError::Io(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, place: &Place<'_>, item: &Item<'_>) -> Option<String> {
        let name = non_blank(item.name);
        match &*item.kind {
            _ if item.is_message() => {
                let role = item.role.as_deref().unwrap_or_default();
                Some(self.message(place, role, item.content))
            }
            "reasoning" => {
                let mut blocks = Blocks::default();
                for part in item.summary.into_iter().flat_map(Json::elements) {
                    if let Some(text) = non_blank(member(Some(part), "text")) {
                        blocks.thinking(&text);
                    }
                }
                (!blocks.is_empty()).then(|| place.message("assistant", blocks))
            }
            kind if kind.ends_with("_call") => {
                let mut blocks = Blocks::default();
                let name = name.as_deref().unwrap_or(kind);
                blocks.tool_call(non_blank(item.call_id).as_deref(), Some(name), item.arguments);
                Some(place.message("assistant", blocks))
            }
            kind if kind.ends_with("_output") || kind.ends_with("_result") => {
                let mut blocks = Blocks::default();
                match item.output.and_then(Json::as_str) {
                    Some(text) => blocks.text(&text),
                    None => item.output.into_iter().for_each(|output| output_blocks(&mut blocks, output)),
                }
                let answer = Object::new().text("role", "toolResult");
                let answer = answer.text_if("toolCallId", non_blank(item.call_id).as_deref());
                let answer = answer.text_if("toolName", name.as_deref()).member("content", &blocks.finish());
                Some(place.entry("message").member("message", &answer.finish()).finish())
            }
            _ => None,
        }
    }

    fn event(&mut self, place: &Place<'_>, event: Json<'_>) -> Option<String> {
        let [kind, message, thread_name, num_turns] = members(event, ["type", "message", "thread_name", "num_turns"]);
        if let Some(role) = event_speaker(kind) {
            return (!self.has_items).then(|| self.message(place, role, message));
        }
        if is(kind, ROLLED_BACK) {
            let count = num_turns.and_then(Json::as_number).and_then(|count| count.parse().ok()).unwrap_or(1);
            return Some(self.roll_back(place, count));
        }
        let name = non_blank(thread_name).filter(|_| is(kind, "thread_name_updated"))?;
        Some(place.entry("session_info").text("name", name.trim()).finish())
    }

    fn message(&mut self, place: &Place<'_>, role: &str, content: Option<Json<'_>>) -> String {
        let (mut blocks, mut is_injected) = (Blocks::default(), false);
        let mut say = |blocks: &mut Blocks, text: &str| {
            if role == "user" && begins_with_any(text, INJECTED) {
                is_injected = true;
                blocks.other("injected", text);
            } else {
                blocks.text(text);
            }
        };
        match content.and_then(Json::as_str) {
            Some(text) => say(&mut blocks, text.trim_matches(is_js_space)),
            None => {
                for block in content.into_iter().flat_map(Json::elements) {
                    let [kind, text, image] = members(block, ["type", "text", "image_url"]);
                    match (text.and_then(Json::as_str), kind.and_then(Json::as_str)) {
                        (Some(text), _) => say(&mut blocks, &text),
                        (None, Some(kind)) if kind.contains("image") => {
                            blocks.data("image", image.and_then(Json::as_str).as_deref());
                        }
                        (None, Some(kind)) => blocks.other(&kind, ""),
                        (None, None) => {}
                    }
                }
            }
        }
        let is_said = matches!(role, "user" | "assistant") && (blocks.has_text() || !is_injected);
        if !is_said {
            let entry = place.entry("custom_message").text("customType", &format!("codex:{role}"));
            return entry.member("content", &blocks.finish()).member("display", "false").finish();
        }
        if role == "user" && blocks.has_text() {
            self.turns.push(self.last);
        }
        place.message(role, blocks)
    }

    fn roll_back(&mut self, place: &Place<'_>, count: usize) -> String {
        let json = |line: Option<u64>| line.map_or_else(|| "null".to_owned(), |line| format!("\"{}\"", line_id(line)));
        let from = self.last;
        let kept = self.turns.len().saturating_sub(count);
        if let Some(before) = self.turns.get(kept).filter(|_| count > 0) {
            self.last = *before;
        }
        self.turns.truncate(kept);
        place.entry("leaf").member("parentId", &json(from)).member("targetId", &json(self.last)).finish()
    }
}

/// What a tool answered, where that is no string: the texts of its blocks, else its JSON.
fn output_blocks(blocks: &mut Blocks, output: Json<'_>) {
    let mut texts = 0;
    for block in output.elements() {
        let [kind, text, image] = members(block, ["type", "text", "image_url"]);
        if let Some(text) = text.and_then(Json::as_str) {
            blocks.text(&text);
            texts += 1;
        } else if is(kind, "input_image") {
            blocks.data("image", image.and_then(Json::as_str).as_deref());
            texts += 1;
        }
    }
    if texts == 0 {
        blocks.text(output.as_json());
    }
}
