//! Storing events: session, ids, parent, time, and the documents they bring or take away (contract §1.7, §4.2).

use std::collections::HashMap;
use std::sync::Arc;

use crate::commit::prepare::{PreparedEvent, SearchableText, TextPipeline};
use crate::commit::transaction::Transaction;
use crate::model::{MessageId, Role, SessionFacts, SessionId, SessionKey, Timestamp};
use crate::store::{
    Death, DocumentRow, EventRow, PendingReason, SessionRow, SessionState, SourceRow, StoreError, TranscriptNumber,
};
use crate::transcript::{Event, EventKind, Forward, Head, Parent, ParentLink, TreeRow, TreeScan, same_json_value};

use super::checkpoint::CheckpointError;
use super::lifecycle::begin_anew;
use super::{Committer, Tuning};

/// The session that events go to.
#[derive(Debug, Clone)]
pub struct SessionTarget {
    /// The key; a new session gets it.
    pub key: SessionKey,
    /// The window; `None`: the key's current one, else a new session under `new_id`.
    pub id: Option<SessionId>,
    /// The id of a session that has to be made.
    pub new_id: SessionId,
    /// What is known of the session beside its events; given facts replace stored ones.
    pub facts: SessionFacts,
    /// Whether the window becomes the key's current one.
    pub current: bool,
}

/// Where an event was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlace {
    /// Its place in the transcript, from 0.
    pub seq: u64,
    /// Its id.
    pub message_id: Option<MessageId>,
    /// Whether it can be found now.
    pub indexed: bool,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// Stored.
    Stored(EventPlace),
    /// Known before: nothing was done (D22).
    Known(EventPlace),
}

/// Why one event was not stored. Others of the same call are not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendRefusal {
    /// The id is taken by an event that says something else (D22).
    #[error("id {id} is already stored with other content; the first is kept")]
    Conflict {
        /// The id.
        id: MessageId,
    },
    /// The session id belongs to another key.
    #[error("session {id} belongs to {key}; nothing was stored")]
    OtherKey {
        /// The session id.
        id: SessionId,
        /// The key it has.
        key: SessionKey,
    },
}

/// By whom events are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The API, now: parents are chosen and rebased, missing times filled in, rewinds resolved at once.
    Live { now: Timestamp },
    /// A file: rows stay as they are, and a session that needs resolving waits for the end of its import. With `bulk`
    /// a new session stays hidden until its documents are in the index, past the tail.
    Import { now: Timestamp, bulk: bool },
    /// The API, all rows of a session at once: they stay as they are, and are resolved together.
    Replacement { now: Timestamp },
}

impl Origin {
    fn now(self) -> Timestamp {
        match self {
            Self::Live { now } | Self::Import { now, .. } | Self::Replacement { now } => now,
        }
    }
}

/// What became of the events of one call, in order; or why the session takes none of them.
pub type Outcomes = Result<Vec<Result<Appended, AppendRefusal>>, AppendRefusal>;

/// Events of one source, and how far it has been read with them.
#[derive(Debug)]
pub struct ImportBatch {
    /// The session they go to.
    pub target: SessionTarget,
    /// The events, in order.
    pub events: Vec<PreparedEvent>,
    /// The source's path.
    pub path: String,
    /// How far it is read; its `rows` are counted here.
    pub source: SourceRow,
}

impl Committer {
    /// Stores events now, in one transaction. What they say is searchable when this returns.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of this call is stored, unless it is [`StoreError::OutcomeUnknown`].
    pub fn append(
        &self,
        target: SessionTarget,
        events: Vec<PreparedEvent>,
        now: Timestamp,
    ) -> Result<Outcomes, StoreError> {
        self.wait_for_room()?;
        let store = self.storing(Origin::Live { now });
        self.submit(move |transaction| store.events(transaction, &target, &events))
    }

