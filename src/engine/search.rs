//! Search requests and answers, and how one becomes the other.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::access::bounds::num_that_fit;
use crate::access::stages::Bounded;
use crate::analysis::ExcerptUnit;
use crate::commit::View;
use crate::limits::{
    DEFAULT_EXCERPT_UTF16, DEFAULT_SEARCH_LIMIT, MAX_EXCERPT_UTF16, MAX_SEARCH_LIMIT, MAX_TOOL_RESULT_BYTES,
};
use crate::model::{AgentId, KeyAliases, MessageId, Role, SessionId, SessionKey, TextSource as _, Timestamp};
use crate::search::excerpt::{Excerpt, ExcerptStyle};
use crate::search::instances::PhraseFinder;
use crate::search::phrase_set::PhraseSet;
use crate::search::query::{self, ParsedQuery, QueryError};
use crate::search::{Filter, Order, OrdinalSet, Search, SearchFailure, execute};
use crate::store::{SessionState, StoreError};

use super::Engine;
use super::visible_set::VisibleSet;

/// What to search for, and within what. [`SearchRequest::new`] gives the defaults.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// The words, all of which must stand in one message: 1 to 4,096 UTF-16 units after trimming.
    pub query: String,
    /// Only these session keys, all their windows. A session id may stand for its key (D23). Must not be empty.
    pub session_keys: Option<Vec<String>>,
    /// Hits at most: 1 to 10,000, 10 by default.
    pub limit: usize,
    /// Hits to pass over first.
    pub offset: usize,
    /// Only this role.
    pub role: Option<Role>,
    /// Only from this time on, inclusive.
    pub since: Option<Timestamp>,
    /// Only before this time, exclusive.
    pub until: Option<Timestamp>,
    /// By score, or newest first.
    pub order: Order,
    /// The last word may be the start of a word (FTS5's `"piece" *`).
    pub prefix: bool,
    /// FTS5's answer where ours is kinder: a piece without any token matches nothing (D1), and excerpts treat NUL as
    /// `snippet()` does.
    pub fts5_strict: bool,
    /// Excerpt length in UTF-16 units: 300 by default, at most 500 (D28); `None`: FTS5's snippet uncut.
    pub excerpt_utf16: Option<usize>,
    /// Add n, idf, f and lengths to the answer.
    pub explain: bool,
    /// Give up after this long.
    pub timeout: Option<Duration>,
    /// Give up as soon as this is set.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl SearchRequest {
    /// A search with the defaults.
    #[must_use]
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            session_keys: None,
            limit: DEFAULT_SEARCH_LIMIT,
            offset: 0,
            role: None,
            since: None,
            until: None,
            order: Order::Relevance,
            prefix: false,
            fts5_strict: false,
            excerpt_utf16: Some(DEFAULT_EXCERPT_UTF16),
            explain: false,
            timeout: None,
            cancel: None,
        }
    }
}

impl SearchRequest {
    /// Whether the request is within its bounds, which no store is needed to tell. [`Engine::search`] asks the same.
    ///
    /// # Errors
    /// [`SearchError`] of bad input.
    pub fn check(&self) -> Result<(), SearchError> {
        query::split(&self.query).map(drop)?;
        if !(1..=MAX_SEARCH_LIMIT).contains(&self.limit) {
            return Err(SearchError::Limit { max: MAX_SEARCH_LIMIT });
        }
        if self.excerpt_utf16.is_some_and(|n| !(1..=MAX_EXCERPT_UTF16).contains(&n)) {
            return Err(SearchError::ExcerptLength);
        }
        if self.session_keys.as_ref().is_some_and(Vec::is_empty) {
            return Err(SearchError::EmptyKeyFilter);
        }
        Ok(())
    }
}

