//! What a document must be besides matching: of an allowed session, of a role, of a time.

use crate::index::DocFacts;
use crate::model::{Ordinal, Role, Timestamp};

/// A set of session ordinals.
#[derive(Debug, Clone, Default)]
pub struct OrdinalSet {
    bits: Vec<u64>,
}

impl OrdinalSet {
    /// Adds an ordinal.
    pub fn insert(&mut self, ordinal: Ordinal) {
        let word = ordinal.0 as usize / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (ordinal.0 % 64);
    }

    /// Whether the ordinal is in the set.
    #[must_use]
    pub fn contains(&self, ordinal: Ordinal) -> bool {
        self.bits.get(ordinal.0 as usize / 64).is_some_and(|word| word & (1 << (ordinal.0 % 64)) != 0)
    }
}

impl FromIterator<Ordinal> for OrdinalSet {
    fn from_iter<I: IntoIterator<Item = Ordinal>>(ordinals: I) -> Self {
        let mut set = Self::default();
        ordinals.into_iter().for_each(|ordinal| set.insert(ordinal));
        set
    }
}

/// Applied before any limit. The default lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only these sessions; `None`: every session.
    pub sessions: Option<OrdinalSet>,
    /// Only this role.
    pub role: Option<Role>,
    /// Only from this time on, inclusive. Unknown times are outside.
    pub since: Option<Timestamp>,
    /// Only before this time, exclusive. Unknown times are outside.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Whether a document of this ordinal may pass at all.
    pub(super) fn admits_session(&self, ordinal: Ordinal) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(ordinal))
    }

    /// Whether the rest of the facts pass.
    pub(super) fn admits(&self, facts: &DocFacts) -> bool {
        let timed = self.since.is_some() || self.until.is_some();
        self.role.is_none_or(|role| role == facts.role)
            && (!timed || facts.timestamp.is_known())
            && self.since.is_none_or(|since| facts.timestamp >= since)
            && self.until.is_none_or(|until| facts.timestamp < until)
    }
}
