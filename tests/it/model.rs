//! A small store and what must be found in it: the plainest model there is, and SQLite FTS5 to say how it is ranked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sessions_search::__internal::faults::{JournalOptions, Tuning};
use sessions_search::{
    AppendError, AppendRequest, CheckpointError, DeleteError, Durability, Engine, Finding, HistoryRequest, LineError,
    OpenOptions, SearchError, SearchRequest, SessionId, SessionKey, StoreError, Timestamp,
};

use crate::disk::{Disk, Volume};
use crate::oracle::{Fts5Oracle, OracleMessage};
use crate::random::Random;

/// A word of every message.
pub(crate) const EVERYWHERE: &str = "otter";
/// What is asked to compare a store with the model.
const QUERIES: [&str; 4] = [EVERYWHERE, "river", "lake map", "river-stone"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) timestamp: i64,
    /// Bytes of the line that are stored and not searched.
    pub(crate) ballast: usize,
}

impl Message {
    /// Message `number`, the same for every run of a seed.
    pub(crate) fn numbered(number: usize, random: &mut Random) -> Self {
        const WORDS: [&str; 8] = ["river", "stone", "lake", "map", "of", "the", "folder", "night"];
        let mut text = format!("{EVERYWHERE} number{number}");
        for _ in 0..random.below(12) {
            text.push(' ');
            text.push_str(random.pick(&WORDS));
        }
        Self { id: format!("m{number}"), text, timestamp: 1_785_000_000_000 + number as i64 * 1_000, ballast: 0 }
    }

    /// A message made by hand.
    pub(crate) fn new(id: &str, text: &str) -> Self {
        Self { id: id.into(), text: text.into(), timestamp: 1_785_000_000_000, ballast: 0 }
    }

    pub(crate) fn line(&self, aside: bool) -> Vec<u8> {
        let mut line = serde_json::json!({ "type": "message", "id": self.id, "timestamp": self.timestamp,
            "ballast": "x".repeat(self.ballast), "message": { "role": "user", "content": self.text } });
        if aside {
            line["appendMode"] = "side".into();
        }
        line.to_string().into_bytes()
    }
}

/// One thing that is done to a store.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Messages of one session, in one call.
    Append(&'static str, Vec<Message>),
    /// A message beside the conversation; it is never found.
    Aside(&'static str, Message),
    /// Back to the first few messages of a session.
    Rewind(&'static str, usize),
    Delete(&'static str),
    Checkpoint,
    /// Until nothing is hidden.
    WaitForIndexing,
    /// A little time for the background.
    Pause,
    /// Ends and opens again; with `true` in good order.
    Reopen(bool),
}

impl Step {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Append(..) => "an append",
            Self::Aside(..) => "a message aside",
            Self::Rewind(..) => "a rewind",
            Self::Delete(_) => "a deletion",
            Self::Checkpoint => "a checkpoint",
            Self::WaitForIndexing => "a rebuild",
            Self::Pause => "the background",
            Self::Reopen(_) => "an opening",
        }
    }
}

/// Which of the states is there, when nothing is hidden any more.
pub(crate) fn settle(engine: &Engine, states: &[Expected]) -> Result<usize, String> {
    if !engine.wait_for_indexing(Duration::from_secs(60)) {
        return Err("indexing does not end".into());
    }
    let mut differences = Vec::new();
    for (i, expected) in states.iter().enumerate() {
        match expected.compare(engine) {
            Ok(()) => return Ok(i),
            Err(difference) => differences.push(difference),
        }
    }
    Err(differences.join("\nnor the next state: "))
}

/// Why a step was not done.
#[derive(Debug)]
pub(crate) enum StepError {
    Store(StoreError),
    Checkpoint(CheckpointError),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
        }
    }
}

fn append_failed(error: AppendError) -> StepError {
    match error {
        AppendError::Store(error) => StepError::Store(error),
        refused => panic!("refused: {refused}"),
    }
}

/// What is in a store: of every session the messages on its active path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) sessions: BTreeMap<&'static str, Vec<Message>>,
}