/// Why a search gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query is blank or too long.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A limit out of range. Never clamped.
    #[error("limit must be a positive integer, at most {max}")]
    Limit {
        /// The largest limit allowed here.
        max: usize,
    },
    /// An excerpt length out of range.
    #[error("excerpt length must be 1 to {MAX_EXCERPT_UTF16} UTF-16 units")]
    ExcerptLength,
    /// A key filter that holds no key (D11).
    #[error("the list of session keys must not be empty; leave it out to search every session")]
    EmptyKeyFilter,
    /// Incognito sessions are never stored, and not to be asked for (D19).
    #[error("{key} is an incognito session: not to be read")]
    Incognito {
        /// The key.
        key: SessionKey,
    },
    /// Explanations count messages of every session of an agent.
    #[error("an explanation counts messages of sessions that this caller may not see: only the operator can have one")]
    ExplainRefused,
    /// The search took longer than allowed, or was cancelled.
    #[error("the search was stopped before it was done; allow more time or ask for rarer words")]
    Stopped,
    /// Index or store could not be read.
    #[error("searching failed: {detail}; the index is rebuilt from the transcripts, try again")]
    Unreadable {
        /// What was met.
        detail: String,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SearchFailure> for SearchError {
    fn from(failure: SearchFailure) -> Self {
        match failure {
            SearchFailure::Stopped => Self::Stopped,
            other => Self::Unreadable { detail: other.to_string() },
        }
    }
}

/// One message found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Hit {
    /// The session's key now.
    pub session_key: SessionKey,
    /// Which of the key's windows.
    pub session_id: SessionId,
    /// Which message.
    pub message_id: MessageId,
    /// Who said it.
    pub role: Role,
    /// When; 0 when unknown.
    pub timestamp: Timestamp,
    /// The place in its text, cut as asked.
    pub snippet: String,
    /// FTS5's −bm25: larger is better.
    pub score: f64,
    /// f and length, when explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<HitExplanation>,
    /// The session's label, for people.
    #[serde(skip)]
    pub label: Option<String>,
    /// Where the matched words stand in `snippet`, in bytes.
    #[serde(skip)]
    pub highlights: Vec<Range<usize>>,
}

/// FTS5's numbers of one hit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HitExplanation {
    /// Tokens in the message.
    pub length: u32,
    /// Instances of each piece.
    pub f: Vec<u32>,
}

/// FTS5's numbers of one search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// N.
    pub documents: u64,
    /// Average length in tokens.
    pub average_length: f64,
    /// One entry a piece that was searched.
    pub pieces: Vec<PieceExplanation>,
}

/// FTS5's numbers of one piece.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PieceExplanation {
    /// The piece as given.
    pub piece: String,
    /// Its tokens.
    pub tokens: Vec<String>,
    /// Messages that hold the whole phrase.
    pub n: u64,
    /// Its weight.
    pub idf: f64,
}

/// How much of what the caller may see was searched (D7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Coverage {
    /// Sessions with at least one event that the search was about.
    pub sessions: usize,
    /// Of these, searched.
    pub searched: usize,
    /// Of these, hidden until they are rebuilt.
    pub pending: usize,
}

/// Why an answer is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EmptyReason {
    /// There is no store.
    NoStore,
    /// No piece of the query has a token.
    NoSearchableWords,
    /// No stored session among those allowed.
    NoVisibleSessions,
    /// The first hit alone is larger than the answer may be.
    ResponseTooLarge,
    /// Sessions that might match are still being indexed.
    Indexing,
    /// Nothing matches.
    NoMatch,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchAnswer {
    /// The hits, best first (D10).
    pub results: Vec<Hit>,
    /// Whether sessions the search was about are still hidden: the answer may be incomplete.
    #[serde(skip_serializing_if = "is_false")]
    pub indexing: bool,
    /// Said with `indexing`, or when a piece was ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Whether there are more hits.
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// How much was searched.
    pub coverage: Coverage,
    /// Why there are no results, when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<EmptyReason>,
    /// FTS5's numbers, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explanation>,
}

impl SearchAnswer {
    /// The answer where there is no store (D21).
    #[must_use]
    pub fn no_store() -> Self {
        Self::empty(Coverage::default(), EmptyReason::NoStore)
    }

    fn empty(coverage: Coverage, reason: EmptyReason) -> Self {
        Self {
            results: Vec::new(),
            indexing: coverage.pending > 0,
            warning: None,
            truncated: false,
            coverage,
            reason: Some(reason),
            explain: None,
        }
    }
}

/// Lists of keys whose scopes are kept.
const MAX_KEPT_SCOPES: usize = 8;

/// The scopes of the lists of keys that were asked for last: who searches some sessions does so again and again. They
/// stay right until sessions come, go, or change hands.
#[derive(Debug, Default)]
pub(super) struct KeyScopes {
    kept: Mutex<Vec<(Vec<String>, u64, Scope)>>,
}

