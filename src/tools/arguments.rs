//! The arguments of the tools, read as models write them.

use serde_json::{Map, Value};

use super::ToolError;
use crate::engine::{HistoryRequest, ListRequest, SearchRequest};
use crate::limits::{DEFAULT_HISTORY_LIMIT, DEFAULT_LIST_LIMIT, DEFAULT_SEARCH_LIMIT};
use crate::limits::{MAX_HISTORY_LIMIT, MAX_LIST_LIMIT, MAX_TOOL_SEARCH_LIMIT};
use crate::model::{Role, Timestamp, is_js_space};
use crate::search::Order;

/// The arguments of `sessions_search`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchArguments {
    /// The words, all of which must stand in one message.
    pub query: String,
    /// Only this session; a session id may stand for its key.
    pub session_key: Option<String>,
    /// Hits at most: 1 to 25.
    pub limit: usize,
    /// Only this role.
    pub role: Option<Role>,
    /// Only from this time on, inclusive.
    pub since: Option<Timestamp>,
    /// Only before this time, exclusive.
    pub until: Option<Timestamp>,
    /// By score, or newest first.
    pub order: Order,
    /// The last word may be the start of a word.
    pub prefix: bool,
}

/// The arguments of `sessions_history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryArguments {
    /// Session key, or a session id that stands for its key.
    pub session_key: String,
    /// Open the surroundings of this message.
    pub message_id: Option<String>,
    /// The window of the key that holds the message.
    pub session_id: Option<String>,
    /// Messages at most: 1 to 1,000.
    pub limit: usize,
    /// Page back: pass over this many of the newest messages.
    pub offset: Option<usize>,
    /// Keep tool calls and results.
    pub include_tools: bool,
}

/// The arguments of `sessions_list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListArguments {
    /// Only these kinds.
    pub kinds: Option<Vec<String>>,
    /// Only sessions of exactly this label.
    pub label: Option<String>,
    /// Only sessions active within this many minutes.
    pub active_minutes: Option<usize>,
    /// Archived sessions instead of active ones.
    pub archived: bool,
    /// Sessions at most: 1 to 10,000.
    pub limit: usize,
    /// Sessions to pass over first.
    pub offset: usize,
}

/// The kinds of sessions (contract §7.2).
const KINDS: [&str; 6] = ["main", "group", "cron", "hook", "node", "other"];

impl SearchArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`ToolError::Input`].
    pub fn read(arguments: &Value) -> Result<Self, ToolError> {
        let fields = Fields::of(arguments)?;
        let query = fields.text("query", "query")?;
        Ok(Self {
            query: query.ok_or_else(|| ToolError::input("query must be a text with the words to find"))?.to_owned(),
            session_key: fields.id("sessionKey", "session_key")?,
            limit: fields.limit(DEFAULT_SEARCH_LIMIT, MAX_TOOL_SEARCH_LIMIT)?,
            role: fields.one_of("role", &[("user", Role::User), ("assistant", Role::Assistant)])?,
            since: fields.time("since")?,
            until: fields.time("until")?,
            order: fields
                .one_of("order", &[("relevance", Order::Relevance), ("recent", Order::Recent)])?
                .unwrap_or_default(),
            prefix: fields.one_of("match", &[("words", false), ("prefix", true)])?.unwrap_or(false),
        })
    }

    pub(super) fn into_request(self) -> SearchRequest {
        let mut request = SearchRequest::new(self.query);
        request.session_keys = self.session_key.map(|key| vec![key]);
        request.limit = self.limit;
        (request.role, request.since, request.until) = (self.role, self.since, self.until);
        (request.order, request.prefix) = (self.order, self.prefix);
        request
    }
}

impl HistoryArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`ToolError::Input`].
    pub fn read(arguments: &Value) -> Result<Self, ToolError> {
        let fields = Fields::of(arguments)?;
        let key = fields.id("sessionKey", "session_key")?;
        Ok(Self {
            session_key: key.ok_or_else(|| {
                ToolError::input("sessionKey must name a session: a key as a search or the list shows it, or `current`")
            })?,
            message_id: fields.id("messageId", "message_id")?,
            session_id: fields.id("sessionId", "session_id")?,
            limit: fields.limit(DEFAULT_HISTORY_LIMIT, MAX_HISTORY_LIMIT)?,
            offset: fields.whole("offset", "offset", OFFSET)?,
            include_tools: fields.flag("includeTools", "include_tools")?,
        })
    }

    pub(super) fn into_request(self) -> HistoryRequest {
        let mut request = HistoryRequest::new(self.session_key);
        (request.message_id, request.session_id) = (self.message_id, self.session_id);
        (request.limit, request.offset) = (self.limit, self.offset);
        request.include_tools = self.include_tools;
        request
    }
}

