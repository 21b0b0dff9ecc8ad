//! The tools as functions: arguments as models write them, answers as their schemas say; and the gateway's method.

use serde_json::{Value, json};
use sessions_search::tools::{GatewayError, ToolDefinition, ToolError, call_tool, gateway_search};
use sessions_search::{AgentId, KeyAliases, Requester, SandboxClamp, Stores, Timestamp, Visibility};

use crate::json_schema::violations;
use crate::world::{NOW, Session, World};

const R: &str = "agent:main:main";

fn world() -> World {
    let texts: Vec<String> = (0..30).map(|n| format!("beaver number {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    World::new(&[
        Session::new("main", R, "own", &["the otter map", "a heron - or two"]),
        Session::new("main", "agent:main:subagent:1", "child", &["an otter child"]).spawned_by(R).labelled("Child"),
        Session::new("main", "agent:main:dashboard:1", "other", &texts),
        Session::new("main", "agent:main:telegram:group:-1", "group", &["otters in a group"]).archived(),
        Session::new("main", "cron:nightly", "bare", &["a bare otter"]),
        Session::new("main", "global", "glob", &["a global otter"]),
        Session::new("work", "agent:work:main", "work", &["an otter at work"]),
        Session::new("work", "global", "work-glob", &["a global otter at work"]),
    ])
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW + 60_000).unwrap()
}

fn tool(stores: &Stores, who: &Requester, name: &str, arguments: &Value) -> Result<Value, ToolError> {
    let answer = call_tool(stores, who, name, arguments, now());
    if let Ok(answer) = &answer {
        let all = ToolDefinition::all();
        let definition = all.iter().find(|tool| tool.name() == name).unwrap();
        let wrong = violations(definition.output_schema(), answer);
        assert!(wrong.is_empty(), "{name} {arguments}: {wrong:?} in {answer}");
    }
    answer
}