impl Model {
    /// The model after a step.
    pub(crate) fn after(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match step {
            Step::Append(session, messages) => {
                next.sessions.entry(session).or_default().extend(messages.iter().cloned());
            }
            Step::Aside(session, _) => {
                next.sessions.entry(session).or_default();
            }
            Step::Rewind(session, kept) => next.sessions.entry(session).or_default().truncate(*kept),
            Step::Delete(session) => {
                next.sessions.remove(session);
            }
            Step::Checkpoint | Step::WaitForIndexing | Step::Pause | Step::Reopen(_) => {}
        }
        next
    }

    pub(crate) fn num_messages(&self) -> usize {
        self.sessions.values().map(Vec::len).sum()
    }
}

/// One hit as it is compared: session, message, score, excerpt.
type Found = (String, String, u64, String);

/// What a store with the content of a model must answer.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) model: Model,
    answers: Vec<Vec<Found>>,
}

impl Expected {
    pub(crate) fn of(model: Model) -> Self {
        let mut oracle = Fts5Oracle::new();
        oracle.insert(model.sessions.iter().flat_map(|(session, messages)| {
            messages.iter().map(|message| OracleMessage {
                session_id: session,
                message_id: &message.id,
                role: "user",
                timestamp: message.timestamp,
                text: &message.text,
            })
        }));
        let answers = QUERIES.iter().map(|query| {
            let hits = oracle.search(query, 10_000, None).into_iter();
            hits.map(|hit| (hit.session_id, hit.message_id, hit.score.to_bits(), hit.snippet)).collect()
        });
        let answers = answers.collect();
        Self { model, answers }
    }

    /// `Ok` where `engine` answers as it must; else the first difference.
    pub(crate) fn compare(&self, engine: &Engine) -> Result<(), String> {
        for (query, expected) in QUERIES.iter().zip(&self.answers) {
            let (found, indexing) = ask(engine, query).map_err(|error| format!("{query:?}: {error}"))?;
            if indexing {
                return Err(format!("{query:?}: still indexing"));
            }
            if found != *expected {
                return Err(format!("{query:?}: found {found:#?}\nexpected {expected:#?}"));
            }
        }
        let status = engine.status().map_err(|error| error.to_string())?;
        if status.documents != self.model.num_messages() as u64 {
            return Err(format!("status says {} documents", status.documents));
        }
        if status.sessions != self.model.sessions.len() as u64 {
            return Err(format!("status says {} sessions", status.sessions));
        }
        for (session, messages) in &self.model.sessions {
            let mut request = HistoryRequest::new(key(session).as_str());
            request.limit = 1_000;
            let history = engine.history(&request).map_err(|error| format!("history of {session}: {error}"))?;
            let shown: Vec<(Option<&str>, &str)> =
                history.messages.iter().map(|m| (m.message_id.as_deref(), m.text.as_str())).collect();
            let wanted: Vec<(Option<&str>, &str)> =
                messages.iter().map(|m| (Some(m.id.as_str()), m.text.as_str())).collect();
            // A long conversation is shown from its end.
            let all = shown.len() == wanted.len() || history.truncated || wanted.len() > 1_000;
            if !all || !wanted.ends_with(&shown) {
                return Err(format!("history of {session}: {shown:?}, expected {wanted:?}"));
            }
        }
        Ok(())
    }

    /// Whether everything `engine` shows now may be shown: all of it, or where it says that it is indexing, a part.
    pub(crate) fn allows(&self, engine: &Engine) -> Result<(), String> {
        let (found, indexing) = ask(engine, EVERYWHERE).map_err(|error| error.to_string())?;
        let is_expected = |hit: &Found| self.answers[0].iter().any(|e| (&e.0, &e.1) == (&hit.0, &hit.1));
        match found.iter().find(|hit| !is_expected(hit)) {
            Some(hit) => Err(format!("{hit:?} must not be found")),
            None if !indexing && found.len() != self.answers[0].len() => {
                Err(format!("{} of {} found", found.len(), self.answers[0].len()))
            }
            None => Ok(()),
        }
    }
}

