//! Comparing what a store holds, both ways, without changing anything: transcripts with their documents, documents
//! with the index, counts with what is counted, checksums with bytes.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use serde::Serialize;

use super::append::StoredMessage;
use super::committer::{OpenCommitter, index_place};
use super::prepare::TextPipeline;
use super::recovery::{self, Opened};
use super::view::{Sessions, View};
use crate::analysis::TokenText;
use crate::index::{Hidden, IndexFolder, IndexView, Part as _};
use crate::model::Ordinal;
use crate::store::{
    DocumentRow, EventRow, IndexNote, SessionRow, SessionState, Snapshot, Statistics, Store, StoreError, StoreLocation,
    StoreOptions, TranscriptNumber,
};
use crate::transcript::TreeScan;

/// What sort of fault a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A searchable message has no document, or the index does not hold it.
    MissingDocument,
    /// Something can be found that no active path holds.
    ExtraDocument,
    /// A document's number of tokens is not what its text gives: its score is wrong.
    WrongLength,
    /// A count that scores or answers are made from is not what is counted.
    WrongStatistics,
    /// The index can't be read or says something else than the texts. It is rebuilt when the store is opened next.
    IndexDamaged,
    /// The transcripts can't be read or contradict themselves. Only a backup brings them back.
    StoreDamaged,
    /// One row can't be read.
    UnreadableRow,
}

impl FindingKind {
    /// The word that stands for it in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingDocument => "missing_document",
            Self::ExtraDocument => "extra_document",
            Self::WrongLength => "wrong_length",
            Self::WrongStatistics => "wrong_statistics",
            Self::IndexDamaged => "index_damaged",
            Self::StoreDamaged => "store_damaged",
            Self::UnreadableRow => "unreadable_row",
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What sort it is.
    pub kind: FindingKind,
    /// Where, and what.
    pub detail: String,
}

/// Faults that are listed; the others are counted.
const MAX_FINDINGS: usize = 1_000;

/// The faults so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// The first 1,000.
    pub list: Vec<Finding>,
    /// All of them.
    pub total: u64,
}

impl Findings {
    /// Adds one.
    pub fn add(&mut self, kind: FindingKind, detail: impl fmt::Display) {
        self.total += 1;
        if self.list.len() < MAX_FINDINGS {
            self.list.push(Finding { kind, detail: detail.to_string() });
        }
    }

    fn unreadable(&mut self, what: impl fmt::Display, error: &StoreError) {
        self.add(FindingKind::UnreadableRow, format!("{what}: {}", detail_of(error)));
    }
}

/// Without what the error would say to somebody who has just lost an answer.
fn detail_of(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { detail } => detail.clone(),
        other => other.to_string(),
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Verification {
    /// The faults.
    pub findings: Findings,
    /// Sessions looked at.
    pub sessions: u64,
    /// Events read.
    pub events: u64,
    /// Documents compared with their events.
    pub documents: u64,
    /// What a search would see, where store and index can be searched.
    pub view: Option<View>,
    /// Open for as long as the view is read.
    store: Option<Store>,
}

/// Looks at one agent's store and index. Nobody else can have the store meanwhile, and nothing of it is changed. With
/// `postings`, every posting of the index is compared with the texts.
///
/// # Errors
/// [`StoreError`] when the store is missing, busy, of another format, or can't be reached. Damage is a finding.
pub fn verify(location: &StoreLocation, options: &OpenCommitter, postings: bool) -> Result<Verification, StoreError> {
    let mut verification = Verification::default();
    let for_new = TextPipeline::named(&options.analyzers, &options.analyzer, options.redaction.clone())?;
    let store_options = StoreOptions {
        files: Arc::clone(&options.files),
        create: false,
        busy_timeout: options.busy_timeout,
        cache_bytes: options.cache_bytes,
        journal: None,
        schema: for_new.schema(),
        uuid: options.uuid,
    };
    match examine(location, options, &store_options, postings, &mut verification) {
        Ok(view) => verification.view = view,
        Err(StoreError::Damaged { detail }) => verification.findings.add(FindingKind::StoreDamaged, detail),
        Err(other) => return Err(other),
    }
    Ok(verification)
}

/// Gives what a search would see.
fn examine(
    location: &StoreLocation,
    options: &OpenCommitter,
    store_options: &StoreOptions,
    postings: bool,
    seen: &mut Verification,
) -> Result<Option<View>, StoreError> {
    let (store, damage) = Store::examine(location, store_options, Arc::clone(&options.repairing))?;
    if let Some(damage) = damage {
        seen.findings.add(FindingKind::StoreDamaged, damage);
    }
    let snapshot = store.snapshot()?;
    let pipeline = TextPipeline::of_schema(&options.analyzers, snapshot.schema()?)?;
    let mut verifier = Verifier { snapshot, pipeline, sessions: Sessions::default(), staged: Vec::new(), seen };
    verifier.transcripts()?;
    let index = verifier.index(&store, location, options, postings)?;
    verifier.seen.store = Some(store);
    let Verifier { snapshot, sessions, pipeline, .. } = verifier;
    Ok(index.map(|index| View { index, snapshot, sessions, pipeline: Arc::new(pipeline) }))
}

struct Verifier<'v> {
    snapshot: Snapshot,
    pipeline: TextPipeline,
    /// Those that can be read.
    sessions: Sessions,
    /// Those that are in the making, with the ordinals that nobody sees yet.
    staged: Vec<(TranscriptNumber, Ordinal)>,
    seen: &'v mut Verification,
}