fn ids(answer: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        answer["results"].as_array().unwrap().iter().map(|hit| hit["messageId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

fn tree() -> Requester {
    Requester::new(R, None).unwrap()
}

fn wide() -> Requester {
    tree().with_visibility(Visibility::Agent)
}

#[test]
fn every_definition_is_complete_and_read_only() {
    let names: Vec<String> = ToolDefinition::all().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["sessions_search", "sessions_history", "sessions_list"]);
    for tool in ToolDefinition::all() {
        let json = tool.to_json();
        assert!(json["description"].as_str().unwrap().len() > 40);
        assert_eq!(json["annotations"]["readOnlyHint"], json!(true));
        assert_eq!(json["annotations"]["destructiveHint"], json!(false));
        assert_eq!((&tool.input_schema()["type"], &tool.output_schema()["type"]), (&json!("object"), &json!("object")));
        // Every declared default is the one that is used: giving it changes nothing.
        let world = world();
        let stores = world.stores();
        let mut arguments = json!({ "query": "otter", "sessionKey": R });
        let bare = tool_answer(&stores, tool.name(), &arguments);
        for (name, property) in tool.input_schema()["properties"].as_object().unwrap() {
            // Offset paging is a way of reading of its own.
            if let Some(default) = property.get("default") {
                arguments[name] = default.clone();
            }
        }
        assert_eq!(tool_answer(&stores, tool.name(), &arguments), bare, "{arguments}");
    }
}

fn tool_answer(stores: &Stores, name: &str, arguments: &Value) -> Value {
    tool(stores, &wide(), name, arguments).unwrap()
}

#[test]
fn t1_t27_answers_are_as_their_schemas_say() {
    let world = world();
    let stores = world.stores();
    let answer = tool(&stores, &tree(), "sessions_search", &json!({ "query": " otter - map " })).unwrap();
    assert_eq!(ids(&answer), ["own-0"]);
    assert!(answer["warning"].as_str().unwrap().contains("`-`"));
    assert_eq!(answer["coverage"], json!({ "sessions": 2, "searched": 2, "pending": 0 }));
    let answer = tool(&stores, &wide(), "sessions_search", &json!({ "query": "beaver", "limit": 25 })).unwrap();
    assert_eq!((answer["results"].as_array().unwrap().len(), &answer["truncated"]), (25, &json!(true)));
    let answer = tool(&stores, &tree(), "sessions_search", &json!({ "query": "beaver" })).unwrap();
    assert_eq!(
        answer,
        json!({ "results": [], "coverage": { "sessions": 2, "searched": 2, "pending": 0 }, "reason": "no_match" })
    );
    for key in ["agent:main:dashboard:1", "0f0e1d2c-3b4a-5968-7786-95a4b3c2d1e0"] {
        let asked = json!({ "query": "beaver", "sessionKey": key });
        let answer = tool(&stores, &tree(), "sessions_search", &asked).unwrap();
        assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["error", "status"]);
        let sandboxed = tree().in_sandbox(SandboxClamp::Spawned);
        assert_eq!(tool(&stores, &sandboxed, "sessions_search", &asked).unwrap()["status"], json!("forbidden"));
    }
}

#[test]
fn t3_t4_t25_arguments_as_models_write_them() {
    let world = world();
    let stores = world.stores();
    for (arguments, expected) in [
        (json!({ "query": "beaver", "limit": 3 }), 3),
        (json!({ "query": "beaver", "limit": "3" }), 3),
        (json!({ "query": "beaver", "limit": " 3 " }), 3),
        (json!({ "query": "beaver", "limit": 3.0 }), 3),
        (json!({ "query": "beaver", "limit": null }), 10),
        (json!({ "query": "beaver", "unknown": 1, "as": "agent:work:main" }), 10),
        (json!({ "query": "otter", "session_key": "child" }), 1),
        (json!({ "query": "otter", "sessionKey": "  " }), 4),
        (json!({ "query": "otter", "sessionKey": "main" }), 1),
        (json!({ "query": "otter", "role": "assistant" }), 0),
        (json!({ "query": "otter", "since": NOW }), 4),
        (json!({ "query": "otter", "until": NOW.to_string() }), 0),
        (json!({ "query": "otter", "since": "2026-01-01" }), 4),
        (json!({ "query": "ott", "match": "prefix" }), 5),
        (json!({ "query": "ott", "match": "words" }), 0),
        (json!({ "query": "otter", "order": "recent" }), 4),
        (json!({ "query": "x".repeat(4_096) }), 0),
    ] {
        let answer = tool(&stores, &wide(), "sessions_search", &arguments).unwrap();
        assert_eq!(answer["results"].as_array().unwrap().len(), expected, "{arguments}");
    }
    for arguments in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "query": null }),
        json!({ "query": 5 }),
        json!({ "query": "   " }),
        json!({ "query": "x".repeat(4_097) }),
        json!({ "query": "x", "limit": 0 }),
        json!({ "query": "x", "limit": 26 }),
        json!({ "query": "x", "limit": -1 }),
        json!({ "query": "x", "limit": 1.5 }),
        json!({ "query": "x", "limit": "junk" }),
        json!({ "query": "x", "limit": true }),
        json!({ "query": "x", "sessionKey": 5 }),
        json!({ "query": "x", "role": "system" }),
        json!({ "query": "x", "since": "yesterday" }),
        json!({ "query": "x", "since": 0 }),
        json!({ "query": "x", "order": "score" }),
        json!({ "query": "x", "match": true }),
    ] {
        let error = tool(&stores, &wide(), "sessions_search", &arguments).unwrap_err();
        assert!(matches!(error, ToolError::Input(_)), "{arguments}: {error}");
    }
    let error = tool(&stores, &wide(), "sessions_search", &json!({ "query": "x", "limit": 26 })).unwrap_err();
    assert!(error.to_string().starts_with("limit must be a positive integer"), "{error}");
    let error = call_tool(&stores, &wide(), "sessions_send", &json!({}), now()).unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool(_)));
}

#[test]
fn h4_h5_bad_history_arguments() {
    let world = world();
    let stores = world.stores();
    for wrong in [
        json!({}),
        json!({ "sessionKey": " " }),
        json!({ "sessionKey": R, "limit": 0 }),
        json!({ "sessionKey": R, "limit": 1.5 }),
        json!({ "sessionKey": R, "limit": 1001 }),
        json!({ "sessionKey": R, "offset": -1 }),
        json!({ "sessionKey": R, "offset": 1.5 }),
        json!({ "sessionKey": R, "offset": "1abc" }),
        json!({ "sessionKey": R, "offset": 0, "messageId": "own-0" }),
        json!({ "sessionKey": R, "sessionId": "own" }),
        json!({ "sessionKey": R, "sessionId": "child", "messageId": "own-0" }),
        json!({ "sessionKey": R, "includeTools": "yes" }),
    ] {
        let error = tool(&stores, &wide(), "sessions_history", &wrong).unwrap_err();
        assert!(matches!(error, ToolError::Input(_)), "{wrong}: {error}");
    }
}

