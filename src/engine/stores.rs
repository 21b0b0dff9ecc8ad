//! The agents' stores under one root, opened when they are needed, and what a requester gets from them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use crate::commit::View;
use crate::files::Files;
use crate::limits::MAX_TOOL_SEARCH_LIMIT;
use crate::model::{AgentId, SessionId, SessionKey};
use crate::store::{SessionRow, StoreError, StoreLocation};
use crate::transcript::Redactor;

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
    files: Arc<dyn Files>,
    /// Stores in which a session owned nothing.
    barren: Mutex<HashMap<(SessionKey, AgentId), Barren>>,
}

/// How long a store in which nothing is owned is not looked into while its file seems to stay as it is. Somebody may
/// write between our look and our note of the file.
const BARREN_FOR: Duration = Duration::from_secs(30);

/// A store's file as it was left, and when.
#[derive(Debug)]
struct Barren {
    stamp: (u128, u64),
    at: Instant,
}

impl Stores {
    /// The stores under `root`. `options` are for each of them, but for whose they are and whether they are made.
    #[must_use]
    pub fn new(root: &Path, options: OpenOptions) -> Self {
        let files = options.files();
        Self { root: root.to_owned(), options, opened: Mutex::default(), files, barren: Mutex::default() }
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
        self.ask(requester, |stores| Self::search_unbounded(stores, requester, request)).map(Redacted::bound)
    }

    fn search_unbounded(
        stores: &Reachable,
        requester: &Requester,
        request: &SearchRequest,
    ) -> Result<Redacted<SearchAnswer>, AskError<SearchError>> {
        let mut answers = Vec::new();
        // The first page of each; which of them make the page asked for is known once they are merged.
        let from_each = SearchRequest {
            offset: 0,
            limit: request.offset.saturating_add(request.limit),
            session_keys: None,
            ..request.clone()
        };
        let keys = request.session_keys.as_deref().map(|keys| resolve_all(requester, keys, stores)).transpose()?;
        for (agent, Pinned { store, view }) in &stores.open {
            let engine = &store.engine;
            let scope = match &keys {
                Some(keys) => {
                    let named: Vec<_> = keys.iter().filter(|found| found.agent == *agent).collect();
                    let keys = named.iter().map(|found| Visible::judged(found.admission, found.key.clone()));
                    Visible::collected(keys).map(|keys| Scope::new(view, Some(&keys)))
                }
                None => {
                    let set = store.visible.of(agent, view, requester);
                    (*set).as_ref().map(|set| Scope::visible(view, set))
                }
            };
            // A store of which nothing is visible says nothing, unless its agent may be known to be there.
            if scope.get().coverage.sessions == 0 && requester.reach(agent) != Reach::Whole {
                continue;
            }
            let answer = scope
                .redact(view.pipeline.redactor(), |scope, _| {
                    engine.guarded(|| engine.search_in(view, &from_each, scope))
                })
                .map_err(AskError::Failed)?;
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
        request.check().map_err(AskError::Failed)?;
        self.ask(requester, |stores| {
            let failed = |error: StoreError| AskError::Failed(HistoryError::from(error));
            let found = requester.resolve(&request.key, stores).map_err(failed)??;
            let key = Visible::judged(found.admission, found.key);
            let page = match stores.open.get(&found.agent) {
                Some(Pinned { store, view }) => {
                    let redactor = view.pipeline.redactor();
                    key.redact(redactor, |key, redactor| store.engine.history_of(view, &key, request, redactor))
                }
                None => key.redact(&Redactor::identity(), |key, _| HistoryAnswer::none(&key, request)),
            };
            Ok(page.map_err(AskError::Failed)?.map(|mut page| {
                if let Ok(key) = SessionKey::parse(&page.session_key) {
                    page.session_key = requester.aliases().display(Some(&request.key), &key).to_owned();
                }
                page
            }))
        })
        .map(Redacted::bound)
    }

    /// Lists the sessions that the requester may see, newest activity first.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn sessions_as(&self, requester: &Requester, request: &ListRequest) -> Result<Answer<SessionList>, ListError> {
        request.check()?;
        let stores = self.reachable(requester)?;
        let mut lists = Vec::new();
        for (agent, Pinned { view, .. }) in &stores.open {
            let rows = Visible::collected(visible_rows(agent, &view.sessions, requester));
            let first =
                ListRequest { offset: 0, limit: request.offset.saturating_add(request.limit), ..request.clone() };
            lists.push(rows.redact(view.pipeline.redactor(), |rows, redactor| {
                Ok::<_, ListError>((agent.clone(), SessionList::of(rows, &first, redactor)))
            })?);
        }
        Ok(Redacted::collected(lists).map(|lists| SessionList::merge(lists, request)).bound())
    }

