//! The index folder: opening and judging it, adding, deleting, committing, merging.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tantivy::indexer::{LogMergePolicy, MergePolicy as _, NoMergePolicy};
use tantivy::query::{BooleanQuery, Query, RangeQuery, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{FutureResult, Index, IndexWriter, TantivyDocument, TantivyError, Term};

use super::directory::{FilesDirectory, Gate};
use super::part::DocFacts;
use super::schema::{self, Fields, INDEX_VERSION};
use super::segment::Segment;
use crate::analysis::TokenText;
use crate::files::Files;
use crate::model::{DocNumber, Ordinal, Role};

/// What the index folder met. Nothing acknowledged is lost by it: the index is rebuilt from the store.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the index folder: {detail}")]
pub struct IndexError {
    detail: String,
}

impl IndexError {
    fn new(detail: impl std::fmt::Display) -> Self {
        Self { detail: detail.to_string() }
    }
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        Self::new(error)
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

/// What a commit says of itself: which store it belongs to and how far it goes. Recovery compares it with the notes
/// of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The store's uuid, in hex.
    pub store: String,
    /// What the texts were analysed with, and the version of the fields.
    pub schema: String,
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// First document number that is not in the index.
    pub documents: u64,
    /// First death number that is not applied.
    pub deaths: u64,
}

impl Payload {
    /// The schema part of a payload for texts of this analyzer and redaction.
    #[must_use]
    pub fn schema_of(analyzer: &str, analyzer_version: u32, redaction: &str) -> String {
        format!("index {INDEX_VERSION}, {analyzer} {analyzer_version}, redaction {redaction}")
    }
}

/// Memory for documents of a checkpoint before they become a segment, in bytes.
const CHECKPOINT_ARENA_BYTES: usize = 16 * 1024 * 1024;
/// The same for bulk work: fewer, larger segments.
const BULK_ARENA_BYTES: usize = 128 * 1024 * 1024;
/// Share of deleted documents from which a segment is merged for their sake alone.
const DELETED_SHARE_TO_MERGE: f32 = 0.2;
/// Most documents of a segment that is merged further.
const MAX_DOCS_TO_MERGE: usize = 10_000_000;

/// Where an index is, and how it is merged.
#[derive(Debug, Clone)]
pub struct IndexPlace {
    /// The way to the disk.
    pub files: Arc<dyn Files>,
    /// The folder.
    pub path: PathBuf,
    /// So many segments of about a size are merged into one.
    pub merge_segments: usize,
}

/// The index folder of one store.
pub struct IndexFolder {
    place: IndexPlace,
    index: Index,
    gate: Arc<Gate>,
    fields: Fields,
    writer: Option<IndexWriter>,
    /// Additions and deletions since the last commit: they live in the writer alone.
    uncommitted: usize,
    merges: Vec<FutureResult<Option<tantivy::SegmentMeta>>>,
    /// The last merge failed: none is started before the next commit.
    merge_failed: bool,
    policy: LogMergePolicy,
    segments: Vec<Arc<Segment>>,
}

impl std::fmt::Debug for IndexFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexFolder")
            .field("place", &self.place)
            .field("segments", &self.segments)
            .finish_non_exhaustive()
    }
}

impl IndexFolder {
    /// Opens an index. `None`: there is none.
    ///
    /// # Errors
    /// [`IndexError`] when what is there is no index of this build, or can't be read.
    pub fn open(place: &IndexPlace) -> Result<Option<(Self, Payload)>, IndexError> {
        if !place.files.exists(&place.path.join("meta.json"))? {
            return Ok(None);
        }
        let mut folder = Self::with(place, Index::open)?;
        if folder.index.schema() != schema::schema().0 {
            return Err(IndexError::new("has other fields"));
        }
        let meta = folder.index.load_metas()?;
        let payload = meta.payload.as_deref().ok_or_else(|| IndexError::new("its last commit has no payload"))?;
        let payload: Payload = serde_json::from_str(payload).map_err(IndexError::new)?;
        folder.load_segments()?;
        Ok(Some((folder, payload)))
    }

    /// Makes an empty index. What is there must have been set aside.
    ///
    /// # Errors
    /// [`IndexError`] when the folder can't be written.
    pub fn create(place: &IndexPlace) -> Result<Self, IndexError> {
        place.files.create_folder(&place.path)?;
        if let Some(parent) = place.path.parent() {
            place.files.sync_folder(parent)?;
        }
        Self::with(place, |directory| Index::builder().schema(schema::schema().0).open_or_create(directory))
    }

    fn with(
        place: &IndexPlace,
        open: impl FnOnce(FilesDirectory) -> tantivy::Result<Index>,
    ) -> Result<Self, IndexError> {
        let gate = Arc::<Gate>::default();
        let index = open(FilesDirectory::new(Arc::clone(&place.files), &place.path, Arc::clone(&gate)))?;
        schema::register(&index);
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(place.merge_segments);
        policy.set_del_docs_ratio_before_merge(DELETED_SHARE_TO_MERGE);
        policy.set_max_docs_before_merge(MAX_DOCS_TO_MERGE);
        Ok(Self {
            place: place.clone(),
            index,
            gate,
            fields: schema::schema().1,
            writer: None,
            uncommitted: 0,
            merges: Vec::new(),
            merge_failed: false,
            policy,
            segments: Vec::new(),
        })
    }

