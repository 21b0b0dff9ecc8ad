//! `export`: sessions written to a folder, or one of them to standard output.

use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use sessions_search::{
    AgentId, Engine, ExportOptions, ExportProgress, ExportSummary, ListRequest, SessionKey, StoreError,
};

use crate::args::{ExportArgs, ExportFormatChoice};
use crate::failure::{DAMAGED, DONE, Failure, NOTHING};
use crate::progress::At;
use crate::run::Place;
use crate::text::{counted, harmless, sized};
use crate::upkeep::agents;

/// What was written, of all agents.
#[derive(Serialize)]
struct Exported<'e> {
    folder: std::borrow::Cow<'e, str>,
    format: &'static str,
    sessions: u64,
    events: u64,
    files: u64,
    bytes: u64,
    agents: Vec<ExportedAgent>,
}

/// What was written of one agent.
#[derive(Serialize)]
struct ExportedAgent {
    agent: String,
    #[serde(flatten)]
    summary: ExportSummary,
}

impl Place<'_> {
    pub(crate) fn export(&self, args: &ExportArgs, names_agent: bool) -> Result<u8, Failure> {
        let mut options = ExportOptions::default();
        options.format = args.format.format();
        options.session.clone_from(&args.session_key);
        options.overwrite = args.overwrite;
        match &args.out {
            Some(folder) => self.export_to_folder(folder, &options, names_agent),
            None if self.output.is_json() => Err(Failure::Input(
                "with --json give --out DIR: standard output is for the answer; nothing was written".into(),
            )),
            None => self.export_to_stdout(&options, names_agent),
        }
    }

    /// Whose sessions: the agent that is named, or that the key names; else every one with a store.
    fn agents_to_export(&self, options: &ExportOptions, names_agent: bool) -> Result<Vec<AgentId>, Failure> {
        if names_agent {
            return Ok(vec![self.agent.clone()]);
        }
        let Some(session) = &options.session else { return agents(&self.root) };
        let key = SessionKey::parse(session)?;
        let of_key = key.agent_part().and_then(|agent| AgentId::parse(agent).ok());
        Ok(vec![of_key.unwrap_or_else(|| self.agent.clone())])
    }

    fn open_agent(&self, agent: &AgentId) -> Result<Option<Engine>, Failure> {
        let mut options = self.options();
        options.agent = agent.clone();
        match self.open_with(&self.root, options) {
            Ok(engine) => Ok(Some(engine)),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    fn export_to_folder(&self, folder: &Path, options: &ExportOptions, names_agent: bool) -> Result<u8, Failure> {
        let mut progress = self.output.progress("export", "bytes");
        let mut report = |at: &ExportProgress| {
            let counts = vec![("session", at.sessions), ("event", at.events)];
            progress.report(At { done: at.bytes, total: at.total_bytes, counts });
        };
        let mut exported = Vec::new();
        for agent in self.agents_to_export(options, names_agent)? {
            let Some(engine) = self.open_agent(&agent)? else { continue };
            let summary = engine.export(folder, options, &mut report);
            let summary = summary.map_err(|error| {
                let failure = Failure::from(error);
                match exported.last() {
                    Some(ExportedAgent { agent, .. }) => failure.after(&format!("agents up to {agent} are written")),
                    None => failure,
                }
            })?;
            exported.push(ExportedAgent { agent: agent.as_str().to_owned(), summary });
        }
        progress.finish();
        if exported.is_empty() {
            return Err(self.nothing_to_export(options));
        }
        self.exported(folder, options, exported)
    }

    fn nothing_to_export(&self, options: &ExportOptions) -> Failure {
        let root = self.root.display();
        match &options.session {
            Some(session) => Failure::Input(format!("no session {session:?}: there is no store at {root}")),
            None => Failure::Input(format!("no store at {root}; nothing was written")),
        }
    }

    fn exported(&self, folder: &Path, options: &ExportOptions, agents: Vec<ExportedAgent>) -> Result<u8, Failure> {
        let sum = |of: fn(&ExportSummary) -> u64| agents.iter().map(|agent| of(&agent.summary)).sum();
        let exported = Exported {
            folder: folder.to_string_lossy(),
            format: options.format.name(),
            sessions: sum(|summary| summary.sessions),
            events: sum(|summary| summary.events),
            files: sum(|summary| summary.files),
            bytes: sum(|summary| summary.bytes),
            agents,
        };
        if self.output.is_json() {
            self.output.json(&exported)?;
        } else {
            for ExportedAgent { agent, summary } in &exported.agents {
                let (sessions, events) = (counted(summary.sessions, "session"), counted(summary.events, "event"));
                let files = counted(summary.files, "file");
                let bytes = sized(summary.bytes);
                self.output.text(&format!("agent {agent}: {sessions}, {events}, {files}, {bytes}\n"))?;
            }
        }
        let unreadable = exported.agents.iter().map(|agent| self.note_unreadable(&agent.summary)).sum::<u64>();
        Ok(match (unreadable, exported.sessions) {
            (0, 0) => NOTHING,
            (0, _) => DONE,
            _ => DAMAGED,
        })
    }

    /// Says what is missing. Gives how much.
    fn note_unreadable(&self, summary: &ExportSummary) -> u64 {
        for unreadable in &summary.unreadable {
            let detail = harmless(&format!("{}: {}", unreadable.session_id, unreadable.detail));
            self.output.note(&format!("missing, for it can't be read: {detail}"));
        }
        summary.unreadable_total
    }

    fn export_to_stdout(&self, options: &ExportOptions, names_agent: bool) -> Result<u8, Failure> {
        let agents = self.agents_to_export(options, names_agent)?;
        let mut opened = Vec::new();
        for agent in &agents {
            opened.extend(self.open_agent(agent)?);
        }
        let (engine, session) = match (&options.session, opened.as_slice()) {
            (_, []) => return Err(self.nothing_to_export(options)),
            (Some(session), [engine, ..]) => (engine, session.clone()),
            (None, engines) => only_session(engines)?,
        };
        let mut stdout = io::stdout().lock();
        let exported = engine.export_session(&session, options.format, &mut stdout)?;
        stdout.flush()?;
        if exported.other_windows > 0 {
            let more = counted(exported.other_windows, "earlier session");
            self.output.note(&format!("note: {more} of this key: `--out DIR` writes all"));
        }
        Ok(if self.note_unreadable(&exported.summary) > 0 { DAMAGED } else { DONE })
    }
}

/// The one session there is, where none was named.
fn only_session(engines: &[Engine]) -> Result<(&Engine, String), Failure> {
    let mut found = Vec::new();
    for engine in engines {
        for archived in [false, true] {
            let request = ListRequest { archived, limit: 2, ..ListRequest::default() };
            found.extend(engine.sessions(&request)?.sessions.into_iter().map(|row| (engine, row.session_id)));
        }
    }
    match (found.pop(), found.as_slice()) {
        (Some((engine, id)), []) => Ok((engine, id.as_str().to_owned())),
        (None, _) => Err(Failure::Input("there is no session; nothing was written".into())),
        _ => Err(Failure::Input(
            "name one session with --session-key, or a folder for all with --out; nothing was written".into(),
        )),
    }
}

impl ExportFormatChoice {
    fn format(self) -> sessions_search::ExportFormat {
        match self {
            Self::Jsonl => sessions_search::ExportFormat::Jsonl,
            Self::Markdown => sessions_search::ExportFormat::Markdown,
            Self::Html => sessions_search::ExportFormat::Html,
        }
    }
}