    /// Puts `events` in the place of everything a session holds, in one transaction; key, names and lineage stay. What
    /// was there can't be found when this returns, what is new can, up to the bound of D17; above it the session is
    /// rebuilt in the background. `None`: there is no such session.
    ///
    /// # Errors
    /// [`StoreError`]: the session is as it was, unless it is [`StoreError::OutcomeUnknown`].
    pub fn replace(
        &self,
        id: SessionId,
        events: Vec<PreparedEvent>,
        now: Timestamp,
    ) -> Result<Option<Vec<Result<Appended, AppendRefusal>>>, StoreError> {
        self.wait_for_room()?;
        let store = self.storing(Origin::Replacement { now });
        self.submit(move |transaction| {
            let Some(transcript) = transaction.tables.transcript(&id)? else { return Ok(None) };
            let Some(old) = transaction.session(transcript)?.cloned() else { return Ok(None) };
            let num_rows = old.next_seq + events.len() as u64;
            let bytes = old.event_bytes + events.iter().map(|event| event.raw.len() as u64).sum::<u64>();
            let current = begin_anew(transaction, transcript, old.clone(), old.updated_at)?;
            let outcomes = store.replacement(transaction, current, &events, store.resolves_at_once(num_rows, bytes))?;
            Ok(Some(outcomes))
        })
    }

    /// Stores events of several sources and notes how far each has been read, in one transaction. With `bulk`, new
    /// sessions go straight to the index: they are hidden until [`Committer::finish_bulk`]. One outcome a batch.
    ///
    /// # Errors
    /// As [`Committer::append`].
    pub fn import(
        &self,
        batches: Vec<ImportBatch>,
        bulk: bool,
        now: Timestamp,
    ) -> Result<Vec<Outcomes>, CheckpointError> {
        self.wait_for_room()?;
        let store = self.storing(Origin::Import { now, bulk });
        let write = move |transaction: &mut Transaction<'_, '_>| {
            let mut outcomes = Vec::with_capacity(batches.len());
            for batch in &batches {
                // A session begins with its first event, not with lines that hold none.
                let is_new = transaction.tables.transcript(&batch.target.new_id)?.is_none();
                let outcome = match batch.events.as_slice() {
                    [] => Ok(Vec::new()),
                    events => store.events(transaction, &batch.target, events)?,
                };
                let before = transaction.tables.source(&batch.path)?;
                let before = before.filter(|row| !is_new && row.session_id == batch.source.session_id);
                let is_stored = |outcome: &&Result<Appended, _>| matches!(outcome, Ok(Appended::Stored(_)));
                let stored = outcome.iter().flatten().filter(is_stored).count() as u64;
                let rows = before.map_or(0, |row| row.rows) + stored;
                transaction.tables.put_source(&batch.path, &SourceRow { rows, ..batch.source.clone() })?;
                outcomes.push(outcome);
            }
            Ok((outcomes, transaction.take_bulk()))
        };
        if !bulk {
            return Ok(self.submit(write)?.0);
        }
        self.add_bulk(|| self.submit(write))
    }

    /// Stores events from a file in the session that they belong to, with nothing noted of the file.
    ///
    /// # Errors
    /// As [`Committer::append`].
    pub fn import_events(
        &self,
        target: SessionTarget,
        events: Vec<PreparedEvent>,
        now: Timestamp,
    ) -> Result<Outcomes, StoreError> {
        self.wait_for_room()?;
        let store = self.storing(Origin::Import { now, bulk: false });
        self.submit(move |transaction| store.events(transaction, &target, &events))
    }

    /// Stores events of a session that [`Committer::stage`] began.
    ///
    /// # Errors
    /// As [`Committer::append`].
    pub fn import_staged(
        &self,
        transcript: TranscriptNumber,
        events: Vec<PreparedEvent>,
        now: Timestamp,
    ) -> Result<Vec<Result<Appended, AppendRefusal>>, StoreError> {
        let store = self.storing(Origin::Import { now, bulk: false });
        self.submit(move |transaction| {
            let Some(session) = transaction.session(transcript)?.cloned() else {
                let detail = "the store was opened again, or everything in it made anew, while a session was read anew; import again".into();
                return Err(StoreError::Poisoned { detail });
            };
            store.events_of(transaction, transcript, session, &events)
        })
    }

    fn storing(&self, origin: Origin) -> Storing {
        Storing { tuning: self.tuning().clone(), origin }
    }
}

/// The first of these events that has the id of an earlier one and says something else: which is meant nobody knows.
#[must_use]
pub fn first_conflict(events: &[PreparedEvent]) -> Option<(usize, AppendRefusal)> {
    let mut seen: HashMap<&MessageId, &[u8]> = HashMap::new();
    events.iter().enumerate().filter(|(_, prepared)| prepared.event.kind != EventKind::Header).find_map(
        |(i, prepared)| {
            let id = prepared.event.id.as_ref()?;
            let first = seen.insert(id, &prepared.raw)?;
            let conflict = !same_json_value(first, &prepared.raw);
            conflict.then(|| (i, AppendRefusal::Conflict { id: id.clone() }))
        },
    )
}