impl Verifier<'_> {
    fn add(&mut self, kind: FindingKind, detail: impl fmt::Display) {
        self.seen.findings.add(kind, detail);
    }

    /// Every row of the store: sessions with their events, their path with its documents, the counts of all.
    fn transcripts(&mut self) -> Result<(), StoreError> {
        let mut counted = Statistics::default();
        for entry in self.snapshot.session_rows()? {
            let (transcript, row) = entry?;
            match row {
                // No id, key or search leads to it, and the next opening drops it.
                Ok(row) if matches!(row.state, SessionState::Staged { .. }) => {
                    // Counted with the others only when it takes its place.
                    let counted = self.seen.events;
                    self.events(transcript, &row)?;
                    self.seen.events = counted;
                    self.staged.push((transcript, row.ordinal));
                }
                Ok(row) => {
                    self.seen.sessions += 1;
                    self.session(transcript, &row)?;
                    if row.state == SessionState::Ready {
                        counted.documents += row.documents;
                        counted.tokens += row.tokens;
                    }
                    self.sessions.set(transcript, Some(row));
                }
                Err(error) => {
                    self.seen.sessions += 1;
                    self.seen.findings.unreadable(format!("session {}", transcript.0), &error);
                }
            }
        }
        let counters = self.snapshot.counters()?;
        let statistics = self.snapshot.statistics()?;
        if statistics != counted {
            let detail = format!("the store counts {statistics:?}, its sessions {counted:?}");
            self.add(FindingKind::WrongStatistics, detail);
        }
        if counters.events != self.seen.events {
            let detail = format!("the store counts {} events, it holds {}", counters.events, self.seen.events);
            self.add(FindingKind::WrongStatistics, detail);
        }
        let named = self.snapshot.num_transcripts()?;
        if named != self.seen.sessions {
            let detail = format!("{named} session ids for {} sessions", self.seen.sessions);
            self.add(FindingKind::StoreDamaged, detail);
        }
        let waiting = self.snapshot.pending()?.len();
        if waiting != self.sessions.num_pending() {
            let detail = format!("{waiting} sessions are listed as pending, {} are", self.sessions.num_pending());
            self.add(FindingKind::StoreDamaged, detail);
        }
        self.strays()
    }

    fn session(&mut self, transcript: TranscriptNumber, row: &SessionRow) -> Result<(), StoreError> {
        let id = &row.session_id;
        if self.snapshot.transcript(id)? != Some(transcript) {
            self.add(FindingKind::StoreDamaged, format!("session {id} is not found by its id"));
        }
        if !self.snapshot.windows(&row.session_key)?.contains(&transcript) {
            self.add(FindingKind::StoreDamaged, format!("session {id} is no window of its key {}", row.session_key));
        }
        if self.snapshot.current_window(&row.session_key)?.is_none() {
            self.add(FindingKind::StoreDamaged, format!("key {} has no current window", row.session_key));
        }
        let scan = self.events(transcript, row)?;
        if row.state != SessionState::Ready {
            return Ok(());
        }
        let resolution = scan.resolve();
        if row.head.as_ref() != Some(&resolution.head) {
            self.add(FindingKind::StoreDamaged, format!("session {id}: its leaf is not where its events put it"));
        }
        let mut path = resolution.path;
        path.sort_unstable();
        self.path(transcript, row, &path)
    }

    /// The events of a session, all there and readable, as many as its row says.
    fn events(&mut self, transcript: TranscriptNumber, row: &SessionRow) -> Result<TreeScan, StoreError> {
        let id = &row.session_id;
        let mut scan = TreeScan::new();
        let (mut events, mut bytes) = (0, 0);
        let findings = &mut self.seen.findings;
        self.snapshot.for_each_event_row(transcript, 0, |seq, event| {
            match event {
                Ok(event) => {
                    scan.push(seq, &event.tree);
                    bytes += event.raw.len() as u64;
                    if event.text_bytes > 0
                        && let Err(error) = event.event()
                    {
                        findings.add(FindingKind::UnreadableRow, format!("session {id}, event {seq}: {error}"));
                    }
                }
                Err(error) => findings.unreadable(format!("session {id}, event {seq}"), &error),
            }
            if seq != events {
                findings.add(FindingKind::StoreDamaged, format!("session {id}: event {events} is missing"));
                events = seq;
            }
            events += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        self.seen.events += events;
        if (events, bytes) != (row.next_seq, row.event_bytes) {
            let detail = format!(
                "session {id} holds {events} events of {bytes} bytes, its row says {} of {}",
                row.next_seq, row.event_bytes
            );
            self.add(FindingKind::StoreDamaged, detail);
        }
        Ok(scan)
    }

    /// The documents of a ready session: those of its path, each as its event says.
    fn path(&mut self, transcript: TranscriptNumber, row: &SessionRow, path: &[u64]) -> Result<(), StoreError> {
        let id = &row.session_id;
        let active = self.snapshot.active(transcript)?;
        let mut active = active.into_iter().peekable();
        let (mut documents, mut tokens) = (0, 0);
        for &seq in path {
            let read = |event: EventRow<'_>| StoredMessage::read(&event, seq, &self.pipeline);
            // An unreadable event was reported when it was met; it is no message any more.
            let Some(message) = self.snapshot.with_event(transcript, seq, read).unwrap_or_default().flatten() else {
                continue;
            };
            while let Some((stray, number)) = active.next_if(|(at, _)| *at < seq) {
                let detail =
                    format!("session {id}: document {number} of event {stray}, which is no message of its path");
                self.add(FindingKind::ExtraDocument, detail);
            }
            documents += 1;
            tokens += u64::from(message.text.tokens.len());
            let Some((_, number)) = active.next_if(|(at, _)| *at == seq) else {
                self.add(FindingKind::MissingDocument, format!("session {id}: event {seq} has no document"));
                continue;
            };
            self.seen.documents += 1;
            let expected = message.indexed();
            let compared = self.snapshot.with_document(crate::model::DocNumber(number), |found| {
                let same = found.transcript == transcript
                    && found.ordinal == row.ordinal
                    && found.seq == seq
                    && found.message_id == *expected.id
                    && found.role == expected.role
                    && found.timestamp == expected.timestamp
                    && found.text == expected.text.text;
                (same, found.length)
            });
            match compared {
                Ok(Some((true, length))) if length == expected.text.tokens.len() => {}
                Ok(Some((true, length))) => {
                    let really = expected.text.tokens.len();
                    let detail =
                        format!("session {id}, event {seq}: document {number} has {really} tokens, not {length}");
                    self.add(FindingKind::WrongLength, detail);
                }
                Ok(Some((false, _))) => {
                    let detail = format!("session {id}, event {seq}: document {number} is another message's");
                    self.add(FindingKind::MissingDocument, detail);
                }
                Ok(None) => {
                    let detail = format!("session {id}, event {seq}: document {number} has no row");
                    self.add(FindingKind::MissingDocument, detail);
                }
                Err(error) => {
                    self.seen.findings.unreadable(format!("session {id}, event {seq}: document {number}"), &error);
                }
            }
        }
        for (stray, number) in active {
            let detail = format!("session {id}: document {number} of event {stray}, which is no message of its path");
            self.add(FindingKind::ExtraDocument, detail);
        }
        if (documents, tokens) != (row.documents, row.tokens) {
            let detail = format!(
                "session {id} has {documents} documents of {tokens} tokens, its row says {} of {}",
                row.documents, row.tokens
            );
            self.add(FindingKind::WrongStatistics, detail);
        }
        Ok(())
    }

    /// Document rows that belong to nothing.
    fn strays(&mut self) -> Result<(), StoreError> {
        let (sessions, staged, findings) = (&self.sessions, &self.staged, &mut self.seen.findings);
        self.snapshot.for_each_document_row(0, |number, row| {
            match row {
                Ok(row) => {
                    // A pending session's old documents wait for their rebuild.
                    let belongs = sessions
                        .get(row.transcript)
                        .is_some_and(|session| session.ordinal == row.ordinal || session.state != SessionState::Ready);
                    if !belongs && !staged.iter().any(|(transcript, _)| *transcript == row.transcript) {
                        let detail = format!("document {} belongs to no session", number.0);
                        findings.add(FindingKind::ExtraDocument, detail);
                    }
                }
                Err(error) => findings.unreadable(format!("document {}", number.0), &error),
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The index, where there is one: its files, and what it would answer with.
    fn index(
        &mut self,
        store: &Store,
        location: &StoreLocation,
        options: &OpenCommitter,
        postings: bool,
    ) -> Result<Option<IndexView>, StoreError> {
        if self.snapshot.schema()? != self.pipeline.schema() {
            // Made by other rules: everything is rebuilt when it is opened, and nothing is to be compared before.
            return Ok(None);
        }
        let notes = self.snapshot.index_notes()?;
        let place = index_place(location, options);
        let (segments, covered) = match recovery::open_folder(&place, store.uuid(), &self.pipeline, notes) {
            Opened::Usable(folder, covered) => {
                // Rotten bytes can make the reader of the index panic.
                let compared = std::panic::catch_unwind(AssertUnwindSafe(|| self.segments(&folder, covered, postings)));
                match compared {
                    Ok(done) => done?,
                    Err(_) => self.add(FindingKind::IndexDamaged, "reading it failed"),
                }
                (folder.segments().to_vec(), covered)
            }
            Opened::Nothing => {
                if notes.confirmed.is_some() {
                    self.add(FindingKind::IndexDamaged, "the index is missing; the next open rebuilds it");
                    return Ok(None);
                }
                (Vec::new(), IndexNote::default())
            }
            Opened::Unusable(reason) => {
                self.add(FindingKind::IndexDamaged, format!("{reason}; the next open rebuilds it"));
                return Ok(None);
            }
        };
        let max = options.tuning.max_replay_documents;
        let tail = recovery::replay(&self.snapshot, &self.sessions, &self.pipeline, covered.documents, max)?;
        // Without a tail the index is being rebuilt, and answers nothing yet.
        let Some(tail) = tail else { return Ok(None) };
        let statistics = self.snapshot.statistics()?;
        Ok(Some(IndexView {
            segments,
            tail,
            watermark: covered.documents,
            hidden: self.hidden(covered)?,
            num_documents: statistics.documents,
            num_tokens: statistics.tokens,
            ..IndexView::default()
        }))
    }

    /// What an index that covers `covered` must not answer.
    fn hidden(&self, covered: IndexNote) -> Result<Hidden, StoreError> {
        let mut hidden = recovery::hidden(&self.snapshot, &self.sessions, covered)?;
        self.staged.iter().for_each(|(_, ordinal)| hidden.hide_ordinal(*ordinal));
        Ok(hidden)
    }

    /// What the segments would show, beside the documents of the store.
    fn segments(&mut self, folder: &IndexFolder, covered: IndexNote, postings: bool) -> Result<(), StoreError> {
        match folder.damaged_files() {
            Ok(files) => {
                for file in files {
                    self.add(FindingKind::IndexDamaged, format!("the checksum of {file} is wrong"));
                }
            }
            Err(error) => self.add(FindingKind::IndexDamaged, error),
        }
        let view =
            IndexView { segments: folder.segments().to_vec(), hidden: self.hidden(covered)?, ..IndexView::default() };
        let mut shown = Vec::new();
        for segment in view.segments() {
            match segment.and_then(|segment| shown_by(&segment, postings)) {
                Ok(documents) => shown.extend(documents),
                Err(error) => self.add(FindingKind::IndexDamaged, error),
            }
        }
        shown.sort_unstable_by_key(|document: &Shown| document.number);
        let mut shown = shown.into_iter().peekable();
        let (sessions, pipeline, findings) = (&self.sessions, &self.pipeline, &mut self.seen.findings);
        let mut extra = |document: &Shown| {
            let detail = format!("the index shows document {}, which can't be found any more", document.number);
            findings.add(FindingKind::ExtraDocument, detail);
        };
        let mut mismatches = Vec::new();
        self.snapshot.for_each_document(0, |number, row| {
            if number.0 >= covered.documents {
                return Ok(ControlFlow::Break(()));
            }
            while let Some(stray) = shown.next_if(|document| document.number < number.0) {
                extra(&stray);
            }
            let searchable = sessions
                .get(row.transcript)
                .is_some_and(|session| session.ordinal == row.ordinal && session.state == SessionState::Ready);
            if !searchable {
                return Ok(ControlFlow::Continue(()));
            }
            match shown.next_if(|document| document.number == number.0) {
                Some(document) => mismatches.extend(document.compare(&row, pipeline, postings)),
                None => {
                    let detail = format!("the index does not hold document {}", number.0);
                    mismatches.push(Finding { kind: FindingKind::MissingDocument, detail });
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        shown.for_each(|stray| extra(&stray));
        for Finding { kind, detail } in mismatches {
            self.add(kind, detail);
        }
        Ok(())
    }
}

/// A document as a segment shows it.
struct Shown {
    number: u64,
    ordinal: Ordinal,
    timestamp: crate::model::Timestamp,
    role: crate::model::Role,
    length: u32,
    /// Stands for all its postings, where they are asked for.
    postings: u64,
}

impl Shown {
    fn compare(&self, row: &DocumentRow<'_>, pipeline: &TextPipeline, postings: bool) -> Option<Finding> {
        let number = self.number;
        let found = |kind, detail| Some(Finding { kind, detail });
        if (self.ordinal, self.timestamp, self.role) != (row.ordinal, row.timestamp, row.role) {
            let detail = format!("the index has another session, time or role for document {number}");
            return found(FindingKind::IndexDamaged, detail);
        }
        if self.length != row.length {
            let detail = format!("the index says document {number} has {} tokens, it has {}", self.length, row.length);
            return found(FindingKind::WrongLength, detail);
        }
        if postings {
            let tokens = TokenText::new(pipeline.analyzer(), row.text);
            let expected = tokens
                .iter()
                .zip(0..)
                .fold(0u64, |sum, (token, position)| sum.wrapping_add(posting_digest(token.as_bytes(), position)));
            if expected != self.postings {
                let detail = format!("the postings of document {number} are not those of its text");
                return found(FindingKind::IndexDamaged, detail);
            }
        }
        None
    }
}

/// Stands for one posting; the sum over a document stands for all of them, in whatever order they are met.
fn posting_digest(term: &[u8], position: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    position.hash(&mut hasher);
    hasher.finish()
}

fn shown_by(segment: &crate::index::SegmentInView<'_>, postings: bool) -> std::io::Result<Vec<Shown>> {
    let mut digests = vec![0u64; if postings { segment.num_docs() as usize } else { 0 }];
    if postings {
        segment.for_each_posting(|term, doc, positions| {
            for &position in positions {
                digests[doc as usize] = digests[doc as usize].wrapping_add(posting_digest(term, position));
            }
        })?;
    }
    let live = (0..segment.num_docs()).filter(|&doc| !segment.dead().contains(doc));
    Ok(live
        .map(|doc| {
            let facts = segment.facts(doc);
            Shown {
                number: facts.number.0,
                ordinal: facts.ordinal,
                timestamp: facts.timestamp,
                role: facts.role,
                length: facts.length,
                postings: digests.get(doc as usize).copied().unwrap_or(0),
            }
        })
        .collect())
}
