//! The agents' stores under one root, opened when they are needed, and what a requester gets from them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;

use super::history::{HistoryAnswer, HistoryError, HistoryRequest};
use super::list::{ListError, ListRequest, SessionList};
use super::search::{EmptyReason, Scope, SearchAnswer, SearchError, SearchRequest, merge};
use super::visible_set::{VisibleSets, visible_rows};
use super::{Engine, OpenOptions};
use crate::access::Requester;
use crate::access::resolve::{Catalogue, Refusal, Resolved};
use crate::access::rules::{Lineage, Reach, Target};
use crate::access::stages::{Answer, Redacted, Visible};
use crate::limits::MAX_TOOL_SEARCH_LIMIT;
use crate::model::{AgentId, SessionId, SessionKey};
use crate::store::{SessionRow, StoreError, StoreLocation};

/// Why a requester gets no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError<E> {
    /// What was asked for may not be seen, or names nothing that may.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Bad input, or the stores failed.
    #[error("{0}")]
    Failed(E),
}

/// One agent's store, open.
#[derive(Debug)]
struct Opened {
    engine: Arc<Engine>,
    visible: VisibleSets,
}

/// The stores of all agents under one root. Nothing is opened before it is needed, and nothing is ever made.
///
/// What a requester asks goes through judging, redaction and bounds, in this order, before it is an [`Answer`]. Sessions
/// it may not see change nothing but scores.
#[derive(Debug)]
pub struct Stores {
    root: PathBuf,
    options: OpenOptions,
    opened: Mutex<BTreeMap<AgentId, Arc<Opened>>>,
    /// Stores in which a session owns nothing, as they were then.
    barren: Mutex<HashMap<(SessionKey, AgentId), FileStamp>>,
}

/// What changes when a file is written.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    modified_nanos: u128,
    len: u64,
}

impl FileStamp {
    fn of(location: &StoreLocation) -> Option<Self> {
        let metadata = fs::metadata(location.database()).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self { modified_nanos: modified.as_nanos(), len: metadata.len() })
    }
}

impl Stores {
    /// The stores under `root`. `options` are for each of them, but for whose they are and whether they are made.
    #[must_use]
    pub fn new(root: &Path, options: OpenOptions) -> Self {
        Self { root: root.to_owned(), options, opened: Mutex::default(), barren: Mutex::default() }
    }

    /// Stores that are open already, as a program that also writes holds them.
    #[must_use]
    pub fn with_open(root: &Path, options: OpenOptions, engines: Vec<Engine>) -> Self {
        let stores = Self::new(root, options);
        let open = |engine: Engine| {
            (engine.agent().clone(), Arc::new(Opened { engine: Arc::new(engine), visible: VisibleSets::default() }))
        };
        stores.opened.lock().extend(engines.into_iter().map(open));
        stores
    }

    /// Closes every store that no call is using, so that other processes can have it. The next call opens it again.
    pub fn release(&self) {
        let mut opened = self.opened.lock();
        for (agent, store) in std::mem::take(&mut *opened) {
            if Arc::strong_count(&store) > 1 || Arc::strong_count(&store.engine) > 1 {
                opened.insert(agent, store);
                continue;
            }
            let engine = Arc::into_inner(store).and_then(|store| Arc::into_inner(store.engine));
            if let Some(Err(error)) = engine.map(Engine::close) {
                tracing::debug!(%error, "index not left in its best state; the next open replays more");
            }
        }
    }

