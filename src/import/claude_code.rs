//! Claude Code's transcripts: `projects/<folder>/<session id>.jsonl` and those of its sub-agents.
//!
//! # Sessions
//!
//! A file is the session its name says, where that is a UUID; else the one its lines name, else its name. Resuming or
//! forking under a new id copies lines, uuids and all, into a new file: that is a session of its own, and two files of
//! one id are settled like those of any format (D26).
//!
//! A sub-agent is a session `agent-<agentId>` of its own, spawned by its parent's. It has a file of that name, or, in
//! older builds, its lines stand among its parent's with `isSidechain`: those become a [`SideSession`], named by their
//! `agentId`, else by the uuid of the chain's first line.
//!
//! # Rows
//!
//! | line | stored as |
//! | --- | --- |
//! | `user`, `assistant` | `message`; one answer of the model in several lines stays several rows |
//! | `user` that answers a tool call | `message` of role `toolResult` |
//! | `user` that the program wrote (`isMeta`, `isCompactSummary`, [`INJECTED`] text) | `custom_message`: not searched |
//! | `attachment` `queued_command`: a prompt typed while the model was busy | as `user` |
//! | `system` `compact_boundary` | `compaction` below its `logicalParentUuid` |
//! | `summary`, `ai-title`, `agent-name`, `custom-title` | `session_info`: the title |
//! | any other with a `uuid` | `custom`: a link of the chain |
//! | any other | opaque |
//!
//! `parentUuid: null` begins a new root only where a conversation begins with that line; a line of the program that has
//! no parent goes on from the last one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lines::LineReader;
use super::normalized::{Blocks, Object, begins_with_any, is, member, members, non_blank};
use super::rows::{LineItems, ReadRows, Row, RowError, appended};
use super::walk::FoundFile;
use super::{
    Agents, DiscoverOptions, Discovery, Format, ImportError, Importer, Items, OpenError, Position, SideSession,
    SkipReason, Source, is_uuid,
};
use crate::limits::MAX_EVENT_BYTES;
use crate::model::{AgentId, SessionFacts, SessionId, SessionKey};
use crate::transcript::json::{Json, JsonKind};
use crate::transcript::{object_of, sanitize};

/// The importer of [`Format::ClaudeCode`].
pub(super) struct ClaudeCode;

/// How text begins that the program put into a `user` line. What a person typed after `!` (`<bash-input>`) is not
/// among it.
const INJECTED: &[&str] = &[
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "<user-prompt-submit-hook>",
    "<ide_opened_file>",
    "<ide_selection>",
    "Caveat:",
    "[Request interrupted",
];

