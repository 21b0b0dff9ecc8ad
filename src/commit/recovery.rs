//! Opening: what of the index is usable, and what has to come from the store.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::checkpoint::{IndexState, facts_of, payload};
use super::prepare::TextPipeline;
use super::tuning::Tuning;
use super::view::{Sessions, View};
use crate::analysis::TokenText;
use crate::index::{GroupedText, Hidden, IndexFolder, IndexPlace, IndexView, Run, Tail};
use crate::model::{DocNumber, Ordinal};
use crate::store::{
    Death, Durability, IndexNote, IndexNotes, PendingReason, SchemaRow, SessionState, Snapshot, Statistics, Store,
    StoreError,
};

/// What became of the index folder.
pub(super) enum Opened {
    /// It is ours, and one of the two notes of the store says the same as its last commit.
    Usable(Box<IndexFolder>, IndexNote),
    /// There is none.
    Nothing,
    /// It is not ours, or not of this moment, or can't be read; why.
    Unusable(String),
}

/// Opens the index folder and compares it with the store's notes.
pub(super) fn open_folder(place: &IndexPlace, store: [u8; 16], pipeline: &TextPipeline, notes: IndexNotes) -> Opened {
    // Rotten bytes can make the reader of the index panic; the transcripts are not concerned.
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| IndexFolder::open(place)));
    let (folder, found) = match opened {
        Ok(Ok(Some(opened))) => opened,
        Ok(Ok(None)) => return Opened::Nothing,
        Ok(Err(error)) => return Opened::Unusable(error.to_string()),
        Err(_) => return Opened::Unusable("it is damaged".to_owned()),
    };
    let known = [notes.confirmed, notes.intent].into_iter().flatten();
    for note in known {
        if found == payload(store, pipeline, &note) {
            return Opened::Usable(Box::new(folder), note);
        }
    }
    Opened::Unusable(format!("its last commit is {found:?}, the store knows {notes:?}"))
}

/// Builds the first view: segments where they are usable, the rest from the store.
pub(super) fn recover(
    store: &Store,
    place: IndexPlace,
    pipeline: &Arc<TextPipeline>,
    tuning: &Tuning,
) -> Result<(IndexState, View), StoreError> {
    drop_staged(store)?;
    let snapshot = store.snapshot()?;
    let mut sessions = Sessions::default();
    for entry in snapshot.sessions()? {
        let (transcript, row) = entry?;
        sessions.set(transcript, Some(row));
    }
    let mut state = IndexState::default();
    match open_folder(&place, store.uuid(), pipeline, snapshot.index_notes()?) {
        Opened::Usable(folder, note) => {
            state.folder = Some(*folder);
            state.covered = note;
        }
        Opened::Nothing => {}
        Opened::Unusable(reason) => {
            tracing::warn!(reason, "the index is set aside and rebuilt from the transcripts");
            IndexFolder::set_aside(&place).map_err(StoreError::io("setting the index aside"))?;
        }
    }

    let hidden = hidden(&snapshot, &sessions, state.covered)?;
    let mut index = IndexView { hidden, watermark: state.covered.documents, ..IndexView::default() };
    match replay(&snapshot, &sessions, pipeline, state.covered.documents, tuning.max_replay_documents)? {
        Some(tail) => {
            index.tail = tail;
            // No rebuild will do it at its end.
            if let Err(error) = IndexFolder::remove_set_aside(&place) {
                tracing::warn!(%error, "an old index could not be removed");
            }
        }
        None => {
            state.rebuild_until = Some(snapshot.counters()?.next_document);
            index.rebuilding = true;
        }
    }
    if let Some(folder) = &state.folder
        && !index.rebuilding
    {
        index.segments = folder.segments().to_vec();
    }
    let statistics = snapshot.statistics()?;
    index.num_documents = statistics.documents;
    index.num_tokens = statistics.tokens;
    Ok((state, View { index, snapshot, sessions, pipeline: Arc::clone(pipeline) }))
}

