//! The tools a model calls, and the search method of a gateway, as plain functions: JSON arguments in, an answer out.
//!
//! Who asks is the [`Requester`] and never part of the arguments. Arguments are read as models write them: unknown fields
//! are ignored, `session_key` is `sessionKey`, `"5"` is 5. What can't be read is a [`ToolError`], with a text that says
//! what to write instead; what may not be seen is an answer, [`ToolAnswer::Refused`].
//!
//! The schemas are data, in `index-schema/tools/`; [`ToolDefinition::all`] gives them as MCP asks for them.

mod arguments;
mod definition;
mod gateway;

pub use arguments::{HistoryArguments, ListArguments, SearchArguments};
pub use definition::ToolDefinition;
pub use gateway::{GatewayAnswer, GatewayError, GatewayHit, gateway_search};

use serde::Serialize;

use crate::access::Requester;
use crate::access::stages::Answer;
use crate::engine::{AskError, HistoryAnswer, HistoryError, ListError, SearchAnswer, SearchError, SessionList, Stores};
use crate::model::Timestamp;

/// Why a tool was not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are off: the text says what to write instead.
    #[error("{0}")]
    Input(String),
    /// No tool of that name.
    #[error("there is no tool {0:?}: call sessions_search, sessions_history or sessions_list")]
    UnknownTool(String),
    /// The stores failed.
    #[error("{0}")]
    Failed(String),
}

impl ToolError {
    fn input(text: impl Into<String>) -> Self {
        Self::Input(text.into())
    }
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ToolAnswer<T> {
    /// What was asked for.
    Done(Answer<T>),
    /// What was asked for may not be seen, or names nothing that may.
    Refused {
        /// `error` or `forbidden`.
        status: &'static str,
        /// Why.
        error: String,
    },
}

impl<T> ToolAnswer<T> {
    fn of<E: Into<ToolError>>(result: Result<Answer<T>, AskError<E>>) -> Result<Self, ToolError> {
        match result {
            Ok(answer) => Ok(Self::Done(answer)),
            Err(AskError::Refused(refusal)) => {
                Ok(Self::Refused { status: refusal.status(), error: refusal.to_string() })
            }
            Err(AskError::Failed(error)) => Err(error.into()),
        }
    }
}

impl From<SearchError> for ToolError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(_) | SearchError::Unreadable { .. } => Self::Failed(error.to_string()),
            input => Self::Input(input.to_string()),
        }
    }
}

impl From<HistoryError> for ToolError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(_) => Self::Failed(error.to_string()),
            input => Self::Input(input.to_string()),
        }
    }
}

impl From<ListError> for ToolError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Store(_) => Self::Failed(error.to_string()),
            input => Self::Input(input.to_string()),
        }
    }
}

/// Finds messages.
///
/// # Errors
/// [`ToolError`]: arguments out of bounds, or unreadable stores.
pub fn sessions_search(
    stores: &Stores,
    requester: &Requester,
    arguments: SearchArguments,
) -> Result<ToolAnswer<SearchAnswer>, ToolError> {
    ToolAnswer::of(stores.search_as(requester, &arguments.into_request()))
}

/// Opens a conversation.
///
/// # Errors
/// [`ToolError`]: arguments out of bounds, or unreadable stores.
pub fn sessions_history(
    stores: &Stores,
    requester: &Requester,
    arguments: HistoryArguments,
) -> Result<ToolAnswer<HistoryAnswer>, ToolError> {
    ToolAnswer::of(stores.history_as(requester, &arguments.into_request()))
}

/// Lists sessions. `now` is the time `activeMinutes` counts back from.
///
/// # Errors
/// [`ToolError`]: arguments out of bounds, or unreadable stores.
pub fn sessions_list(
    stores: &Stores,
    requester: &Requester,
    arguments: ListArguments,
    now: Timestamp,
) -> Result<ToolAnswer<SessionList>, ToolError> {
    Ok(ToolAnswer::Done(stores.sessions_as(requester, &arguments.into_request(now))?))
}

/// Calls a tool by name, with its arguments and its answer as JSON.
///
/// # Errors
/// [`ToolError`]: no such tool, arguments that can't be read or are out of bounds, or unreadable stores.
pub fn call_tool(
    stores: &Stores,
    requester: &Requester,
    name: &str,
    arguments: &serde_json::Value,
    now: Timestamp,
) -> Result<serde_json::Value, ToolError> {
    fn json<T: Serialize>(answer: &T) -> Result<serde_json::Value, ToolError> {
        serde_json::to_value(answer).map_err(|error| ToolError::Failed(error.to_string()))
    }
    match name {
        "sessions_search" => json(&sessions_search(stores, requester, SearchArguments::read(arguments)?)?),
        "sessions_history" => json(&sessions_history(stores, requester, HistoryArguments::read(arguments)?)?),
        "sessions_list" => json(&sessions_list(stores, requester, ListArguments::read(arguments)?, now)?),
        other => Err(ToolError::UnknownTool(other.to_owned())),
    }
}