    /// Asks the stores a requester may meet anything of, each as it is at one moment. Where a disk has failed meanwhile
    /// they are opened again, and asked once more.
    fn ask<R, E: From<StoreError>>(
        &self,
        requester: &Requester,
        ask: impl Fn(&Reachable) -> Result<R, AskError<E>>,
    ) -> Result<R, AskError<E>> {
        let failed = |error: StoreError| AskError::Failed(E::from(error));
        let stores = self.reachable(requester).map_err(failed)?;
        let result = ask(&stores);
        let poisoned = || stores.open.values().any(|pinned| pinned.store.engine.committer.is_poisoned());
        if result.is_ok() || !poisoned() {
            return result;
        }
        drop(stores);
        ask(&self.reachable(requester).map_err(failed)?)
    }

    /// The stores a requester may meet anything of, open, agents in id order.
    ///
    /// Where only owned sessions may be met, a store that can't be opened at once is as if it were not there: whether
    /// another agent's store is busy or broken is nothing this requester may learn.
    fn reachable(&self, requester: &Requester) -> Result<Reachable, StoreError> {
        let mut open = BTreeMap::new();
        for agent in self.agents(requester)? {
            let store = match requester.reach(&agent) {
                Reach::Nothing => None,
                Reach::OwnedOnly => self.store_with_owned(requester, &agent),
                Reach::Whole => match self.store(&agent, self.options.busy_timeout) {
                    Ok(store) => Some(store),
                    Err(StoreError::Missing { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            if let Some(store) = store {
                // Its view may still have what is asked for where the store can't be opened again now.
                let _ = store.engine.committer.heal();
                let view = store.engine.committer.pin();
                open.insert(agent, Pinned { store, view });
            }
        }
        Ok(Reachable { open })
    }

    /// Another agent's store, if it holds a session that the requester owns. One that does not is let go at once and
    /// not opened again before its file changes: there may be hundreds of agents.
    fn store_with_owned(&self, requester: &Requester, agent: &AgentId) -> Option<Arc<Opened>> {
        let location = StoreLocation::new(&self.root, agent);
        let about = (requester.key().clone(), agent.clone());
        let is_barren = |seen: &Barren| seen.at.elapsed() < BARREN_FOR && self.stamp(&location) == Some(seen.stamp);
        if self.barren.lock().get(&about).is_some_and(is_barren) {
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
        let family = view.sessions.families(&requester.own_keys());
        if family.into_iter().filter_map(|number| view.sessions.get(number)).any(is_owned) {
            return Some(store);
        }
        drop(view);
        let mut opened = self.opened.lock();
        // The map's and ours: nobody else is using it.
        if !was_open && Arc::strong_count(&store) == 2 && Arc::strong_count(&store.engine) == 1 {
            opened.remove(agent);
            drop(store);
            if let Some(stamp) = self.stamp(&location) {
                let mut barren = self.barren.lock();
                barren.retain(|_, seen| seen.at.elapsed() < BARREN_FOR);
                barren.insert(about, Barren { stamp, at: Instant::now() });
            }
        }
        None
    }

    /// When a store's file was last written, and how long it is.
    fn stamp(&self, location: &StoreLocation) -> Option<(u128, u64)> {
        let database = location.database();
        Some((self.files.modified_nanos(&database).ok()?, self.files.len_bytes(&database).ok()?))
    }

    /// The agents that have a store: the requester's own alone, where no other can be met.
    fn agents(&self, requester: &Requester) -> Result<Vec<AgentId>, StoreError> {
        let mut agents = vec![requester.agent().clone()];
        if !requester.reaches_others() {
            return Ok(agents);
        }
        let folder = self.root.join("agents");
        let names = match self.files.list(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(agents),
            Err(error) => return Err(StoreError::io(format!("listing {}", folder.display()))(error)),
        };
        for name in names {
            let Some(agent) = name.to_str().and_then(|name| AgentId::parse(name).ok().filter(|id| id.as_str() == name))
            else {
                continue;
            };
            let has_store = || self.files.exists(&StoreLocation::new(&self.root, &agent).database()).unwrap_or(false);
            if !agents.contains(&agent) && has_store() {
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

/// One agent's store, and the moment of it that one call sees.
struct Pinned {
    store: Arc<Opened>,
    view: Arc<View>,
}

/// The stores one call works with.
struct Reachable {
    open: BTreeMap<AgentId, Pinned>,
}

impl Catalogue for Reachable {
    type Error = StoreError;

    fn with_lineage<R>(
        &self,
        agent: &AgentId,
        key: &SessionKey,
        with: impl FnOnce(Lineage<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let Some(Pinned { view, .. }) = self.open.get(agent) else { return Ok(None) };
        Ok(view.sessions.lineage_of_key(key).map(|facts| with(Lineage::of(facts))))
    }

    fn with_window(&self, id: &SessionId) -> Result<Vec<(AgentId, SessionKey)>, StoreError> {
        let mut found = Vec::new();
        for (agent, Pinned { view, .. }) in &self.open {
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