fn ask(engine: &Engine, query: &str) -> Result<(Vec<Found>, bool), SearchError> {
    let mut request = SearchRequest::new(query);
    request.limit = 10_000;
    request.fts5_strict = true;
    request.excerpt_utf16 = None;
    let answer = engine.search(&request)?;
    let found = answer.results.into_iter().map(|hit| {
        (hit.session_id.as_str().to_owned(), hit.message_id.as_str().to_owned(), hit.score.to_bits(), hit.snippet)
    });
    Ok((found.collect(), answer.indexing))
}

pub(crate) fn key(session: &str) -> SessionKey {
    SessionKey::parse(&format!("agent:main:{session}")).unwrap()
}

pub(crate) fn id(session: &str) -> SessionId {
    SessionId::parse(session).unwrap()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_785_000_000_000).unwrap()
}

/// Thresholds so small that a dozen messages meet every one, and nothing happens by itself.
pub(crate) fn small() -> Tuning {
    Tuning {
        checkpoint_documents: usize::MAX,
        idle_checkpoint_documents: 3,
        idle: Duration::from_secs(3_600),
        sync_resolve_events: 8,
        session_batch_rows: 2,
        index_batch_documents: 3,
        max_replay_documents: 1_000,
        merge_segments: 2,
        merge_poll: Duration::from_millis(1),
        reopen_interval: Duration::ZERO,
        room_timeout: Duration::from_millis(200),
        journal: JournalOptions { after_commits: 0, half_bytes: 256 * 1024 },
        ..Tuning::default()
    }
}

/// A store on a simulated disk, and how it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) disk: Disk,
    pub(crate) tuning: Tuning,
    /// Of the transcripts, in bytes; with none every look at them is a call of the disk.
    pub(crate) cache_bytes: usize,
    pub(crate) durability: Durability,
    /// Of a store that is made.
    pub(crate) analyzer: &'static str,
}

impl Place {
    pub(crate) fn new(volume: Volume, tuning: &Tuning) -> Self {
        Self {
            disk: Disk::new(volume),
            tuning: tuning.clone(),
            cache_bytes: 4 * 1024 * 1024,
            durability: Durability::Durable,
            analyzer: "unicode-word",
        }
    }

    /// Opens the store, and makes it where there is none.
    pub(crate) fn open(&self) -> Result<Engine, StoreError> {
        Engine::open(Path::new("/store"), self.options())
    }

    /// Looks over what is there, with no engine on it.
    pub(crate) fn verify(&self, deep: bool) -> Result<(), String> {
        let report = Engine::verify(Path::new("/store"), &self.options(), deep).map_err(|error| error.to_string())?;
        // Where an index was of no use after a crash and little is stored, all of it is replayed, and the next checkpoint
        // writes another.
        let is_missing = |finding: &Finding| finding.detail.starts_with("the index is missing");
        if report.findings.iter().all(is_missing) { Ok(()) } else { Err(format!("verify: {:#?}", report.findings)) }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.create = true;
        options.busy_timeout = Duration::from_millis(200);
        options.cache_bytes = self.cache_bytes;
        options.durability = self.durability;
        options.analyzer = self.analyzer.to_owned();
        options.files = Arc::new(self.disk.clone());
        options.tuning = self.tuning.clone();
        options
    }
}

/// The index folder of a store at a [`Place`].
pub(crate) fn index_folder() -> &'static Path {
    Path::new("/store/agents/main/index")
}

/// Lines for one session; all of them must be taken.
pub(crate) fn append_lines(engine: &Engine, session: &str, lines: Vec<Vec<u8>>) -> Result<(), StepError> {
    let mut request = AppendRequest::new(key(session), lines);
    request.session_id = Some(id(session));
    for place in engine.append(request, now()).map_err(append_failed)? {
        match place {
            Ok(_) => {}
            Err(LineError::Refused(refusal)) => panic!("refused: {refusal}"),
            Err(error) => panic!("no event: {error}"),
        }
    }
    Ok(())
}

