//! One write transaction and what it will change of the view once it is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::prepare::TextPipeline;
use crate::analysis::TokenText;
use crate::index::{DocFacts, GroupedText, IndexView, Run};
use crate::model::{DocNumber, Ordinal};
use crate::store::{
    Counters, Death, DocumentRow, PendingReason, SessionRow, SessionState, Statistics, StoreError, TranscriptNumber,
    WriteTables,
};

/// A session as this transaction leaves it.
#[derive(Debug)]
enum SessionChange {
    /// Read, not changed.
    Unchanged(SessionRow),
    /// To be written.
    Changed(SessionRow),
    /// Removed, or never there.
    Gone,
}

/// One change of the index view, in the order of the writes.
#[derive(Debug)]
enum Change {
    Document(DocFacts, GroupedText),
    Hide(Ordinal),
    Show(Ordinal),
    HideDocument(DocNumber, Ordinal),
    Freeze,
}

/// What a committed transaction changes of the view.
#[derive(Debug, Default)]
pub(super) struct Effects {
    changes: Vec<Change>,
    pub(super) sessions: Vec<(TranscriptNumber, Option<SessionRow>)>,
    statistics: Statistics,
}

impl Effects {
    /// Applies everything to the index side of a view.
    pub(super) fn apply(&mut self, index: &mut IndexView) {
        for change in self.changes.drain(..) {
            match change {
                Change::Document(facts, text) => index.tail.push(Run::single(facts, &text)),
                Change::Hide(ordinal) => index.hidden.hide_ordinal(ordinal),
                Change::Show(ordinal) => index.hidden.show_ordinal(ordinal),
                Change::HideDocument(number, ordinal) => index.hidden.hide_document(number, ordinal),
                Change::Freeze => index.frozen = std::mem::take(&mut index.tail),
            }
        }
        index.num_documents = self.statistics.documents;
        index.num_tokens = self.statistics.tokens;
    }
}

/// The tables of one transaction, with counters, statistics and sessions held back until the end.
pub(super) struct Transaction<'a, 't> {
    pub(super) tables: &'a mut WriteTables<'t>,
    pub(super) counters: Counters,
    /// How often the store had been opened again before.
    pub(super) opening: u64,
    /// What texts go through now.
    pub(super) pipeline: Arc<TextPipeline>,
    statistics: Statistics,
    sessions: BTreeMap<TranscriptNumber, SessionChange>,
    effects: Effects,
    bulk: Bulk,
}

/// What goes to the index past the tail once the transaction is committed.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// New sessions that stay hidden until their documents are there.
    pub(super) sessions: Vec<TranscriptNumber>,
    /// Their documents.
    pub(super) documents: Vec<(DocFacts, TokenText)>,
}

impl<'a, 't> Transaction<'a, 't> {
    pub(super) fn begin(
        tables: &'a mut WriteTables<'t>,
        opening: u64,
        pipeline: Arc<TextPipeline>,
    ) -> Result<Self, StoreError> {
        let counters = tables.counters()?;
        let statistics = tables.statistics()?;
        Ok(Self {
            tables,
            counters,
            opening,
            pipeline,
            statistics,
            sessions: BTreeMap::new(),
            effects: Effects::default(),
            bulk: Bulk::default(),
        })
    }

    /// Writes what was held back; the caller commits next.
    pub(super) fn finish(mut self) -> Result<Effects, StoreError> {
        self.tables.set_counters(&self.counters)?;
        self.tables.set_statistics(&self.statistics)?;
        for (transcript, change) in std::mem::take(&mut self.sessions) {
            match change {
                SessionChange::Unchanged(_) => {}
                SessionChange::Changed(row) if matches!(row.state, SessionState::Staged { .. }) => {
                    self.tables.put_session(transcript, &row)?;
                }
                SessionChange::Changed(row) => {
                    self.tables.put_session(transcript, &row)?;
                    self.effects.sessions.push((transcript, Some(row)));
                }
                SessionChange::Gone => self.effects.sessions.push((transcript, None)),
            }
        }
        self.effects.statistics = self.statistics;
        Ok(self.effects)
    }

    /// A session as this transaction sees it.
    pub(super) fn session(&mut self, transcript: TranscriptNumber) -> Result<Option<&SessionRow>, StoreError> {
        if !self.sessions.contains_key(&transcript) {
            let change = match self.tables.session(transcript)? {
                Some(row) => SessionChange::Unchanged(row),
                None => SessionChange::Gone,
            };
            self.sessions.insert(transcript, change);
        }
        Ok(match self.sessions.get(&transcript) {
            Some(SessionChange::Unchanged(row) | SessionChange::Changed(row)) => Some(row),
            _ => None,
        })
    }

    /// Sets a session that is already entered.
    pub(super) fn set_session(&mut self, transcript: TranscriptNumber, row: SessionRow) {
        self.sessions.insert(transcript, SessionChange::Changed(row));
    }

    /// Enters a new session.
    pub(super) fn add_session(&mut self, row: SessionRow, current: bool) -> Result<TranscriptNumber, StoreError> {
        let transcript = TranscriptNumber(self.counters.next_transcript);
        self.counters.next_transcript += 1;
        self.tables.add_session(transcript, &row, current)?;
        self.set_session(transcript, row);
        Ok(transcript)
    }

    /// Enters a session that nobody sees until it takes the place of another.
    pub(super) fn stage_session(&mut self, row: SessionRow) -> TranscriptNumber {
        let transcript = TranscriptNumber(self.counters.next_transcript);
        self.counters.next_transcript += 1;
        self.set_session(transcript, row);
        transcript
    }

