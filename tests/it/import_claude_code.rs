//! Import of Claude Code's transcripts: sessions and sub-agents, what is searched of a line, the branch, titles.

use sessions_search::SessionKey;

use crate::imported::{Imported, assert_unchanged, counts};

const S: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// A line with these members besides the usual ones.
fn line(uuid: &str, parent: &str, members: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"sessionId\":\"{S}\",\"cwd\":\"/w\",\"uuid\":\"{uuid}\",\"timestamp\":\"2026-02-01T09:00:00.000Z\",{members}}}\n"
    )
}

fn user(uuid: &str, parent: &str, text: &str) -> String {
    line(uuid, parent, &format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#))
}

fn assistant(uuid: &str, parent: &str, text: &str) -> String {
    let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    line(
        uuid,
        parent,
        &format!(r#""type":"assistant","message":{{"id":"msg_1","role":"assistant","content":{content}}}"#),
    )
}

fn file(id: &str) -> String {
    format!("projects/-w/{id}.jsonl")
}

fn session_of(lines: &[String]) -> Imported {
    Imported::with(&[(&file(S), &lines.concat())])
}

fn hit(uuid: &str) -> Vec<String> {
    vec![format!("{S}/{uuid}")]
}

#[test]
fn a_conversation_becomes_a_session() {
    let store = session_of(&[
        user("u1", "", "where is the otter map"),
        line(
            "t1",
            "u1",
            r#""type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"thinking","thinking":"lake or river","signature":"AAAA"}]}"#,
        ),
        line(
            "a1",
            "t1",
            r#""type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"I look in the lake folder"}]}"#,
        ),
        line(
            "a2",
            "a1",
            r#""type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls lake"}}]}"#,
        ),
        line(
            "r1",
            "a2",
            r#""type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"map.txt","is_error":false}]},"toolUseResult":{"stdout":"map.txt"}"#,
        ),
        assistant("a3", "r1", "It is there"),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([6, 3, 0, 0], 1), "{summary:?}");
    assert_eq!(store.found("otter"), hit("u1"));
    assert_eq!(store.found("lake folder"), hit("a1"), "the parts of one answer stay rows");
    for hidden in ["river", "map.txt", "toolu_1", "AAAA"] {
        assert_eq!(store.found(hidden), [""; 0], "{hidden}");
    }
    let session = store.session(S);
    assert_eq!(session.session_key.as_str(), format!("agent:main:claude-code:{S}"));
    assert_eq!(
        store.history(S),
        [
            "user: where is the otter map",
            "assistant: thinking[lake or river]",
            "assistant: I look in the lake folder",
            "assistant: toolCall[Bash {\"command\":\"ls lake\"}]",
            "toolResult: map.txt",
            "assistant: It is there",
        ]
    );
    assert_unchanged(&store.import());
}

#[test]
fn text_that_nobody_typed_is_stored_and_not_searched() {
    let injected = [
        "<command-name>/clear</command-name> zebra",
        "<command-message>init</command-message> zebra",
        "<local-command-stdout>zebra</local-command-stdout>",
        "Caveat: The messages below zebra",
        " \\n<system-reminder>zebra</system-reminder>",
        "[Request interrupted by user] zebra",
    ];
    let mut lines = vec![user("u0", "", "hello")];
    for (n, text) in injected.iter().enumerate() {
        lines.push(user(&format!("i{n}"), "u0", text));
    }
    lines.push(line("m1", "u0", r#""type":"user","isMeta":true,"message":{"role":"user","content":"zebra"}"#));
    lines.push(line(
        "m2",
        "m1",
        r#""type":"user","isCompactSummary":true,"message":{"role":"user","content":"zebra"}"#,
    ));
    lines.push(line("m3", "m2", r#""type":"user","message":{"role":"user","content":[{"type":"text","text":"<ide_opened_file>zebra</ide_opened_file>"},{"type":"text","text":"typed beside it"},{"type":"image","source":{"type":"base64","data":"aGVsbG8="}}]}"#));
    lines.push(line("m4", "m3", r#""type":"system","subtype":"informational","content":"zebra""#));
    lines.push(line(
        "m5",
        "m4",
        r#""type":"user","message":{"role":"user","content":"<bash-input>make otters</bash-input>"}"#,
    ));
    let store = session_of(&lines);
    assert_eq!(counts(&store.import()), [12, 3, 0, 0]);
    assert_eq!(store.found("zebra"), [""; 0]);
    assert_eq!(store.found("typed beside"), hit("m3"));
    assert_eq!(store.found("make otters"), hit("m5"), "a command that a person typed");
    assert_eq!(
        store.history(S),
        [
            "user: hello",
            "user: injected[<ide_opened_file>zebra</ide_opened_file>] text[typed beside it] image[(5 bytes)]",
            "user: <bash-input>make otters</bash-input>",
        ]
    );
}

#[test]
fn a_prompt_typed_while_the_model_is_busy_is_found() {
    let queued = |uuid: &str, rest: &str| {
        line(uuid, "u1", &format!(r#""type":"attachment","attachment":{{"type":"queued_command",{rest}}}"#))
    };
    let store = session_of(&[
        user("u1", "", "start"),
        queued("q1", r#""prompt":"also count the zebras","commandMode":"prompt""#),
        queued("q2", r#""prompt":[{"type":"text","text":"and the giraffes"}],"commandMode":"prompt""#),
        queued("q3", r#""prompt":"task zebras done","commandMode":"task-notification""#),
        line("q4", "q2", r#""type":"attachment","attachment":{"type":"edited_text_file","snippet":"zebras"}"#),
    ]);
    assert_eq!(counts(&store.import()), [5, 3, 0, 0]);
    assert_eq!(store.found("zebras"), [""; 0], "q2 went another way: q1 is off the branch");
    assert_eq!(store.found("giraffes"), hit("q2"));
}

#[test]
fn the_last_branch_is_searched() {
    let store = session_of(&[
        user("u1", "", "first"),
        assistant("a1", "u1", "lost branch"),
        line("x1", "u1", r#""type":"progress","data":{}"#),
        assistant("a2", "x1", "kept branch"),
        user("u2", "gone", "its parent was cut off"),
    ]);
    assert_eq!(counts(&store.import()), [5, 4, 0, 0]);
    assert_eq!(store.found("branch"), hit("a2"));
    assert_eq!(store.found("first"), hit("u1"));
    assert_eq!(store.found("cut off"), hit("u2"));
    // A message edited at the very beginning is a new root; a line of the program without a parent is none.
    store.append(&file(S), &line("h1", "", r#""type":"system","subtype":"session_start","content":"x""#));
    store.append(&file(S), &user("u3", "h1", "goes on"));
    assert_eq!(counts(&store.import()), [2, 1, 0, 0]);
    assert_eq!(store.found("first"), hit("u1"));
    store.append(&file(S), &user("u4", "", "another beginning"));
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("first"), [""; 0]);
    assert_eq!(store.found("another"), hit("u4"));
}

#[test]
fn a_compaction_keeps_what_was_said_before_it() {
    let boundary = line(
        "b1",
        "",
        r#""type":"system","subtype":"compact_boundary","logicalParentUuid":"a1","content":"compacted""#,
    );
    let store = session_of(&[
        user("u1", "", "early otters"),
        assistant("a1", "u1", "early answer"),
        boundary,
        line("s1", "b1", r#""type":"user","isCompactSummary":true,"message":{"role":"user","content":"summary"}"#),
        user("u2", "s1", "late otters"),
    ]);
    store.import();
    assert_eq!(store.found("otters"), [hit("u1"), hit("u2")].concat());
    assert_eq!(store.found("summary"), [""; 0]);
}

#[test]
fn titles_name_the_session() {
    let title = |kind: &str, member: &str, text: &str| {
        format!("{{\"type\":\"{kind}\",\"{member}\":\"{text}\",\"sessionId\":\"{S}\"}}\n")
    };
    let summary =
        |text: &str, leaf: &str| format!("{{\"type\":\"summary\",\"summary\":\"{text}\",\"leafUuid\":\"{leaf}\"}}\n");
    let foreign = summary("Of another file", "elsewhere");
    let label = |lines: &[String]| {
        let store = session_of(lines);
        store.import();
        store.session(S).label
    };
    let u1 = || user("u1", "", "x");
    assert_eq!(label(&[foreign.clone(), u1()]), None);
    assert_eq!(label(&[summary("Otter maps", "u1"), foreign.clone(), u1()]).as_deref(), Some("Otter maps"));
    let ai = title("ai-title", "aiTitle", "Made up");
    assert_eq!(label(&[u1(), ai.clone(), title("ai-title", "aiTitle", " Later ")]).as_deref(), Some("Later"));
    let custom = title("custom-title", "customTitle", "Mine");
    assert_eq!(label(&[u1(), custom.clone(), ai.clone()]).as_deref(), Some("Mine"), "a person's name stays");
    let store = session_of(&[u1(), ai.clone()]);
    store.import();
    store.append(&file(S), &custom);
    store.import();
    store.append(&file(S), &ai);
    store.import();
    assert_eq!(store.session(S).label.as_deref(), Some("Mine"));
}

#[test]
fn a_sub_agent_with_a_file_is_a_session_of_its_parent() {
    let of_agent =
        |text: &str| user("u1", "", text).replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"x1\"");
    let store = Imported::with(&[
        (&file(S), &user("u1", "", "main work")),
        (&format!("projects/-w/{S}/subagents/agent-x1.jsonl"), &of_agent("search the reeds")),
        (
            &format!("projects/-w/{S}/subagents/agent-x1.meta.json"),
            r#"{"agentType":"general","description":" Reeds "}"#,
        ),
        ("projects/-w/agent-y2.jsonl", &of_agent("look beside").replace("x1", "y2")),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([3, 3, 0, 0], 3), "{summary:?}");
    let parent = format!("agent:main:claude-code:{S}");
    for (id, label) in [("agent-x1", Some("Reeds")), ("agent-y2", None)] {
        let session = store.session(id);
        assert_eq!(session.session_key.as_str(), format!("agent:main:claude-code:{id}"));
        assert_eq!(session.spawned_by.as_ref().map(SessionKey::as_str), Some(parent.as_str()));
        assert_eq!(session.label.as_deref(), label);
    }
    assert_eq!(store.session(S).spawned_by, None);
    assert_eq!(store.found("reeds"), ["agent-x1/u1"]);
    assert_unchanged(&store.import());
}

#[test]
fn sub_agents_among_their_parents_lines_are_sessions_too() {
    let aside = |text: String| text.replace("\"isSidechain\":false", "\"isSidechain\":true");
    let named = |text: String| aside(text).replace("\"uuid\"", "\"agentId\":\"x1\",\"uuid\"");
    let name = file(S);
    let store = session_of(&[
        user("u1", "", "main otters"),
        aside(user("c1", "", "first chain otters")),
        aside(user("d1", "", "second chain otters")),
        aside(assistant("c2", "c1", "first chain answer")),
        assistant("a1", "u1", "main answer"),
        aside(assistant("d2", "d1", "second chain answer")),
        named(user("e1", "", "named otters")),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([7, 7, 0, 0], 4), "{summary:?}");
    assert_eq!(
        store.found("otters"),
        [format!("{S}/u1"), "agent-c1/c1".into(), "agent-d1/d1".into(), "agent-x1/e1".into()]
    );
    assert_eq!(store.history("agent-c1"), ["user: first chain otters", "assistant: first chain answer"]);
    assert_eq!(store.history(S), ["user: main otters", "assistant: main answer"]);
    let parent = store.session("agent-d1").spawned_by;
    assert_eq!(parent.as_ref().map(SessionKey::as_str), Some(format!("agent:main:claude-code:{S}").as_str()));
    assert_unchanged(&store.import());

    store.append(&name, &aside(user("c3", "c2", "chain goes on")));
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("goes on"), ["agent-c1/c3"]);

    // Deleted on purpose: its lines are passed over, the others go on, until it is revived.
    store.delete("agent-c1");
    store.append(&name, &format!("{}{}", aside(user("c4", "c3", "chain otters")), user("u2", "a1", "still here")));
    let summary = store.import();
    assert_eq!(counts(&summary), [1, 1, 1, 0], "{summary:?}");
    assert_eq!(store.found("still here"), hit("u2"));
    assert!(!store.found("chain otters").iter().any(|hit| hit.starts_with("agent-c1")));
    let mut store = store;
    store.options.revive = true;
    assert_eq!(counts(&store.import()), [4, 4, 6, 0]);
    assert_eq!(store.found("chain otters"), ["agent-c1/c1", "agent-c1/c4", "agent-d1/d1"]);

    // Written anew by someone: that takes the place of what was there, and what the file holds no more is gone.
    store.write(&name, format!("{}{}", user("u1", "", "new main"), aside(user("d1", "", "new chain"))).as_bytes());
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([2, 2, 0, 0], 2), "{summary:?}");
    assert_eq!(store.found("main otters"), Vec::<String>::new());
    assert_eq!(store.found("otters"), Vec::<String>::new());
    assert_eq!((store.found("new main"), store.found("new chain")), (hit("u1"), vec!["agent-d1/d1".to_owned()]));
    assert_eq!(store.sessions().len(), 2);
    assert_unchanged(&store.import());
}

/// D26.
#[test]
fn copies_of_lines_under_another_id_are_a_session_of_their_own() {
    let other = "0a1b2c3d-0000-4000-8000-000000000002";
    let old = [user("u1", "", "shared otters"), assistant("a1", "u1", "shared answer")].concat();
    let forked =
        old.replace("\"uuid\"", &format!("\"forkedFrom\":{{\"sessionId\":\"{S}\",\"messageUuid\":\"u1\"}},\"uuid\""));
    let new = user("u2", "a1", "only in the fork").replace(S, other);
    let store = Imported::with(&[
        (&file(S), &old),
        (&file(other), &format!("{forked}{new}")),
        // The same session twice: the longer copy goes on, the other holds nothing new.
        (&format!("z/a/{S}.jsonl"), &format!("{old}{}", user("u3", "a1", "only in the copy"))),
        (&format!("z/b/{S}.jsonl"), &old),
    ]);
    let summary = store.import();
    assert_eq!(store.found("fork"), [format!("{other}/u2")]);
    assert_eq!(store.found("only in the copy"), hit("u3"));
    assert_eq!(store.found("shared otters"), [hit("u1"), vec![format!("{other}/u1")]].concat());
    let parent = store.session(other).parent_session_key;
    assert_eq!(parent.as_ref().map(SessionKey::as_str), Some(format!("agent:main:claude-code:{S}").as_str()));
    assert_eq!(summary.files_skipped.len(), 1, "{summary:?}");
    assert!(summary.files_skipped[0].reason.starts_with("other copy of "), "{summary:?}");
}

/// Cases 9 to 12, 14, 15 and 27.
#[test]
fn broken_input_is_taken_as_far_as_it_goes() {
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(user("u1", "", "cut \\ud83d emoji").as_bytes());
    bytes.extend(user("u2", "u1", "a @ byte").replace('@', "\u{0}").as_bytes());
    let at = bytes.iter().rposition(|&byte| byte == 0).unwrap();
    bytes[at] = 0xff;
    for broken in ["\n", "not json\n", "42\n", "{}{}\n"] {
        bytes.extend(broken.as_bytes());
    }
    let same = user("u3", "u2", "same");
    bytes.extend(format!("{same}{same}{}", user("u3", "u2", "other text")).as_bytes());
    for (n, time) in ["1785000000000.7", "1e20", "-5", "\"soon\"", "null"].iter().enumerate() {
        let line = user(&format!("t{n}"), "u3", "timed").replace("\"2026-02-01T09:00:00.000Z\"", time);
        bytes.extend(line.as_bytes());
    }
    let half = user("u9", "t4", "late words");
    bytes.extend(&half.as_bytes()[..60]);
    let store = Imported::with(&[]);
    store.write(&file(S), &bytes);
    let summary = store.import();
    // 3 conversation lines, 5 with odd times; a blank and a repeated one; 3 that are no object, a conflict.
    assert_eq!((summary.events, summary.skipped, summary.rejected_total), (8, 2, 4), "{summary:?}");
    let warned = |part: &str| summary.warnings.iter().filter(|warning| warning.reason.contains(part)).count();
    assert_eq!((warned("surrogate"), warned("invalid byte"), warned("time unknown")), (1, 1, 5), "{summary:?}");
    assert_eq!(store.found("emoji"), hit("u1"));
    assert_eq!(store.found("other"), [""; 0], "the first is kept");
    store.append(&file(S), &half[60..]);
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("late words"), hit("u9"));
}

#[test]
fn a_file_is_known_by_its_lines() {
    let old = r#"{"type":"user","sessionId":"plain","timestamp":"2026-02-01T09:00:00Z","message":{"role":"user","content":"no uuid"}}"#;
    let store = Imported::with(&[
        ("a/session.jsonl", &user("u1", "", "named by its lines")),
        ("b/plain.jsonl", old),
        ("c/odd.jsonl", &user("u1", "", "x").replace(&format!("\"sessionId\":\"{S}\","), "")),
        ("d/history.jsonl", "{\"display\":\"x\",\"timestamp\":1,\"project\":\"/w\",\"sessionId\":\"s\"}\n"),
        ("e/table.jsonl", "{\"type\":\"row\",\"value\":1}\n"),
    ]);
    let summary = store.import();
    let ids: Vec<_> = store.sessions().into_iter().map(|session| session.session_id.as_str().to_owned()).collect();
    assert_eq!(ids, [S, "odd", "plain"]);
    assert_eq!(summary.files_skipped.len(), 2, "{summary:?}");
    assert_eq!(store.found("uuid"), [""; 0], "without an id it is stored and not searched");
    assert!(summary.warnings.iter().any(|warning| warning.reason.contains("without an id")));
    assert_eq!(store.history("plain"), ["user: no uuid"]);
}

#[test]
fn an_id_beyond_the_bound_rejects_its_line_alone() {
    let too_long = "x".repeat(70_000);
    let store = session_of(&[user("u1", "", "otters"), user(&too_long, "u1", "x"), user("u2", "u1", "otters")]);
    let summary = store.import();
    assert_eq!((summary.events, summary.rejected_total), (2, 1), "{summary:?}");
    assert_eq!(store.found("otters"), [hit("u1"), hit("u2")].concat());
}
