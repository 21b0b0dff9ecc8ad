//! Whether one session may be seen (contract §6.3, §6.4), and whether a listing meets it (§6.6).

use super::{Requester, Visibility};
use crate::model::{AgentId, KeyForm, SessionFacts, SessionKey};

/// The sessions a session stands below, as its stored row says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lineage<'t> {
    /// Its owner.
    pub owner: Option<&'t SessionKey>,
    /// The session that spawned it.
    pub spawned_by: Option<&'t SessionKey>,
    /// Its explicit parent.
    pub parent: Option<&'t SessionKey>,
}

impl<'t> Lineage<'t> {
    /// What the facts say.
    #[must_use]
    pub fn of(facts: &'t SessionFacts) -> Self {
        Self { owner: facts.owner.as_ref(), spawned_by: facts.spawned_by.as_ref(), parent: facts.parent.as_ref() }
    }

    fn is_unknown(&self) -> bool {
        self.owner.is_none() && self.spawned_by.is_none() && self.parent.is_none()
    }
}

/// A session to judge.
#[derive(Debug, Clone, Copy)]
pub struct Target<'t> {
    /// Whose store holds it, or would.
    pub agent: &'t AgentId,
    /// Its key.
    pub key: &'t SessionKey,
    /// Where it comes from; empty for a session that does not exist.
    pub lineage: Lineage<'t>,
}

/// Proof that a session was judged and may be seen. Made by [`Requester::judge`] alone.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    _private: (),
}

/// Why a session may not be seen. The text names settings, never anything about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// The session is incognito.
    #[error("incognito sessions are never stored and can't be read")]
    Incognito,
    /// It is another agent's, and this caller sees one agent only.
    #[error("that session belongs to another agent: seeing it needs visibility `all` and agent-to-agent access")]
    OtherAgent,
    /// It is another agent's, and agent-to-agent is off.
    #[error("that session belongs to another agent: agent-to-agent access is off")]
    AgentToAgentOff,
    /// It is another agent's, and the two are not both listed.
    #[error("that session belongs to another agent: agent-to-agent access does not list these two agents")]
    PairNotAllowed,
    /// Only itself.
    #[error("visibility `self`: this session sees only itself")]
    SelfOnly,
    /// Only itself and its children.
    #[error("visibility `tree`: this session sees only itself and the sessions it spawned")]
    TreeOnly,
    /// A sandbox.
    #[error("not visible from this sandboxed session, which sees only itself and the sessions it spawned")]
    NotSpawned,
}

/// How much of an agent's store a requester may meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    Nothing,
    /// Sessions that it owns. Whether there is such a store at all must change nothing otherwise.
    OwnedOnly,
    /// Sessions by the usual rules.
    Whole,
}

impl Requester {
    /// Judges one session (contract §6.3, from top to bottom).
    ///
    /// # Errors
    /// [`Denial`]: it may not be seen.
    pub fn judge(&self, target: &Target<'_>) -> Result<Admission, Denial> {
        if target.key.is_incognito() {
            return Err(Denial::Incognito);
        }
        let admitted = Ok(Admission { _private: () });
        // A key that names another agent than the store it lies in belongs to neither alone.
        let in_key = target.key.agent_part();
        let is_same_agent = *target.agent == self.agent && in_key.is_none_or(|in_key| in_key == self.agent.as_str());
        if self.is_operator {
            return if *target.agent == self.agent { admitted } else { Err(Denial::OtherAgent) };
        }
        let own = is_same_agent && self.names_self(target.agent, target.key);
        if own {
            return admitted;
        }
        let spawned = self.is_any_self(target.agent, [target.lineage.spawned_by, target.lineage.parent]);
        let owned = spawned || self.is_any_self(target.agent, [target.lineage.owner, None]);
        if self.is_restricted_to_spawned() && !spawned {
            return Err(Denial::NotSpawned);
        }
        let mode = self.effective_visibility();
        if owned && matches!(mode, Visibility::Tree | Visibility::All) {
            return admitted;
        }
        if !is_same_agent {
            let allows = |agent: &AgentId| self.agent_to_agent.allows(&self.agent, agent);
            let allows_in_key = || in_key.is_none_or(|in_key| AgentId::parse(in_key).is_ok_and(|agent| allows(&agent)));
            return if mode != Visibility::All {
                Err(Denial::OtherAgent)
            } else if !self.agent_to_agent.is_on() {
                Err(Denial::AgentToAgentOff)
            } else if !allows(target.agent) || !allows_in_key() {
                Err(Denial::PairNotAllowed)
            } else {
                admitted
            };
        }
        match mode {
            Visibility::SelfOnly => Err(Denial::SelfOnly),
            Visibility::Tree => Err(Denial::TreeOnly),
            Visibility::Agent | Visibility::All => admitted,
        }
    }