/// How events are stored, whichever they are.
struct Storing {
    tuning: Tuning,
    origin: Origin,
}

impl Storing {
    fn events(
        &self,
        transaction: &mut Transaction<'_, '_>,
        target: &SessionTarget,
        events: &[PreparedEvent],
    ) -> Result<Outcomes, StoreError> {
        let (transcript, session) = match open_session(transaction, target, self.origin)? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        Ok(Ok(self.events_of(transaction, transcript, session, events)?))
    }

    fn events_of(
        &self,
        transaction: &mut Transaction<'_, '_>,
        transcript: TranscriptNumber,
        mut session: SessionRow,
        events: &[PreparedEvent],
    ) -> Result<Vec<Result<Appended, AppendRefusal>>, StoreError> {
        let mut outcomes = Vec::with_capacity(events.len());
        let revision = session.revision;
        for prepared in events {
            let mut writer = EventWriter { transaction, how: self, transcript, session: &mut session };
            outcomes.push(writer.store(prepared)?);
        }
        if session.revision != revision {
            // A later event of the same call moved the path: what counts is what can be found when it returns.
            for place in outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().ok()) {
                let (Appended::Stored(place) | Appended::Known(place)) = place;
                let document = transaction.tables.active_document(transcript, place.seq)?;
                place.indexed = document.is_some() && session.state == SessionState::Ready;
            }
        }
        transaction.set_session(transcript, session);
        Ok(outcomes)
    }

    /// Stores every row of a session that was emptied for them, and resolves them once, at the end.
    fn replacement(
        &self,
        transaction: &mut Transaction<'_, '_>,
        transcript: TranscriptNumber,
        events: &[PreparedEvent],
        at_once: bool,
    ) -> Result<Vec<Result<Appended, AppendRefusal>>, StoreError> {
        let Some(mut session) = transaction.session(transcript)?.cloned() else {
            return Err(StoreError::damaged("a session is not there that was just made"));
        };
        let mut outcomes = Vec::with_capacity(events.len());
        if !at_once {
            mark_pending(transaction, &mut session, PendingReason::Rewind)?;
        }
        // Until all rows are there nothing is known of the path.
        session.head = None;
        let mut writer = EventWriter { transaction, how: self, transcript, session: &mut session };
        for prepared in events {
            outcomes.push(writer.store(prepared)?);
        }
        if at_once {
            writer.resolve_now()?;
            for place in outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().ok()) {
                let (Appended::Stored(place) | Appended::Known(place)) = place;
                place.indexed = transaction.tables.active_document(transcript, place.seq)?.is_some();
            }
        }
        transaction.set_session(transcript, session);
        Ok(outcomes)
    }

    fn resolves_at_once(&self, num_rows: u64, bytes: u64) -> bool {
        num_rows <= self.tuning.sync_resolve_events && bytes <= self.tuning.sync_resolve_bytes
    }
}

/// Finds the session, or makes it.
fn open_session(
    transaction: &mut Transaction<'_, '_>,
    target: &SessionTarget,
    origin: Origin,
) -> Result<Result<(TranscriptNumber, SessionRow), AppendRefusal>, StoreError> {
    let found = match &target.id {
        Some(id) => transaction.tables.transcript(id)?,
        None => transaction.tables.current_window(&target.key)?,
    };
    if let Some(transcript) = found {
        let Some(row) = transaction.session(transcript)? else {
            return Err(StoreError::damaged("a session id points at a session that is not there"));
        };
        let mut row = row.clone();
        // A file goes on in the session that it began, whatever that is called by now.
        if matches!(origin, Origin::Live { .. }) && row.session_key != target.key {
            return Ok(Err(AppendRefusal::OtherKey { id: row.session_id, key: row.session_key }));
        }
        merge_facts(&mut row.facts, &target.facts);
        return Ok(Ok((transcript, row)));
    }
    let is_bulk = matches!(origin, Origin::Import { bulk: true, .. });
    let row = SessionRow {
        session_id: target.id.clone().unwrap_or_else(|| target.new_id.clone()),
        session_key: target.key.clone(),
        created_at: origin.now(),
        updated_at: target.facts.updated_at.unwrap_or(Timestamp::UNKNOWN),
        facts: target.facts.clone(),
        title: None,
        state: if is_bulk { SessionState::Pending(PendingReason::Import) } else { SessionState::Ready },
        ordinal: transaction.next_ordinal(),
        head: Some(Head::default()),
        next_seq: 0,
        event_bytes: 0,
        documents: 0,
        tokens: 0,
        revision: 0,
    };
    let transcript = transaction.add_session(row.clone(), target.current)?;
    if is_bulk {
        transaction.hide_unborn(row.ordinal);
        transaction.begin_bulk(transcript);
    }
    Ok(Ok((transcript, row)))
}

