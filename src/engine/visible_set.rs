//! The sessions of one agent that one requester may meet, from the rows of a view.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::access::Requester;
use crate::access::rules::{Lineage, Target};
use crate::access::stages::Visible;
use crate::commit::{Sessions, View};
use crate::model::AgentId;
use crate::search::OrdinalSet;
use crate::store::{SessionRow, SessionState};

/// What a search that names no session is about: counts, and the ordinals it may meet. Made before matching.
#[derive(Debug, Clone, Default)]
pub struct VisibleSet {
    /// Sessions with at least one event.
    pub num_sessions: usize,
    /// Of these, hidden until they are rebuilt.
    pub num_pending: usize,
    /// The ordinals of the others.
    pub ordinals: OrdinalSet,
}

/// Every session that a list or a search without keys meets.
pub fn visible_rows<'v>(
    agent: &AgentId,
    sessions: &'v Sessions,
    requester: &Requester,
) -> Vec<Visible<&'v Arc<SessionRow>>> {
    let judged = |row: &'v Arc<SessionRow>| {
        let target = Target { agent, key: &row.session_key, lineage: Lineage::of(sessions.lineage(row)) };
        requester.meets(&target).map(|admission| Visible::judged(admission, row))
    };
    if requester.meets_family_only() {
        let family = sessions.families(&requester.own_keys());
        return family.into_iter().filter_map(|number| sessions.get(number)).filter_map(judged).collect();
    }
    sessions.iter().filter_map(judged).collect()
}

impl VisibleSet {
    fn new(agent: &AgentId, sessions: &Sessions, requester: &Requester) -> Visible<Self> {
        Visible::collected(visible_rows(agent, sessions, requester)).map(|rows| Self::of(&rows))
    }

    fn of(rows: &[&Arc<SessionRow>]) -> Self {
        let mut set = Self::default();
        for row in rows.iter().filter(|row| row.next_seq > 0) {
            set.num_sessions += 1;
            if row.state == SessionState::Ready {
                set.ordinals.insert(row.ordinal);
            } else {
                set.num_pending += 1;
            }
        }
        set
    }
}

/// Requesters whose sets are kept, for each agent's store. A gateway serves a handful at a time.
const MAX_KEPT: usize = 16;

/// A requester's set, and the epoch of the sessions it was made from.
type Kept = (Requester, u64, Arc<Visible<VisibleSet>>);

/// The sets of the requesters that asked last. They stay right until sessions come, go, or change hands.
#[derive(Debug, Default)]
pub struct VisibleSets {
    kept: Mutex<Vec<Kept>>,
}

impl VisibleSets {
    /// The set of a requester in this view.
    pub fn of(&self, agent: &AgentId, view: &View, requester: &Requester) -> Arc<Visible<VisibleSet>> {
        let epoch = view.sessions.epoch();
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(who, _, _)| who == requester);
        if let Some(at) = at {
            let entry = kept.remove(at);
            if entry.1 == epoch {
                let set = Arc::clone(&entry.2);
                kept.push(entry);
                return set;
            }
        }
        drop(kept);
        let set = Arc::new(VisibleSet::new(agent, &view.sessions, requester));
        let mut kept = self.kept.lock();
        kept.retain(|(who, _, _)| who != requester);
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((requester.clone(), epoch, Arc::clone(&set)));
        set
    }
}
