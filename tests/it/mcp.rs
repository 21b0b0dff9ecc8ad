//! The program on a session's eyes: `--as`, and the MCP server frame by frame.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessions_search::tools::ToolDefinition;

use crate::json_schema::violations;
use crate::program::Program;

fn line(id: &str, text: &str) -> String {
    json!({ "type": "message", "id": id, "timestamp": 1_785_000_000_000_i64, "message": { "role": "user", "content": text } })
        .to_string()
}

fn program() -> Program {
    let program = Program::new();
    program.append("agent:main:main", &[line("own", "the otter map")]);
    program.append("agent:main:dashboard:1", &[line("other", "another otter")]);
    for (agent, key, parent, id) in [
        ("main", "agent:main:subagent:1", "agent:main:main", "child"),
        ("codex", "agent:codex:acp:1", "agent:main:main", "acp"),
        ("work", "agent:work:main", "agent:work:none", "work"),
    ] {
        let args = ["--agent", agent, "append", "--session-key", key, "--spawned-by", parent];
        let said = program.run_with_input(&args, line(id, "an otter further away"));
        assert_eq!(said.code, 0, "{said:?}");
    }
    program
}

fn found(answer: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        answer["results"].as_array().unwrap().iter().map(|hit| hit["messageId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn commands_on_a_sessions_eyes() {
    let program = program();
    let me = ["--as", "agent:main:main"];
    let search = |code: i32, more: &[&str]| program.json(code, &[&["search", "otter"][..], &me, more].concat());
    assert_eq!(found(&search(0, &[])), ["acp", "child", "own"]);
    assert_eq!(found(&search(0, &["--visibility", "self"])), ["own"]);
    assert_eq!(found(&search(0, &["--visibility", "AGENT"])), ["child", "other", "own"]);
    let all = ["--visibility", "all", "--agent-to-agent", "main", "--agent-to-agent", "w*"];
    assert_eq!(found(&search(0, &all)), ["acp", "child", "other", "own", "work"]);
    let sandboxed = [&all[..], &["--sandboxed"]].concat();
    assert_eq!(found(&search(0, &sandboxed)), ["acp", "child", "own"]);
    let unclamped = [&sandboxed[..], &["--sandbox-clamp", "all"]].concat();
    assert_eq!(found(&search(0, &unclamped)).len(), 5);
    let refused = search(3, &["--session-key", "agent:work:main"]);
    assert_eq!(refused["status"], json!("forbidden"));
    assert_eq!(refused.as_object().unwrap().len(), 2);
    assert_eq!(search(2, &["--session-key", "nothing"])["status"], json!("error"));
    for wrong in [&["--limit", "26"][..], &["--explain"]] {
        assert_eq!(search(2, wrong)["status"], json!("error"));
    }
    // An agent named beside a session of another is a contradiction, and the settings need a session.
    let text = program.json(2, &["--agent", "work", "search", "x", "--as", "agent:main:main"]).to_string();
    assert!(text.contains("work") && text.contains("main"), "{text}");
    assert_eq!(program.run(&["search", "x", "--visibility", "all"]).code, 2);
    assert_eq!(program.run(&["search", "x", "--as", "current"]).code, 2);

    let page = program.json(0, &["history", "current", "--as", "agent:main:main"]);
    assert_eq!(page["messages"][0]["messageId"], json!("own"));
    assert_eq!(program.json(3, &["history", "agent:main:dashboard:1", "--as", "main"])["status"], json!("forbidden"));
    let list = program.json(0, &["sessions", "--as", "main"]);
    assert_eq!(list["count"], json!(3));
    let from = program.write("x.jsonl", format!("{}\n", line("f", "an otter in a file")));
    let from = from.to_str().unwrap();
    let wide = program.json(0, &["search", "otter", "--from", from, "--as", "main", "--visibility", "agent"]);
    assert_eq!(found(&wide), ["f"]);
    let tree = program.json(1, &["search", "otter", "--from", from, "--as", "main"]);
    assert_eq!(tree["reason"], json!("no_visible_sessions"));
}

/// A server and the two ends of its pipe.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Server {
    fn start(program: &Program, args: &[&str]) -> Self {
        Self::of(program.command(args))
    }

    fn of(mut command: std::process::Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, next_id: 0 }
    }

    fn send(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{text}").unwrap();
        stdin.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let frame: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert!(frame.is_array() || frame["jsonrpc"] == json!("2.0"), "{frame}");
        frame
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        let reply = self.receive();
        assert_eq!(reply["id"], json!(id));
        reply
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let reply = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        reply["result"].clone()
    }

    /// Ends standard input; nothing more may come, and the program ends well.
    fn end(mut self) {
        drop(self.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn the_server_speaks_mcp_and_nothing_else() {
    let program = program();
    let mut server = Server::start(&program, &["mcp"]);
    for (asked, spoken) in [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")] {
        let hello = server.request("initialize", json!({ "protocolVersion": asked, "capabilities": {} }));
        assert_eq!(hello["result"]["protocolVersion"], json!(spoken));
        assert_eq!(hello["result"]["serverInfo"]["name"], json!("sessions-search"));
    }
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send("");
    server.send(r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#);
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    let declared: Vec<Value> = ToolDefinition::all().iter().map(|tool| tool.to_json().clone()).collect();
    assert_eq!(tools, json!(declared));

    let calls = [
        ("sessions_search", json!({ "query": "otter" })),
        ("sessions_search", json!({ "query": "otter", "sessionKey": "agent:work:main" })),
        ("sessions_history", json!({ "sessionKey": "main" })),
        ("sessions_list", json!({})),
    ];
    for (name, arguments) in calls {
        let result = server.call(name, arguments);
        assert_eq!(result["isError"], json!(false), "{result}");
        let structured = &result["structuredContent"];
        let all = ToolDefinition::all();
        let definition = all.iter().find(|tool| tool.name() == name).unwrap();
        assert_eq!(violations(definition.output_schema(), structured), Vec::<String>::new());
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(&text, structured);
    }
    let result = server.call("sessions_search", json!({ "query": "otter", "limit": 99 }));
    assert_eq!(result["isError"], json!(true));
    assert!(
        result["content"][0]["text"].as_str().unwrap().contains("at most 25")
            && result.get("structuredContent").is_none()
    );

    for (frame, code) in [
        ("nonsense", -32_700),
        ("5", -32_600),
        ("[]", -32_600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32_602),
    ] {
        server.send(frame);
        assert_eq!(server.receive()["error"]["code"], json!(code), "{frame}");
    }
    server.send(&format!("\"{}\"", "x".repeat(5 * 1024 * 1024)));
    assert_eq!(server.receive()["error"]["code"], json!(-32_600));
    server.send(r#"[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]"#);
    assert_eq!(server.receive(), json!([{ "jsonrpc": "2.0", "id": 7, "result": {} }]));
    // Case 25: nothing but frames, whatever the logs are set to.
    server.end();
}

#[test]
fn the_caller_is_fixed_when_the_server_starts() {
    let program = program();
    let search = json!({ "query": "otter", "as": "agent:work:main", "visibility": "all", "agentId": "work",
        "requester": "agent:work:main", "sandboxed": false, "agent": "work" });
    for (args, expected) in [
        (&["mcp"][..], vec!["child", "other", "own"]),
        (&["mcp", "--operator"], vec!["child", "other", "own"]),
        (&["mcp", "--as", "agent:main:main"], vec!["acp", "child", "own"]),
        (&["mcp", "--as", "agent:main:main", "--visibility", "self"], vec!["own"]),
        (&["--agent", "work", "mcp"], vec!["work"]),
    ] {
        let mut server = Server::start(&program, args);
        let result = server.call("sessions_search", search.clone());
        assert_eq!(found(&result["structuredContent"]), expected, "{args:?}");
        for key in ["agent:work:main", "agent:main:dashboard:1"] {
            let page = server.call("sessions_history", json!({ "sessionKey": key, "visibility": "all" }));
            let refused = page["structuredContent"]["status"] == json!("forbidden");
            assert_eq!(
                refused,
                !expected.contains(&if key.contains("work") { "work" } else { "other" }),
                "{args:?} {key}"
            );
        }
        server.end();
    }
    assert_eq!(program.run(&["mcp", "--operator", "--as", "main"]).code, 2);
}

#[test]
fn the_store_is_released_when_there_is_nothing_to_do() {
    let program = program();
    let mut server = Server::start(&program, &["mcp"]);
    let mut second = Server::start(&program, &["mcp"]);
    let found_by = |server: &mut Server| server.call("sessions_search", json!({ "query": "otter" }))["isError"].clone();
    assert_eq!(found_by(&mut server), json!(false));
    // The others wait for it, and get it.
    let started = Instant::now();
    assert_eq!(found_by(&mut second), json!(false));
    program.append("agent:main:new", &[line("new", "a new otter")]);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let result = server.call("sessions_search", json!({ "query": "new otter" }));
    assert_eq!(found(&result["structuredContent"]), ["new"]);
    server.end();
    second.end();
}

#[test]
fn a_server_without_a_store_answers_and_makes_none() {
    let program = Program::new();
    let mut server = Server::start(&program, &["mcp"]);
    let result = server.call("sessions_search", json!({ "query": "otter" }));
    assert_eq!(result["structuredContent"]["reason"], json!("no_store"));
    server.end();
    assert!(!program.root().exists());
}

#[test]
fn case_25_no_log_level_puts_anything_but_frames_on_standard_output() {
    let program = program();
    let mut command = program.command(&["mcp"]);
    command.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full").env("SESSIONS_SEARCH_LOG", "trace");
    let mut server = Server::of(command);
    server.request("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    for arguments in
        [json!({ "query": "otter" }), json!({ "query": 5 }), json!({ "query": "\u{1b}[31m\n\u{2028}otter" })]
    {
        server.call("sessions_search", arguments);
    }
    server.call("sessions_history", json!({ "sessionKey": "main\n{}" }));
    server.end();
}

#[test]
fn the_official_sdk_is_content() {
    let named = std::env::var_os("SESSIONS_SEARCH_MCP_PYTHON");
    let python = named.clone().unwrap_or_else(|| "python3".into());
    let has_sdk = std::process::Command::new(&python)
        .args(["-c", "import jsonschema, mcp.client.stdio"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_sdk {
        assert!(named.is_none(), "SESSIONS_SEARCH_MCP_PYTHON names a Python without the packages mcp and jsonschema");
        eprintln!("skipped: no Python with the packages mcp and jsonschema; SESSIONS_SEARCH_MCP_PYTHON may name one");
        return;
    }
    let program = program();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp_client.py");
    let output = std::process::Command::new(&python)
        .args([script, env!("CARGO_BIN_EXE_sessions-search"), "mcp"])
        .env("SESSIONS_SEARCH_STORE", program.root())
        .output()
        .unwrap();
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.0.trim(), "ok", "{}", said.1);
}