/// Does a step to an open store; `reopen` opens it again.
pub(crate) fn take(
    engine: &mut Option<Engine>,
    reopen: impl FnOnce() -> Result<Engine, StoreError>,
    before: &Model,
    step: &Step,
) -> Result<(), StepError> {
    if let Step::Reopen(in_order) = step {
        let old = engine.take();
        match old {
            Some(old) if *in_order => old.close().map_err(StepError::Checkpoint)?,
            old => drop(old),
        }
        *engine = Some(reopen().map_err(StepError::Store)?);
        return Ok(());
    }
    do_to(engine.as_ref().expect("an open store"), before, step)
}

/// Does a step to an open store that stays open.
pub(crate) fn do_to(engine: &Engine, before: &Model, step: &Step) -> Result<(), StepError> {
    match step {
        Step::Append(session, messages) => {
            append_lines(engine, session, messages.iter().map(|message| message.line(false)).collect())
        }
        Step::Aside(session, message) => append_lines(engine, session, vec![message.line(true)]),
        Step::Rewind(session, kept) => {
            let messages = before.sessions.get(session).map_or(&[][..], Vec::as_slice);
            let target = kept.checked_sub(1).map(|last| messages[last].id.as_str());
            let parent = messages.last().map(|message| message.id.as_str());
            // The same rewind twice has the same id, and does nothing the second time.
            let leaf = serde_json::json!({ "type": "leaf", "id": format!("{}-{kept}", parent.unwrap_or("none")),
                "parentId": parent, "targetId": target });
            append_lines(engine, session, vec![leaf.to_string().into_bytes()])
        }
        Step::Delete(session) => match engine.delete_session(&id(session), now()) {
            Ok(_) => Ok(()),
            Err(DeleteError::Store(error)) => Err(StepError::Store(error)),
            Err(error) => panic!("{error}"),
        },
        Step::Checkpoint => engine.checkpoint().map_err(StepError::Checkpoint),
        Step::WaitForIndexing => {
            assert!(engine.wait_for_indexing(Duration::from_secs(30)), "indexing ends");
            Ok(())
        }
        Step::Pause => {
            std::thread::sleep(Duration::from_millis(15));
            Ok(())
        }
        Step::Reopen(_) => unreachable!("it stays open"),
    }
}

/// Makes steps at random.
pub(crate) struct StepGenerator {
    pub(crate) random: Random,
    next_message: usize,
    model: Model,
}

impl StepGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), next_message: 0, model: Model::default() }
    }

    pub(crate) fn messages(&mut self, n: usize) -> Vec<Message> {
        (0..n)
            .map(|_| {
                self.next_message += 1;
                Message::numbered(self.next_message, &mut self.random)
            })
            .collect()
    }

    pub(crate) fn append(&mut self, session: &'static str, n: usize) -> Step {
        let messages = self.messages(n);
        self.note(Step::Append(session, messages))
    }

    pub(crate) fn aside(&mut self, session: &'static str) -> Step {
        let message = self.messages(1).remove(0);
        self.note(Step::Aside(session, message))
    }

    /// Notes a step that was made elsewhere.
    pub(crate) fn note(&mut self, step: Step) -> Step {
        self.model = self.model.after(&step);
        step
    }

    /// Anything, fitting what there is.
    pub(crate) fn any(&mut self) -> Step {
        const SESSIONS: [&str; 3] = ["a", "b", "c"];
        let session = self.random.pick(&SESSIONS);
        let known = self.model.sessions.get(session).map(Vec::len);
        match (self.random.below(20), known) {
            (0 | 1, Some(len)) => {
                let kept = self.random.below(len + 1);
                self.note(Step::Rewind(session, kept))
            }
            (2, Some(_)) => self.note(Step::Delete(session)),
            // The first row of a session would be its conversation, aside or not.
            (3, Some(len)) if len > 0 => self.aside(session),
            (4..=6, _) => Step::Checkpoint,
            (7, _) => Step::WaitForIndexing,
            (8, _) => Step::Pause,
            (9, _) => Step::Reopen(self.random.below(2) == 0),
            _ => {
                let n = 1 + self.random.below(4);
                self.append(session, n)
            }
        }
    }
}
