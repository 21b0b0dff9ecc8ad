//! The commands: arguments as typed to requests of the library, answers to output and exit code.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sessions_search::limits::MAX_EVENT_BYTES;
use sessions_search::{
    AgentId, AppendRequest, Deleted, EmptyReason, Engine, EventPlace, HeldStatus, HistoryRequest, ImportOptions,
    LineError, ListRequest, MessageId, OpenOptions, Order, Redaction, ReindexRequest, RejectedPattern, Requester, Role,
    SearchAnswer, SearchRequest, SessionFacts, SessionId, SessionKey, StatusReport, StoreError, Stores,
};

use crate::args::{
    AnalyzerChoice, AppendArgs, Cli, Command, DeleteArgs, HistoryArgs, InitArgs, McpArgs, OnOff, OrderChoice,
    PruneArgs, ReindexArgs, RekeyArgs, RoleChoice, SearchArgs, SessionsArgs,
};
use crate::caller::CallerArgs;
use crate::environment::{now, parse_time, store_root};
use crate::failure::{DONE, Failure, NOTHING, USAGE};
use crate::mcp::Server;
use crate::output::{Output, counted, shell_word};
use crate::progress::{At, Shown, repairing};

/// What `rekey`, `archive` and `unarchive` changed.
#[derive(serde::Serialize)]
struct ChangedSessions {
    sessions: u64,
}

/// How long a search that met unfinished indexing works on after its answer.
const WORK_ON: Duration = Duration::from_secs(2);

/// What `history --limit` is when it is not given.
const DEFAULT_PAGE: usize = 50;

/// How often a wait says how far it is.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Runs the command; the result is the exit code.
pub(crate) fn run(cli: &Cli, output: &Output) -> Result<u8, Failure> {
    let named_agent = cli.agent.as_deref().map(AgentId::parse).transpose()?;
    let agent = named_agent.clone().unwrap_or_default();
    let place = Place { root: store_root(cli.store.as_ref())?, call: call(cli, &agent), agent, named_agent, output };
    match &cli.command {
        Command::Init(args) => place.init(args),
        Command::Import(args) => place.import(args),
        Command::Watch(args) => place.watch(args),
        Command::Search(args) => place.search(args),
        Command::History(args) => place.history(args),
        Command::Sessions(args) => place.sessions(args),
        Command::Append(args) => place.append(args),
        Command::Delete(args) => place.delete(args),
        Command::Rekey(args) => place.rekey(args),
        Command::Archive(args) => place.set_archived(&args.key, true),
        Command::Unarchive(args) => place.set_archived(&args.key, false),
        Command::Prune(args) => place.prune(args),
        Command::Status => place.status(),
        Command::Mcp(args) => place.mcp(args),
        Command::Completions(args) => place.completions(args.shell),
        Command::Man => place.man(),
        Command::Verify(args) => place.verify(args.deep),
        Command::Compact => place.compact(),
        Command::Backup(args) => place.backup(&args.folder, cli.names_agent()),
        Command::Export(args) => place.export(args, cli.names_agent()),
        Command::Reindex(args) => place.reindex(args),
    }
}

/// Where a command works, and how it speaks.
pub(crate) struct Place<'o> {
    pub(crate) root: PathBuf,
    /// How the program is called to work at the same place, for commands that are printed.
    call: String,
    pub(crate) agent: AgentId,
    /// The same, only where the command line names it.
    named_agent: Option<AgentId>,
    pub(crate) output: &'o Output,
}

fn call(cli: &Cli, agent: &AgentId) -> String {
    let mut call = String::from("sessions-search");
    if let Some(store) = &cli.store {
        call += &format!(" --store {}", shell_word(&store.to_string_lossy()));
    }
    if *agent != AgentId::default() {
        call += &format!(" --agent {agent}");
    }
    call
}