impl Importer for ClaudeCode {
    fn claim(
        &self,
        files: &mut Vec<FoundFile>,
        options: &DiscoverOptions,
        agents: &mut Agents,
        discovery: &mut Discovery,
    ) -> Result<(), ImportError> {
        for file in std::mem::take(files) {
            if !file.is_given && !file.name().ends_with(".jsonl") {
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
        let lines = LineReader::from_position(File::open(&source.path)?, from, MAX_EVENT_BYTES)?;
        let format = Lines {
            path: source.path.clone(),
            agent: source.agent.clone(),
            session_key: source.session_key.clone(),
            is_sub_agent: source.session_id.as_str().starts_with(AGENT_PREFIX),
            sides: HashMap::new(),
            survey: None,
        };
        Ok(Box::new(LineItems::new(lines, format)))
    }
}

/// Whether a file's first lines are of this format.
pub(super) fn is_own(file: &FoundFile) -> bool {
    FirstLines::of(file).is_ok_and(|first| first.is_ours)
}

/// What the first lines of a file tell.
#[derive(Default)]
struct FirstLines {
    is_ours: bool,
    session_id: Option<String>,
    agent_id: Option<String>,
    /// The first line with a uuid is a sub-agent's.
    begins_aside: Option<bool>,
    forked_from: Option<String>,
}

impl FirstLines {
    fn of(file: &FoundFile) -> Result<Self, SkipReason> {
        let mut first = Self::default();
        match file.look_at_first_lines(|line| {
            first.take(line);
            ControlFlow::Continue(())
        }) {
            Ok(true) => Ok(first),
            Ok(false) => Err(SkipReason::Empty),
            Err(error) => Err(SkipReason::Unreadable(error.to_string())),
        }
    }

    fn take(&mut self, line: &[u8]) {
        let (text, _) = sanitize(line);
        let Ok(object) = object_of(&text) else { return };
        let [kind, session_id, uuid, parent, aside, agent_id, message, leaf, message_id, forked_from] = members(
            object,
            [
                "type",
                "sessionId",
                "uuid",
                "parentUuid",
                "isSidechain",
                "agentId",
                "message",
                "leafUuid",
                "messageId",
                "forkedFrom",
            ],
        );
        let Some(kind) = kind.and_then(Json::as_str) else { return };
        let [session_id, uuid, agent_id] = [session_id, uuid, agent_id].map(non_blank);
        let is_conversation = matches!(&*kind, "user" | "assistant") && message.is_some();
        let is_ours = match &*kind {
            "summary" => leaf.is_some() || session_id.is_some(),
            "file-history-snapshot" => message_id.is_some(),
            _ if uuid.is_some() => session_id.is_some() || parent.is_some() || is_conversation,
            _ => session_id.is_some() && (is_conversation || kind.contains('-') || kind == "mode"),
        };
        if !is_ours {
            return;
        }
        self.is_ours = true;
        if uuid.is_some() && self.begins_aside.is_none() {
            self.begins_aside = Some(aside.is_some_and(Json::is_true));
            self.agent_id = agent_id.map(Into::into);
        }
        if self.session_id.is_none() {
            self.session_id = session_id.map(Into::into);
        }
        if let Some(from) = forked_from.filter(|_| self.forked_from.is_none()) {
            self.forked_from = non_blank(member(Some(from), "sessionId")).map(Into::into);
        }
    }
}

/// How the names of sub-agents' sessions and files begin.
const AGENT_PREFIX: &str = "agent-";

fn add_source(file: FoundFile, first: &FirstLines, agent: AgentId, discovery: &mut Discovery) {
    let name = file.name();
    let stem = name.strip_suffix(".jsonl").unwrap_or(&name);
    let is_sub_agent = stem.starts_with(AGENT_PREFIX) || (first.begins_aside == Some(true) && first.agent_id.is_some());
    let key_of = |id: &str| {
        let id = SessionId::parse(id).ok()?;
        SessionKey::of_transcript(&agent, Format::ClaudeCode.name(), &id).ok()
    };
    let mut facts = SessionFacts::default();
    let id = if is_sub_agent {
        let id = first.agent_id.as_deref().map_or_else(|| stem.to_owned(), sub_agent_id);
        let stated = || first.session_id.clone().filter(|stated| sub_agent_id(stated) != id);
        facts.spawned_by = parent_folder(&file.canonical).or_else(stated).and_then(|parent| key_of(&parent));
        facts.label = label_beside(&file.path, stem);
        id
    } else {
        facts.parent = first.forked_from.as_deref().filter(|from| *from != stem).and_then(key_of);
        let stated = || first.session_id.clone().unwrap_or_else(|| stem.to_owned());
        if is_uuid(stem) { stem.to_owned() } else { stated() }
    };
    match SessionId::parse(&id).or_else(|_| SessionId::parse(&name)) {
        Ok(id) => drop(discovery.add_source(file, Format::ClaudeCode, agent, id, facts)),
        Err(_) => discovery.skip(&file.path, SkipReason::UnknownFormat),
    }
}

fn sub_agent_id(agent_id: &str) -> String {
    format!("{AGENT_PREFIX}{}", agent_id.strip_prefix(AGENT_PREFIX).unwrap_or(agent_id))
}

/// The session in whose folder the file lies: `<session id>/subagents/…`.
fn parent_folder(file: &Path) -> Option<String> {
    let names: Vec<_> = file.parent()?.components().map(|component| component.as_os_str().to_string_lossy()).collect();
    let at = names.iter().rposition(|name| name == "subagents")?;
    names.get(at.checked_sub(1)?).map(|name| name.clone().into_owned())
}

/// What the file beside a sub-agent's says it is for.
fn label_beside(path: &Path, stem: &str) -> Option<String> {
    const MAX_BYTES: u64 = 64 * 1024;
    let file = File::open(path.with_file_name(format!("{stem}.meta.json"))).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let [description, kind] = members(object_of(&text).ok()?, ["description", "agentType"]);
    non_blank(description).or_else(|| non_blank(kind)).map(|label| label.trim().to_owned())
}

/// Reads the lines of one file.
struct Lines {
    path: PathBuf,
    agent: AgentId,
    /// The key of the file's own session.
    session_key: SessionKey,
    /// The file is a sub-agent's own: none of its lines belongs elsewhere.
    is_sub_agent: bool,
    sides: HashMap<String, Arc<SideSession>>,
    /// Made when a line asks for it.
    survey: Option<Survey>,
}

/// The members of a line that count.
struct Line<'a> {
    kind: String,
    uuid: Option<Json<'a>>,
    parent: Option<Json<'a>>,
    logical_parent: Option<Json<'a>>,
    timestamp: Option<Json<'a>>,
    aside: Option<Json<'a>>,
    agent_id: Option<Json<'a>>,
    is_machine: bool,
    message: Option<Json<'a>>,
    subtype: Option<Json<'a>>,
    attachment: Option<Json<'a>>,
    leaf: Option<Json<'a>>,
    title: Option<Json<'a>>,
}

impl<'a> Line<'a> {
    fn of(object: Json<'a>) -> Self {
        let [
            kind,
            uuid,
            parent,
            logical_parent,
            timestamp,
            aside,
            agent_id,
            meta,
            summarizes,
            message,
            subtype,
            attachment,
        ] = members(
            object,
            [
                "type",
                "uuid",
                "parentUuid",
                "logicalParentUuid",
                "timestamp",
                "isSidechain",
                "agentId",
                "isMeta",
                "isCompactSummary",
                "message",
                "subtype",
                "attachment",
            ],
        );
        let [leaf, summary, ai_title, agent_name, custom_title] =
            members(object, ["leafUuid", "summary", "aiTitle", "agentName", "customTitle"]);
        let kind = kind.and_then(Json::as_str).unwrap_or_default().into_owned();
        let title = match &*kind {
            "summary" => summary,
            "ai-title" => ai_title,
            "agent-name" => agent_name,
            "custom-title" => custom_title,
            _ => None,
        };
        let is_machine = [meta, summarizes].into_iter().flatten().any(Json::is_true);
        Self {
            kind,
            uuid,
            parent,
            logical_parent,
            timestamp,
            aside,
            agent_id,
            is_machine,
            message,
            subtype,
            attachment,
            leaf,
            title,
        }
    }