impl KeyScopes {
    fn of(&self, view: &View, agent: &AgentId, keys: &[String]) -> Result<Scope, SearchError> {
        let epoch = view.sessions.epoch();
        // While the index is rebuilt a scope has other counts, with the same sessions.
        if view.index.rebuilding {
            return Ok(Scope::new(view, Some(&resolve_keys(view, agent, keys)?)));
        }
        if let Some((_, _, scope)) = self.kept.lock().iter().find(|(known, at, _)| *at == epoch && known == keys) {
            return Ok(scope.clone());
        }
        let scope = Scope::new(view, Some(&resolve_keys(view, agent, keys)?));
        let mut kept = self.kept.lock();
        kept.retain(|(known, _, _)| known != keys);
        if kept.len() >= MAX_KEPT_SCOPES {
            kept.remove(0);
        }
        kept.push((keys.to_vec(), epoch, scope.clone()));
        Ok(scope)
    }
}

/// The sessions a search is about: coverage, and the ordinals it may meet.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) coverage: Coverage,
    pub(super) ordinals: Option<OrdinalSet>,
}

impl Scope {
    /// The sessions of a visible set.
    pub(super) fn visible(view: &View, set: &VisibleSet) -> Self {
        let sessions = set.num_sessions;
        let pending = if view.index.rebuilding { sessions } else { set.num_pending };
        let coverage = Coverage { sessions, searched: sessions - pending, pending };
        Self { coverage, ordinals: Some(set.ordinals.clone()) }
    }

    /// Every session of the view, or only those with one of `keys`.
    pub(super) fn new(view: &View, keys: Option<&[SessionKey]>) -> Self {
        let Some(keys) = keys else {
            let sessions = view.sessions.num_with_events();
            let pending = if view.index.rebuilding { sessions } else { view.sessions.num_pending() };
            return Self { coverage: Coverage { sessions, searched: sessions - pending, pending }, ordinals: None };
        };
        let mut coverage = Coverage::default();
        let mut ordinals = OrdinalSet::default();
        let distinct: BTreeSet<&SessionKey> = keys.iter().collect();
        for row in distinct.into_iter().flat_map(|key| view.sessions.of_key(key)).filter(|row| row.next_seq > 0) {
            coverage.sessions += 1;
            if row.state == SessionState::Ready && !view.index.rebuilding {
                coverage.searched += 1;
                ordinals.insert(row.ordinal);
            } else {
                coverage.pending += 1;
            }
        }
        Self { coverage, ordinals: Some(ordinals) }
    }
}

impl Bounded for SearchAnswer {
    fn cut(&mut self) {
        let kept = num_that_fit(&self.results, MAX_TOOL_RESULT_BYTES);
        if kept < self.results.len() {
            self.results.truncate(kept);
            self.truncated = true;
        }
        if self.truncated && self.results.is_empty() {
            self.reason = Some(EmptyReason::ResponseTooLarge);
        }
    }
}

/// One answer from those of several agents, each with all its hits from the first on: agents in id order, hits in the
/// order of D10.
pub(super) fn merge(answers: Vec<(AgentId, SearchAnswer)>, request: &SearchRequest) -> SearchAnswer {
    let mut merged = SearchAnswer::empty(Coverage::default(), EmptyReason::NoMatch);
    let mut hits: Vec<(AgentId, Hit)> = Vec::new();
    let mut no_words = false;
    for (agent, answer) in answers {
        merged.coverage.sessions += answer.coverage.sessions;
        merged.coverage.searched += answer.coverage.searched;
        merged.coverage.pending += answer.coverage.pending;
        merged.truncated |= answer.truncated;
        no_words |= answer.reason == Some(EmptyReason::NoSearchableWords);
        // What is ignored is the same for all; the answer that is still indexing says that too.
        if answer.indexing && !merged.indexing || merged.warning.is_none() {
            merged.warning = answer.warning;
        }
        merged.indexing |= answer.indexing;
        hits.extend(answer.results.into_iter().map(|hit| (agent.clone(), hit)));
    }
    hits.sort_by(|(agent_a, a), (agent_b, b)| {
        let by_score = match request.order {
            Order::Relevance => b.score.total_cmp(&a.score),
            Order::Recent => std::cmp::Ordering::Equal,
        };
        by_score
            .then_with(|| b.timestamp.cmp(&a.timestamp))
            .then_with(|| a.message_id.cmp(&b.message_id))
            .then_with(|| a.session_id.cmp(&b.session_id))
            .then_with(|| agent_a.cmp(agent_b))
    });
    let wanted = request.offset.saturating_add(request.limit);
    merged.truncated |= hits.len() > wanted;
    merged.results = hits.into_iter().take(wanted).skip(request.offset).map(|(_, hit)| hit).collect();
    merged.reason = merged.results.is_empty().then_some(if no_words {
        EmptyReason::NoSearchableWords
    } else if merged.coverage.sessions == 0 {
        EmptyReason::NoVisibleSessions
    } else if merged.indexing {
        EmptyReason::Indexing
    } else {
        EmptyReason::NoMatch
    });
    merged
}