    /// Moves an unusable index folder out of the way; it is to be removed when the new one is complete.
    ///
    /// # Errors
    /// When the folder can't be renamed.
    pub fn set_aside(place: &IndexPlace) -> io::Result<()> {
        if !place.files.exists(&place.path)? {
            return Ok(());
        }
        for attempt in 0..u32::MAX {
            let aside = place.path.with_file_name(format!("{}{attempt}", aside_prefix(place)));
            if !place.files.exists(&aside)? {
                place.files.rename(&place.path, &aside)?;
                return match place.path.parent() {
                    Some(parent) => place.files.sync_folder(parent),
                    None => Ok(()),
                };
            }
        }
        Err(io::Error::other("no free name to set the index aside"))
    }

    /// Removes what [`Self::set_aside`] left, of this and earlier processes.
    ///
    /// # Errors
    /// When a folder can't be listed or removed.
    pub fn remove_set_aside(place: &IndexPlace) -> io::Result<()> {
        let Some(parent) = place.path.parent() else { return Ok(()) };
        let prefix = aside_prefix(place);
        for name in place.files.list(parent)? {
            if name.to_str().is_some_and(|name| name.starts_with(&prefix)) {
                place.files.remove_folder(&parent.join(name))?;
            }
        }
        Ok(())
    }

    /// The segments of the last commit, or of the last merge since.
    #[must_use]
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The files whose checksum is wrong, by name.
    ///
    /// # Errors
    /// [`IndexError`] when a file can't be read.
    pub fn damaged_files(&self) -> Result<Vec<String>, IndexError> {
        let damaged = self.index.validate_checksum()?;
        let mut names: Vec<String> = damaged.iter().map(|path| path.display().to_string()).collect();
        names.sort();
        Ok(names)
    }

    fn directory(&self) -> FilesDirectory {
        FilesDirectory::new(Arc::clone(&self.place.files), &self.place.path, Arc::clone(&self.gate))
    }

    fn writer(&mut self, arena_bytes: usize) -> Result<&mut IndexWriter, IndexError> {
        if self.writer.is_none() {
            if self.gate.is_closed() {
                self.gate = Arc::default();
                self.index = Index::open(self.directory())?;
                schema::register(&self.index);
            }
            let options = tantivy::indexer::IndexWriterOptions::builder()
                .num_worker_threads(1)
                .num_merge_threads(1)
                .memory_budget_per_thread(arena_bytes)
                .build();
            let writer: IndexWriter = self.index.writer_with_options(options)?;
            // Merges are started by `start_merges` alone, so that it is known when none runs.
            writer.set_merge_policy(Box::new(NoMergePolicy));
            self.writer = Some(writer);
            self.directory().remove_leftovers(&self.index.load_metas()?.list_segment_files())?;
        }
        self.writer.as_mut().ok_or_else(|| IndexError::new("no writer"))
    }

    /// Makes room for a burst of documents.
    ///
    /// # Errors
    /// [`IndexError`] when the writer can't be made.
    pub fn begin(&mut self, bulk: bool) -> Result<(), IndexError> {
        self.writer(if bulk { BULK_ARENA_BYTES } else { CHECKPOINT_ARENA_BYTES }).map(|_| ())
    }

    /// Adds a document to the next commit.
    ///
    /// # Errors
    /// [`IndexError`]: what is in the commit to come is unknown; dropping the folder drops it whole.
    pub fn add(&mut self, facts: &DocFacts, tokens: &TokenText) -> Result<(), IndexError> {
        let fields = self.fields;
        let mut document = TantivyDocument::default();
        document.add_text(fields.text, tokens.joined());
        document.add_u64(fields.ordinal, u64::from(facts.ordinal.0));
        document.add_u64(fields.number, facts.number.0);
        document.add_u64(fields.length, u64::from(facts.length));
        document.add_i64(fields.timestamp, facts.timestamp.as_millis());
        document.add_u64(fields.role, u64::from(facts.role == Role::Assistant));
        self.writer(CHECKPOINT_ARENA_BYTES)?.add_document(document)?;
        self.uncommitted += 1;
        Ok(())
    }