    /// Puts a staged session in the place of the one that it replaces: id, key and names are that one's. `false`: that
    /// one has changed meanwhile, or is gone, and nothing was done.
    pub(super) fn take_place(
        &mut self,
        transcript: TranscriptNumber,
        staged: &mut SessionRow,
    ) -> Result<bool, StoreError> {
        let SessionState::Staged { replaces, events } = staged.state else { return Ok(false) };
        if self.tables.transcript(&staged.session_id)? != Some(replaces) {
            return Ok(false);
        }
        let Some(old) = self.session(replaces)?.filter(|old| old.next_seq == events).cloned() else {
            return Ok(false);
        };
        let is_current = self.tables.current_window(&old.session_key)? == Some(replaces);
        staged.session_key = old.session_key.clone();
        staged.created_at = old.created_at;
        staged.facts.archived |= old.facts.archived;
        self.remove_session(replaces, &old)?;
        self.tables.add_session(transcript, staged, is_current)?;
        self.counters.events += staged.next_seq;
        Ok(true)
    }

    /// Removes a session with everything of it; its documents can't be found any more.
    pub(super) fn remove_session(&mut self, transcript: TranscriptNumber, row: &SessionRow) -> Result<(), StoreError> {
        self.kill_documents(row)?;
        self.tables.remove_session(transcript, row)?;
        if !matches!(row.state, SessionState::Staged { .. }) {
            self.counters.events = self.counters.events.saturating_sub(row.next_seq);
        }
        self.sessions.insert(transcript, SessionChange::Gone);
        Ok(())
    }

    /// Gives out the next session ordinal.
    pub(super) fn next_ordinal(&mut self) -> Ordinal {
        let ordinal = Ordinal(self.counters.next_ordinal);
        self.counters.next_ordinal += 1;
        ordinal
    }

    /// Stores a document of `session` and lets it into the tail. It counts if the session is ready.
    pub(super) fn add_document(
        &mut self,
        session: &mut SessionRow,
        row: &DocumentRow<'_>,
        tokens: &TokenText,
    ) -> Result<(), StoreError> {
        let number = self.counters.next_document;
        self.counters.next_document += 1;
        self.tables.put_document(number, row)?;
        let facts = DocFacts {
            number: DocNumber(number),
            ordinal: row.ordinal,
            timestamp: row.timestamp,
            role: row.role,
            length: row.length,
        };
        if session.state == SessionState::Pending(PendingReason::Import) {
            self.bulk.documents.push((facts, tokens.clone()));
        } else {
            self.effects.changes.push(Change::Document(facts, GroupedText::new(tokens)));
        }
        session.documents += 1;
        session.tokens += u64::from(row.length);
        if session.state == SessionState::Ready {
            self.statistics.documents += 1;
            self.statistics.tokens += u64::from(row.length);
        }
        Ok(())
    }

    /// Removes one document of a session from its active path. It counted if the session is ready.
    pub(super) fn kill_document(
        &mut self,
        session: &mut SessionRow,
        transcript: TranscriptNumber,
        seq: u64,
        number: u64,
    ) -> Result<(), StoreError> {
        let length = u64::from(self.tables.remove_document(number)?.unwrap_or(0));
        self.tables.set_active(transcript, seq, None)?;
        session.documents = session.documents.saturating_sub(1);
        session.tokens = session.tokens.saturating_sub(length);
        if session.state == SessionState::Ready {
            self.statistics.documents = self.statistics.documents.saturating_sub(1);
            self.statistics.tokens = self.statistics.tokens.saturating_sub(length);
        }
        self.effects.changes.push(Change::HideDocument(DocNumber(number), session.ordinal));
        Ok(())
    }

    /// Hides every document of a session for good and takes them from the statistics.
    pub(super) fn kill_documents(&mut self, session: &SessionRow) -> Result<(), StoreError> {
        if session.state == SessionState::Ready {
            self.statistics.documents = self.statistics.documents.saturating_sub(session.documents);
            self.statistics.tokens = self.statistics.tokens.saturating_sub(session.tokens);
        }
        self.put_death(&Death::Ordinal(session.ordinal))?;
        self.effects.changes.push(Change::Hide(session.ordinal));
        Ok(())
    }

    /// Makes the documents of a session that was pending count and be found.
    pub(super) fn show_documents(&mut self, session: &SessionRow) {
        self.statistics.documents += session.documents;
        self.statistics.tokens += session.tokens;
        self.effects.changes.push(Change::Show(session.ordinal));
    }

    /// Hides an ordinal until it is shown: documents of a rebuild in the making.
    pub(super) fn hide_unborn(&mut self, ordinal: Ordinal) {
        self.effects.changes.push(Change::Hide(ordinal));
    }

    /// A session begins whose documents go past the tail.
    pub(super) fn begin_bulk(&mut self, transcript: TranscriptNumber) {
        self.bulk.sessions.push(transcript);
    }

    /// What goes past the tail.
    pub(super) fn take_bulk(&mut self) -> Bulk {
        std::mem::take(&mut self.bulk)
    }

    /// Moves the tail aside for a checkpoint: what comes after this write goes into a new one.
    pub(super) fn freeze_tail(&mut self) {
        self.effects.changes.push(Change::Freeze);
    }

    /// Notes that the index must forget something.
    pub(super) fn put_death(&mut self, death: &Death) -> Result<(), StoreError> {
        self.tables.put_death(self.counters.next_death, death)?;
        self.counters.next_death += 1;
        Ok(())
    }
}