/// What an index that covers `covered` holds and must not answer.
pub(super) fn hidden(snapshot: &Snapshot, sessions: &Sessions, covered: IndexNote) -> Result<Hidden, StoreError> {
    let mut hidden = Hidden::default();
    for (_, death) in snapshot.deaths(covered.deaths)? {
        match death {
            Death::Ordinal(ordinal) => hidden.hide_ordinal(ordinal),
            Death::Documents { ordinal, numbers } => {
                numbers.iter().for_each(|number| hidden.hide_document(DocNumber(*number), ordinal));
            }
        }
    }
    // What a rebuild wrote before a crash is its session's ordinal and not to be seen.
    for session in sessions.iter().filter(|session| session.state != SessionState::Ready) {
        hidden.hide_ordinal(session.ordinal);
    }
    Ok(hidden)
}

/// The documents from `from` on as a tail; `None` when there are too many.
pub(super) fn replay(
    snapshot: &Snapshot,
    sessions: &Sessions,
    pipeline: &TextPipeline,
    from: u64,
    max_documents: usize,
) -> Result<Option<Tail>, StoreError> {
    let mut documents = Vec::new();
    let mut too_many = false;
    snapshot.for_each_document(from, |number, row| {
        let live = sessions
            .get(row.transcript)
            .is_some_and(|session| session.ordinal == row.ordinal && session.state == SessionState::Ready);
        if live {
            if documents.len() == max_documents {
                too_many = true;
                return Ok(ControlFlow::Break(()));
            }
            documents.push((facts_of(number, &row), row.text.to_owned()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if too_many {
        return Ok(None);
    }
    let mut tail = Tail::default();
    for (facts, text) in documents {
        let tokens = TokenText::new(pipeline.analyzer(), &text);
        tail.push(Run::single(facts, &GroupedText::new(&tokens)));
    }
    Ok(Some(tail))
}

/// Drops sessions that were to take the place of others: their sources are read again.
fn drop_staged(store: &Store) -> Result<(), StoreError> {
    let mut staged = Vec::new();
    for entry in store.snapshot()?.sessions()? {
        let (transcript, session) = entry?;
        if matches!(session.state, SessionState::Staged { .. }) {
            staged.push((transcript, session));
        }
    }
    if staged.is_empty() {
        return Ok(());
    }
    store.write(Durability::Immediate, |tables| -> Result<(), StoreError> {
        let mut counters = tables.counters()?;
        for (transcript, session) in &staged {
            tables.put_death(counters.next_death, &Death::Ordinal(session.ordinal))?;
            counters.next_death += 1;
            tables.remove_session(*transcript, session)?;
        }
        tables.set_counters(&counters)
    })
}

/// Where the store was analysed or redacted otherwise than this build does it, every session becomes pending, in one
/// transaction with the new schema: nothing made by old rules is shown again.
pub(super) fn adopt_schema(store: &Store, pipeline: &TextPipeline) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    let schema = pipeline.schema();
    if snapshot.schema()? == schema { Ok(()) } else { make_all_pending(store, &schema) }
}

/// Makes every session pending, in one transaction with the schema: what was made before is never shown again.
pub(super) fn make_all_pending(store: &Store, schema: &SchemaRow) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    store.write(Durability::Immediate, |tables| -> Result<(), StoreError> {
        let mut counters = tables.counters()?;
        for entry in snapshot.sessions()? {
            let (transcript, mut session) = entry?;
            tables.put_death(counters.next_death, &Death::Ordinal(session.ordinal))?;
            counters.next_death += 1;
            if matches!(session.state, SessionState::Staged { .. }) {
                tables.remove_session(transcript, &session)?;
                continue;
            }
            session.ordinal = Ordinal(counters.next_ordinal);
            counters.next_ordinal += 1;
            session.state = SessionState::Pending(PendingReason::Rebuild);
            session.revision += 1;
            session.documents = 0;
            session.tokens = 0;
            tables.put_session(transcript, &session)?;
        }
        tables.set_counters(&counters)?;
        tables.set_statistics(&Statistics::default())?;
        tables.set_schema(schema)
    })
}