    /// An entry of the tree with this line's id and parent.
    fn entry(&self, kind: &str, may_begin: bool) -> Object {
        let entry = Object::of_type(kind).value("id", self.uuid.filter(|_| non_blank(self.uuid).is_some()));
        let parent = non_blank(self.logical_parent).or_else(|| non_blank(self.parent));
        let entry = match parent {
            Some(parent) => entry.text("parentId", &parent),
            None if may_begin && self.parent.is_some_and(Json::is_null) => entry.member("parentId", "null"),
            None => entry,
        };
        entry.value("timestamp", self.timestamp)
    }

    /// The row that is not searched, whatever the line says: a link of the chain, or nothing.
    fn bare(&self) -> String {
        if non_blank(self.uuid).is_some() {
            return self.entry("custom", false).text("customType", &format!("claude-code:{}", self.kind)).finish();
        }
        Object::of_type(&format!("claude-code:{}", self.kind)).value("timestamp", self.timestamp).finish()
    }
}

impl ReadRows for Lines {
    fn rows(&mut self, _: u64, raw: &[u8]) -> Result<Vec<Row>, RowError> {
        let (text, repairs) = sanitize(raw);
        let object = object_of(&text)?;
        if let Some(row) = appended(object, raw) {
            return Ok(vec![row]);
        }
        let line = Line::of(object);
        let normalized = match &*line.kind {
            "user" | "assistant" => message(&line),
            "attachment" => queued_command(&line),
            "system" if is(line.subtype, "compact_boundary") => Some(line.entry("compaction", false).finish()),
            _ => self.title(&line),
        };
        let mut row = Row::normalized(normalized.unwrap_or_else(|| line.bare()), || line.bare(), repairs)?;
        row.side = self.side_of(&line);
        Ok(vec![row])
    }
}

impl Lines {
    /// A line that names the session. A name that a person gave is not replaced by one that the program made, and a
    /// summary counts only for the conversation it sums up: it may stand in the file of another.
    fn title(&mut self, line: &Line<'_>) -> Option<String> {
        let title = non_blank(line.title)?;
        if line.kind != "custom-title" {
            let leaf = non_blank(line.leaf);
            let survey = self.survey();
            if survey.has_custom_title || leaf.is_some_and(|leaf| !survey.holds(&leaf)) {
                return None;
            }
        }
        Some(line.entry("session_info", false).text("name", title.trim()).finish())
    }

