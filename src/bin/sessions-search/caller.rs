//! On whose eyes a command is: the operator's, or a session's.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use sessions_search::{AgentId, AgentToAgent, Requester, SandboxClamp, Visibility};

use crate::failure::Failure;
use crate::shell::shell_option;

#[derive(Debug, Args)]
pub(crate) struct CallerArgs {
    /// Answer as this session would be answered
    #[arg(long = "as", value_name = "SESSION_KEY")]
    pub(crate) caller: Option<String>,
    /// How far that session sees
    #[arg(long, value_enum, ignore_case = true, default_value_t = VisibilityChoice::Tree, requires = "caller")]
    visibility: VisibilityChoice,
    /// That session runs in a sandbox
    #[arg(long, requires = "caller")]
    sandboxed: bool,
    /// What a sandbox leaves to see: what the session spawned, or all that its visibility says
    #[arg(long, value_enum, ignore_case = true, default_value_t = ClampChoice::Spawned, requires = "sandboxed")]
    sandbox_clamp: ClampChoice,
    /// Agents that see each other's sessions: an id, `*`, or a pattern with stars; may be repeated
    #[arg(long, value_name = "PATTERN", requires = "caller")]
    agent_to_agent: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VisibilityChoice {
    /// Itself
    #[value(name = "self")]
    SelfOnly,
    /// Itself and the sessions it spawned
    Tree,
    /// Every session of its agent
    Agent,
    /// Those of other agents too, where --agent-to-agent lets it
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClampChoice {
    Spawned,
    All,
}

impl CallerArgs {
    /// The same as options, for a command that is printed.
    pub(crate) fn options(&self) -> String {
        let Some(key) = &self.caller else { return String::new() };
        let mut options = shell_option("--as", key);
        let name = |value: Option<PossibleValue>| value.map(|value| value.get_name().to_owned()).unwrap_or_default();
        if self.visibility != VisibilityChoice::Tree {
            options += &shell_option("--visibility", &name(self.visibility.to_possible_value()));
        }
        if self.sandboxed {
            options += " --sandboxed";
        }
        if self.sandbox_clamp != ClampChoice::Spawned {
            options += &shell_option("--sandbox-clamp", &name(self.sandbox_clamp.to_possible_value()));
        }
        self.agent_to_agent.iter().for_each(|pattern| options += &shell_option("--agent-to-agent", pattern));
        options
    }

    /// The session that asks; `None` for the operator. `agent` is the one named on the command line.
    pub(crate) fn requester(&self, agent: Option<&AgentId>) -> Result<Option<Requester>, Failure> {
        let Some(key) = &self.caller else { return Ok(None) };
        let mut requester = Requester::new(key, agent.cloned()).map_err(|error| Failure::Input(error.to_string()))?;
        requester = requester.with_visibility(match self.visibility {
            VisibilityChoice::SelfOnly => Visibility::SelfOnly,
            VisibilityChoice::Tree => Visibility::Tree,
            VisibilityChoice::Agent => Visibility::Agent,
            VisibilityChoice::All => Visibility::All,
        });
        if self.sandboxed {
            requester = requester.in_sandbox(match self.sandbox_clamp {
                ClampChoice::Spawned => SandboxClamp::Spawned,
                ClampChoice::All => SandboxClamp::All,
            });
        }
        if !self.agent_to_agent.is_empty() {
            requester = requester.with_agent_to_agent(AgentToAgent::on(self.agent_to_agent.clone()));
        }
        Ok(Some(requester))
    }
}