#[test]
fn h6_h8_h11_h12_history_pages_and_anchors() {
    let world = world();
    let stores = world.stores();
    let read = |arguments: Value| tool(&stores, &wide(), "sessions_history", &arguments).unwrap();
    let texts = |page: &Value| -> Vec<String> {
        page["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
    };
    let key = "agent:main:dashboard:1";
    let newest = read(json!({ "sessionKey": key, "limit": 2 }));
    assert_eq!(texts(&newest), ["beaver number 28", "beaver number 29"]);
    let mut offset = 0;
    let mut all = Vec::new();
    loop {
        let page = read(json!({ "sessionKey": key, "limit": "7", "offset": offset }));
        assert_eq!(page["totalMessages"], json!(30));
        let mut older = texts(&page);
        older.append(&mut all);
        all = older;
        match page["nextOffset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(all, (0..30).map(|n| format!("beaver number {n}")).collect::<Vec<_>>());
    let around = read(json!({ "session_key": key, "message_id": "other-3", "session_id": "other", "limit": 3 }));
    assert_eq!(texts(&around), ["beaver number 2", "beaver number 3", "beaver number 4"]);
    assert!(around.get("nextOffset").is_none() && around.get("offset").is_none());
    let missing = read(json!({ "sessionKey": key, "messageId": "own-0" }));
    assert_eq!((&missing["anchor"], texts(&missing).len()), (&json!("not_found"), 0));
}

#[test]
fn lists_are_filtered_paged_and_judged() {
    let world = world();
    let stores = world.stores();
    let list = |who: &Requester, arguments: Value| -> Vec<String> {
        let answer = tool(&stores, who, "sessions_list", &arguments).unwrap();
        let rows = answer["sessions"].as_array().unwrap();
        assert_eq!(answer["count"], json!(rows.len()));
        rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list(&tree(), json!({})).len(), 2);
    assert_eq!(list(&wide(), json!({})).len(), 5);
    assert_eq!(list(&wide(), json!({ "archived": true })), ["group"]);
    assert_eq!(list(&wide(), json!({ "kinds": ["main"] })), ["own"]);
    assert_eq!(list(&wide(), json!({ "kinds": ["Cron", "main"] })).len(), 2);
    assert_eq!(list(&wide(), json!({ "label": "Child" })), ["child"]);
    assert_eq!(list(&wide(), json!({ "active_minutes": "5" })).len(), 5);
    let mut paged = Vec::new();
    while let Some(id) = list(&wide(), json!({ "limit": 1, "offset": paged.len() })).pop() {
        paged.push(id);
    }
    assert_eq!(paged, list(&wide(), json!({})));
    for wrong in
        [json!({ "kinds": "main" }), json!({ "kinds": ["x"] }), json!({ "limit": 0 }), json!({ "activeMinutes": 0 })]
    {
        assert!(matches!(tool(&stores, &wide(), "sessions_list", &wrong), Err(ToolError::Input(_))), "{wrong}");
    }
}

#[test]
fn a_long_list_keeps_within_its_bytes_and_pages_on() {
    let sessions: Vec<Session> = (0..300)
        .map(|n| {
            Session::new("main", &format!("agent:main:x:{n}"), &format!("s{n:03}"), &[]).labelled(&"l".repeat(300))
        })
        .map(|mut session| {
            session.messages.push((format!("{}-0", session.id), "user", NOW, "otter".into()));
            session
        })
        .collect();
    let world = World::new(&sessions);
    let stores = world.stores();
    let (mut seen, mut offset) = (0, 0);
    loop {
        let page = tool(&stores, &wide(), "sessions_list", &json!({ "limit": 200, "offset": offset })).unwrap();
        assert!(page["sessions"].to_string().len() <= 32_768);
        seen += page["count"].as_u64().unwrap();
        match page["nextOffset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(seen, 300);
}

fn gateway(stores: &Stores, params: &Value) -> Result<Value, GatewayError> {
    gateway_search(stores, params, &AgentId::default(), &KeyAliases::default())
        .map(|answer| serde_json::to_value(answer).unwrap())
}

#[test]
fn g2_g4_g7_g9_gateway_agents_and_keys() {
    let world = world();
    let stores = world.stores();
    let many: Vec<String> = (0..200).map(|n| format!("agent:main:x:{n}")).collect();
    for (params, expected) in [
        (json!({ "query": "otter" }), vec!["bare-0", "child-0", "glob-0", "own-0"]),
        (json!({ "query": "otter", "sessionKeys": ["agent:work:main"] }), vec!["work-0"]),
        (json!({ "query": "otter", "sessionKeys": ["main"] }), vec!["own-0"]),
        (json!({ "query": "otter", "sessionKeys": ["main", " Agent:MAIN:subagent:1 "] }), vec!["child-0", "own-0"]),
        (json!({ "query": "otter", "sessionKeys": ["cron:nightly"] }), vec!["bare-0"]),
        (
            json!({ "query": "otter", "sessionKeys": ["main", "global"], "agentId": "work" }),
            vec!["work-0", "work-glob-0"],
        ),
        (json!({ "query": "otter", "sessionKeys": ["global"] }), vec!["glob-0"]),
        (json!({ "query": "otter", "sessionKeys": many }), vec![]),
        // A session id is no key here, and an unknown agent is empty.
        (json!({ "query": "otter", "sessionKeys": ["child"] }), vec![]),
        (json!({ "query": "otter", "sessionKeys": ["main"], "agentId": "nobody" }), vec![]),
    ] {
        let answer = gateway(&stores, &params).unwrap();
        assert_eq!(ids(&answer), expected, "{params}");
    }
    let answer = gateway(&stores, &json!({ "query": "bare" })).unwrap();
    assert_eq!(answer["results"][0]["sessionKey"], json!("agent:main:cron:nightly"));
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["results"]);
    let answer = gateway(&stores, &json!({ "query": "beaver", "limit": 25 })).unwrap();
    assert_eq!(answer["truncated"], json!(true));
    assert!(!world.root.path().join("agents/nobody").exists());
}

#[test]
fn g1_g3_g5_g6_g8_invalid_requests() {
    let world = world();
    let stores = world.stores();
    let many: Vec<String> = (0..201).map(|n| format!("agent:main:x:{n}")).collect();
    for params in [
        json!({}),
        json!([]),
        json!({ "query": " " }),
        json!({ "query": "x".repeat(4_097) }),
        json!({ "query": "x", "limit": 26 }),
        json!({ "query": "x", "limit": 0 }),
        json!({ "query": "x", "limit": "5" }),
        json!({ "query": "x", "unknown": 1 }),
        json!({ "query": "x", "agentId": "work" }),
        json!({ "query": "x", "agentId": "", "sessionKeys": ["main"] }),
        json!({ "query": "x", "agentId": "../work", "sessionKeys": ["main"] }),
        json!({ "query": "x", "sessionKeys": [] }),
        json!({ "query": "x", "sessionKeys": [""] }),
        json!({ "query": "x", "sessionKeys": many }),
        json!({ "query": "x", "sessionKeys": ["agent:main:a", "agent:work:a"] }),
        json!({ "query": "x", "sessionKeys": ["main", "agent:work:a"] }),
        json!({ "query": "x", "sessionKeys": ["agent:main:a"], "agentId": "work" }),
    ] {
        let error = gateway(&stores, &params).unwrap_err();
        assert!(matches!(error, GatewayError::InvalidRequest(_)), "{params}: {error}");
    }
    let error =
        gateway(&stores, &json!({ "query": "x", "sessionKeys": ["agent:main:a"], "agentId": "work" })).unwrap_err();
    assert!(error.to_string().contains("main") && error.to_string().contains("work"), "{error}");
}

#[test]
fn g10_a_store_that_fails_is_unavailable() {
    let world = World::new(&[]);
    let folder = world.root.path().join("agents/main");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("transcripts.redb"), b"no database").unwrap();
    let stores = world.stores();
    assert!(matches!(gateway(&stores, &json!({ "query": "x" })), Err(GatewayError::Unavailable(_))));
    assert!(matches!(tool(&stores, &tree(), "sessions_search", &json!({ "query": "x" })), Err(ToolError::Failed(_))));
}