    /// Deletes every document of an ordinal with the next commit.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn delete_ordinal(&mut self, ordinal: Ordinal) -> Result<(), IndexError> {
        let term = Term::from_field_u64(self.fields.ordinal, u64::from(ordinal.0));
        self.writer(CHECKPOINT_ARENA_BYTES)?.delete_term(term);
        self.uncommitted += 1;
        Ok(())
    }

    /// Deletes one document of an ordinal with the next commit.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn delete_document(&mut self, number: DocNumber, ordinal: Ordinal) -> Result<(), IndexError> {
        let of_ordinal = Term::from_field_u64(self.fields.ordinal, u64::from(ordinal.0));
        let bound = || std::ops::Bound::Included(Term::from_field_u64(self.fields.number, number.0));
        let query: Box<dyn Query> = Box::new(BooleanQuery::intersection(vec![
            Box::new(TermQuery::new(of_ordinal, IndexRecordOption::Basic)),
            Box::new(RangeQuery::new(bound(), bound())),
        ]));
        self.writer(CHECKPOINT_ARENA_BYTES)?.delete_query(query)?;
        self.uncommitted += 1;
        Ok(())
    }

    /// Commits what was added and deleted.
    ///
    /// # Errors
    /// [`IndexError`]: the commit may or may not have happened; open the folder anew to know.
    pub fn commit(&mut self, payload: &Payload) -> Result<(), IndexError> {
        let text = serde_json::to_string(payload).map_err(IndexError::new)?;
        let mut prepared = self.writer(CHECKPOINT_ARENA_BYTES)?.prepare_commit()?;
        prepared.set_payload(&text);
        prepared.commit()?;
        self.uncommitted = 0;
        self.merge_failed = false;
        self.load_segments()
    }

    /// Starts the merges that are due. They run beside everything else.
    ///
    /// # Errors
    /// [`IndexError`] when the list of segments can't be read.
    pub fn start_merges(&mut self) -> Result<(), IndexError> {
        if !self.merges.is_empty() || self.merge_failed {
            return Ok(());
        }
        let metas = self.index.searchable_segment_metas()?;
        let candidates = self.policy.compute_merge_candidates(&metas);
        if let Some(writer) = &mut self.writer {
            self.merges = candidates.into_iter().map(|candidate| writer.merge(&candidate.0)).collect();
        }
        Ok(())
    }

    /// Whether merges run.
    #[must_use]
    pub fn is_merging(&self) -> bool {
        !self.merges.is_empty()
    }

    /// Looks whether merges have ended; then the segments are loaded anew, and `true` says so. A failed merge leaves
    /// the segments as they were.
    ///
    /// # Errors
    /// [`IndexError`] when the merged segments can't be opened.
    pub fn collect_merges(&mut self) -> Result<bool, IndexError> {
        let before = self.merges.len();
        let mut running = Vec::with_capacity(before);
        for merge in self.merges.drain(..) {
            match poll(merge) {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a merge of the index failed; it is tried again after the next checkpoint");
                    self.merge_failed = true;
                }
                Err(merge) => running.push(merge),
            }
        }
        self.merges = running;
        if self.merges.len() == before {
            return Ok(false);
        }
        self.load_segments()?;
        Ok(true)
    }

    /// Rewrites every segment that holds deleted documents without them, and removes the files that are of no use any
    /// more. What is deleted must have been committed.
    ///
    /// # Errors
    /// [`IndexError`]: the index answers as before; nothing or only a part of it was rewritten.
    pub fn purge(&mut self) -> Result<(), IndexError> {
        for merge in std::mem::take(&mut self.merges) {
            // One that was overtaken, for its segments hold nothing any more, leaves the segments as they are.
            if let Err(error) = merge.wait() {
                tracing::warn!(%error, "a merge of the index failed");
            }
        }
        let metas = self.index.searchable_segment_metas()?;
        let holed: Vec<_> = metas.iter().filter(|meta| meta.has_deletes()).map(tantivy::SegmentMeta::id).collect();
        let writer = self.writer(CHECKPOINT_ARENA_BYTES)?;
        if !holed.is_empty() {
            writer.merge(&holed).wait()?;
        }
        writer.garbage_collect_files().wait()?;
        self.load_segments()
    }

    /// Lets the writer and its memory go, unless it holds what no commit has written yet. Running merges are abandoned.
    pub fn release_writer(&mut self) {
        if self.uncommitted == 0 {
            self.drop_writer();
        }
    }

    /// Lets the writer go with everything that is not committed. Running merges are abandoned: when this returns
    /// nothing of them can change the folder any more.
    fn drop_writer(&mut self) {
        if self.writer.is_some() {
            self.gate.close();
        }
        self.merges.clear();
        self.writer = None;
    }

    fn load_segments(&mut self) -> Result<(), IndexError> {
        let mut segments = Vec::new();
        for segment in self.index.searchable_segments()? {
            let previous = self.segments.iter().find(|known| known.id() == segment.id());
            let same = previous.filter(|known| known.delete_opstamp() == segment.meta().delete_opstamp());
            segments.push(match same {
                Some(known) => Arc::clone(known),
                None => Arc::new(Segment::open(&segment, self.fields, previous.map(AsRef::as_ref))?),
            });
        }
        self.segments = segments;
        Ok(())
    }
}

impl Drop for IndexFolder {
    fn drop(&mut self) {
        self.drop_writer();
    }
}

fn aside_prefix(place: &IndexPlace) -> String {
    let name = place.path.file_name().and_then(|name| name.to_str()).unwrap_or("index");
    format!("{name}.aside.")
}

/// `Ok` with the outcome when the merge has ended.
fn poll<T>(merge: FutureResult<T>) -> Result<tantivy::Result<T>, FutureResult<T>> {
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};
    let mut merge = merge;
    match std::pin::Pin::new(&mut merge).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => Err(merge),
    }
}
