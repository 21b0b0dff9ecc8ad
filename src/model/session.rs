//! What is known of a session beside its transcript.

use serde::{Deserialize, Serialize};

use super::{SessionKey, Timestamp};

/// Facts a session is stored with: naming and lineage (contract §1.4). All optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionFacts {
    /// A name people gave, or the source's title.
    pub label: Option<String>,
    /// The session that spawned this one (sub-agents).
    pub spawned_by: Option<SessionKey>,
    /// An explicit parent (forks, dashboard children).
    pub parent: Option<SessionKey>,
    /// The owner used for visibility.
    pub owner: Option<SessionKey>,
    /// Archived sessions leave listings and stay searchable.
    pub archived: bool,
    /// Last activity as the source states it.
    pub updated_at: Option<Timestamp>,
}

impl SessionFacts {
    /// Whether they say where the session comes from.
    #[must_use]
    pub fn states_lineage(&self) -> bool {
        self.owner.is_some() || self.spawned_by.is_some() || self.parent.is_some()
    }
}