impl Place<'_> {
    pub(crate) fn open(&self, root: &Path, create: bool) -> Result<Engine, StoreError> {
        let mut options = self.options();
        options.create = create;
        Engine::open(root, options)
    }

    /// Makes the store.
    fn make(&self, root: &Path, analyzer: AnalyzerChoice, redaction: Redaction) -> Result<Engine, StoreError> {
        let mut options = self.options();
        options.create = true;
        options.analyzer = analyzer.name().to_owned();
        options.redaction = redaction;
        Engine::open(root, options)
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.agent = self.agent.clone();
        options.owner = Some(format!("process {} (sessions-search)", std::process::id()));
        let shown = self.output.progress_shown();
        if shown != Shown::Nowhere {
            options.repairing = Some(Arc::new(move |share| repairing(shown, share)));
        }
        options
    }

    /// The session on whose eyes the command is, and the stores it asks.
    fn seen_by(&self, caller: &CallerArgs) -> Result<Option<(Requester, Stores)>, Failure> {
        let requester = caller.requester(self.named_agent.as_ref())?;
        Ok(requester.map(|requester| (requester, Stores::new(&self.root, self.options()))))
    }

    /// For reading: a missing store is an answer, not an error (D21).
    fn open_existing(&self) -> Result<Option<Engine>, Failure> {
        match self.open(&self.root, false) {
            Ok(engine) => Ok(Some(engine)),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    pub(crate) fn note_missing(&self) {
        self.output.note(&format!("no store of agent {} at {}", self.agent, self.root.display()));
    }

    /// There can't be one without a store.
    fn no_session(&self, named: &str) -> Failure {
        Failure::Input(format!("no session {named:?}: there is no store at {}", self.root.display()))
    }

    /// After writing: leaves the index so that the next command opens quickly.
    pub(crate) fn close(&self, engine: Engine) {
        if let Err(error) = engine.close() {
            self.output.note(&format!("note: {error}; nothing is lost, the next command replays more"));
        }
    }

    fn init(&self, args: &InitArgs) -> Result<u8, Failure> {
        let (redaction, rejected) = chosen_redaction(args.redaction, &args.redact_pattern)?;
        let (engine, created) = match self.open(&self.root, false) {
            Ok(engine) => (engine, false),
            Err(StoreError::Missing { .. }) => {
                (self.make(&self.root, args.analyzer.unwrap_or_default(), redaction.clone())?, true)
            }
            Err(other) => return Err(other.into()),
        };
        self.note_rejected(&rejected);
        let kept = engine.redaction();
        if args.analyzer.is_some_and(|analyzer| analyzer.name() != engine.analyzer()) {
            let analyzer = engine.analyzer();
            self.output
                .note(&format!("note: the store was made with analyzer {analyzer}, and keeps it; see `reindex`"));
        }
        let was_chosen = args.redaction.is_some() || !redaction.patterns().is_empty();
        if was_chosen && kept != redaction {
            self.output.note("note: the store was made with another choice of redaction, and keeps it");
        }
        let folder = engine.folder();
        if self.output.is_json() {
            let rejected = rejected.iter().map(|r| Rejected { pattern: &r.pattern, reason: &r.reason }).collect();
            self.output.json(&Initialised {
                store: &folder.to_string_lossy(),
                created,
                analyzer: engine.analyzer(),
                redaction: on_or_off(&kept),
                redact_patterns: kept.patterns().len(),
                rejected_patterns: rejected,
            })?;
        } else {
            let word = if created { "made" } else { "already there" };
            self.output.text(&format!("store {word}: {}\n", folder.display()))?;
        }
        Ok(DONE)
    }

    fn note_rejected(&self, rejected: &[RejectedPattern]) {
        for rejected in rejected {
            self.output.note(&format!("note: {rejected}; it is left out"));
        }
    }

    fn reindex(&self, args: &ReindexArgs) -> Result<u8, Failure> {
        let engine = self.open_to_change()?;
        let mut request = ReindexRequest::default();
        request.analyzer = args.analyzer.map(|analyzer| analyzer.name().to_owned());
        let is_on_already = args.redaction == Some(OnOff::On) && engine.redaction().is_on();
        if !args.redact_pattern.is_empty() || args.redaction.is_some() && !is_on_already {
            let (redaction, rejected) = chosen_redaction(args.redaction, &args.redact_pattern)?;
            self.note_rejected(&rejected);
            request.redaction = Some(redaction);
        }
        let sessions = engine.reindex(&request)?;
        let is_done = if args.wait { self.wait_for_end(&engine) } else { engine.wait_for_indexing(WORK_ON) };
        let pending = if is_done { 0 } else { engine.status()?.pending.len() as u64 };
        let (analyzer, redaction) = (engine.analyzer(), on_or_off(&engine.redaction()));
        self.close(engine);
        if self.output.is_json() {
            self.output.json(&Reindexed { sessions, pending, analyzer, redaction })?;
        } else {
            let done = counted(sessions - pending.min(sessions), "session");
            self.output.text(&format!("indexed {done} anew: analyzer {analyzer}, redaction {redaction}\n"))?;
        }
        if pending > 0 {
            let pending = counted(pending, "session");
            self.output.note(&format!(
                "{pending} still hidden: the next commands go on with it, `search --wait` waits for the end"
            ));
        }
        Ok(DONE)
    }

    fn search(&self, args: &SearchArgs) -> Result<u8, Failure> {
        let request = search_request(args)?;
        request.check()?;
        let seen_by = self.seen_by(&args.caller)?;
        if !args.from.is_empty() {
            return self.search_files(args, &request, seen_by.map(|(requester, _)| requester));
        }
        if let Some((requester, stores)) = seen_by {
            return self.search_as(&requester, &stores, &request, args.wait);
        }
        let Some(engine) = self.open_existing()? else {
            self.note_missing();
            return self.answer(&SearchAnswer::no_store(), None);
        };
        if args.wait && !self.wait_for_end(&engine) {
            self.output.note("note: indexing is not done yet");
        }
        let answer = engine.search(&request)?;
        let code = self.answer(&answer, Some(&self.call))?;
        if answer.indexing {
            // Nobody waits for the answer any more; the next search finds more of it done.
            let _ = engine.wait_for_indexing(WORK_ON);
        }
        Ok(code)
    }

    fn search_as(
        &self,
        requester: &Requester,
        stores: &Stores,
        request: &SearchRequest,
        wait: bool,
    ) -> Result<u8, Failure> {
        let wait_for = |wait: &dyn Fn(&Engine) -> bool| match stores.engine(requester.agent()) {
            Ok(Some(engine)) => wait(&engine),
            _ => true,
        };
        if wait && !wait_for(&|engine| self.wait_for_end(engine)) {
            self.output.note("note: indexing is not done yet");
        }
        let answer = stores.search_as(requester, request)?;
        if answer.reason == Some(EmptyReason::NoStore) {
            self.output.note(&format!("no store of agent {} at {}", requester.agent(), self.root.display()));
        }
        let code = self.answer(&answer, None)?;
        if answer.indexing {
            wait_for(&|engine| engine.wait_for_indexing(WORK_ON));
        }
        Ok(code)
    }

    /// Waits until everything is indexed, however long it takes, and says how far it is.
    fn wait_for_end(&self, engine: &Engine) -> bool {
        let mut progress = self.output.progress("index");
        while progress.is_shown() && !engine.wait_for_indexing(LOOK_AGAIN) {
            let Ok(status) = engine.status() else { break };
            let pending = status.pending.len() as u64;
            let messages: u64 = status.pending.iter().map(|session| session.documents).sum();
            let detail = format!("sessions, {messages} messages of the next");
            progress.at(At { done: status.sessions - pending, total: status.sessions, unit: "sessions", detail });
        }
        engine.wait_for_indexing(Duration::MAX)
    }

    fn answer(&self, answer: &SearchAnswer, call: Option<&str>) -> Result<u8, Failure> {
        if self.output.is_json() {
            self.output.json(answer)?;
        } else {
            self.output.search(answer, call)?;
        }
        Ok(if answer.results.is_empty() { NOTHING } else { DONE })
    }

    /// Searches files through a store that goes away again.
    fn search_files(
        &self,
        args: &SearchArgs,
        request: &SearchRequest,
        requester: Option<Requester>,
    ) -> Result<u8, Failure> {
        let folder = tempfile::Builder::new().prefix("sessions-search-").tempdir()?;
        let engine = self.make(folder.path(), args.analyzer, Redaction::default())?;
        let summary = self.import_into(&engine, &args.from, &ImportOptions::default())?;
        if summary.rejected_total > 0 {
            self.output.note(&format!("note: {} could not be read", counted(summary.rejected_total, "line")));
        }
        if let Some(requester) = requester {
            let stores = Stores::with_open(folder.path(), self.options(), vec![engine]);
            return self.search_as(&requester, &stores, request, false);
        }
        for (agent, sessions) in summary.sessions_by_agent.iter().filter(|(agent, _)| *agent != self.agent.as_str()) {
            let them = counted(*sessions, "session");
            self.output.note(&format!("note: not searched: {them} of agent {agent}; `--agent {agent}` searches those"));
        }
        self.answer(&engine.search(request)?, None)
    }

    fn history(&self, args: &HistoryArgs) -> Result<u8, Failure> {
        let mut request = HistoryRequest::new(&args.key);
        request.message_id.clone_from(&args.message_id);
        request.session_id.clone_from(&args.session_id);
        request.limit = args.context.map_or(args.limit, |around| around.saturating_mul(2).saturating_add(1));
        request.offset = args.offset;
        request.include_tools = args.include_tools;
        request.check()?;
        let mut again = None;
        let page = if let Some((requester, stores)) = self.seen_by(&args.caller)? {
            stores.history_as(&requester, &request)?.into_inner()
        } else {
            again = Some(self.history_again(args));
            let engine = self.open_existing()?.ok_or_else(|| self.no_session(&args.key))?;
            engine.history(&request)?
        };
        if self.output.is_json() {
            self.output.json(&page)?;
        } else {
            self.output.history(&page, again.as_deref())?;
        }
        Ok(if page.anchor_not_found() || page.messages.is_empty() { NOTHING } else { DONE })
    }

    /// The command that gives another page of the same conversation, but for the page.
    fn history_again(&self, args: &HistoryArgs) -> String {
        let mut again = format!("{} history {}", self.call, shell_word(&args.key));
        if let Some(session_id) = &args.session_id {
            again += &format!(" --session-id {}", shell_word(session_id));
        }
        if args.limit != DEFAULT_PAGE {
            again += &format!(" --limit {}", args.limit);
        }
        if args.include_tools {
            again += " --include-tools";
        }
        again
    }

    fn sessions(&self, args: &SessionsArgs) -> Result<u8, Failure> {
        let request = ListRequest { archived: args.archived, limit: args.limit, ..ListRequest::default() };
        request.check()?;
        let list = if let Some((requester, stores)) = self.seen_by(&args.caller)? {
            stores.sessions_as(&requester, &request)?.into_inner()
        } else if let Some(engine) = self.open_existing()? {
            engine.sessions(&request)?
        } else {
            self.note_missing();
            sessions_search::SessionList::default()
        };
        if self.output.is_json() {
            self.output.json(&list)?;
        } else {
            self.output.sessions(&list, args.limit)?;
        }
        Ok(if list.sessions.is_empty() { NOTHING } else { DONE })
    }

    fn append(&self, args: &AppendArgs) -> Result<u8, Failure> {
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

    fn delete(&self, args: &DeleteArgs) -> Result<u8, Failure> {
        let (key, id) = (&args.target.session_key, &args.target.session_id);
        let named = key.as_deref().or(id.as_deref()).unwrap_or_default();
        let Some(engine) = self.open_existing()? else {
            return Err(self.no_session(named));
        };
        if !args.yes && !self.confirmed(&format!("delete {named:?} for good?"))? {
            return Ok(NOTHING);
        }
        let deleted = match (key, id) {
            (Some(key), _) => engine.delete_key(&SessionKey::parse(key)?, now())?,
            (None, Some(id)) => engine.delete_session(&SessionId::parse(id)?, now())?,
            (None, None) => return Err(Failure::Input("give --session-key or --session-id".into())),
        };
        if args.purge
            && let Err(failure) = self.compacted(&engine)
        {
            return Err(failure.after("deleted; its text is still in the store's files until `compact` is done"));
        }
        self.deleted(deleted)
    }

    /// Asks, where somebody is there to answer; nothing ever waits otherwise.
    fn confirmed(&self, question: &str) -> Result<bool, Failure> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(true);
        }
        let _ = write!(io::stderr(), "{question} [y/N] ");
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        let yes = matches!(answer.trim(), "y" | "Y" | "yes");
        if !yes {
            self.output.note("nothing was deleted");
        }
        Ok(yes)
    }

    fn deleted(&self, deleted: Deleted) -> Result<u8, Failure> {
        if self.output.is_json() {
            self.output.json(&deleted)?;
        } else {
            self.output.text(&format!(
                "deleted {}, {}\n",
                counted(deleted.sessions, "session"),
                counted(deleted.messages, "message")
            ))?;
        }
        Ok(DONE)
    }

    /// The store, where a command needs one to change something in it.
    pub(crate) fn open_to_change(&self) -> Result<Engine, Failure> {
        self.open_existing()?.ok_or_else(|| Failure::Input("there is no store yet; nothing was changed".into()))
    }

    fn rekey(&self, args: &RekeyArgs) -> Result<u8, Failure> {
        let windows = self.open_to_change()?.rekey(&SessionKey::parse(&args.old)?, &SessionKey::parse(&args.new)?)?;
        self.changed_windows(windows, "renamed")
    }

    fn set_archived(&self, key: &str, archived: bool) -> Result<u8, Failure> {
        let windows = self.open_to_change()?.set_archived(&SessionKey::parse(key)?, archived)?;
        self.changed_windows(windows, if archived { "archived" } else { "unarchived" })
    }

    fn changed_windows(&self, sessions: u64, what: &str) -> Result<u8, Failure> {
        if self.output.is_json() {
            self.output.json(&ChangedSessions { sessions })?;
        } else {
            self.output.text(&format!("{what} {}\n", counted(sessions, "session")))?;
        }
        Ok(DONE)
    }

    fn prune(&self, args: &PruneArgs) -> Result<u8, Failure> {
        let before = parse_time(&args.older_than)?;
        let engine = self.open_to_change()?;
        if !args.yes && !self.confirmed(&format!("delete every session without activity since {before}?"))? {
            return Ok(NOTHING);
        }
        self.deleted(engine.prune(before, now())?)
    }

    /// Serves until standard input ends. Without a session it sees this agent's sessions, and no other agent's.
    fn mcp(&self, args: &McpArgs) -> Result<u8, Failure> {
        let requester = match args.caller.requester(self.named_agent.as_ref())? {
            Some(requester) => requester,
            None if args.operator => Requester::operator(self.agent.clone()),
            None => Requester::of_agent(self.agent.clone()),
        };
        let stores = Stores::new(&self.root, self.options());
        Server { stores, requester }.serve()?;
        Ok(DONE)
    }

    fn status(&self) -> Result<u8, Failure> {
        let (status, code) = match self.open(&self.root, false) {
            Ok(engine) => (engine.status()?, DONE),
            Err(StoreError::Missing { .. }) => {
                self.note_missing();
                (StatusReport::default(), NOTHING)
            }
            Err(StoreError::Busy { holder }) => {
                let held = HeldStatus::new(&self.root, &self.agent, &holder);
                if self.output.is_json() {
                    self.output.json(&held)?;
                } else {
                    self.output.held(&held)?;
                }
                return Ok(Failure::Busy(String::new()).code());
            }
            Err(other) => return Err(other.into()),
        };
        if self.output.is_json() {
            self.output.json(&status)?;
        } else {
            self.output.status(&status)?;
        }
        Ok(code)
    }
}

