//! What one reader sees of the index: parts, what is hidden, and the live statistics, all of one moment.

use std::io;
use std::sync::Arc;

use super::run::RunInView;
use super::segment::SegmentInView;
use super::{Hidden, Run, Segment, Tail};

/// One moment of the index. Immutable; a new one is published with every change.
#[derive(Debug, Clone, Default)]
pub struct IndexView {
    /// What the last checkpoint wrote.
    pub segments: Vec<Arc<Segment>>,
    /// Runs that a checkpoint is writing at this moment.
    pub frozen: Tail,
    /// Documents after the last checkpoint.
    pub tail: Tail,
    /// First document number that is not in the segments.
    pub watermark: u64,
    /// What must not be found.
    pub hidden: Hidden,
    /// FTS5's N: documents that may be found by somebody.
    pub num_documents: u64,
    /// FTS5's total: their tokens.
    pub num_tokens: u64,
    /// Whether the index is being rebuilt from the store: every session is pending, and nothing may be found.
    pub rebuilding: bool,
}

impl IndexView {
    /// The segments, each with its dead documents.
    pub(crate) fn segments(&self) -> impl Iterator<Item = io::Result<SegmentInView<'_>>> + '_ {
        self.segments.iter().map(|segment| SegmentInView::new(segment, &self.hidden))
    }

    /// The runs in memory, each with its dead documents.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunInView<'_>> + '_ {
        let runs: [&[Arc<Run>]; 2] = [self.frozen.runs(), self.tail.runs()];
        runs.into_iter().flatten().map(|run| RunInView::new(run, &self.hidden))
    }
}
