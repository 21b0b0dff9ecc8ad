//! Reading one pinned snapshot.

use std::ops::ControlFlow;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTableMetadata as _};

use super::error::guarded;
use super::rows::{
    self, Counters, Death, DocumentRow, EventRow, IndexNotes, SchemaRow, SessionRow, SourceRow, Statistics,
    TranscriptNumber,
};
use super::{StoreError, tables};
use crate::model::{DocNumber, SessionId, SessionKey, Timestamp};

/// A session row as it was read, with its number.
type ReadSession = (TranscriptNumber, Result<SessionRow, StoreError>);

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
        guarded(|| {
            let documents = transaction.open_table(tables::DOCUMENTS)?;
            let sessions = transaction.open_table(tables::SESSIONS)?;
            Ok(Self { transaction, documents, sessions })
        })
    }

    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    fn meta<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        guarded(|| {
            let meta = self.transaction.open_table(tables::META)?;
            let row = meta.get(key)?.ok_or_else(|| StoreError::damaged(format!("meta row {key} is missing")))?;
            rows::decode(row.value(), key)
        })
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
        guarded(|| {
            let table = self.transaction.open_table(tables::TRANSCRIPTS)?;
            Ok(table.get(id.as_str())?.map(|n| TranscriptNumber(n.value())))
        })
    }

    /// How many session ids have a number.
    pub fn num_transcripts(&self) -> Result<u64, StoreError> {
        guarded(|| Ok(self.transaction.open_table(tables::TRANSCRIPTS)?.len()?))
    }

    /// One session.
    pub fn session(&self, transcript: TranscriptNumber) -> Result<Option<SessionRow>, StoreError> {
        match guarded(|| Ok(self.sessions.get(transcript.0)?))? {
            Some(row) => rows::decode(row.value(), "session row").map(Some),
            None => Ok(None),
        }
    }

    /// Every session, by transcript number.
    pub fn sessions(
        &self,
    ) -> Result<impl Iterator<Item = Result<(TranscriptNumber, SessionRow), StoreError>> + use<>, StoreError> {
        Ok(self.session_rows()?.map(|entry| entry.and_then(|(number, row)| row.map(|row| (number, row)))))
    }

    /// The same, with the number of a row that can't be read.
    pub fn session_rows(&self) -> Result<impl Iterator<Item = Result<ReadSession, StoreError>> + use<>, StoreError> {
        let mut range = guarded(|| Ok(self.sessions.range::<u64>(..)?))?;
        let mut ended = false;
        Ok(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let entry = guarded(|| Ok(range.next().transpose()?)).transpose();
            ended = !matches!(entry, Some(Ok(_)));
            entry.map(|entry| {
                let (number, row) = entry?;
                Ok((TranscriptNumber(number.value()), rows::decode(row.value(), "session row")))
            })
        }))
    }

    /// The transcript number of a key's current window.
    pub fn current_window(&self, key: &SessionKey) -> Result<Option<TranscriptNumber>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::CURRENT)?;
            Ok(table.get(key.as_str())?.map(|n| TranscriptNumber(n.value())))
        })
    }

    /// Every window of a key, oldest first.
    pub fn windows(&self, key: &SessionKey) -> Result<Vec<TranscriptNumber>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::WINDOWS)?;
            let range = table.range((key.as_str(), 0)..=(key.as_str(), u64::MAX))?;
            range.map(|entry| Ok(TranscriptNumber(entry?.0.value().1))).collect()
        })
    }

    /// Gives every event of a transcript from `from` on, in order, until `each` says stop.
    pub fn for_each_event(
        &self,
        transcript: TranscriptNumber,
        from: u64,
        mut each: impl FnMut(u64, EventRow<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        self.for_each_event_row(transcript, from, |seq, row| each(seq, row?))
    }

    /// The same, with the number of a row that can't be read.
    pub fn for_each_event_row(
        &self,
        transcript: TranscriptNumber,
        from: u64,
        mut each: impl FnMut(u64, Result<EventRow<'_>, StoreError>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut range = guarded(|| {
            let table = self.transaction.open_table(tables::EVENTS)?;
            Ok(table.range((transcript.0, from)..=(transcript.0, u64::MAX))?)
        })?;
        while let Some((key, row)) = guarded(|| Ok(range.next().transpose()?))? {
            if each(key.value().1, rows::decode(row.value(), "event row"))?.is_break() {
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
        let row = guarded(|| Ok(self.transaction.open_table(tables::EVENTS)?.get((transcript.0, seq))?))?;
        match row {
            Some(row) => Ok(Some(with(rows::decode(row.value(), "event row")?))),
            None => Ok(None),
        }
    }

    /// Gives every document from number `from` on, in order, until `each` says stop.
    pub fn for_each_document(
        &self,
        from: u64,
        mut each: impl FnMut(DocNumber, DocumentRow<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        self.for_each_document_row(from, |number, row| each(number, row?))
    }

    /// The same, with the number of a row that can't be read.
    pub fn for_each_document_row(
        &self,
        from: u64,
        mut each: impl FnMut(DocNumber, Result<DocumentRow<'_>, StoreError>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut range = guarded(|| Ok(self.documents.range(from..)?))?;
        while let Some((number, row)) = guarded(|| Ok(range.next().transpose()?))? {
            if each(DocNumber(number.value()), rows::decode(row.value(), "document row"))?.is_break() {
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
        match guarded(|| Ok(self.documents.get(number.0)?))? {
            Some(row) => Ok(Some(with(rows::decode(row.value(), "document row")?))),
            None => Ok(None),
        }
    }

    /// The searchable messages of a session's active path: seq and document number, by seq.
    pub fn active(&self, transcript: TranscriptNumber) -> Result<Vec<(u64, u64)>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::ACTIVE)?;
            let range = table.range((transcript.0, 0)..=(transcript.0, u64::MAX))?;
            range
                .map(|entry| {
                    let (key, number) = entry?;
                    Ok((key.value().1, number.value()))
                })
                .collect()
        })
    }

    /// Every death from number `from` on.
    pub fn deaths(&self, from: u64) -> Result<Vec<(u64, Death)>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::DEATHS)?;
            table
                .range(from..)?
                .map(|entry| {
                    let (number, row) = entry?;
                    Ok((number.value(), rows::decode(row.value(), "death row")?))
                })
                .collect()
        })
    }

    /// Sessions that wait for a rebuild.
    pub fn pending(&self) -> Result<Vec<TranscriptNumber>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::PENDING)?;
            table.range::<u64>(..)?.map(|entry| Ok(TranscriptNumber(entry?.0.value()))).collect()
        })
    }

    /// How far a file was imported.
    pub fn source(&self, path: &str) -> Result<Option<SourceRow>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::SOURCES)?;
            match table.get(path)? {
                Some(row) => SourceRow::decode(row.value()).map(Some),
                None => Ok(None),
            }
        })
    }

    /// The files that a session was imported from, with what is noted of each.
    pub fn sources_of(&self, id: &SessionId) -> Result<Vec<(String, SourceRow)>, StoreError> {
        let table = self.transaction.open_table(tables::SOURCES)?;
        let mut found = Vec::new();
        for entry in table.range::<&str>(..)? {
            let (name, row) = entry?;
            let row = SourceRow::decode(row.value())?;
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
            found.push(SourceRow::decode(row.value())?);
        }
        Ok(found)
    }

    /// When a session was deleted on purpose, if it was.
    pub fn tombstone(&self, id: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        guarded(|| {
            let table = self.transaction.open_table(tables::TOMBSTONES)?;
            Ok(table.get(id.as_str())?.map(|at| Timestamp::from_millis(at.value()).unwrap_or(Timestamp::UNKNOWN)))
        })
    }
}