    /// Whether a search or a list that names no session meets this one (contract §6.6). `None`: it does not.
    #[must_use]
    pub fn meets(&self, target: &Target<'_>) -> Option<Admission> {
        // Asked of every session of a store: most are told by one look.
        let sees_owned_only = matches!(self.effective_visibility(), Visibility::SelfOnly | Visibility::Tree);
        let is_plain = target.key.form() == KeyForm::Scoped && target.lineage.is_unknown();
        if sees_owned_only && !self.is_operator && is_plain && *target.key != self.key {
            return None;
        }
        let admission = self.judge(target).ok()?;
        if self.is_operator || *target.agent == self.agent && self.names_self(target.agent, target.key) {
            return Some(admission);
        }
        let is_foreign_bare = *target.agent != self.agent && target.key.agent_part().is_none();
        let is_sentinel = target.key.form() == KeyForm::Sentinel;
        let is_hidden = is_foreign_bare
            || target.key.as_str() == "unknown"
            || is_sentinel && self.is_restricted_to_spawned()
            || target.key.is_cron_run();
        (!is_hidden).then_some(admission)
    }

    /// How much of an agent's store may be met.
    #[must_use]
    pub fn reach(&self, agent: &AgentId) -> Reach {
        if *agent == self.agent {
            return Reach::Whole;
        }
        let owned = if self.has_scoped_key() { Reach::OwnedOnly } else { Reach::Nothing };
        match self.effective_visibility() {
            _ if self.is_operator => Reach::Nothing,
            Visibility::SelfOnly | Visibility::Agent => Reach::Nothing,
            Visibility::Tree => owned,
            Visibility::All if self.agent_to_agent.allows(&self.agent, agent) => Reach::Whole,
            Visibility::All => owned,
        }
    }

    /// Whether there can be anything to meet in another agent's store.
    #[must_use]
    pub fn reaches_others(&self) -> bool {
        !self.is_operator && matches!(self.effective_visibility(), Visibility::Tree | Visibility::All)
    }

    /// Whether nothing but the requester's own session and those that name it in their lineage can be met: no other need
    /// be looked at.
    #[must_use]
    pub fn meets_family_only(&self) -> bool {
        !self.is_operator && matches!(self.effective_visibility(), Visibility::SelfOnly | Visibility::Tree)
    }

    /// Every key that may stand for the requester's session in a store. More than that is no harm: each session found by
    /// them is judged.
    #[must_use]
    pub fn own_keys(&self) -> Vec<SessionKey> {
        vec![self.key.clone(), SessionKey::alias_main(), self.aliases.main_key().clone()]
    }

    /// Whether a key in an agent's store names the session that asks.
    fn names_self(&self, agent: &AgentId, key: &SessionKey) -> bool {
        *key == self.key
            || key.agent_part().is_none() && self.aliases.stored(agent, key).is_ok_and(|key| key == self.key)
    }

    /// The same for lineage. A bare key means something in its own agent's store only.
    fn is_any_self(&self, agent: &AgentId, keys: [Option<&SessionKey>; 2]) -> bool {
        (self.has_scoped_key() || *agent == self.agent)
            && keys.into_iter().flatten().any(|key| self.names_self(agent, key))
    }
}