pub(super) fn merge_facts(stored: &mut SessionFacts, given: &SessionFacts) {
    for (stored, given) in [
        (&mut stored.spawned_by, &given.spawned_by),
        (&mut stored.parent, &given.parent),
        (&mut stored.owner, &given.owner),
    ] {
        if given.is_some() {
            stored.clone_from(given);
        }
    }
    if given.label.is_some() {
        stored.label.clone_from(&given.label);
    }
    stored.updated_at = stored.updated_at.max(given.updated_at);
    stored.archived |= given.archived;
}

/// Stores the events of one session, one after the other.
struct EventWriter<'w, 'a, 't> {
    transaction: &'w mut Transaction<'a, 't>,
    how: &'w Storing,
    transcript: TranscriptNumber,
    session: &'w mut SessionRow,
}

impl EventWriter<'_, '_, '_> {
    fn store(&mut self, prepared: &PreparedEvent) -> Result<Result<Appended, AppendRefusal>, StoreError> {
        if let Some(known) = self.known(prepared)? {
            return Ok(known);
        }
        let event = &prepared.event;
        let parent = self.parent_of(event)?;
        let tree = TreeRow::of(event, parent.as_ref());
        let forward = match &self.session.head {
            Some(head) => head.forward(&tree, |id| self.is_in_tree(id))?,
            None => Forward::Resolve,
        };

        let (timestamp, timed) = match self.how.origin {
            Origin::Live { now } if !event.timestamp.is_known() => (now, true),
            _ => (event.timestamp, false),
        };
        let seq = self.session.next_seq;
        let pipeline = Arc::clone(&self.transaction.pipeline);
        let text = prepared.text(&pipeline);
        let row = EventRow {
            tree,
            rebased: parent.is_some(),
            timestamp,
            timed,
            is_header: event.kind == EventKind::Header,
            text_bytes: text.as_ref().map_or(0, |text| text.text.len() as u32),
            normalised: prepared.normalised.as_deref(),
            raw: &prepared.raw,
        };
        let id = event.id.as_ref().filter(|_| event.kind != EventKind::Header);
        self.transaction.tables.put_event(self.transcript, seq, &row, id, event.idempotency_key.as_deref())?;
        if !matches!(self.session.state, SessionState::Staged { .. }) {
            self.transaction.counters.events += 1;
        }
        self.session.next_seq += 1;
        self.session.event_bytes += prepared.raw.len() as u64;
        self.session.updated_at = self.session.updated_at.max(timestamp);
        if event.title.is_some() {
            self.session.title.clone_from(&event.title);
        }

        let indexed = match forward {
            Forward::OnPath(head) => {
                self.session.head = Some(head);
                self.index(event, text.as_deref(), seq, timestamp)?
            }
            Forward::OffPath(head) => {
                self.session.head = Some(head);
                false
            }
            Forward::Resolve if matches!(self.how.origin, Origin::Replacement { .. }) => false,
            Forward::Resolve => self.resolve(seq)?,
        };
        Ok(Ok(Appended::Stored(EventPlace { seq, message_id: event.id.clone(), indexed })))
    }

    /// An event that is stored already, by id or idempotency key.
    fn known(&mut self, prepared: &PreparedEvent) -> Result<Option<Result<Appended, AppendRefusal>>, StoreError> {
        let event = &prepared.event;
        let tables = &self.transaction.tables;
        if event.kind == EventKind::Header {
            let same = |row: EventRow<'_>| same_json_value(row.raw, &prepared.raw);
            let known = tables.with_event(self.transcript, 0, same)?.unwrap_or(false);
            let place = EventPlace { seq: 0, message_id: None, indexed: false };
            return Ok(known.then_some(Ok(Appended::Known(place))));
        }
        let by_id = match &event.id {
            Some(id) => tables.event_seq(self.transcript, id.as_str())?,
            None => None,
        };
        if let (Some(seq), Some(id)) = (by_id, &event.id) {
            let same = tables
                .with_event(self.transcript, seq, |row| same_json_value(row.raw, &prepared.raw))?
                .ok_or_else(|| StoreError::damaged("an event id points at an event that is not there"))?;
            if !same {
                return Ok(Some(Err(AppendRefusal::Conflict { id: id.clone() })));
            }
            let indexed = tables.active_document(self.transcript, seq)?.is_some() && self.is_ready();
            let place = EventPlace { seq, message_id: Some(id.clone()), indexed };
            return Ok(Some(Ok(Appended::Known(place))));
        }
        if matches!(self.how.origin, Origin::Live { .. })
            && let Some(key) = &event.idempotency_key
            && let Some(seq) = tables.idempotent_seq(self.transcript, key)?
        {
            let message_id =
                tables.with_event(self.transcript, seq, |row| row.event().ok().and_then(|event| event.id))?.flatten();
            let indexed = tables.active_document(self.transcript, seq)?.is_some() && self.is_ready();
            return Ok(Some(Ok(Appended::Known(EventPlace { seq, message_id, indexed }))));
        }
        Ok(None)
    }

    fn is_ready(&self) -> bool {
        self.session.state == SessionState::Ready
    }

    /// The parent the store gives a live event whose own is stale (D20). `None`: what the line says stands; where it
    /// says nothing the tree makes it a child of the leaf.
    fn parent_of(&mut self, event: &Event) -> Result<Option<Parent>, StoreError> {
        let may_be_stale = matches!(event.parent, ParentLink::Stated(Parent::Below(_)));
        if !matches!(self.how.origin, Origin::Live { .. }) || !may_be_stale {
            return Ok(None);
        }
        if self.session.head.is_none() {
            self.session.head = Some(self.scan()?.resolve().head);
        }
        let Some(head) = &self.session.head else { return Ok(None) };
        head.rebased_parent(&TreeRow::of(event, None), |id| self.is_in_tree(id))
    }

    /// Whether an id is that of a stored row with a part in the tree.
    fn is_in_tree(&self, id: &MessageId) -> Result<bool, StoreError> {
        let tables = &self.transaction.tables;
        let Some(seq) = tables.event_seq(self.transcript, id.as_str())? else { return Ok(false) };
        Ok(tables.with_event(self.transcript, seq, |row| row.tree.id().is_some())?.unwrap_or(false))
    }

    /// Makes a message of the active path findable; `false` when it has no text or the session waits for a rebuild.
    fn index(
        &mut self,
        event: &Event,
        text: Option<&SearchableText>,
        seq: u64,
        timestamp: Timestamp,
    ) -> Result<bool, StoreError> {
        let (Some(text), Some((id, message))) = (text, event.searchable()) else {
            return Ok(false);
        };
        let message = IndexedMessage { seq, id, role: message.role, timestamp, text };
        if self.is_ready() {
            add_document(self.transaction, self.session, self.transcript, &message)?;
            return Ok(true);
        }
        if let SessionState::Pending(PendingReason::Import) = self.session.state {
            if matches!(self.how.origin, Origin::Import { bulk: true, .. }) {
                add_document(self.transaction, self.session, self.transcript, &message)?;
            } else {
                // Not among the documents of the bulk import: they must not be published without it.
                self.session.revision += 1;
            }
        }
        Ok(false)
    }

    fn scan(&self) -> Result<TreeScan, StoreError> {
        let mut scan = TreeScan::new();
        self.transaction.tables.for_each_event(self.transcript, 0, |seq, row| {
            scan.push(seq, &row.tree);
            Ok(())
        })?;
        Ok(scan)
    }

    /// The active path changed otherwise than by one row at its end. Within the bound of D17 it is resolved here and
    /// now; above it, and during an import, the session is hidden until it is rebuilt. Tells whether the event `seq`
    /// can be found.
    fn resolve(&mut self, seq: u64) -> Result<bool, StoreError> {
        let small = self.how.resolves_at_once(self.session.next_seq, self.session.event_bytes);
        let reason = match self.how.origin {
            Origin::Import { .. } => PendingReason::Import,
            Origin::Live { .. } | Origin::Replacement { .. } => PendingReason::Rewind,
        };
        if !self.is_ready() || reason == PendingReason::Import || !small {
            match self.session.state {
                SessionState::Ready => mark_pending(self.transaction, self.session, reason)?,
                // What the bulk import has of it may have left the path.
                SessionState::Pending(PendingReason::Import) => self.session.revision += 1,
                // A rebuild that is under way catches up with whatever is stored meanwhile.
                SessionState::Pending(_) | SessionState::Staged { .. } => {}
            }
            self.session.head = None;
            return Ok(false);
        }
        self.resolve_now()?;
        Ok(self.transaction.tables.active_document(self.transcript, seq)?.is_some())
    }

    /// Reads the rows of the session, and takes away and adds the documents that make the difference.
    fn resolve_now(&mut self) -> Result<(), StoreError> {
        let resolution = self.scan()?.resolve();
        let path: std::collections::BTreeSet<u64> = resolution.path.iter().copied().collect();
        self.session.head = Some(resolution.head);
        self.session.revision += 1;
        let active = self.transaction.tables.active(self.transcript)?;
        let mut dead = Vec::new();
        for &(seq, number) in active.iter().filter(|(seq, _)| !path.contains(seq)) {
            self.transaction.kill_document(self.session, self.transcript, seq, number)?;
            dead.push(number);
        }
        if !dead.is_empty() {
            let ordinal = self.session.ordinal;
            self.transaction.put_death(&Death::Documents { ordinal, numbers: dead })?;
        }
        let already: std::collections::BTreeSet<u64> = active.iter().map(|&(seq, _)| seq).collect();
        for &added in path.difference(&already) {
            let pipeline = Arc::clone(&self.transaction.pipeline);
            let read = |row: EventRow<'_>| StoredMessage::read(&row, added, &pipeline);
            if let Some(Some(message)) = self.transaction.tables.with_event(self.transcript, added, read)? {
                add_document(self.transaction, self.session, self.transcript, &message.indexed())?;
            }
        }
        Ok(())
    }
}