fn search_request(args: &SearchArgs) -> Result<SearchRequest, Failure> {
    let mut request = SearchRequest::new(args.words.join(" "));
    request.session_keys = (!args.session_key.is_empty()).then(|| args.session_key.clone());
    request.limit = args.limit;
    request.offset = args.offset;
    request.role = args.role.map(|role| match role {
        RoleChoice::User => Role::User,
        RoleChoice::Assistant => Role::Assistant,
    });
    request.since = args.since.as_deref().map(parse_time).transpose()?;
    request.until = args.until.as_deref().map(parse_time).transpose()?;
    request.order = match args.order {
        OrderChoice::Relevance => Order::Relevance,
        OrderChoice::Recent => Order::Recent,
    };
    request.prefix = args.prefix;
    request.fts5_strict = args.fts5_strict;
    request.explain = args.explain;
    Ok(request)
}

/// The answer to `init`: what the store has, whether it was made now or before.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialised<'i> {
    store: &'i str,
    created: bool,
    analyzer: &'static str,
    redaction: &'i str,
    redact_patterns: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected_patterns: Vec<Rejected<'i>>,
}

/// What `reindex` did, and what is left for later commands.
#[derive(Serialize)]
struct Reindexed {
    sessions: u64,
    pending: u64,
    analyzer: &'static str,
    redaction: &'static str,
}

fn on_or_off(redaction: &Redaction) -> &'static str {
    if redaction.is_on() { "on" } else { "off" }
}

/// What is to be masked, and the patterns that mean nothing.
fn chosen_redaction(choice: Option<OnOff>, patterns: &[String]) -> Result<(Redaction, Vec<RejectedPattern>), Failure> {
    match choice {
        Some(OnOff::Off) if !patterns.is_empty() => Err(Failure::Input("--redact-pattern needs --redaction on".into())),
        Some(OnOff::Off) => Ok((Redaction::off(), Vec::new())),
        Some(OnOff::On) | None => Ok(Redaction::with_patterns(patterns.iter().cloned())),
    }
}

/// A pattern that is left out.
#[derive(Serialize)]
struct Rejected<'i> {
    pattern: &'i str,
    reason: &'i str,
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
