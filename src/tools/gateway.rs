//! OpenClaw's gateway method `sessions.search` (contract §5.6), for gateways that embed this library. It is for clients that
//! may see every session of an agent: visibility is the business of the tools.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{Hit, SearchError, SearchRequest, Stores};
use crate::limits::{DEFAULT_SEARCH_LIMIT, MAX_EXCERPT_UTF16, MAX_GATEWAY_KEYS, MAX_TOOL_SEARCH_LIMIT};
use crate::model::{AgentId, KeyAliases, MessageId, Role, SessionId, SessionKey, Timestamp};

/// The request as it comes in: a closed object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    query: String,
    agent_id: Option<String>,
    session_keys: Option<Vec<String>>,
    limit: Option<usize>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The request is not one.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The store could not be read.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// One message found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHit {
    /// The session's key, in full.
    pub session_key: SessionKey,
    /// Which of the key's windows.
    pub session_id: SessionId,
    /// Which message.
    pub message_id: MessageId,
    /// Who said it.
    pub role: Role,
    /// When; 0 when unknown.
    pub timestamp: Timestamp,
    /// The place in its text, at most 500 UTF-16 units.
    pub snippet: String,
    /// FTS5's −bm25: larger is better.
    pub score: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GatewayAnswer {
    /// The hits, best first.
    pub results: Vec<GatewayHit>,
    /// Whether sessions the search was about are still hidden.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub indexing: bool,
    /// Whether there are more hits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Answers `sessions.search`. Bare keys without `agentId` belong to `default_agent`.
///
/// # Errors
/// [`GatewayError`].
pub fn gateway_search(
    stores: &Stores,
    params: &Value,
    default_agent: &AgentId,
    aliases: &KeyAliases,
) -> Result<GatewayAnswer, GatewayError> {
    let invalid = |text: String| GatewayError::InvalidRequest(text);
    let request: Request = Request::deserialize(params).map_err(|error| invalid(error.to_string()))?;
    let limit = request.limit.unwrap_or(DEFAULT_SEARCH_LIMIT);
    if !(1..=MAX_TOOL_SEARCH_LIMIT).contains(&limit) {
        return Err(invalid(format!("limit must be a positive integer, at most {MAX_TOOL_SEARCH_LIMIT}")));
    }
    let mut search = SearchRequest::new(request.query);
    search.limit = limit;
    search.excerpt_utf16 = Some(MAX_EXCERPT_UTF16);
    search.check().map_err(|error| invalid(error.to_string()))?;

    let named = request.agent_id.as_deref().map(AgentId::parse).transpose().map_err(|e| invalid(e.to_string()))?;
    let (agent, keys) = match (named, request.session_keys) {
        (Some(_), None) => return Err(invalid("agentId needs sessionKeys".into())),
        (None, None) => (default_agent.clone(), None),
        (named, Some(given)) => {
            let (agent, keys) = one_agent(named.as_ref(), &given, default_agent, aliases).map_err(invalid)?;
            (agent, Some(keys))
        }
    };

    let unavailable = |error: String| GatewayError::Unavailable(error);
    let engine = stores.engine(&agent).map_err(|error| unavailable(error.to_string()))?;
    let Some(engine) = engine else { return Ok(GatewayAnswer::default()) };
    let answer = engine.search_keys(keys.as_deref(), &search).map_err(|error| match error {
        SearchError::Store(_) | SearchError::Unreadable { .. } | SearchError::Stopped => unavailable(error.to_string()),
        input => invalid(input.to_string()),
    })?;
    let shown = |hit: Hit| GatewayHit {
        session_key: aliases.canonical(&agent, &hit.session_key).unwrap_or(hit.session_key),
        session_id: hit.session_id,
        message_id: hit.message_id,
        role: hit.role,
        timestamp: hit.timestamp,
        snippet: hit.snippet,
        score: hit.score,
    };
    Ok(GatewayAnswer {
        results: answer.results.into_iter().map(shown).collect(),
        indexing: answer.indexing,
        truncated: answer.truncated,
    })
}

/// The agent all keys belong to, and the keys as they may be stored: in full, and bare ones as given.
fn one_agent(
    named: Option<&AgentId>,
    given: &[String],
    default_agent: &AgentId,
    aliases: &KeyAliases,
) -> Result<(AgentId, Vec<SessionKey>), String> {
    if !(1..=MAX_GATEWAY_KEYS).contains(&given.len()) {
        return Err(format!("sessionKeys must be 1 to {MAX_GATEWAY_KEYS} keys"));
    }
    let mut agent: Option<AgentId> = named.cloned();
    let mut keys = Vec::with_capacity(given.len());
    for text in given {
        let key = SessionKey::parse(text).map_err(|error| error.to_string())?;
        let of_key = match key.agent_part() {
            Some(part) => AgentId::parse(part).map_err(|error| error.to_string())?,
            None => named.unwrap_or(default_agent).clone(),
        };
        match &agent {
            Some(agent) if *agent != of_key && named.is_some() => {
                return Err(format!("session key {key} belongs to agent {of_key}, not to agent {agent}"));
            }
            Some(agent) if *agent != of_key => {
                return Err(format!("one agent per call: these keys belong to {agent} and {of_key}"));
            }
            _ => agent = Some(of_key.clone()),
        }
        keys.push(aliases.canonical(&of_key, &key).map_err(|error| error.to_string())?);
        keys.push(key);
    }
    Ok((agent.unwrap_or_else(|| default_agent.clone()), keys))
}