/// A message about to become a document.
pub(super) struct IndexedMessage<'m> {
    pub(super) seq: u64,
    pub(super) id: &'m MessageId,
    pub(super) role: Role,
    pub(super) timestamp: Timestamp,
    pub(super) text: &'m SearchableText,
}

/// A message read back from its stored event.
pub(super) struct StoredMessage {
    seq: u64,
    id: MessageId,
    role: Role,
    timestamp: Timestamp,
    pub(super) text: SearchableText,
}

impl StoredMessage {
    /// What is searchable of an event. One that can no longer be read is an opaque row: it hides itself, not its
    /// session (D8).
    pub(super) fn read(row: &EventRow<'_>, seq: u64, pipeline: &TextPipeline) -> Option<Self> {
        if row.text_bytes == 0 {
            return None;
        }
        let event = row.event().ok()?;
        let text = pipeline.text_of(&event)?;
        let (id, message) = event.searchable()?;
        Some(Self { seq, id: id.clone(), role: message.role, timestamp: row.timestamp, text })
    }

    pub(super) fn indexed(&self) -> IndexedMessage<'_> {
        IndexedMessage { seq: self.seq, id: &self.id, role: self.role, timestamp: self.timestamp, text: &self.text }
    }
}

/// Gives a message its document under the session's ordinal.
pub(super) fn add_document(
    transaction: &mut Transaction<'_, '_>,
    session: &mut SessionRow,
    transcript: TranscriptNumber,
    message: &IndexedMessage<'_>,
) -> Result<(), StoreError> {
    let row = DocumentRow {
        transcript,
        ordinal: session.ordinal,
        seq: message.seq,
        message_id: message.id.clone(),
        role: message.role,
        timestamp: message.timestamp,
        length: message.text.tokens.len(),
        text: &message.text.text,
    };
    transaction.add_document(session, &row, &message.text.tokens)
}

/// Hides a ready session until it is rebuilt. Its old documents are dead; their rows go with the rebuild. Its ordinal is
/// a new one, for a session's current ordinal is never a dead one.
pub(super) fn mark_pending(
    transaction: &mut Transaction<'_, '_>,
    session: &mut SessionRow,
    reason: PendingReason,
) -> Result<(), StoreError> {
    transaction.kill_documents(session)?;
    session.ordinal = transaction.next_ordinal();
    transaction.hide_unborn(session.ordinal);
    session.state = SessionState::Pending(reason);
    session.revision += 1;
    session.documents = 0;
    session.tokens = 0;
    Ok(())
}