impl Engine {
    /// Finds messages. Reads one pinned view: never waits for writers, never starts a rebuild on this thread.
    ///
    /// # Errors
    /// [`SearchError`]: bad input, stopped, or unreadable files. "Nothing found" is an answer, not an error; its
    /// `reason` says why.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, SearchError> {
        self.guarded(|| self.read(|view| self.search_view(view, request)))
    }

    /// Searches, and sets the index aside where it turns out to be damaged: rotten bytes can make its reader panic, and
    /// so can a row that the store lacks. Neither may be answered with "nothing", and neither may stay.
    pub(super) fn guarded(
        &self,
        search: impl FnOnce() -> Result<SearchAnswer, SearchError>,
    ) -> Result<SearchAnswer, SearchError> {
        let answer = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(search)) {
            Ok(Err(SearchError::Unreadable { detail })) => Err(self.discard_index(detail)),
            Ok(answer) => answer,
            Err(_) => Err(self.discard_index("the index is damaged".to_owned())),
        };
        if answer.is_ok() && self.committer.has_pending() {
            self.committer.request_reconcile();
        }
        answer
    }

    fn discard_index(&self, detail: String) -> SearchError {
        // While the disk fails it is not the index that is at fault.
        if !self.committer.is_poisoned()
            && let Err(error) = self.committer.discard_index()
        {
            tracing::warn!(%error, "the damaged index could not be set aside");
        }
        SearchError::Unreadable { detail }
    }

    fn search_view(&self, view: &View, request: &SearchRequest) -> Result<SearchAnswer, SearchError> {
        request.check()?;
        let scope = match &request.session_keys {
            Some(keys) => self.key_scopes.of(view, &self.agent, keys)?,
            None => Scope::new(view, None),
        };
        self.search_in(view, request, scope)
    }

    /// Finds messages of these keys exactly, or of every session; the request's own keys are not looked at.
    pub(crate) fn search_keys(
        &self,
        keys: Option<&[SessionKey]>,
        request: &SearchRequest,
    ) -> Result<SearchAnswer, SearchError> {
        request.check()?;
        self.guarded(|| self.read(|view| self.search_in(view, request, Scope::new(view, keys))))
    }

    /// Searches the sessions of `scope` and no other; the request's own keys are not looked at.
    pub(super) fn search_in(
        &self,
        view: &View,
        request: &SearchRequest,
        scope: Scope,
    ) -> Result<SearchAnswer, SearchError> {
        let analyzer = view.pipeline.analyzer();
        let query = ParsedQuery::parse(&request.query, analyzer, request.prefix)?;
        let coverage = scope.coverage;
        let ignored = if request.fts5_strict { &[][..] } else { &query.ignored };
        let warning = warning(coverage.pending > 0, ignored);
        let empty = |reason| Ok(SearchAnswer { warning: warning.clone(), ..SearchAnswer::empty(coverage, reason) });
        let nothing = if coverage.pending > 0 { EmptyReason::Indexing } else { EmptyReason::NoMatch };
        if query.phrases.is_empty() {
            return empty(EmptyReason::NoSearchableWords);
        }
        if coverage.sessions == 0 {
            return empty(EmptyReason::NoVisibleSessions);
        }
        let strict_miss = request.fts5_strict && !query.ignored.is_empty();
        if strict_miss || view.index.rebuilding {
            return empty(nothing);
        }

        let filter =
            Filter { sessions: scope.ordinals, role: request.role, since: request.since, until: request.until };
        let started = Instant::now();
        let stop = || {
            request.timeout.is_some_and(|timeout| started.elapsed() > timeout)
                || request.cancel.as_ref().is_some_and(|cancel| cancel.load(Atomic::Relaxed))
        };
        let phrases = PhraseSet::new(&query.phrases);
        let wanted = request.offset.saturating_add(request.limit);
        let search = Search {
            phrases: &phrases,
            filter: &filter,
            order: request.order,
            keep: wanted.saturating_add(1),
            explain: request.explain,
            prune: true,
            stop: &stop,
        };
        let found = execute(&view.index, &search, view)?;
        let truncated = found.ranked.len() > wanted;
        let finder = PhraseFinder::new(&phrases);
        let style = if request.fts5_strict { ExcerptStyle::Fts5 } else { ExcerptStyle::Readable };
        let redactor = view.pipeline.redactor();
        let mut results = Vec::new();
        for ranked in found.ranked.into_iter().take(wanted).skip(request.offset) {
            if stop() {
                return Err(SearchError::Stopped);
            }
            let number = ranked.facts.number;
            let document = view.document(number).map_err(SearchFailure::from)?;
            let matched = finder.find(analyzer, &document.text);
            let excerpt = match analyzer.excerpt_unit() {
                ExcerptUnit::Characters => Excerpt::of_characters(&matched, &phrases, request.excerpt_utf16),
                ExcerptUnit::Tokens => {
                    let mut excerpt = Excerpt::new(&matched, &phrases, style);
                    if let Some(limit) = request.excerpt_utf16 {
                        excerpt.cut(limit);
                    }
                    excerpt
                }
            };
            let explain = ranked.freqs.map(|f| HitExplanation { length: ranked.facts.length, f: f.into() });
            results.push(Hit {
                session_key: document.session_key,
                session_id: document.session_id,
                message_id: document.message_id,
                role: document.role,
                timestamp: document.timestamp,
                snippet: excerpt.text,
                score: ranked.score,
                explain,
                label: document.label.map(|label| redactor.redact(&label).into_owned()),
                highlights: excerpt.matches,
            });
        }
        let indexing = coverage.pending > 0;
        let reason = results.is_empty().then_some(nothing);
        let explain = request.explain.then(|| Explanation {
            documents: view.index.num_documents,
            average_length: if found.average_length.is_finite() { found.average_length } else { 0.0 },
            pieces: query
                .pieces
                .iter()
                .zip(&query.phrases)
                .zip(&found.pieces)
                .map(|((piece, phrase), statistics)| PieceExplanation {
                    piece: (*piece).to_owned(),
                    tokens: phrase.tokens(),
                    n: statistics.n,
                    idf: statistics.idf,
                })
                .collect(),
        });
        Ok(SearchAnswer { results, indexing, warning, truncated, coverage, reason, explain })
    }
}

