//! The commands that look after a store: verify, compact, backup. And the shell's completions, and the manual.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use serde::Serialize;
use sessions_search::{AgentId, Compacted, Engine, FindingKind, StoreError, VerifyReport};

use crate::args::Cli;
use crate::failure::{DAMAGED, DONE, Failure, NOTHING};
use crate::output::{counted, harmless};
use crate::run::Place;
use crate::shell::shell_option;

impl Place<'_> {
    /// Looks the store over; what opening it would mend is left as it is.
    pub(crate) fn verify(&self, deep: bool) -> Result<u8, Failure> {
        let report = {
            let _waiting = self.output.progress("verify");
            Engine::verify(&self.root, &self.options(), deep)
        };
        let report = match report {
            Ok(report) => report,
            Err(StoreError::Missing { .. }) => {
                self.note_missing();
                return self.no_store();
            }
            Err(other) => return Err(other.into()),
        };
        if self.output.is_json() {
            self.output.json(&report)?;
        } else {
            self.output.text(&verified(&report))?;
        }
        Ok(if report.clean { DONE } else { DAMAGED })
    }

    fn no_store(&self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct NoStore {
            clean: bool,
            findings: [(); 0],
            reason: &'static str,
        }
        if self.output.is_json() {
            self.output.json(&NoStore { clean: true, findings: [], reason: "no_store" })?;
        }
        Ok(NOTHING)
    }

    pub(crate) fn compact(&self) -> Result<u8, Failure> {
        let compacted = self.compacted(&self.open_to_change()?)?;
        if self.output.is_json() {
            self.output.json(&compacted)?;
        } else {
            let Compacted { bytes_before, bytes_after, .. } = compacted;
            self.output.text(&format!("{bytes_before} bytes before, {bytes_after} after\n"))?;
        }
        Ok(DONE)
    }

    /// Compacts an open store, with a sign of life.
    pub(crate) fn compacted(&self, engine: &Engine) -> Result<Compacted, Failure> {
        let _waiting = self.output.progress("compact");
        Ok(engine.compact()?)
    }

    /// Copies the store of every agent; of one where an agent is named.
    pub(crate) fn backup(&self, folder: &Path, named: bool) -> Result<u8, Failure> {
        let agents = if named { vec![self.agent.clone()] } else { agents(&self.root)? };
        let mut copied = Vec::new();
        for agent in agents {
            let mut options = self.options();
            options.agent = agent.clone();
            let engine = match Engine::open(&self.root, options) {
                Ok(engine) => engine,
                Err(StoreError::Missing { .. }) => continue,
                Err(other) => return Err(other.into()),
            };
            let _waiting = self.output.progress("backup");
            copied.push(Copied { agent: agent.as_str().to_owned(), bytes: engine.backup(folder)? });
        }
        if copied.is_empty() {
            return Err(Failure::Input(format!("no store at {}; nothing was copied", self.root.display())));
        }
        if self.output.is_json() {
            #[derive(Serialize)]
            struct Backup<'b> {
                folder: std::borrow::Cow<'b, str>,
                agents: &'b [Copied],
            }
            self.output.json(&Backup { folder: folder.to_string_lossy(), agents: &copied })?;
        } else {
            for Copied { agent, bytes } in &copied {
                self.output.text(&format!("agent {agent}: {bytes} bytes\n"))?;
            }
            let copy = shell_option("--store", &folder.to_string_lossy());
            self.output.note(&format!("to search the copy: sessions-search{copy} search WORDS"));
        }
        Ok(DONE)
    }

    /// Prints a shell's completions.
    pub(crate) fn completions(&self, shell: clap_complete::Shell) -> Result<u8, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "sessions-search", &mut script);
        let script = String::from_utf8_lossy(&script);
        if self.output.is_json() {
            #[derive(Serialize)]
            struct Completions<'c> {
                shell: String,
                script: &'c str,
            }
            self.output.json(&Completions { shell: shell.to_string(), script: &script })?;
        } else {
            self.output.text(&script)?;
        }
        Ok(DONE)
    }

    /// Prints the manual page: the program, and each command on a page of its own after it.
    pub(crate) fn man(&self) -> Result<u8, Failure> {
        let mut command = Cli::command();
        command.build();
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            clap_mangen::Man::new(sub.clone()).render(&mut page)?;
        }
        let page = String::from_utf8_lossy(&page);
        if self.output.is_json() {
            #[derive(Serialize)]
            struct Manual<'m> {
                page: &'m str,
            }
            self.output.json(&Manual { page: &page })?;
        } else {
            self.output.text(&page)?;
        }
        Ok(DONE)
    }
}

/// The store of one agent, copied.
#[derive(Serialize)]
struct Copied {
    agent: String,
    bytes: u64,
}

/// The agents that have a folder below the root.
pub(crate) fn agents(root: &Path) -> Result<Vec<AgentId>, Failure> {
    let folders = match std::fs::read_dir(root.join("agents")) {
        Ok(folders) => folders,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut agents = Vec::new();
    for folder in folders {
        if let Some(agent) = folder?.file_name().to_str().and_then(|name| AgentId::parse(name).ok()) {
            agents.push(agent);
        }
    }
    agents.sort();
    Ok(agents)
}

fn verified(report: &VerifyReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text += &format!("{}: {}\n", finding.kind.as_str(), harmless(&finding.detail));
    }
    let unlisted = report.findings_total - report.findings.len() as u64;
    if unlisted > 0 {
        text += &format!("and {unlisted} more\n");
    }
    let looked_at = format!(
        "{}, {}, {}",
        counted(report.sessions, "session"),
        counted(report.events, "event"),
        counted(report.documents, "document")
    );
    if report.clean {
        return text + &format!("clean: {looked_at}\n");
    }
    let in_transcripts = |kind| matches!(kind, FindingKind::StoreDamaged | FindingKind::UnreadableRow);
    let next = if report.findings.iter().any(|finding| in_transcripts(finding.kind)) {
        "the transcripts are damaged: put back a backup, or `export` what can be read"
    } else {
        "the transcripts are whole: `reindex` makes the index anew from them"
    };
    text + &format!("{} in {looked_at}; {next}\n", counted(report.findings_total, "finding"))
}
