//! One segment on disk as search sees it.

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tantivy::columnar::Column;
use tantivy::index::SegmentId;
use tantivy::postings::{Postings as _, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet as _, InvertedIndexReader, SegmentReader, Term};

use super::Hidden;
use super::impacts::{ImpactsCache, ImpactsCursor};
use super::part::{DeadDocs, DocFacts, LocalDoc, NO_MORE_DOCS, Part, PostingCursor};
use super::schema::Fields;
use crate::model::{DocNumber, Ordinal, Role, Timestamp};

/// What never changes of a segment, whatever is deleted from it.
struct Columns {
    number: Column<u64>,
    timestamp: Column<i64>,
    role: Column<u64>,
    ordinal: Column<u64>,
    length: Column<u64>,
    impacts: ImpactsCache,
    /// In memory from the first search on: visited for every match.
    ordinals: OnceLock<Vec<u32>>,
    lengths: OnceLock<Vec<u32>>,
}

/// An immutable segment, with the deletes of one commit.
pub struct Segment {
    reader: SegmentReader,
    fields: Fields,
    text: Arc<InvertedIndexReader>,
    by_ordinal: Arc<InvertedIndexReader>,
    columns: Arc<Columns>,
    dead: Mutex<Option<(u64, Arc<DeadDocs>)>>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("id", &self.id()).field("num_docs", &self.reader.max_doc()).finish()
    }
}

impl Segment {
    /// Opens a segment; `previous`, the same segment with older deletes, lends what did not change.
    pub(super) fn open(
        segment: &tantivy::index::Segment,
        fields: Fields,
        previous: Option<&Self>,
    ) -> tantivy::Result<Self> {
        let reader = SegmentReader::open(segment)?;
        let columns = match previous {
            Some(previous) => Arc::clone(&previous.columns),
            None => {
                let fast = reader.fast_fields();
                Arc::new(Columns {
                    number: fast.u64("number")?,
                    timestamp: fast.i64("timestamp")?,
                    role: fast.u64("role")?,
                    ordinal: fast.u64("ordinal")?,
                    length: fast.u64("length")?,
                    impacts: ImpactsCache::default(),
                    ordinals: OnceLock::new(),
                    lengths: OnceLock::new(),
                })
            }
        };
        Ok(Self {
            text: reader.inverted_index(fields.text)?,
            by_ordinal: reader.inverted_index(fields.ordinal)?,
            reader,
            fields,
            columns,
            dead: Mutex::default(),
        })
    }

    pub(super) fn id(&self) -> SegmentId {
        self.reader.segment_id()
    }

    pub(super) fn delete_opstamp(&self) -> Option<u64> {
        self.reader.delete_opstamp()
    }

    /// Documents in the segment, dead ones included.
    #[must_use]
    pub fn num_docs(&self) -> u32 {
        self.reader.max_doc()
    }

    /// What this segment and `hidden` together forbid; worked out once per state of `hidden`.
    fn dead_under(&self, hidden: &Hidden) -> io::Result<Arc<DeadDocs>> {
        let mut cached = self.dead.lock();
        if let Some((version, dead)) = cached.as_ref()
            && *version == hidden.version()
        {
            return Ok(Arc::clone(dead));
        }
        let mut dead: Vec<LocalDoc> = Vec::new();
        if let Some(alive) = self.reader.alive_bitset() {
            dead.extend((0..self.reader.max_doc()).filter(|&doc| alive.is_deleted(doc)));
        }
        for ordinal in hidden.ordinals() {
            self.for_each_of(ordinal, |doc| dead.push(doc))?;
        }
        for (number, ordinal) in hidden.documents() {
            self.for_each_of(ordinal, |doc| {
                if self.columns.number.first(doc) == Some(number.0) {
                    dead.push(doc);
                }
            })?;
        }
        dead.sort_unstable();
        dead.dedup();
        let dead = Arc::new(DeadDocs::from_sorted(dead));
        *cached = Some((hidden.version(), Arc::clone(&dead)));
        Ok(dead)
    }

    fn for_each_of(&self, ordinal: Ordinal, mut each: impl FnMut(LocalDoc)) -> io::Result<()> {
        let term = Term::from_field_u64(self.fields.ordinal, u64::from(ordinal.0));
        if let Some(mut postings) = self.by_ordinal.read_postings(&term, IndexRecordOption::Basic)? {
            while postings.doc() != NO_MORE_DOCS {
                each(postings.doc());
                postings.advance();
            }
        }
        Ok(())
    }
}

impl Columns {
    fn load(&self, column: &Column<u64>, num_docs: u32) -> Vec<u32> {
        let mut values = vec![0u64; num_docs as usize];
        column.values.get_range(0, &mut values);
        values.into_iter().map(|value| value as u32).collect()
    }

    fn ordinals(&self, num_docs: u32) -> &[u32] {
        self.ordinals.get_or_init(|| self.load(&self.ordinal, num_docs))
    }

