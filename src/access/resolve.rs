//! Which session a text names to a requester (contract §6.5, D23).
//!
//! What is hidden answers exactly as what does not exist: an id or a free text that names nothing visible is "not found"
//! (to a restricted caller "forbidden", whatever it is), and a well-formed key is judged the same whether it exists.

use super::Requester;
use super::rules::{Admission, Denial, Lineage, Target};
use crate::model::{AgentId, IdError, KeyForm, SessionId, SessionKey};

/// What is stored, as far as names are resolved.
pub trait Catalogue {
    /// Why it could not be read.
    type Error;

    /// Calls `with` with the lineage of a stored session; `None` when the agent has no session of that key.
    ///
    /// # Errors
    /// The store could not be read.
    fn with_lineage<R>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        with: impl FnOnce(Lineage<'_>) -> R,
    ) -> Result<Option<R>, Self::Error>;

    /// The sessions that hold a window of this id, agents in id order.
    ///
    /// # Errors
    /// The store could not be read.
    fn with_window(&self, id: &SessionId) -> Result<Vec<(AgentId, SessionKey)>, Self::Error>;
}

/// A session that may be seen. It need not exist.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Whose it is.
    pub agent: AgentId,
    /// Its key, as stored.
    pub key: SessionKey,
    /// That it was judged.
    pub admission: Admission,
}

/// Why a text names no session that may be seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Judged, and not allowed.
    #[error("{0}")]
    Forbidden(#[from] Denial),
    /// Names nothing that may be seen.
    #[error("no session {given:?} is visible here: give the full session key, as a search or the list shows it")]
    NotFound {
        /// The text as given.
        given: String,
    },
    /// No id at all.
    #[error(transparent)]
    Id(#[from] IdError),
}

impl Refusal {
    /// `forbidden` or `error`, as tools answer it.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "forbidden",
            Self::NotFound { .. } | Self::Id(_) => "error",
        }
    }
}

/// The names of OpenClaw's own clients; each means "where I am".
const CLIENTS: [&str; 8] = [
    "openclaw-tui",
    "cli",
    "webchat",
    "webchat-ui",
    "openclaw-control-ui",
    "openclaw-macos",
    "openclaw-ios",
    "openclaw-android",
];

/// Longest part of a text that an error repeats, in characters.
const SHOWN_CHARS: usize = 120;

impl Requester {
    /// What `given` names to this requester.
    ///
    /// # Errors
    /// Outer: the store could not be read. Inner: [`Refusal`].
    pub fn resolve<C: Catalogue>(&self, given: &str, catalogue: &C) -> Result<Result<Resolved, Refusal>, C::Error> {
        let key = match SessionKey::parse(given) {
            Ok(key) => key,
            Err(error) => return Ok(Err(error.into())),
        };
        let is_current = key.as_str() == SessionKey::CURRENT || CLIENTS.contains(&key.as_str());
        let key = if is_current { SessionKey::parse(SessionKey::CURRENT).unwrap_or(key) } else { key };
        let may_be_id = SessionKey::looks_like_session_id(given) || !SessionKey::looks_like_key(given);
        if is_current || may_be_id {
            if let Some(found) = self.existing(&self.agent, &key, catalogue)? {
                return Ok(Ok(found));
            }
            if let Ok(id) = SessionId::parse(if is_current { SessionKey::CURRENT } else { given }) {
                for (agent, key) in catalogue.with_window(&id)? {
                    if let Some(found) = self.stored(&agent, &key, catalogue)? {
                        return Ok(Ok(found));
                    }
                }
            }
            if is_current {
                return Ok(self.judged(&self.agent, &self.key.clone(), Lineage::default()));
            }
            return Ok(Err(if self.is_restricted_to_spawned() {
                Denial::NotSpawned.into()
            } else {
                Refusal::NotFound { given: shown(given) }
            }));
        }
        let agent = match key.agent_part().map(AgentId::parse) {
            Some(Ok(agent)) => agent,
            // No store can be named so; the judge says what it says of any other agent.
            Some(Err(_)) => return Ok(self.judged(&self.agent, &key, Lineage::default())),
            None => self.agent.clone(),
        };
        if let Some(found) = self.existing(&agent, &key, catalogue)? {
            return Ok(Ok(found));
        }
        match self.aliases.stored(&agent, &key) {
            Ok(key) => Ok(self.judged(&agent, &key, Lineage::default())),
            Err(error) => Ok(Err(error.into())),
        }
    }

    /// The stored session a key names, if it may be seen: the key with its alias resolved, as given, and in full.
    fn existing<C: Catalogue>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        catalogue: &C,
    ) -> Result<Option<Resolved>, C::Error> {
        let mut spellings = vec![self.aliases.stored(agent, key).ok(), Some(key.clone())];
        if key.form() != KeyForm::Sentinel {
            spellings.push(self.aliases.canonical(agent, key).ok());
        }
        for key in spellings.into_iter().flatten() {
            if let Some(found) = self.stored(agent, &key, catalogue)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn stored<C: Catalogue>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        catalogue: &C,
    ) -> Result<Option<Resolved>, C::Error> {
        let judged = catalogue.with_lineage(agent, key, |lineage| self.judged(agent, key, lineage))?;
        Ok(judged.and_then(Result::ok))
    }

    fn judged(&self, agent: &AgentId, key: &SessionKey, lineage: Lineage<'_>) -> Result<Resolved, Refusal> {
        let admission = self.judge(&Target { agent, key, lineage })?;
        Ok(Resolved { agent: agent.clone(), key: key.clone(), admission })
    }
}

fn shown(given: &str) -> String {
    let mut shown: String = given.trim().chars().take(SHOWN_CHARS).collect();
    if shown.len() < given.trim().len() {
        shown.push('…');
    }
    shown
}
