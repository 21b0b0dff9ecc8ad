//! Another analyzer, another choice of redaction, or the same once more: everything is hidden at once and made anew.

use std::sync::Arc;

use super::Committer;
use super::prepare::TextPipeline;
use super::recovery;
use crate::store::StoreError;
use crate::transcript::Redaction;

impl Committer {
    /// Gives the store the named analyzer and choice of redaction, where they are given, and makes every session
    /// pending, in one transaction. The background indexes them anew. Gives the number of sessions.
    ///
    /// # Errors
    /// [`StoreError::UnknownAnalyzer`] and whatever the store meets: nothing was changed, unless the outcome is unknown.
    pub fn reindex(&self, analyzer: Option<&str>, redaction: Option<Redaction>) -> Result<u64, StoreError> {
        // Neither checkpoint nor writer may meet one half of this; writers that wait go on with the new pipeline.
        let mut index = self.index.lock();
        let _writing = self.writing();
        let old = self.pipeline();
        let analyzer = analyzer.unwrap_or_else(|| old.analyzer().name());
        let redaction = redaction.unwrap_or_else(|| old.redaction().clone());
        let pipeline = Arc::new(TextPipeline::named(self.analyzers(), analyzer, redaction)?);
        let num_sessions = self.pin().sessions.len() as u64;
        let recovered = self.with_store(|store| {
            recovery::make_all_pending(store, &pipeline.schema())?;
            // From here on the old index is of no use, and only what is read anew tells the truth.
            index.folder = None;
            recovery::recover(store, self.index_place(), &pipeline, self.tuning())
        });
        match recovered {
            Ok((state, view)) => {
                *index = state;
                self.show_recovered(view);
            }
            Err(error) => {
                // The store is opened again before anything else is done with it, whatever became of the transaction.
                self.note_failure();
                index.unsettled = true;
                return Err(error);
            }
        }
        drop(index);
        self.request_reconcile();
        Ok(num_sessions)
    }
}
