//! The one shape of a write: run with the tables it needs, commit once.

use std::cell::OnceCell;

use redb::{Key, ReadableTable as _, Table, TableDefinition, Value, WriteTransaction};

use super::rows::{
    self, Counters, Death, DocumentRow, EventRow, IndexNotes, SchemaRow, SessionRow, SourceRow, Statistics,
    TranscriptNumber,
};
use super::{Store, StoreError, tables};
use crate::model::{MessageId, SessionId, SessionKey, Timestamp};

/// When a commit is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before it returns: one fsync.
    Immediate,
    /// With the next immediate commit.
    Deferred,
}

/// A table that is opened when it is first needed: most writes need few.
struct LazyTable<'t, K: Key + 'static, V: Value + 'static> {
    transaction: &'t WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    opened: OnceCell<Table<'t, K, V>>,
}

impl<'t, K: Key + 'static, V: Value + 'static> LazyTable<'t, K, V> {
    fn new(transaction: &'t WriteTransaction, definition: TableDefinition<'static, K, V>) -> Self {
        Self { transaction, definition, opened: OnceCell::new() }
    }

    fn read(&self) -> Result<&Table<'t, K, V>, StoreError> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = self.transaction.open_table(self.definition)?;
        Ok(self.opened.get_or_init(|| table))
    }

    fn write(&mut self) -> Result<&mut Table<'t, K, V>, StoreError> {
        self.read()?;
        self.opened.get_mut().ok_or_else(|| StoreError::Poisoned { detail: "a table is not open".into() })
    }
}

/// Every table of one write transaction.
pub struct WriteTables<'t> {
    meta: LazyTable<'t, &'static str, &'static [u8]>,
    transcripts: LazyTable<'t, &'static str, u64>,
    sessions: LazyTable<'t, u64, &'static [u8]>,
    windows: LazyTable<'t, (&'static str, u64), ()>,
    current: LazyTable<'t, &'static str, u64>,
    events: LazyTable<'t, (u64, u64), &'static [u8]>,
    event_ids: LazyTable<'t, (u64, &'static str), u64>,
    idempotency: LazyTable<'t, (u64, &'static str), u64>,
    documents: LazyTable<'t, u64, &'static [u8]>,
    active: LazyTable<'t, (u64, u64), u64>,
    deaths: LazyTable<'t, u64, &'static [u8]>,
    pending: LazyTable<'t, u64, ()>,
    sources: LazyTable<'t, &'static str, &'static [u8]>,
    tombstones: LazyTable<'t, &'static str, i64>,
}

impl Store {
    /// Runs `write` in one transaction and commits it. An error of `write` leaves the store as it was.
    ///
    /// # Errors
    /// What `write` returns; [`StoreError::OutcomeUnknown`] when the commit itself fails.
    pub fn write<R, E: From<StoreError>>(
        &self,
        durability: Durability,
        write: impl FnOnce(&mut WriteTables<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut transaction = self.database.begin_write().map_err(StoreError::from)?;
        if durability == Durability::Deferred {
            transaction
                .set_durability(redb::Durability::None)
                .map_err(|e| StoreError::Poisoned { detail: e.to_string() })?;
        }
        let result = { write(&mut WriteTables::of(&transaction))? };
        transaction.commit().map_err(StoreError::from)?;
        Ok(result)
    }
}

impl<'t> WriteTables<'t> {
    fn of(transaction: &'t WriteTransaction) -> Self {
        Self {
            meta: LazyTable::new(transaction, tables::META),
            transcripts: LazyTable::new(transaction, tables::TRANSCRIPTS),
            sessions: LazyTable::new(transaction, tables::SESSIONS),
            windows: LazyTable::new(transaction, tables::WINDOWS),
            current: LazyTable::new(transaction, tables::CURRENT),
            events: LazyTable::new(transaction, tables::EVENTS),
            event_ids: LazyTable::new(transaction, tables::EVENT_IDS),
            idempotency: LazyTable::new(transaction, tables::IDEMPOTENCY),
            documents: LazyTable::new(transaction, tables::DOCUMENTS),
            active: LazyTable::new(transaction, tables::ACTIVE),
            deaths: LazyTable::new(transaction, tables::DEATHS),
            pending: LazyTable::new(transaction, tables::PENDING),
            sources: LazyTable::new(transaction, tables::SOURCES),
            tombstones: LazyTable::new(transaction, tables::TOMBSTONES),
        }
    }

