//! Indexing a store anew, as it was made or otherwise.

use crate::store::StoreError;
use crate::transcript::Redaction;

use super::Engine;

/// What to index a store anew with. [`ReindexRequest::default`]: with what it has.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReindexRequest {
    /// Another analyzer, by its name.
    pub analyzer: Option<String>,
    /// Another choice of what is masked; it holds for history too, from now on.
    pub redaction: Option<Redaction>,
}

impl Engine {
    /// Makes everything that is searched anew from the transcripts, with another analyzer or redaction where that is
    /// asked for. Every session is hidden when this returns, and shown again as soon as the background has indexed it:
    /// answers say `indexing` meanwhile, [`Engine::wait_for_indexing`] waits for the end, and an engine that is closed
    /// before goes on when it is opened again. Gives the number of sessions.
    ///
    /// # Errors
    /// [`StoreError::UnknownAnalyzer`]: nothing was changed. Any other [`StoreError`]: the change was made whole or not
    /// at all.
    pub fn reindex(&self, request: &ReindexRequest) -> Result<u64, StoreError> {
        self.committer.heal()?;
        self.committer.reindex(request.analyzer.as_deref(), request.redaction.clone())
    }
}