    /// The session of a sub-agent's line among its parent's.
    fn side_of(&mut self, line: &Line<'_>) -> Option<Arc<SideSession>> {
        if self.is_sub_agent || !line.aside.is_some_and(Json::is_true) {
            return None;
        }
        let name = match non_blank(line.agent_id) {
            Some(agent_id) => agent_id.into_owned(),
            None => self.survey().chain_of(&non_blank(line.uuid)?, non_blank(line.parent).as_deref()),
        };
        if let Some(side) = self.sides.get(&name) {
            return Some(Arc::clone(side));
        }
        let session_id = SessionId::parse(&sub_agent_id(&name)).ok()?;
        let session_key = SessionKey::of_transcript(&self.agent, Format::ClaudeCode.name(), &session_id).ok()?;
        let facts = SessionFacts { spawned_by: Some(self.session_key.clone()), ..SessionFacts::default() };
        let side = Arc::new(SideSession { session_id, session_key, facts });
        self.sides.insert(name, Arc::clone(&side));
        Some(side)
    }

    fn survey(&mut self) -> &mut Survey {
        // A file that cannot be read will say so itself.
        self.survey.get_or_insert_with(|| Survey::of(&self.path).unwrap_or_default())
    }
}

/// A `user` or `assistant` line.
fn message(line: &Line<'_>) -> Option<String> {
    let message = line.message.filter(|message| message.kind() == JsonKind::Object)?;
    let [role, content] = members(message, ["role", "content"]);
    let role = non_blank(role).map_or_else(|| line.kind.clone(), Into::into);
    Some(said(line, &role, content, line.is_machine && line.kind == "user"))
}

/// An attachment that holds what a person typed.
fn queued_command(line: &Line<'_>) -> Option<String> {
    let [kind, prompt, mode, meta] = members(line.attachment?, ["type", "prompt", "commandMode", "isMeta"]);
    if !is(kind, "queued_command") || is(mode, "task-notification") {
        return None;
    }
    Some(said(line, "user", prompt, line.is_machine || meta.is_some_and(Json::is_true)))
}

fn said(line: &Line<'_>, role: &str, content: Option<Json<'_>>, is_machine: bool) -> String {
    let mut said = Said { is_user: role == "user", ..Said::default() };
    match content.and_then(Json::as_str) {
        Some(text) => said.text(text.trim_matches(crate::model::is_js_space)),
        None => content.into_iter().flat_map(Json::elements).for_each(|block| said.block(block)),
    }
    let Said { blocks, tool_call, has_injected, .. } = said;
    if let Some(tool_call) = tool_call.filter(|_| role == "user") {
        let answer = Object::new().text("role", "toolResult").text("toolCallId", &tool_call);
        let answer = answer.member("content", &blocks.finish()).finish();
        return line.entry("message", false).member("message", &answer).finish();
    }
    if is_machine || (has_injected && !blocks.has_text()) {
        let entry = line.entry("custom_message", false).text("customType", "claude-code:injected");
        return entry.member("content", &blocks.finish()).member("display", "false").finish();
    }
    let message = Object::new().text("role", role).member("content", &blocks.finish()).finish();
    line.entry("message", true).member("message", &message).finish()
}

/// The content of a message, block by block.
#[derive(Default)]
struct Said {
    is_user: bool,
    blocks: Blocks,
    /// The call that the message answers; empty where it names none.
    tool_call: Option<String>,
    has_injected: bool,
}

impl Said {
    fn text(&mut self, text: &str) {
        if self.is_user && begins_with_any(text, INJECTED) {
            self.has_injected = true;
            self.blocks.other("injected", text);
        } else {
            self.blocks.text(text);
        }
    }

