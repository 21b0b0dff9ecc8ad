//! The commands: arguments as typed to requests of the library, answers to output and exit code.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sessions_search::limits::{DEFAULT_HISTORY_LIMIT, DEFAULT_LIST_LIMIT, MAX_HISTORY_LIMIT};
use sessions_search::{
    AgentId, Deleted, Engine, HeldStatus, HistoryAnswer, HistoryRequest, ListRequest, OpenOptions, Redaction,
    ReindexRequest, RejectedPattern, Requester, SessionId, SessionKey, StatusReport, StoreError, Stores,
};

use crate::args::{
    AnalyzerChoice, Cli, Command, DeleteArgs, HistoryArgs, InitArgs, McpArgs, OnOff, PruneArgs, ReindexArgs, RekeyArgs,
    SessionsArgs,
};
use crate::caller::CallerArgs;
use crate::environment::{now, parse_time, store_root};
use crate::failure::{DONE, Failure, NOTHING};
use crate::mcp::Server;
use crate::output::{Output, counted};
use crate::progress::{Shown, repairing};
use crate::shell::{Call, shell_option};

/// What `rekey`, `archive` and `unarchive` changed.
#[derive(serde::Serialize)]
struct ChangedSessions {
    sessions: u64,
}

/// How long a search that met unfinished indexing works on after its answer.
pub(crate) const WORK_ON: Duration = Duration::from_secs(2);

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
        call += &shell_option("--store", &store.to_string_lossy());
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
    pub(crate) fn make(
        &self,
        root: &Path,
        analyzer: AnalyzerChoice,
        redaction: Redaction,
    ) -> Result<Engine, StoreError> {
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
    pub(crate) fn seen_by(&self, caller: &CallerArgs) -> Result<Option<(Requester, Stores)>, Failure> {
        let requester = caller.requester(self.named_agent.as_ref())?;
        Ok(requester.map(|requester| (requester, Stores::new(&self.root, self.options()))))
    }

    /// How the program is called to see the same.
    pub(crate) fn call_as(&self, caller: &CallerArgs) -> Call {
        Call { program: self.call.clone(), eyes: caller.options() }
    }

    /// For reading: a missing store is an answer, not an error (D21).
    pub(crate) fn open_existing(&self) -> Result<Option<Engine>, Failure> {
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
        let is_done = if args.wait {
            self.wait_for_end(&engine);
            true
        } else {
            engine.wait_for_indexing(WORK_ON)
        };
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

    fn history(&self, args: &HistoryArgs) -> Result<u8, Failure> {
        let mut request = HistoryRequest::new(&args.key);
        request.message_id.clone_from(&args.message_id);
        request.session_id.clone_from(&args.session_id);
        request.limit = args.context.map_or(args.limit, |around| around.saturating_mul(2).saturating_add(1));
        request.offset = args.offset;
        request.include_tools = args.include_tools;
        request.check()?;
        let page;
        let call = self.call_as(&args.caller);
        if let Some((requester, stores)) = self.seen_by(&args.caller)? {
            let ask = |request: &HistoryRequest| Ok(stores.history_as(&requester, request)?.into_inner());
            page = ask(&request)?;
            self.show_history(&page, &request, &call, ask)?;
        } else {
            let engine = self.open_existing()?.ok_or_else(|| self.no_session(&args.key))?;
            let ask = |request: &HistoryRequest| Ok(engine.history(request)?);
            page = ask(&request)?;
            self.show_history(&page, &request, &call, ask)?;
        }
        Ok(if page.anchor_not_found() || page.messages.is_empty() { NOTHING } else { DONE })
    }

    fn show_history(
        &self,
        page: &HistoryAnswer,
        request: &HistoryRequest,
        call: &Call,
        ask: impl Fn(&HistoryRequest) -> Result<HistoryAnswer, Failure>,
    ) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.output.json(page);
        }
        self.output.history(page)?;
        let shown = page.messages.len();
        let mut options = String::new();
        let (what, older) = if let Some(id) = &request.message_id {
            // A page that is not full ends where the conversation does.
            let around = shown.clamp(DEFAULT_HISTORY_LIMIT / 2, (MAX_HISTORY_LIMIT - 1) / 2);
            if shown < request.limit || around * 2 < request.limit {
                return Ok(());
            }
            if let Some(window) = &page.session_id {
                options += &shell_option("--session-id", window);
            }
            options += &shell_option("--message-id", id);
            ("more around it", shell_option("--context", &around.to_string()))
        } else {
            let older = match page.offset {
                Some(_) => page.next_offset.filter(|_| page.has_more == Some(true)),
                None => {
                    let mut next = request.clone();
                    (next.offset, next.limit) = (Some(shown), 1);
                    (shown > 0 && !ask(&next)?.messages.is_empty()).then_some(shown)
                }
            };
            let Some(older) = older else { return Ok(()) };
            if request.limit != DEFAULT_HISTORY_LIMIT {
                options += &shell_option("--limit", &request.limit.to_string());
            }
            ("older messages", shell_option("--offset", &older.to_string()))
        };
        options += &older;
        options += if request.include_tools { " --include-tools" } else { "" };
        self.output.note(&format!("{what}: {}", call.history(&request.key, &options)));
        Ok(())
    }

    fn sessions(&self, args: &SessionsArgs) -> Result<u8, Failure> {
        let request =
            ListRequest { archived: args.archived, limit: args.limit, offset: args.offset, ..ListRequest::default() };
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
            self.output.sessions(&list)?;
            if let Some(next) = list.next_offset {
                let Call { program, eyes } = self.call_as(&args.caller);
                let archived = if args.archived { " --archived" } else { "" };
                let limit =
                    if args.limit == DEFAULT_LIST_LIMIT { String::new() } else { format!(" --limit {}", args.limit) };
                self.output.note(&format!("more sessions: {program} sessions{archived}{limit} --offset {next}{eyes}"));
            }
        }
        Ok(if list.sessions.is_empty() { NOTHING } else { DONE })
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
