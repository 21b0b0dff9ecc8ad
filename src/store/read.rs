//! Reading one pinned snapshot.

use redb::{ReadOnlyTable, ReadTransaction};

use super::rows::{
    self, Counters, Death, DocumentRow, EventRow, IndexNotes, SchemaRow, SessionRow, SourceRow, Statistics,
    TranscriptNumber,
};
use super::{StoreError, tables};
use crate::model::{DocNumber, SessionId, SessionKey, Timestamp};

/// A pinned state of one store. Holding it keeps its pages from being reused.
pub struct Snapshot {
    transaction: ReadTransaction,
    documents: ReadOnlyTable<u64, &'static [u8]>,
    sessions: ReadOnlyTable<u64, &'static [u8]>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(super) fn new(transaction: ReadTransaction) -> Result<Self, StoreError> {
        let documents = transaction.open_table(tables::DOCUMENTS)?;
        let sessions = transaction.open_table(tables::SESSIONS)?;
        Ok(Self { transaction, documents, sessions })
    }

    fn meta<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        let meta = self.transaction.open_table(tables::META)?;
        let row = meta.get(key)?.ok_or_else(|| StoreError::damaged(format!("meta row {key} is missing")))?;
        rows::decode(row.value(), key)
    }

    /// What is given out next.
    pub fn counters(&self) -> Result<Counters, StoreError> {
        self.meta(tables::META_COUNTERS)
    }

    /// N and total over what may be found.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        self.meta(tables::META_STATISTICS)
    }

    /// What the texts were analysed with.
    pub fn schema(&self) -> Result<SchemaRow, StoreError> {
        self.meta(tables::META_SCHEMA)
    }

    /// What the store knows of its index.
    pub fn index_notes(&self) -> Result<IndexNotes, StoreError> {
        self.meta(tables::META_INDEX)
    }

    /// The number of a session id.
    pub fn transcript(&self, id: &SessionId) -> Result<Option<TranscriptNumber>, StoreError> {
        let table = self.transaction.open_table(tables::TRANSCRIPTS)?;
        Ok(table.get(id.as_str())?.map(|n| TranscriptNumber(n.value())))
    }

    /// One session.
    pub fn session(&self, transcript: TranscriptNumber) -> Result<Option<SessionRow>, StoreError> {
        match self.sessions.get(transcript.0)? {
            Some(row) => rows::decode(row.value(), "session row").map(Some),
            None => Ok(None),
        }
    }

    /// Every session, by transcript number.
    pub fn sessions(
        &self,
    ) -> Result<impl Iterator<Item = Result<(TranscriptNumber, SessionRow), StoreError>> + use<>, StoreError> {
        Ok(self.sessions.range::<u64>(..)?.map(|entry| {
            let (number, row) = entry?;
            Ok((TranscriptNumber(number.value()), rows::decode(row.value(), "session row")?))
        }))
    }

    /// The transcript number of a key's current window.
    pub fn current_window(&self, key: &SessionKey) -> Result<Option<TranscriptNumber>, StoreError> {
        let table = self.transaction.open_table(tables::CURRENT)?;
        Ok(table.get(key.as_str())?.map(|n| TranscriptNumber(n.value())))
    }

    /// Every window of a key, oldest first.
    pub fn windows(&self, key: &SessionKey) -> Result<Vec<TranscriptNumber>, StoreError> {
        let table = self.transaction.open_table(tables::WINDOWS)?;
        let range = table.range((key.as_str(), 0)..=(key.as_str(), u64::MAX))?;
        range.map(|entry| Ok(TranscriptNumber(entry?.0.value().1))).collect()
    }

    /// Gives every event of a transcript from `from` on, in order, until `each` says stop.
    pub fn for_each_event(
        &self,
        transcript: TranscriptNumber,
        from: u64,
        mut each: impl FnMut(u64, EventRow<'_>) -> Result<std::ops::ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.transaction.open_table(tables::EVENTS)?;
        for entry in table.range((transcript.0, from)..=(transcript.0, u64::MAX))? {
            let (key, row) = entry?;
            if each(key.value().1, rows::decode(row.value(), "event row")?)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// One event.
    pub fn with_event<R>(
        &self,
        transcript: TranscriptNumber,
        seq: u64,
        with: impl FnOnce(EventRow<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let table = self.transaction.open_table(tables::EVENTS)?;
        match table.get((transcript.0, seq))? {
            Some(row) => Ok(Some(with(rows::decode(row.value(), "event row")?))),
            None => Ok(None),
        }
    }

    /// Gives every document from number `from` on, in order, until `each` says stop.
    pub fn for_each_document(
        &self,
        from: u64,
        mut each: impl FnMut(DocNumber, DocumentRow<'_>) -> Result<std::ops::ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        for entry in self.documents.range(from..)? {
            let (number, row) = entry?;
            if each(DocNumber(number.value()), rows::decode(row.value(), "document row")?)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// One document; `None` when it has no row any more.
    pub fn with_document<R>(
        &self,
        number: DocNumber,
        with: impl FnOnce(DocumentRow<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        match self.documents.get(number.0)? {
            Some(row) => Ok(Some(with(rows::decode(row.value(), "document row")?))),
            None => Ok(None),
        }
    }

    /// Every death from number `from` on.
    pub fn deaths(&self, from: u64) -> Result<Vec<(u64, Death)>, StoreError> {
        let table = self.transaction.open_table(tables::DEATHS)?;
        table
            .range(from..)?
            .map(|entry| {
                let (number, row) = entry?;
                Ok((number.value(), rows::decode(row.value(), "death row")?))
            })
            .collect()
    }

    /// Sessions that wait for a rebuild.
    pub fn pending(&self) -> Result<Vec<TranscriptNumber>, StoreError> {
        let table = self.transaction.open_table(tables::PENDING)?;
        table.range::<u64>(..)?.map(|entry| Ok(TranscriptNumber(entry?.0.value()))).collect()
    }

    /// How far a file was imported.
    pub fn source(&self, path: &str) -> Result<Option<SourceRow>, StoreError> {
        let table = self.transaction.open_table(tables::SOURCES)?;
        match table.get(path)? {
            Some(row) => rows::decode(row.value(), "source row").map(Some),
            None => Ok(None),
        }
    }

    /// The files that a session was imported from, with what is noted of each.
    pub fn sources_of(&self, id: &SessionId) -> Result<Vec<(String, SourceRow)>, StoreError> {
        let table = self.transaction.open_table(tables::SOURCES)?;
        let mut found = Vec::new();
        for entry in table.range::<&str>(..)? {
            let (name, row) = entry?;
            let row: SourceRow = rows::decode(row.value(), "source row")?;
            if row.session_id == *id {
                found.push((name.value().to_owned(), row));
            }
        }
        Ok(found)
    }

    /// The notes whose name begins with `prefix`.
    pub fn sources_below(&self, prefix: &str) -> Result<Vec<SourceRow>, StoreError> {
        let table = self.transaction.open_table(tables::SOURCES)?;
        let mut found = Vec::new();
        for entry in table.range(prefix..)? {
            let (name, row) = entry?;
            if !name.value().starts_with(prefix) {
                break;
            }
            found.push(rows::decode(row.value(), "source row")?);
        }
        Ok(found)
    }

    /// When a session was deleted on purpose, if it was.
    pub fn tombstone(&self, id: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        let table = self.transaction.open_table(tables::TOMBSTONES)?;
        Ok(table.get(id.as_str())?.map(|at| Timestamp::from_millis(at.value()).unwrap_or(Timestamp::UNKNOWN)))
    }
}