    fn meta<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        let row =
            self.meta.read()?.get(key)?.ok_or_else(|| StoreError::damaged(format!("meta row {key} is missing")))?;
        rows::decode(row.value(), key)
    }

    fn set_meta<T: serde::Serialize>(&mut self, key: &str, row: &T) -> Result<(), StoreError> {
        self.meta.write()?.insert(key, rows::encode(row).as_slice())?;
        Ok(())
    }

    /// What is given out next.
    pub fn counters(&self) -> Result<Counters, StoreError> {
        self.meta(tables::META_COUNTERS)
    }

    /// Notes what was given out.
    pub fn set_counters(&mut self, counters: &Counters) -> Result<(), StoreError> {
        self.set_meta(tables::META_COUNTERS, counters)
    }

    /// N and total.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        self.meta(tables::META_STATISTICS)
    }

    /// Sets N and total.
    pub fn set_statistics(&mut self, statistics: &Statistics) -> Result<(), StoreError> {
        self.set_meta(tables::META_STATISTICS, statistics)
    }

    /// Sets what texts are analysed with from now on.
    pub fn set_schema(&mut self, schema: &SchemaRow) -> Result<(), StoreError> {
        self.set_meta(tables::META_SCHEMA, schema)
    }

    /// The notes about the index.
    pub fn index_notes(&self) -> Result<IndexNotes, StoreError> {
        self.meta(tables::META_INDEX)
    }

    /// Sets the notes about the index.
    pub fn set_index_notes(&mut self, notes: &IndexNotes) -> Result<(), StoreError> {
        self.set_meta(tables::META_INDEX, notes)
    }

    /// The number of a session id.
    pub fn transcript(&self, id: &SessionId) -> Result<Option<TranscriptNumber>, StoreError> {
        Ok(self.transcripts.read()?.get(id.as_str())?.map(|n| TranscriptNumber(n.value())))
    }

    /// One session.
    pub fn session(&self, transcript: TranscriptNumber) -> Result<Option<SessionRow>, StoreError> {
        match self.sessions.read()?.get(transcript.0)? {
            Some(row) => rows::decode(row.value(), "session row").map(Some),
            None => Ok(None),
        }
    }

    /// Writes a session row; its state decides whether it stands among the pending ones.
    pub fn put_session(&mut self, transcript: TranscriptNumber, row: &SessionRow) -> Result<(), StoreError> {
        self.sessions.write()?.insert(transcript.0, rows::encode(row).as_slice())?;
        match row.state {
            rows::SessionState::Ready => self.pending.write()?.remove(transcript.0)?.map(|_| ()),
            rows::SessionState::Pending(_) => self.pending.write()?.insert(transcript.0, ())?.map(|_| ()),
        };
        Ok(())
    }

    /// Enters a new session: its id, its key's window, and (with `current`) the key's current window.
    pub fn add_session(
        &mut self,
        transcript: TranscriptNumber,
        row: &SessionRow,
        current: bool,
    ) -> Result<(), StoreError> {
        self.transcripts.write()?.insert(row.session_id.as_str(), transcript.0)?;
        self.add_window(transcript, &row.session_key, current)?;
        self.put_session(transcript, row)
    }

    /// Makes a transcript a window of `key`.
    pub fn add_window(
        &mut self,
        transcript: TranscriptNumber,
        key: &SessionKey,
        current: bool,
    ) -> Result<(), StoreError> {
        self.windows.write()?.insert((key.as_str(), transcript.0), ())?;
        let has_current = self.current.read()?.get(key.as_str())?.is_some();
        if current || !has_current {
            self.current.write()?.insert(key.as_str(), transcript.0)?;
        }
        Ok(())
    }

    /// Takes a transcript out of the windows of `key`; the newest remaining window becomes current.
    pub fn remove_window(&mut self, transcript: TranscriptNumber, key: &SessionKey) -> Result<(), StoreError> {
        self.windows.write()?.remove((key.as_str(), transcript.0))?;
        let is_current = self.current.read()?.get(key.as_str())?.is_some_and(|n| n.value() == transcript.0);
        if is_current {
            let newest = self
                .windows
                .read()?
                .range((key.as_str(), 0)..=(key.as_str(), u64::MAX))?
                .next_back()
                .transpose()?
                .map(|(window, _)| window.value().1);
            match newest {
                Some(number) => self.current.write()?.insert(key.as_str(), number)?.map(|_| ()),
                None => self.current.write()?.remove(key.as_str())?.map(|_| ()),
            };
        }
        Ok(())
    }

    /// The transcript number of a key's current window.
    pub fn current_window(&self, key: &SessionKey) -> Result<Option<TranscriptNumber>, StoreError> {
        Ok(self.current.read()?.get(key.as_str())?.map(|n| TranscriptNumber(n.value())))
    }

    /// Every window of a key, oldest first.
    pub fn windows(&self, key: &SessionKey) -> Result<Vec<TranscriptNumber>, StoreError> {
        self.windows
            .read()?
            .range((key.as_str(), 0)..=(key.as_str(), u64::MAX))?
            .map(|entry| Ok(TranscriptNumber(entry?.0.value().1)))
            .collect()
    }

    /// Stores an event; its id and idempotency key, where it has them, become known.
    pub fn put_event(
        &mut self,
        transcript: TranscriptNumber,
        seq: u64,
        row: &EventRow<'_>,
        id: Option<&MessageId>,
        idempotency_key: Option<&str>,
    ) -> Result<(), StoreError> {
        self.events.write()?.insert((transcript.0, seq), row.encode().as_slice())?;
        if let Some(id) = id {
            self.event_ids.write()?.insert((transcript.0, id.as_str()), seq)?;
        }
        if let Some(key) = idempotency_key {
            self.idempotency.write()?.insert((transcript.0, key), seq)?;
        }
        Ok(())
    }

    /// Where an event id stands in its transcript.
    pub fn event_seq(&self, transcript: TranscriptNumber, id: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.event_ids.read()?.get((transcript.0, id))?.map(|seq| seq.value()))
    }

    /// Where an idempotency key was used.
    pub fn idempotent_seq(&self, transcript: TranscriptNumber, key: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.idempotency.read()?.get((transcript.0, key))?.map(|seq| seq.value()))
    }

    /// One event.
    pub fn with_event<R>(
        &self,
        transcript: TranscriptNumber,
        seq: u64,
        with: impl FnOnce(EventRow<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        match self.events.read()?.get((transcript.0, seq))? {
            Some(row) => Ok(Some(with(rows::decode(row.value(), "event row")?))),
            None => Ok(None),
        }
    }

    /// Gives every event of a transcript from `from` on, in order.
    pub fn for_each_event(
        &self,
        transcript: TranscriptNumber,
        from: u64,
        mut each: impl FnMut(u64, EventRow<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for entry in self.events.read()?.range((transcript.0, from)..=(transcript.0, u64::MAX))? {
            let (key, row) = entry?;
            each(key.value().1, rows::decode(row.value(), "event row")?)?;
        }
        Ok(())
    }

    /// Stores a document and makes it its event's on the active path.
    pub fn put_document(&mut self, number: u64, row: &DocumentRow<'_>) -> Result<(), StoreError> {
        self.documents.write()?.insert(number, row.encode().as_slice())?;
        self.active.write()?.insert((row.transcript.0, row.seq), number)?;
        Ok(())
    }

    /// The (seq, document number) pairs of a transcript's active path, by seq.
    pub fn active(&self, transcript: TranscriptNumber) -> Result<Vec<(u64, u64)>, StoreError> {
        self.active
            .read()?
            .range((transcript.0, 0)..=(transcript.0, u64::MAX))?
            .map(|entry| {
                let (key, number) = entry?;
                Ok((key.value().1, number.value()))
            })
            .collect()
    }

    /// The first of those pairs, at most `limit`.
    pub fn active_at_most(&self, transcript: TranscriptNumber, limit: usize) -> Result<Vec<(u64, u64)>, StoreError> {
        self.active
            .read()?
            .range((transcript.0, 0)..=(transcript.0, u64::MAX))?
            .take(limit)
            .map(|entry| {
                let (key, number) = entry?;
                Ok((key.value().1, number.value()))
            })
            .collect()
    }

    /// The document that stands for an event on the active path.
    pub fn active_document(&self, transcript: TranscriptNumber, seq: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.active.read()?.get((transcript.0, seq))?.map(|number| number.value()))
    }

    /// Notes which document stands for an event, or that none does.
    pub fn set_active(
        &mut self,
        transcript: TranscriptNumber,
        seq: u64,
        number: Option<u64>,
    ) -> Result<(), StoreError> {
        match number {
            Some(number) => self.active.write()?.insert((transcript.0, seq), number)?.map(|_| ()),
            None => self.active.write()?.remove((transcript.0, seq))?.map(|_| ()),
        };
        Ok(())
    }

    /// Removes a document row; returns its token count.
    pub fn remove_document(&mut self, number: u64) -> Result<Option<u32>, StoreError> {
        match self.documents.write()?.remove(number)? {
            Some(row) => Ok(Some(rows::decode::<DocumentRow<'_>>(row.value(), "document row")?.length)),
            None => Ok(None),
        }
    }

    /// Notes a death.
    pub fn put_death(&mut self, number: u64, death: &Death) -> Result<(), StoreError> {
        self.deaths.write()?.insert(number, rows::encode(death).as_slice())?;
        Ok(())
    }

    /// Forgets deaths below `number`: the index has applied them.
    pub fn clear_deaths_below(&mut self, number: u64) -> Result<(), StoreError> {
        self.deaths.write()?.retain_in(..number, |_, _| false)?;
        Ok(())
    }

    /// Removes a session whole: row, key, events, documents. Returns the numbers of its documents.
    pub fn remove_session(&mut self, transcript: TranscriptNumber, row: &SessionRow) -> Result<Vec<u64>, StoreError> {
        let documents: Vec<u64> = self.active(transcript)?.into_iter().map(|(_, number)| number).collect();
        for number in &documents {
            self.documents.write()?.remove(number)?;
        }
        let all = (transcript.0, 0)..=(transcript.0, u64::MAX);
        self.active.write()?.retain_in(all.clone(), |_, _| false)?;
        self.events.write()?.retain_in(all, |_, _| false)?;
        let next = transcript.0.saturating_add(1);
        self.event_ids.write()?.retain_in((transcript.0, "")..(next, ""), |_, _| false)?;
        self.idempotency.write()?.retain_in((transcript.0, "")..(next, ""), |_, _| false)?;
        self.pending.write()?.remove(transcript.0)?;
        self.sessions.write()?.remove(transcript.0)?;
        self.transcripts.write()?.remove(row.session_id.as_str())?;
        self.remove_window(transcript, &row.session_key)?;
        Ok(documents)
    }

    /// How far a file was imported.
    pub fn put_source(&mut self, path: &str, row: &SourceRow) -> Result<(), StoreError> {
        self.sources.write()?.insert(path, rows::encode(row).as_slice())?;
        Ok(())
    }

    /// Notes that a session was deleted on purpose, or lifts it.
    pub fn set_tombstone(&mut self, id: &SessionId, at: Option<Timestamp>) -> Result<(), StoreError> {
        match at {
            Some(at) => self.tombstones.write()?.insert(id.as_str(), at.as_millis())?.map(|_| ()),
            None => self.tombstones.write()?.remove(id.as_str())?.map(|_| ()),
        };
        Ok(())
    }
}
