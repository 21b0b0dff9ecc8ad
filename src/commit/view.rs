//! What a reader pins: index, store and sessions of one moment, swapped whole.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::pinned::Pinned;
use super::prepare::TextPipeline;
use crate::index::IndexView;
use crate::model::{
    DocNumber, DocumentText, EventSeq, MessageId, SessionFacts, SessionId, SessionKey, TextSource, TextSourceError,
};
use crate::store::{DocumentRow, SessionRow, SessionState, Snapshot, TranscriptNumber};

/// The next epoch of any store of the process: sessions that recovery reads anew are never taken for those before.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// Every session of a store, and the same by key. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    rows: RedBlackTreeMapSync<TranscriptNumber, Arc<SessionRow>>,
    by_key: HashTrieMapSync<SessionKey, Vec<TranscriptNumber>>,
    /// The sessions whose facts name a key as owner, spawner or parent.
    by_relative: RedBlackTreeSetSync<(SessionKey, TranscriptNumber)>,
    num_with_events: usize,
    num_pending: usize,
    epoch: u64,
}

impl Sessions {
    /// Another one, of all stores of the process, with every change of what a visible set is made from; a forward append
    /// changes none of it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The facts that say where a session comes from. Lineage belongs to the key: a new window that states none keeps
    /// what the newest window states that does.
    #[must_use]
    pub fn lineage<'s>(&'s self, row: &'s SessionRow) -> &'s SessionFacts {
        let is_only = self.by_key.size() == self.rows.size();
        if is_only { &row.facts } else { self.lineage_of_key(&row.session_key).unwrap_or(&row.facts) }
    }

    /// The same by key; `None` when there is no session of that key.
    #[must_use]
    pub fn lineage_of_key(&self, key: &SessionKey) -> Option<&SessionFacts> {
        let windows = self.by_key.get(key)?;
        let mut newest_first = windows.iter().rev().filter_map(|window| self.rows.get(window)).map(|row| &row.facts);
        let newest = newest_first.clone().next();
        newest_first.find(|facts| facts.states_lineage()).or(newest)
    }

    /// One session.
    #[must_use]
    pub fn get(&self, transcript: TranscriptNumber) -> Option<&Arc<SessionRow>> {
        self.rows.get(&transcript)
    }

    /// Every session, by transcript number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SessionRow>> {
        self.rows.values()
    }

    /// The windows of a key.
    pub fn of_key(&self, key: &SessionKey) -> impl Iterator<Item = &Arc<SessionRow>> {
        self.by_key.get(key).into_iter().flatten().filter_map(|transcript| self.rows.get(transcript))
    }

    /// The windows of these keys, and of every key that any of its windows says to be owned, spawned or parented by one
    /// of them: who may see only its own and these need not look at the others.
    #[must_use]
    pub fn families(&self, keys: &[SessionKey]) -> BTreeSet<TranscriptNumber> {
        let mut found = BTreeSet::new();
        for key in keys {
            found.extend(self.by_key.get(key).into_iter().flatten().copied());
            let from = (key.clone(), TranscriptNumber(0));
            let to = (key.clone(), TranscriptNumber(u64::MAX));
            let relatives = self.by_relative.range(from..=to).filter_map(|(_, number)| self.rows.get(number));
            for row in relatives {
                found.extend(self.by_key.get(&row.session_key).into_iter().flatten().copied());
            }
        }
        found
    }

    /// Sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.size()
    }

    /// Sessions with at least one event.
    #[must_use]
    pub fn num_with_events(&self) -> usize {
        self.num_with_events
    }

    /// Sessions that wait for a rebuild.
    #[must_use]
    pub fn num_pending(&self) -> usize {
        self.num_pending
    }

    /// Sets a session, or takes it out.
    pub(super) fn set(&mut self, transcript: TranscriptNumber, row: Option<SessionRow>) {
        let old = self.rows.get(&transcript).cloned();
        if changes_visibility(old.as_deref(), row.as_ref()) {
            self.epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        }
        let has_events = |row: &SessionRow| usize::from(row.next_seq > 0);
        let is_pending = |row: &SessionRow| usize::from(row.state != SessionState::Ready);
        if let Some(old) = &old {
            self.num_with_events -= has_events(old);
            self.num_pending -= is_pending(old);
        }
        if let Some(row) = &row {
            self.num_with_events += has_events(row);
            self.num_pending += is_pending(row);
        }
        let (old_key, new_key) = (old.as_ref().map(|o| &o.session_key), row.as_ref().map(|r| &r.session_key));
        if old_key != new_key {
            if let Some(key) = old_key {
                let mut windows = self.by_key.get(key).cloned().unwrap_or_default();
                windows.retain(|window| *window != transcript);
                if windows.is_empty() {
                    self.by_key.remove_mut(key);
                } else {
                    self.by_key.insert_mut(key.clone(), windows);
                }
            }
            if let Some(key) = new_key {
                let mut windows = self.by_key.get(key).cloned().unwrap_or_default();
                windows.push(transcript);
                windows.sort_unstable();
                self.by_key.insert_mut(key.clone(), windows);
            }
        }
        let (old_facts, new_facts) = (old.as_ref().map(|o| &o.facts), row.as_ref().map(|r| &r.facts));
        if old_facts.map(relatives) != new_facts.map(relatives) {
            for key in old_facts.into_iter().flat_map(relatives).flatten() {
                self.by_relative.remove_mut(&(key.clone(), transcript));
            }
            for key in new_facts.into_iter().flat_map(relatives).flatten() {
                self.by_relative.insert_mut((key.clone(), transcript));
            }
        }
        match row {
            Some(row) => self.rows.insert_mut(transcript, Arc::new(row)),
            None => {
                self.rows.remove_mut(&transcript);
            }
        }
    }
}