    fn block(&mut self, block: Json<'_>) {
        let [kind, text, thinking, id, name, input, call, content, source] =
            members(block, ["type", "text", "thinking", "id", "name", "input", "tool_use_id", "content", "source"]);
        let kind = kind.and_then(Json::as_str).unwrap_or_default();
        match &*kind {
            "text" => self.text(&text.and_then(Json::as_str).unwrap_or_default()),
            "thinking" => self.blocks.thinking(&thinking.and_then(Json::as_str).unwrap_or_default()),
            "tool_use" | "server_tool_use" => {
                self.blocks.tool_call(non_blank(id).as_deref(), non_blank(name).as_deref(), input);
            }
            "image" | "document" => {
                let data = member(source, "data").and_then(Json::as_str);
                self.blocks.data(&kind, data.as_deref());
            }
            "tool_result" => {
                self.tool_call.get_or_insert_with(|| non_blank(call).unwrap_or_default().into_owned());
                match content.and_then(Json::as_str) {
                    Some(text) => self.blocks.text(&text),
                    None => content.into_iter().flat_map(Json::elements).for_each(|part| self.result_part(part)),
                }
            }
            "" => {}
            _ => self.blocks.other(&kind, ""),
        }
    }

    /// A part of what a tool answered: text, or an image.
    fn result_part(&mut self, part: Json<'_>) {
        let [text, source] = members(part, ["text", "source"]);
        match text.and_then(Json::as_str) {
            Some(text) => self.blocks.text(&text),
            None => {
                let data = member(source, "data").and_then(Json::as_str);
                self.blocks.data("image", data.as_deref());
            }
        }
    }
}

/// What only the whole file can tell. Made in one more pass over it, for files with titles or with lines of sub-agents
/// that bear no `agentId`.
#[derive(Default)]
struct Survey {
    hasher: RandomState,
    uuids: HashSet<u64>,
    /// By the uuid of a sub-agent's line: the uuid of the first line of its chain.
    chains: HashMap<u64, String>,
    has_custom_title: bool,
}

impl Survey {
    fn of(path: &Path) -> io::Result<Self> {
        let mut survey = Self::default();
        let mut lines = LineReader::new(File::open(path)?, MAX_EVENT_BYTES);
        while let Some(line) = lines.next_line()? {
            let Ok(text) = line.text else { continue };
            let (text, _) = sanitize(text);
            let Ok(object) = object_of(&text) else { continue };
            let [kind, uuid, parent, aside, agent_id] =
                members(object, ["type", "uuid", "parentUuid", "isSidechain", "agentId"]);
            survey.has_custom_title |= is(kind, "custom-title");
            let Some(uuid) = non_blank(uuid) else { continue };
            let hash = survey.hasher.hash_one(&*uuid);
            survey.uuids.insert(hash);
            if aside.is_some_and(Json::is_true) && non_blank(agent_id).is_none() {
                survey.chain_of(&uuid, non_blank(parent).as_deref());
            }
        }
        Ok(survey)
    }

    fn holds(&self, uuid: &str) -> bool {
        self.uuids.contains(&self.hasher.hash_one(uuid))
    }

    fn chain_of(&mut self, uuid: &str, parent: Option<&str>) -> String {
        let hash = self.hasher.hash_one(uuid);
        if let Some(first) = self.chains.get(&hash) {
            return first.clone();
        }
        let above = parent.and_then(|parent| self.chains.get(&self.hasher.hash_one(parent)));
        let first = above.cloned().unwrap_or_else(|| uuid.to_owned());
        self.chains.insert(hash, first.clone());
        first
    }
}