    fn lengths(&self, num_docs: u32) -> &[u32] {
        self.lengths.get_or_init(|| self.load(&self.length, num_docs))
    }
}

/// A segment as one view sees it: with that view's dead documents.
#[derive(Debug)]
pub struct SegmentInView<'v> {
    segment: &'v Segment,
    ordinals: &'v [u32],
    lengths: &'v [u32],
    dead: Arc<DeadDocs>,
}

impl<'v> SegmentInView<'v> {
    /// Pairs a segment with what `hidden` hides of it.
    ///
    /// # Errors
    /// When the segment's files can't be read.
    pub fn new(segment: &'v Segment, hidden: &Hidden) -> io::Result<Self> {
        let num_docs = segment.num_docs();
        Ok(Self {
            segment,
            ordinals: segment.columns.ordinals(num_docs),
            lengths: segment.columns.lengths(num_docs),
            dead: segment.dead_under(hidden)?,
        })
    }

    /// Gives every posting of the segment: term, document, positions. Dead documents' too.
    ///
    /// # Errors
    /// When the segment's files can't be read.
    pub fn for_each_posting(&self, mut each: impl FnMut(&[u8], LocalDoc, &[u32])) -> io::Result<()> {
        let mut terms = self.segment.text.terms().range().into_stream()?;
        let mut positions = Vec::new();
        while let Some((term, info)) = terms.next() {
            let mut postings = self.segment.text.read_postings_from_terminfo(info, record_option(true))?;
            while postings.doc() != NO_MORE_DOCS {
                postings.positions(&mut positions);
                each(term, postings.doc(), &positions);
                postings.advance();
            }
        }
        Ok(())
    }
}

fn record_option(positions: bool) -> IndexRecordOption {
    if positions { IndexRecordOption::WithFreqsAndPositions } else { IndexRecordOption::WithFreqs }
}

impl Part for SegmentInView<'_> {
    type Cursor<'p>
        = SegmentCursor
    where
        Self: 'p;

    fn num_docs(&self) -> u32 {
        self.segment.num_docs()
    }

    fn cursor(&self, term: &str, positions: bool) -> io::Result<Option<SegmentCursor>> {
        let term = Term::from_field_text(self.segment.fields.text, term);
        Ok(self.segment.text.read_postings(&term, record_option(positions))?.map(SegmentCursor))
    }

    fn for_each_with_prefix(
        &self,
        prefix: &str,
        positions: bool,
        each: &mut dyn FnMut(SegmentCursor),
    ) -> io::Result<()> {
        let mut terms = self.segment.text.terms().range().ge(prefix.as_bytes()).into_stream()?;
        while let Some((term, info)) = terms.next() {
            if !term.starts_with(prefix.as_bytes()) {
                break;
            }
            each(SegmentCursor(self.segment.text.read_postings_from_terminfo(info, record_option(positions))?));
        }
        Ok(())
    }

    fn impacts(
        &self,
        term: &str,
        average_length: f64,
        weigh: &dyn Fn(u32, u32) -> f64,
    ) -> io::Result<Option<ImpactsCursor>> {
        self.segment.columns.impacts.get(self, term, || self.cursor(term, false), average_length, weigh)
    }

    fn facts(&self, doc: LocalDoc) -> DocFacts {
        let columns = &self.segment.columns;
        DocFacts {
            number: DocNumber(columns.number.first(doc).unwrap_or(0)),
            ordinal: self.ordinal(doc),
            timestamp: self.timestamp(doc),
            role: if columns.role.first(doc) == Some(0) { Role::User } else { Role::Assistant },
            length: self.length(doc),
        }
    }

    fn length(&self, doc: LocalDoc) -> u32 {
        self.lengths[doc as usize]
    }

    fn timestamp(&self, doc: LocalDoc) -> Timestamp {
        let millis = self.segment.columns.timestamp.first(doc).unwrap_or(0);
        Timestamp::from_millis(millis).unwrap_or(Timestamp::UNKNOWN)
    }

    fn ordinal(&self, doc: LocalDoc) -> Ordinal {
        Ordinal(self.ordinals[doc as usize])
    }

    fn dead(&self) -> &DeadDocs {
        &self.dead
    }
}

/// The postings of one term in a segment.
pub struct SegmentCursor(SegmentPostings);

impl PostingCursor for SegmentCursor {
    fn doc(&self) -> LocalDoc {
        self.0.doc()
    }

    fn advance(&mut self) -> LocalDoc {
        self.0.advance()
    }

    fn seek(&mut self, target: LocalDoc) -> LocalDoc {
        self.0.seek(target)
    }

    fn freq(&self) -> u32 {
        self.0.term_freq()
    }

    fn positions(&mut self, positions: &mut Vec<u32>) {
        self.0.positions(positions);
    }

    fn doc_freq(&self) -> u32 {
        self.0.doc_freq()
    }
}