    /// The store of one agent, for the operator and for writing; `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError`], as [`Engine::open`] says.
    pub fn engine(&self, agent: &AgentId) -> Result<Option<Arc<Engine>>, StoreError> {
        match self.store(agent, self.options.busy_timeout) {
            Ok(store) => Ok(Some(Arc::clone(&store.engine))),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds messages that the requester may see: at most 25, and 32,768 bytes of them.
    ///
    /// # Errors
    /// [`AskError`]: a key that is refused, bad input, or unreadable stores.
    pub fn search_as(
        &self,
        requester: &Requester,
        request: &SearchRequest,
    ) -> Result<Answer<SearchAnswer>, AskError<SearchError>> {
        request.check().map_err(AskError::Failed)?;
        if request.limit > MAX_TOOL_SEARCH_LIMIT {
            return Err(AskError::Failed(SearchError::Limit { max: MAX_TOOL_SEARCH_LIMIT }));
        }
        if request.explain {
            return Err(AskError::Failed(SearchError::ExplainRefused));
        }
        self.search_unbounded(requester, request).map(Redacted::bound)
    }

    fn search_unbounded(
        &self,
        requester: &Requester,
        request: &SearchRequest,
    ) -> Result<Redacted<SearchAnswer>, AskError<SearchError>> {
        let failed = |error: SearchError| AskError::Failed(error);
        let stores = self.reachable(requester).map_err(|error| failed(error.into()))?;
        let mut answers = Vec::new();
        // The first page of each; which of them make the page asked for is known once they are merged.
        let from_each = SearchRequest {
            offset: 0,
            limit: request.offset.saturating_add(request.limit),
            session_keys: None,
            ..request.clone()
        };
        let keys = request.session_keys.as_deref().map(|keys| resolve_all(requester, keys, &stores)).transpose()?;
        for (agent, store) in &stores.open {
            let engine = &store.engine;
            let view = engine.committer.pin();
            let scope = match &keys {
                Some(keys) => {
                    let named: Vec<_> = keys.iter().filter(|found| found.agent == *agent).collect();
                    let keys = named.iter().map(|found| Visible::judged(found.admission, found.key.clone()));
                    Visible::collected(keys).map(|keys| Scope::new(&view, Some(&keys)))
                }
                None => {
                    let set = store.visible.of(agent, &view, requester);
                    (*set).as_ref().map(|set| Scope::visible(&view, set))
                }
            };
            // A store of which nothing is visible says nothing, unless its agent may be known to be there.
            if scope.get().coverage.sessions == 0 && requester.reach(agent) != Reach::Whole {
                continue;
            }
            let answer = scope
                .redact(engine.committer.pipeline().redactor(), |scope, _| engine.search_in(&view, &from_each, scope))
                .map_err(failed)?;
            if engine.committer.has_pending() {
                engine.committer.request_reconcile();
            }
            answers.push(answer.map(|answer| (agent.clone(), answer)));
        }
        let found_store = !answers.is_empty();
        let asked_main = request.session_keys.as_deref().and_then(|keys| match keys {
            [only] => Some(only.as_str()),
            _ => None,
        });
        Ok(Redacted::collected(answers).map(|answers| {
            let mut answer = merge(answers, request);
            if !found_store {
                answer.reason = Some(EmptyReason::NoStore);
            }
            if asked_main.is_some() {
                for hit in &mut answer.results {
                    let shown = requester.aliases().display(asked_main, &hit.session_key);
                    if let Ok(shown) = SessionKey::parse(shown) {
                        hit.session_key = shown;
                    }
                }
            }
            answer
        }))
    }

    /// Opens a conversation that the requester may see.
    ///
    /// # Errors
    /// [`AskError`]: a key that is refused, bad input, or unreadable stores.
    pub fn history_as(
        &self,
        requester: &Requester,
        request: &HistoryRequest,
    ) -> Result<Answer<HistoryAnswer>, AskError<HistoryError>> {
        let failed = |error: HistoryError| AskError::Failed(error);
        request.check().map_err(failed)?;
        let stores = self.reachable(requester).map_err(|error| failed(error.into()))?;
        let found = requester.resolve(&request.key, &stores).map_err(|error| failed(error.into()))??;
        let key = Visible::judged(found.admission, found.key);
        let page = match stores.open.get(&found.agent) {
            Some(store) => {
                let view = store.engine.committer.pin();
                let redactor = store.engine.committer.pipeline().redactor();
                key.redact(redactor, |key, redactor| store.engine.history_of(&view, &key, request, redactor))
            }
            None => key.redact(&crate::transcript::Redactor::identity(), |key, _| HistoryAnswer::none(&key, request)),
        };
        let page = page.map_err(failed)?.map(|mut page| {
            if let Ok(key) = SessionKey::parse(&page.session_key) {
                page.session_key = requester.aliases().display(Some(&request.key), &key).to_owned();
            }
            page
        });
        Ok(page.bound())
    }

    /// Lists the sessions that the requester may see, newest activity first.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn sessions_as(&self, requester: &Requester, request: &ListRequest) -> Result<Answer<SessionList>, ListError> {
        request.check()?;
        let stores = self.reachable(requester)?;
        let mut lists = Vec::new();
        for (agent, store) in &stores.open {
            let view = store.engine.committer.pin();
            let rows = Visible::collected(visible_rows(agent, &view.sessions, requester));
            let first =
                ListRequest { offset: 0, limit: request.offset.saturating_add(request.limit), ..request.clone() };
            lists.push(rows.redact(store.engine.committer.pipeline().redactor(), |rows, redactor| {
                Ok::<_, ListError>((agent.clone(), SessionList::of(rows, &first, redactor)))
            })?);
        }
        Ok(Redacted::collected(lists).map(|lists| SessionList::merge(lists, request)).bound())
    }

    /// The stores a requester may meet anything of, open, agents in id order.
    ///
    /// Where only owned sessions may be met, a store that can't be opened at once is as if it were not there: whether
    /// another agent's store is busy or broken is nothing this requester may learn.
    fn reachable(&self, requester: &Requester) -> Result<Reachable, StoreError> {
        let mut open = BTreeMap::new();
        for agent in self.agents(requester)? {
            let reach = requester.reach(&agent);
            match reach {
                Reach::Nothing => {}
                Reach::OwnedOnly => {
                    if let Some(store) = self.store_with_owned(requester, &agent) {
                        open.insert(agent, store);
                    }
                }
                Reach::Whole => match self.store(&agent, self.options.busy_timeout) {
                    Ok(store) => {
                        open.insert(agent, store);
                    }
                    Err(StoreError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(Reachable { open })
    }

    /// Another agent's store, if it holds a session that the requester owns. One that does not is let go at once and
    /// not opened again before its file changes: there may be hundreds of agents.
    fn store_with_owned(&self, requester: &Requester, agent: &AgentId) -> Option<Arc<Opened>> {
        let location = StoreLocation::new(&self.root, agent);
        let about = (requester.key().clone(), agent.clone());
        if self.barren.lock().get(&about).is_some_and(|stamp| FileStamp::of(&location).as_ref() == Some(stamp)) {
            return None;
        }
        let was_open = self.opened.lock().contains_key(agent);
        let store = match self.store(agent, Duration::ZERO) {
            Ok(store) => store,
            Err(error) => {
                tracing::debug!(%error, %agent, "store passed over");
                return None;
            }
        };
        let view = store.engine.committer.pin();
        let is_owned = |row: &Arc<SessionRow>| {
            let lineage = Lineage::of(view.sessions.lineage(row));
            requester.judge(&Target { agent, key: &row.session_key, lineage }).is_ok()
        };
        if view.sessions.iter().any(is_owned) {
            return Some(store);
        }
        drop(view);
        let mut opened = self.opened.lock();
        // The map's and ours: nobody else is using it.
        if !was_open && Arc::strong_count(&store) == 2 && Arc::strong_count(&store.engine) == 1 {
            opened.remove(agent);
            drop(store);
            if let Some(stamp) = FileStamp::of(&location) {
                self.barren.lock().insert(about, stamp);
            }
        }
        None
    }

    /// The agents that have a store: the requester's own alone, where no other can be met.
    fn agents(&self, requester: &Requester) -> Result<Vec<AgentId>, StoreError> {
        let mut agents = vec![requester.agent().clone()];
        if !requester.reaches_others() {
            return Ok(agents);
        }
        let folder = self.root.join("agents");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(agents),
            Err(error) => return Err(StoreError::io(format!("listing {}", folder.display()))(error)),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(agent) = name.to_str().and_then(|name| AgentId::parse(name).ok().filter(|id| id.as_str() == name))
            else {
                continue;
            };
            if !agents.contains(&agent) && StoreLocation::new(&self.root, &agent).database().is_file() {
                agents.push(agent);
            }
        }
        agents.sort();
        Ok(agents)
    }

    fn store(&self, agent: &AgentId, busy_timeout: Duration) -> Result<Arc<Opened>, StoreError> {
        let mut opened = self.opened.lock();
        if let Some(store) = opened.get(agent) {
            return Ok(Arc::clone(store));
        }
        let options = OpenOptions { agent: agent.clone(), create: false, busy_timeout, ..self.options.clone() };
        let engine = Engine::open(&self.root, options)?;
        let store = Arc::new(Opened { engine: Arc::new(engine), visible: VisibleSets::default() });
        opened.insert(agent.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// The stores one call works with.
struct Reachable {
    open: BTreeMap<AgentId, Arc<Opened>>,
}

impl Catalogue for Reachable {
    type Error = StoreError;

    fn with_lineage<R>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        with: impl FnOnce(Lineage<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let Some(store) = self.open.get(agent) else { return Ok(None) };
        let view = store.engine.committer.pin();
        Ok(view.sessions.lineage_of_key(key).map(|facts| with(Lineage::of(facts))))
    }

    fn with_window(&self, id: &SessionId) -> Result<Vec<(AgentId, SessionKey)>, StoreError> {
        let mut found = Vec::new();
        for (agent, store) in &self.open {
            let view = store.engine.committer.pin();
            let transcript = view.snapshot.transcript(id)?;
            if let Some(row) = transcript.and_then(|transcript| view.sessions.get(transcript)) {
                found.push((agent.clone(), row.session_key.clone()));
            }
        }
        Ok(found)
    }
}

fn resolve_all(
    requester: &Requester,
    keys: &[String],
    stores: &Reachable,
) -> Result<Vec<Resolved>, AskError<SearchError>> {
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.push(requester.resolve(key, stores).map_err(|error| AskError::Failed(error.into()))??);
    }
    Ok(found)
}