impl ListArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`ToolError::Input`].
    pub fn read(arguments: &Value) -> Result<Self, ToolError> {
        let fields = Fields::of(arguments)?;
        let minutes = fields.whole("activeMinutes", "active_minutes", "activeMinutes must be a positive integer")?;
        if minutes == Some(0) {
            return Err(ToolError::input("activeMinutes must be a positive integer"));
        }
        Ok(Self {
            kinds: fields.kinds()?,
            label: fields.id("label", "label")?,
            active_minutes: minutes,
            archived: fields.flag("archived", "archived")?,
            limit: fields.limit(DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT)?,
            offset: fields.whole("offset", "offset", OFFSET)?.unwrap_or(0),
        })
    }

    pub(super) fn into_request(self, now: Timestamp) -> ListRequest {
        let since = self.active_minutes.map(|minutes| {
            let millis = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000);
            // Further back than 1970 is every known time.
            Timestamp::from_millis(now.as_millis().saturating_sub(millis)).or(Timestamp::from_millis(1))
        });
        ListRequest {
            archived: self.archived,
            limit: self.limit,
            offset: self.offset,
            kinds: self.kinds,
            label: self.label,
            active_since: since.flatten(),
        }
    }
}

const OFFSET: &str = "offset must be a whole number, 0 or more";

/// The fields of a JSON object, each under two spellings. Null is as good as absent.
struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    fn of(arguments: &'a Value) -> Result<Self, ToolError> {
        match arguments {
            Value::Null => Ok(Self(None)),
            Value::Object(fields) => Ok(Self(Some(fields))),
            _ => Err(ToolError::input("the arguments must be a JSON object")),
        }
    }

    fn get(&self, name: &str, snake: &str) -> Option<&'a Value> {
        let fields = self.0?;
        [name, snake].into_iter().find_map(|name| fields.get(name).filter(|value| !value.is_null()))
    }

    fn text(&self, name: &str, snake: &str) -> Result<Option<&'a str>, ToolError> {
        match self.get(name, snake) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ToolError::input(format!("{name} must be a text"))),
        }
    }

    /// A text; a blank one is as good as absent.
    fn id(&self, name: &str, snake: &str) -> Result<Option<String>, ToolError> {
        let text = self.text(name, snake)?.map(|text| text.trim_matches(is_js_space));
        Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
    }

    fn flag(&self, name: &str, snake: &str) -> Result<bool, ToolError> {
        match self.get(name, snake) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(ToolError::input(format!("{name} must be true or false"))),
        }
    }

    /// A whole number, 0 or more, also in quotes.
    fn whole(&self, name: &str, snake: &str, error: &str) -> Result<Option<usize>, ToolError> {
        let Some(value) = self.get(name, snake) else { return Ok(None) };
        let number = whole(value).and_then(|number| usize::try_from(number).ok());
        number.map(Some).ok_or_else(|| ToolError::input(error))
    }

    fn limit(&self, default: usize, max: usize) -> Result<usize, ToolError> {
        let error = format!("limit must be a positive integer, at most {max}");
        match self.whole("limit", "limit", &error)? {
            None => Ok(default),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(_) => Err(ToolError::Input(error)),
        }
    }

    fn time(&self, name: &str) -> Result<Option<Timestamp>, ToolError> {
        let Some(value) = self.get(name, name) else { return Ok(None) };
        let time = match (whole(value), value) {
            (Some(millis), _) => i64::try_from(millis).ok().and_then(Timestamp::from_millis),
            (None, Value::String(text)) => Timestamp::parse_iso(text.trim()).ok(),
            _ => None,
        };
        time.map(Some).ok_or_else(|| {
            ToolError::input(format!("{name} must be a time: RFC 3339, YYYY-MM-DD, or whole milliseconds since 1970"))
        })
    }

    fn one_of<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ToolError> {
        let Some(value) = self.get(name, name) else { return Ok(None) };
        let found = value.as_str().and_then(|given| words.iter().find(|(word, _)| *word == given.trim()));
        let expected = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
        found.map(|(_, meant)| Some(*meant)).ok_or_else(|| ToolError::input(format!("{name} must be {}", expected())))
    }

    fn kinds(&self) -> Result<Option<Vec<String>>, ToolError> {
        let error = || ToolError::input(format!("kinds must be a list of {}", KINDS.join(", ")));
        let kinds = match self.get("kinds", "kinds") {
            None => return Ok(None),
            Some(Value::Array(kinds)) => kinds.as_slice(),
            Some(_) => return Err(error()),
        };
        let mut read = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let kind = kind.as_str().map(|kind| kind.trim().to_ascii_lowercase());
            read.push(kind.filter(|kind| KINDS.contains(&kind.as_str())).ok_or_else(error)?);
        }
        Ok((!read.is_empty()).then_some(read))
    }
}

/// A whole number, 0 or more: as a number, `5.0` too, or in quotes.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => {
            let digits = text.trim_matches(is_js_space);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        }
        Value::Number(number) => number.as_u64().or_else(|| {
            // JSON has one kind of number: what is whole is whole however it is written.
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float))?;
            format!("{float:.0}").parse().ok()
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_as_models_write_them() {
        for (value, expected) in [
            (json!(5), Some(5)),
            (json!(5.0), Some(5)),
            (json!("5"), Some(5)),
            (json!(" 5 "), Some(5)),
            (json!(0), Some(0)),
            (json!(1.5), None),
            (json!(-1), None),
            (json!("-1"), None),
            (json!("1abc"), None),
            (json!(""), None),
            (json!(true), None),
            (json!([5]), None),
            (json!(1e300), None),
        ] {
            assert_eq!(whole(&value), expected, "{value}");
        }
    }
}