fn warning(indexing: bool, ignored: &[&str]) -> Option<String> {
    let mut parts = Vec::new();
    if indexing {
        parts.push("some sessions are still being indexed: results may be incomplete, try again soon".to_owned());
    }
    if !ignored.is_empty() {
        let shown: Vec<String> = ignored.iter().take(8).map(|piece| format!("`{}`", clip(piece))).collect();
        let more = if ignored.len() > 8 { ", …" } else { "" };
        parts.push(format!("ignored, no letter or digit in it: {}{more}", shown.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn clip(piece: &str) -> String {
    let mut clipped: String = piece.chars().take(32).collect();
    if clipped.len() < piece.len() {
        clipped.push('…');
    }
    clipped
}

/// Keys as given, or the key of a session id (D23). What names nothing stays and matches nothing.
fn resolve_keys(view: &View, agent: &AgentId, given: &[String]) -> Result<Vec<SessionKey>, SearchError> {
    let mut keys = Vec::new();
    for text in given {
        let Ok(key) = SessionKey::parse(text) else { continue };
        if key.is_incognito() {
            return Err(SearchError::Incognito { key });
        }
        if view.sessions.of_key(&key).next().is_none()
            && let Ok(id) = SessionId::parse(text)
            && let Some(transcript) = view.snapshot.transcript(&id)?
            && let Some(row) = view.sessions.get(transcript)
        {
            keys.push(row.session_key.clone());
            continue;
        }
        if let Ok(main) = KeyAliases::default().stored(agent, &key)
            && main != key
        {
            keys.push(main);
        }
        keys.push(key);
    }
    Ok(keys)
}
