//! `search`: in the store, on a session's eyes, or in files.

use std::time::Duration;

use sessions_search::{
    EmptyReason, Engine, ImportOptions, Order, Redaction, Requester, Role, SearchAnswer, SearchRequest, Stores,
};

use crate::args::{AnalyzerChoice, OrderChoice, RoleChoice, SearchArgs};
use crate::environment::parse_time;
use crate::failure::{DONE, Failure, NOTHING};
use crate::output::{Output, counted, one_line};
use crate::progress::At;
use crate::run::{Place, WORK_ON};
use crate::shell::Call;
use crate::upkeep::agents;
use crate::wrapping::width;

/// How often a wait says how far it is.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Place<'_> {
    pub(crate) fn search(&self, args: &SearchArgs) -> Result<u8, Failure> {
        let request = search_request(args)?;
        request.check()?;
        let seen_by = self.seen_by(&args.caller)?;
        if !args.from.is_empty() {
            return self.search_files(args, &request, seen_by.map(|(requester, _)| requester));
        }
        if let Some((requester, stores)) = seen_by {
            let call = self.call_as(&args.caller);
            return self.search_as(&requester, &stores, &request, args.wait, Some(&call));
        }
        let Some(engine) = self.open_existing()? else {
            self.note_missing();
            return self.answer(&SearchAnswer::no_store(), None, None);
        };
        if args.wait {
            self.wait_for_end(&engine);
        }
        let answer = engine.search(&request)?;
        let code = self.answer(&answer, Some(&self.call_as(&args.caller)), self.why(&engine, &request, &answer))?;
        if answer.reason == Some(EmptyReason::NoMatch) {
            self.note_other_agents();
        }
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
        call: Option<&Call>,
    ) -> Result<u8, Failure> {
        let engine = || stores.engine(requester.agent()).ok().flatten();
        if wait && let Some(engine) = engine() {
            self.wait_for_end(&engine);
        }
        let answer = stores.search_as(requester, request)?;
        if answer.reason == Some(EmptyReason::NoStore) {
            self.output.note(&format!("no store of agent {} at {}", requester.agent(), self.root.display()));
        }
        let code = self.answer(&answer, call, None)?;
        if answer.indexing
            && let Some(engine) = engine()
        {
            let _ = engine.wait_for_indexing(WORK_ON);
        }
        Ok(code)
    }

    /// Waits until everything is indexed, however long it takes, and says how far it is.
    pub(crate) fn wait_for_end(&self, engine: &Engine) {
        let mut progress = self.output.progress("index");
        while progress.is_shown() && !engine.wait_for_indexing(LOOK_AGAIN) {
            let Ok(status) = engine.status() else { break };
            let pending = status.pending.len() as u64;
            let messages: u64 = status.pending.iter().map(|session| session.documents).sum();
            let detail = format!("sessions, {messages} messages of the next");
            progress.at(At { done: status.sessions - pending, total: status.sessions, unit: "sessions", detail });
        }
        let _ = engine.wait_for_indexing(Duration::MAX);
    }

    fn answer(&self, answer: &SearchAnswer, call: Option<&Call>, why: Option<String>) -> Result<u8, Failure> {
        if self.output.is_json() {
            self.output.json(answer)?;
        } else {
            self.output.search(answer, call, why.as_deref())?;
        }
        Ok(if answer.results.is_empty() { NOTHING } else { DONE })
    }

    /// For people: what stands in the way of a hit, where the numbers tell.
    fn why(&self, engine: &Engine, request: &SearchRequest, answer: &SearchAnswer) -> Option<String> {
        if answer.reason != Some(EmptyReason::NoMatch) || self.output.is_json() {
            return None;
        }
        let mut everywhere = SearchRequest::new(&request.query);
        (everywhere.prefix, everywhere.fts5_strict) = (request.prefix, request.fts5_strict);
        (everywhere.explain, everywhere.limit) = (true, 1);
        let found = engine.search(&everywhere).ok()?;
        let pieces = found.explain?.pieces;
        let named = |piece: &str| format!("`{}`", one_line(piece).chars().take(40).collect::<String>());
        let missing: Vec<String> =
            pieces.iter().filter(|piece| piece.n == 0).map(|piece| named(&piece.piece)).collect();
        if let [first, rest @ ..] = missing.as_slice() {
            let others = if rest.is_empty() { String::new() } else { format!(" or {}", rest.join(" or ")) };
            // A run of Chinese or Japanese is one word to that analyzer.
            let is_part = pieces.iter().any(|piece| piece.n == 0 && width(&piece.piece) > piece.piece.chars().count());
            let next = match (is_part && engine.analyzer() == AnalyzerChoice::UnicodeWord.name(), request.prefix) {
                (true, _) => "; `--analyzer cjk` of `reindex`, or of --from, finds parts of runs without spaces",
                (false, true) => "",
                (false, false) => "; `--prefix` finds words that begin so",
            };
            return Some(format!("no message has {first}{others}{next}"));
        }
        if !found.results.is_empty() {
            let past = if request.offset > 0 { " or --offset passes over it" } else { "" };
            return Some(format!("messages with these words are there, but a filter leaves them out{past}"));
        }
        let counts: Vec<String> =
            pieces.iter().map(|piece| format!("{} in {}", named(&piece.piece), counted(piece.n, "message"))).collect();
        (!counts.is_empty()).then(|| format!("no message has all the words ({}); try fewer", counts.join(", ")))
    }

    /// The operator's search looks into one agent's store.
    fn note_other_agents(&self) {
        let mut others = agents(&self.root).unwrap_or_default();
        others.retain(|agent| *agent != self.agent);
        if let [first, rest @ ..] = others.as_slice() {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            self.output.note(&format!("not searched: agent {first}{more}; `--agent {first}` searches there"));
        }
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
            Output::caution(&format!("note: {} could not be read", counted(summary.rejected_total, "line")));
        }
        if let Some(requester) = requester {
            let stores = Stores::with_open(folder.path(), self.options(), vec![engine]);
            return self.search_as(&requester, &stores, request, false, None);
        }
        for (agent, sessions) in summary.sessions_by_agent.iter().filter(|(agent, _)| *agent != self.agent.as_str()) {
            let them = counted(*sessions, "session");
            self.output.note(&format!("note: not searched: {them} of agent {agent}; `--agent {agent}` searches those"));
        }
        let answer = engine.search(request)?;
        let code = self.answer(&answer, None, self.why(&engine, request, &answer))?;
        if !answer.results.is_empty() && !self.output.is_json() {
            self.output.note("to open what was found: `import` the files, then search without --from");
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
