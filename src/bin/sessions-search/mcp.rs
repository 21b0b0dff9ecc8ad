//! An MCP server on standard input and output: JSON-RPC 2.0, one message a line.
//!
//! Standard output carries protocol frames and nothing else. Who asks is fixed when the server starts. The store is held
//! only while there is work, so that other servers and the program can have it in between.

use std::io::{self, BufRead, Write};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessions_search::tools::{ToolDefinition, ToolError, call_tool};
use sessions_search::{Requester, Stores};

use crate::environment::now;
use crate::failure::Failure;

/// The protocol versions this server speaks, newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Longest message that is read. The longest legal arguments are a fraction of it.
const MAX_MESSAGE_BYTES: u64 = 4 * 1024 * 1024;

/// How long the store is held with nothing to do.
const IDLE: Duration = Duration::from_secs(1);

/// How long the store is held while calls come in one after the other: below the time others wait for it.
const MAX_HELD: Duration = Duration::from_secs(3);

/// How long the store is left alone after that: others look for it every 10 ms, and a call that waits here already would
/// take it back before they do.
const LET_OTHERS_IN: Duration = Duration::from_millis(50);

const INSTRUCTIONS: &str = "Search earlier conversations by their words with sessions_search, open what it finds with \
     sessions_history (give sessionKey, sessionId and messageId of the hit), list conversations with sessions_list.";

const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const INTERNAL_ERROR: i64 = -32_603;

/// An error of the protocol: code and text.
type RpcError = (i64, String);

/// One server: whom it answers, from which stores.
pub(crate) struct Server {
    pub(crate) stores: Stores,
    pub(crate) requester: Requester,
}

/// What came in.
enum Incoming {
    Line(Vec<u8>),
    TooLong,
}

impl Server {
    /// Answers until standard input ends.
    pub(crate) fn serve(&self) -> Result<(), Failure> {
        let incoming = read_lines()?;
        let mut held_since: Option<Instant> = None;
        let served = loop {
            let line = match (incoming.recv_timeout(IDLE), held_since) {
                (Ok(line), _) => line?,
                (Err(RecvTimeoutError::Timeout), None) => match incoming.recv() {
                    Ok(line) => line?,
                    Err(mpsc::RecvError) => break Ok(()),
                },
                (Err(RecvTimeoutError::Timeout), Some(_)) => {
                    self.stores.release();
                    held_since = None;
                    continue;
                }
                (Err(RecvTimeoutError::Disconnected), _) => break Ok(()),
            };
            let reply = match line {
                Incoming::Line(line) if line.iter().all(u8::is_ascii_whitespace) => None,
                Incoming::Line(line) => self.reply_to_line(&line),
                Incoming::TooLong => Some(failure(&Value::Null, (INVALID_REQUEST, "the message is too long".into()))),
            };
            if let Some(reply) = reply
                && let Err(error) = send(&reply)
            {
                break Err(error.into());
            }
            let since = *held_since.get_or_insert_with(Instant::now);
            if since.elapsed() > MAX_HELD {
                self.stores.release();
                held_since = None;
                std::thread::sleep(LET_OTHERS_IN);
            }
        };
        self.stores.release();
        served
    }

    /// The reply to one line; none to notifications.
    fn reply_to_line(&self, line: &[u8]) -> Option<Value> {
        match serde_json::from_slice(line) {
            Err(error) => Some(failure(&Value::Null, (PARSE_ERROR, format!("not JSON: {error}")))),
            Ok(Value::Array(batch)) if batch.is_empty() => {
                Some(failure(&Value::Null, (INVALID_REQUEST, "the batch is empty".into())))
            }
            Ok(Value::Array(batch)) => {
                let replies: Vec<Value> = batch.iter().filter_map(|message| self.reply_to(message)).collect();
                (!replies.is_empty()).then(|| replies.into())
            }
            Ok(message) => self.reply_to(&message),
        }
    }

    fn reply_to(&self, message: &Value) -> Option<Value> {
        let invalid = |text: &str| Some(failure(&Value::Null, (INVALID_REQUEST, text.to_owned())));
        let Some(fields) = message.as_object() else { return invalid("a message is a JSON object") };
        let Some(method) = fields.get("method") else {
            // An answer to a request, which this server never makes.
            let is_answer = fields.contains_key("result") || fields.contains_key("error");
            return if is_answer { None } else { invalid("the message has no method") };
        };
        // Without an id it is a notification, and nothing is ever said to it.
        let id = fields.get("id")?;
        if !(id.is_string() || id.is_number()) {
            return invalid("the id must be a text or a number");
        }
        let Some(method) = method.as_str() else {
            return Some(failure(id, (INVALID_REQUEST, "method must be a text".into())));
        };
        let params = fields.get("params").unwrap_or(&Value::Null);
        // A bug in one call is told to its caller, and the next call is answered.
        let answered = std::panic::catch_unwind(AssertUnwindSafe(|| self.answer(method, params)));
        let answered = answered
            .unwrap_or_else(|_| Err((INTERNAL_ERROR, "this is a bug in the server, see its standard error".into())));
        Some(match answered {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => failure(id, error),
        })
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
                Ok(json!({
                    "protocolVersion": version,
                    "capabilities": { "tools": { "listChanged": false } },
                    "serverInfo": {
                        "name": "sessions-search",
                        "title": "Sessions search",
                        "version": env!("CARGO_PKG_VERSION"),
                    },
                    "instructions": INSTRUCTIONS,
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let tools: Vec<Value> = ToolDefinition::all().iter().map(|tool| tool.to_json().clone()).collect();
                Ok(json!({ "tools": tools }))
            }
            "tools/call" => self.call(params),
            other => Err((METHOD_NOT_FOUND, format!("there is no method {other:?}"))),
        }
    }

    fn call(&self, params: &Value) -> Result<Value, RpcError> {
        let Some(name) = params["name"].as_str() else {
            return Err((INVALID_PARAMS, "params.name must be the name of a tool".into()));
        };
        let said = match call_tool(&self.stores, &self.requester, name, &params["arguments"], now()) {
            Err(error @ ToolError::UnknownTool(_)) => return Err((INVALID_PARAMS, error.to_string())),
            other => other,
        };
        Ok(match said {
            Ok(answer) => json!({
                "content": [{ "type": "text", "text": answer.to_string() }],
                "structuredContent": answer,
                "isError": false,
            }),
            // For the model to read and to call again.
            Err(error) => json!({
                "content": [{ "type": "text", "text": error.to_string() }],
                "isError": true,
            }),
        })
    }
}

fn failure(id: &Value, (code, message): RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn send(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{message}")?;
    stdout.flush()
}

/// Lines of standard input, read on a thread of their own: it waits, and the server need not.
fn read_lines() -> Result<Receiver<io::Result<Incoming>>, Failure> {
    let (sender, receiver) = mpsc::sync_channel(16);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let line = match next_line(&mut input) {
                Ok(Some(line)) => Ok(line),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let failed = line.is_err();
            if sender.send(line).is_err() || failed {
                return;
            }
        }
    };
    std::thread::Builder::new().name("mcp-input".into()).spawn(read)?;
    Ok(receiver)
}

/// One line in bounded memory; the rest of one that is too long is read over.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Incoming>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *input, MAX_MESSAGE_BYTES).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || (read as u64) < MAX_MESSAGE_BYTES {
        return Ok(Some(Incoming::Line(line)));
    }
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(Some(Incoming::TooLong));
        }
        let end = available.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(available.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(Incoming::TooLong));
        }
    }
}
