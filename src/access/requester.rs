//! Who asks, and under which settings. Fixed when a handle or a server is made, never part of a question.

use super::AgentToAgent;
use crate::model::{AgentId, IdError, KeyAliases, KeyForm, SessionKey};

/// How far a session sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Visibility {
    /// Itself.
    SelfOnly,
    /// Itself and the sessions it owns directly, other agents' too (D4).
    #[default]
    Tree,
    /// Every session of its agent.
    Agent,
    /// Every session of its agent, and those of other agents where agent-to-agent allows it.
    All,
}

impl Visibility {
    /// The setting, whatever its case; unset or unknown is the default, `tree`.
    #[must_use]
    pub fn from_setting(text: Option<&str>) -> Self {
        match text.map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            Some("self") => Self::SelfOnly,
            Some("agent") => Self::Agent,
            Some("all") => Self::All,
            _ => Self::Tree,
        }
    }

    /// The word of the setting.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SelfOnly => "self",
            Self::Tree => "tree",
            Self::Agent => "agent",
            Self::All => "all",
        }
    }
}

/// What a sandbox does to visibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SandboxClamp {
    /// A sandboxed session sees at most itself and what it spawned.
    #[default]
    Spawned,
    /// A sandbox changes nothing.
    All,
}

impl SandboxClamp {
    /// The setting, whatever its case; unset or unknown is `spawned`.
    #[must_use]
    pub fn from_setting(text: Option<&str>) -> Self {
        if text.is_some_and(|text| text.trim().eq_ignore_ascii_case("all")) { Self::All } else { Self::Spawned }
    }
}

/// Why nobody can ask like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequesterError {
    /// The key is none.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The key is of another agent than the one named.
    #[error("session key {key} belongs to agent {in_key}, not to agent {agent}")]
    OtherAgent {
        /// The key.
        key: SessionKey,
        /// Its agent.
        in_key: AgentId,
        /// The agent that was named.
        agent: AgentId,
    },
    /// `current` stands for whoever asks.
    #[error("`current` stands for the session that asks: name that session by its key")]
    Current,
}

/// A session that asks, or the operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requester {
    pub(super) key: SessionKey,
    pub(super) agent: AgentId,
    pub(super) aliases: KeyAliases,
    visibility: Visibility,
    is_sandboxed: bool,
    clamp: SandboxClamp,
    pub(super) agent_to_agent: AgentToAgent,
    pub(super) is_operator: bool,
}

impl Requester {
    /// The session `key`, with visibility `tree`. Its agent is the one named, else the one in the key, else `main`.
    ///
    /// # Errors
    /// [`RequesterError`]: the key is none, or is of another agent than the one named.
    pub fn new(key: &str, agent: Option<AgentId>) -> Result<Self, RequesterError> {
        Self::with_aliases(key, agent, KeyAliases::default())
    }

    /// The same where `main` stands for another key than usual.
    ///
    /// # Errors
    /// As [`Requester::new`].
    pub fn with_aliases(key: &str, agent: Option<AgentId>, aliases: KeyAliases) -> Result<Self, RequesterError> {
        let key = SessionKey::parse(key)?;
        if key.as_str() == SessionKey::CURRENT {
            return Err(RequesterError::Current);
        }
        let in_key = match key.agent_part() {
            Some(part) => Some(AgentId::parse(part)?),
            None => None,
        };
        if let (Some(agent), Some(in_key)) = (&agent, &in_key)
            && agent != in_key
        {
            return Err(RequesterError::OtherAgent { key, in_key: in_key.clone(), agent: agent.clone() });
        }
        let agent = agent.or(in_key).unwrap_or_default();
        let key = aliases.stored(&agent, &key)?;
        Ok(Self {
            key,
            agent,
            aliases,
            visibility: Visibility::Tree,
            is_sandboxed: false,
            clamp: SandboxClamp::Spawned,
            agent_to_agent: AgentToAgent::off(),
            is_operator: false,
        })
    }

    /// An agent's main session that sees every session of that agent, and no other's.
    #[must_use]
    pub fn of_agent(agent: AgentId) -> Self {
        let aliases = KeyAliases::default();
        // Agent ids are at most 64 bytes, so the key is never too long.
        let key = aliases.stored(&agent, &SessionKey::alias_main()).unwrap_or_else(|_| SessionKey::alias_main());
        Self {
            key,
            agent,
            aliases,
            visibility: Visibility::Agent,
            is_sandboxed: false,
            clamp: SandboxClamp::Spawned,
            agent_to_agent: AgentToAgent::off(),
            is_operator: false,
        }
    }

    /// A person who may see every session of one agent, runs of scheduled jobs included.
    #[must_use]
    pub fn operator(agent: AgentId) -> Self {
        Self { is_operator: true, ..Self::of_agent(agent) }
    }

    /// Sees as far as `visibility` says.
    #[must_use]
    pub fn with_visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Runs in a sandbox.
    #[must_use]
    pub fn in_sandbox(mut self, clamp: SandboxClamp) -> Self {
        self.is_sandboxed = true;
        self.clamp = clamp;
        self
    }

    /// With these agent-to-agent rules.
    #[must_use]
    pub fn with_agent_to_agent(mut self, rules: AgentToAgent) -> Self {
        self.agent_to_agent = rules;
        self
    }

    /// The session that asks; for the operator and a whole agent, the agent's main session.
    #[must_use]
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Its agent.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// What `main` stands for here.
    #[must_use]
    pub fn aliases(&self) -> &KeyAliases {
        &self.aliases
    }

    /// How far it sees once the sandbox has had its say. A sandbox never widens: `self` stays `self` (D5).
    #[must_use]
    pub fn effective_visibility(&self) -> Visibility {
        let clamps = self.is_sandboxed && self.clamp == SandboxClamp::Spawned;
        match self.visibility {
            Visibility::Agent | Visibility::All if clamps => Visibility::Tree,
            other => other,
        }
    }

    /// Whether only itself and sessions it spawned may be met, proven by the stored row.
    #[must_use]
    pub fn is_restricted_to_spawned(&self) -> bool {
        self.is_sandboxed && self.clamp == SandboxClamp::Spawned && !self.key.is_subagent()
    }

    /// Whether its own key carries the agent, so that it means the same in every agent's store.
    pub(super) fn has_scoped_key(&self) -> bool {
        self.key.form() == KeyForm::Scoped
    }
}