/// The sessions a session stands below.
fn relatives(facts: &SessionFacts) -> [Option<&SessionKey>; 3] {
    [facts.owner.as_ref(), facts.spawned_by.as_ref(), facts.parent.as_ref()]
}

/// Whether a visible set that was made before the change differs from one made after it.
fn changes_visibility(old: Option<&SessionRow>, new: Option<&SessionRow>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_some() || new.is_some() };
    old.session_key != new.session_key
        || old.ordinal != new.ordinal
        || old.state != new.state
        || (old.next_seq > 0) != (new.next_seq > 0)
        || relatives(&old.facts) != relatives(&new.facts)
}

/// One moment of a store. A reader that holds it sees neither later changes nor half of one.
#[derive(Debug)]
pub struct View {
    /// What can be found.
    pub index: IndexView,
    /// The rows behind it.
    pub snapshot: Snapshot,
    /// Every session.
    pub sessions: Sessions,
    /// What the index was made with, and so what queries and texts must go through.
    pub pipeline: Arc<TextPipeline>,
}

impl View {
    fn with_document<R>(
        &self,
        number: DocNumber,
        with: impl FnOnce(DocumentRow<'_>, &SessionRow) -> R,
    ) -> Result<R, TextSourceError> {
        let fail = |detail: String| TextSourceError { number, detail };
        let read = self
            .snapshot
            .with_document(number, |row| self.sessions.get(row.transcript).map(|session| with(row, session)));
        match read {
            Ok(Some(Some(result))) => Ok(result),
            Ok(Some(None)) => Err(fail("its session has no row".into())),
            Ok(None) => Err(fail("it has no row".into())),
            Err(error) => Err(fail(error.to_string())),
        }
    }
}

impl TextSource for View {
    fn ids(&self, number: DocNumber) -> Result<(MessageId, SessionId), TextSourceError> {
        self.with_document(number, |row, session| (row.message_id, session.session_id.clone()))
    }

    fn document(&self, number: DocNumber) -> Result<DocumentText, TextSourceError> {
        self.with_document(number, |row, session| DocumentText {
            session_key: session.session_key.clone(),
            session_id: session.session_id.clone(),
            label: session.label().map(str::to_owned),
            message_id: row.message_id,
            seq: EventSeq(row.seq),
            role: row.role,
            timestamp: row.timestamp,
            text: row.text.to_owned(),
        })
    }
}

/// The current view of a store.
pub(super) type ViewCell = Pinned<View>;

/// How often it is looked whether a view is still pinned.
const UNPIN_POLL: Duration = Duration::from_millis(1);

impl ViewCell {
    /// [`Pinned::replace_alone`] that waits for at most `timeout`.
    pub(super) fn replace_unpinned<E>(
        &self,
        timeout: Duration,
        replacement: impl FnOnce() -> Result<View, E>,
    ) -> Option<Result<(), E>> {
        let deadline = Instant::now() + timeout;
        let wait = || {
            let is_early = Instant::now() < deadline;
            if is_early {
                std::thread::sleep(UNPIN_POLL);
            }
            is_early
        };
        self.replace_alone(wait, replacement)
    }
}
