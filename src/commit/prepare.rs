//! Everything about an event that can be worked out before its transaction opens.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::analysis::{Analyzer, Analyzers, TokenText};
use crate::store::{SchemaRow, StoreError};
use crate::transcript::{Event, EventError, Redaction, Redactor, RejectedPattern};

/// How a store's texts become searchable: redaction, then analysis.
#[derive(Clone)]
pub struct TextPipeline {
    analyzer: Arc<dyn Analyzer>,
    redaction: Redaction,
    redactor: Redactor,
    /// Tells this pipeline from others of the process.
    number: u64,
}

/// Pipelines made so far.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl fmt::Debug for TextPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPipeline").field("schema", &self.schema()).finish()
    }
}

impl TextPipeline {
    /// Puts the two steps together.
    ///
    /// # Errors
    /// [`RejectedPattern`]: one of the chosen patterns can't be used.
    pub fn new(analyzer: Arc<dyn Analyzer>, redaction: Redaction) -> Result<Self, RejectedPattern> {
        let redactor = Redactor::new(&redaction)?;
        Ok(Self { analyzer, redaction, redactor, number: NUMBERS.fetch_add(1, Ordering::Relaxed) })
    }

    /// The pipeline for a store that is to be made.
    ///
    /// # Errors
    /// [`StoreError::UnknownAnalyzer`], [`StoreError::Redaction`].
    pub fn named(analyzers: &Analyzers, analyzer: &str, redaction: Redaction) -> Result<Self, StoreError> {
        let found = analyzers.find(analyzer).ok_or_else(|| StoreError::UnknownAnalyzer {
            name: analyzer.to_owned(),
            known: analyzers.names().collect::<Vec<_>>().join(", "),
        })?;
        Ok(Self::new(found, redaction)?)
    }

    /// What a store was made with: its analyzer in the version that is known here, its choice of redaction.
    ///
    /// # Errors
    /// As [`TextPipeline::named`].
    pub fn of_schema(analyzers: &Analyzers, schema: SchemaRow) -> Result<Self, StoreError> {
        Self::named(analyzers, &schema.analyzer, schema.redaction_choice)
    }

    /// The analyzer of texts and queries.
    #[must_use]
    pub fn analyzer(&self) -> &dyn Analyzer {
        &*self.analyzer
    }

    /// What was chosen to be redacted.
    #[must_use]
    pub fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// The redaction of texts, history included.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// What a store made with this pipeline notes: when it changes, every session is pending.
    #[must_use]
    pub fn schema(&self) -> SchemaRow {
        SchemaRow {
            analyzer: self.analyzer.name().to_owned(),
            analyzer_version: self.analyzer.version(),
            redaction: self.redactor.fingerprint().to_owned(),
            redaction_choice: self.redaction.clone(),
        }
    }

    /// The searchable text of an event and its tokens; `None` when it has none.
    #[must_use]
    pub fn text_of(&self, event: &Event) -> Option<SearchableText> {
        let (_, message) = event.searchable()?;
        let text = self.redactor.redact(&message.text).into_owned();
        let tokens = TokenText::new(&*self.analyzer, &text);
        Some(SearchableText { text, tokens })
    }
}

/// A message's searchable text: redacted, analysed.
#[derive(Debug, Clone)]
pub struct SearchableText {
    /// What excerpts are made from.
    pub text: String,
    /// What is matched.
    pub tokens: TokenText,
}

/// An event ready to be stored.
#[derive(Debug)]
pub struct PreparedEvent {
    /// The line as given.
    pub(super) raw: Vec<u8>,
    /// What it means in OpenClaw's shape, where the line itself has another.
    pub(super) normalised: Option<Vec<u8>>,
    /// What it says.
    pub(super) event: Event,
    /// Its searchable text.
    text: Option<SearchableText>,
    /// The pipeline that made it.
    made_by: u64,
}

impl PreparedEvent {
    /// Parses, redacts and analyses one line.
    ///
    /// # Errors
    /// [`EventError`] when the line is no event.
    pub fn new(pipeline: &TextPipeline, raw: Vec<u8>) -> Result<Self, EventError> {
        let event = Event::parse(&raw)?;
        Ok(Self::of_event(pipeline, raw, None, event))
    }

    /// The same for a line that is parsed already; `event` says what `normalised`, else `raw`, says.
    #[must_use]
    pub fn of_event(pipeline: &TextPipeline, raw: Vec<u8>, normalised: Option<Vec<u8>>, event: Event) -> Self {
        let text = pipeline.text_of(&event);
        Self { raw, normalised, event, text, made_by: pipeline.number }
    }

    /// Its searchable text as `pipeline` makes it. The store may have got another since this was prepared.
    pub(super) fn text(&self, pipeline: &TextPipeline) -> Option<Cow<'_, SearchableText>> {
        if self.made_by == pipeline.number {
            return self.text.as_ref().map(Cow::Borrowed);
        }
        pipeline.text_of(&self.event).map(Cow::Owned)
    }

    /// Whether it yields searchable text, on the active path or not.
    #[must_use]
    pub fn is_searchable(&self) -> bool {
        self.text.is_some()
    }
}
