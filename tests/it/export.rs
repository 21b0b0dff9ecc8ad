//! Sessions written out: byte for byte and back again, as conversations, and by the program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sessions_search::{
    AppendRequest, Engine, ExportError, ExportFormat, ExportOptions, ExportSummary, ImportOptions, SessionFacts,
    SessionId, SessionKey, Timestamp,
};

use crate::data;
use crate::program::{Program, fixtures, message};
use crate::stores::{NOW, Stores, assert_same, files};

fn export(engine: &Engine, root: &Path, options: &ExportOptions) -> Result<ExportSummary, ExportError> {
    engine.export(root, options, &mut |_| {})
}

fn append(engine: &Engine, key: &str, id: &str, lines: &[&str]) {
    let lines = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
    let mut request = AppendRequest::new(SessionKey::parse(key).unwrap(), lines);
    request.session_id = Some(SessionId::parse(id).unwrap());
    for stored in engine.append(request, Timestamp::from_millis(NOW).unwrap()).unwrap() {
        stored.unwrap();
    }
}

/// Importing what was exported of these transcripts gives the same sessions, events and answers.
fn assert_comes_back(path: &Path) -> u64 {
    let first = Stores::imported(path);
    let exported = first.exported();
    let second = Stores::imported(exported.path());
    assert_same(&first, &second, &path.display().to_string());
    first.agents().iter().map(|agent| first.engine(agent).status().unwrap().events).sum()
}

#[test]
fn the_fixtures_come_back_byte_for_byte() {
    assert_comes_back(&fixtures());
    let exported = Stores::imported(&fixtures()).exported();
    for folder in ["agents/main/sessions", "agents/work/sessions"] {
        for entry in fs::read_dir(fixtures().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".jsonl") {
                let as_exported = fs::read(exported.path().join(folder).join(&name)).unwrap();
                assert!(as_exported == fs::read(&path).unwrap(), "{name}");
            }
        }
    }
}

#[test]
fn real_transcripts_of_every_format_come_back() {
    let Some(data) = data::test_data("real_transcripts_of_every_format_come_back") else { return };
    let mut events = 0;
    for format in ["openclaw", "claude-code", "codex", "gemini-cli"] {
        for entry in fs::read_dir(data.join(format)).unwrap() {
            events += assert_comes_back(&entry.unwrap().path());
        }
    }
    for entry in fs::read_dir(data.join("edge-cases")).unwrap() {
        let path = entry.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 0 {
            events += assert_comes_back(&path);
        }
    }
    assert!(events > 3_000, "{events}");
}

#[test]
fn keys_windows_names_and_lineage_come_back() {
    let stores = Stores::new();
    let engine = stores.engine("main");
    append(&engine, "agent:main:main", "z-oldest", &[&message("a1", "user", "the first otter")]);
    append(&engine, "agent:main:main", "a-newest", &[&message("b1", "user", "the second otter")]);
    let mut request = AppendRequest::new(
        SessionKey::parse("agent:main:subagent:one").unwrap(),
        vec![message("c1", "assistant", "an otter's child").into_bytes()],
    );
    request.session_id = SessionId::parse("child").ok();
    request.facts = SessionFacts {
        label: Some("a \"child\"".into()),
        spawned_by: SessionKey::parse("agent:main:main").ok(),
        parent: SessionKey::parse("agent:main:parent").ok(),
        owner: SessionKey::parse("agent:main:owner").ok(),
        ..SessionFacts::default()
    };
    engine.append(request, Timestamp::from_millis(NOW).unwrap()).unwrap();
    append(&engine, "cron:nightly", "job", &[&message("d1", "user", "otter report")]);
    engine.set_archived(&SessionKey::parse("cron:nightly").unwrap(), true).unwrap();
    drop(engine);

    let exported = stores.exported();
    let index: Value = serde_json::from_slice(&files(exported.path())["agents/main/sessions/sessions.json"]).unwrap();
    assert_eq!(index["agent:main:main"]["sessionId"], "a-newest");
    assert_eq!(index["agent:main:main"]["windows"][0]["sessionId"], "z-oldest");
    assert_eq!(index["agent:main:subagent:one"]["label"], "a \"child\"");
    assert_eq!(index["agent:main:subagent:one"]["sessionFile"], "child.jsonl");
    let again = Stores::imported(exported.path());
    let words = ["otter", "first", "second", "report"].map(str::to_owned);
    assert_eq!(stores.seen(&words), again.seen(&words));
    assert_eq!(files(exported.path()), files(again.exported().path()));
    // A message that both windows might hold is looked for in the current one first.
    append(&again.engine("main"), "agent:main:main", "a-newest", &[&message("b2", "user", "more")]);
}

#[test]
fn lines_are_written_as_given_save_what_the_store_knows_better() {
    let stores = Stores::new();
    let engine = stores.engine("main");
    let timed = r#"{ "type":"message", "id":"a1", "parentId":null, "timestamp":"2026-05-11T08:00:00Z", "x":1.50, "message":{"role":"user","content":"root"} }"#;
    let untimed = r#"{"type":"message","id":"a2","parentId":"a1","timestamp":"soon","message":{"role":"assistant","content":"leaf"}}"#;
    let stale = r#"{"type":"message","id":"a3","parentId":"a1","timestamp":7,"message":{"role":"user","content":"stale parent"}}"#;
    let no_id = r#"{"type":"message","message":{"role":"user","content":"no id"}}"#;
    append(&engine, "agent:main:main", "s1", &[timed, untimed, stale, no_id]);
    let mut out = Vec::new();
    let exported = engine.export_session("main", ExportFormat::Jsonl, &mut out).unwrap();
    assert_eq!((exported.session_id.as_str(), exported.summary.events), ("s1", 4));
    assert_eq!(exported.summary.bytes, out.len() as u64);
    let at = "\"2026-07-25T17:20:00.000Z\"";
    let expected = [
        timed.to_owned(),
        untimed.replace("\"soon\"", at),
        stale.replace("\"parentId\":\"a1\"", "\"parentId\":\"a2\""),
        no_id.replace("}}", &format!("}},\"timestamp\":{at}}}")),
    ];
    assert_eq!(String::from_utf8(out).unwrap(), expected.map(|line| line + "\n").concat());
    drop(engine);
    let exported = stores.exported();
    let again = Stores::imported(exported.path());
    let words = ["root", "leaf", "stale"].map(str::to_owned);
    assert_eq!(stores.seen(&words), again.seen(&words));
}

#[test]
fn what_was_appended_to_other_formats_sessions_comes_back_too() {
    let claude = r#"{"parentUuid":null,"type":"user","sessionId":"c1","uuid":"u1","timestamp":"2026-02-01T09:00:00.000Z","message":{"role":"user","content":"claude otter"}}"#;
    let codex = [
        r#"{"timestamp":"2026-02-01T09:00:00.000Z","type":"session_meta","payload":{"id":"t1"}}"#,
        "",
        r#"{"timestamp":"2026-02-01T09:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"codex otter"}]}}"#,
    ];
    let gemini = [
        r#"{"sessionId":"g1","projectHash":"00","startTime":"2026-02-01T09:00:00.000Z","kind":"main"}"#,
        r#"{"id":"m1","timestamp":"2026-02-01T09:00:00.000Z","type":"user","content":[{"text":"gemini otter"}]}"#,
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, lines) in [("c1", claude.to_owned()), ("t1", codex.join("\n")), ("g1", gemini.join("\n"))] {
        fs::write(folder.path().join(format!("{name}.jsonl")), lines + "\n").unwrap();
    }
    let stores = Stores::imported(folder.path());
    let engine = stores.engine("main");
    for (format, id) in [("claude-code", "c1"), ("codex", "t1"), ("gemini-cli", "g1")] {
        let leaf = r#"{"type":"leaf","id":"l1","parentId":"a1","targetId":"a1"}"#;
        let lines = [
            message("a1", "assistant", "appended otter"),
            message("a2", "assistant", "rewound otter"),
            leaf.to_owned(),
            message("a3", "user", "otter after the rewind"),
        ];
        append(&engine, &format!("agent:main:{format}:{id}"), id, &lines.each_ref().map(String::as_str));
    }
    drop(engine);
    let again = Stores::imported(stores.exported().path());
    assert_same(&stores, &again, "appended");
    let found = again.seen(&["otter".to_owned()])[0].2[0]["results"].as_array().unwrap().len();
    assert_eq!(found, 9, "three of each: what was rewound is not found");
}

#[test]
fn ids_that_look_like_paths_stay_in_their_folder() {
    let stores = Stores::new();
    let engine = stores.engine("main");
    let ids = ["../../up", "/etc/passwd", "..", "a/b", "A/B", "nul\0l", "x.checkpoint.y", "%2e", "sessions.json"];
    for (at, id) in ids.iter().enumerate() {
        append(&engine, &format!("agent:main:k{at}"), id, &[&message("m", "user", "an otter")]);
    }
    drop(engine);
    let exported = stores.exported();
    assert_eq!(fs::read_dir(exported.path()).unwrap().count(), 1);
    let written = files(exported.path());
    assert_eq!(written.len(), ids.len() + 1);
    assert!(written.keys().all(|name| name.starts_with("agents/main/sessions/")), "{written:?}");
    let again = Stores::imported(exported.path());
    assert_eq!(stores.seen(&["otter".into()]), again.seen(&["otter".into()]));
}

#[test]
fn nothing_of_others_is_replaced_unless_asked_for() {
    let stores = Stores::new();
    let engine = stores.engine("main");
    append(&engine, "agent:main:a", "s1", &[&message("m", "user", "one")]);
    append(&engine, "agent:main:b", "s2", &[&message("m", "user", "two")]);
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("agents/main/sessions");
    fs::create_dir_all(&sessions).unwrap();
    fs::write(sessions.join("s2.jsonl"), "mine").unwrap();
    let mut options = ExportOptions::default();
    let error = export(&engine, folder.path(), &options).unwrap_err();
    assert!(matches!(&error, ExportError::Exists { files: 1, .. }), "{error}");
    assert_eq!(files(folder.path()).len(), 1, "nothing was written");
    assert_eq!(fs::read(sessions.join("s2.jsonl")).unwrap(), b"mine");

    options.overwrite = true;
    let summary = export(&engine, folder.path(), &options).unwrap();
    assert_eq!((summary.sessions, summary.events, summary.files), (2, 2, 3));
    let written = files(folder.path());
    assert_eq!(summary.bytes, written.values().map(Vec::len).sum::<usize>() as u64);
    assert!(String::from_utf8_lossy(&written["agents/main/sessions/s2.jsonl"]).contains("\"two\""));

    // A folder in the way: the first session is written, the second not, and nothing half-made stays.
    fs::remove_file(sessions.join("s2.jsonl")).unwrap();
    fs::create_dir_all(sessions.join("s2.jsonl/x")).unwrap();
    let error = export(&engine, folder.path(), &options).unwrap_err();
    assert!(matches!(&error, ExportError::Write { written: 1, sessions: 2, .. }), "{error}");
    assert!(error.to_string().contains("1 of 2 sessions were written before it and stay"), "{error}");
    assert!(!files(folder.path()).keys().any(|name| name.contains("export-part")));
}

/// A session with everything that has to be shown, and much that must not act.
fn conversation() -> Stores {
    let stores = Stores::new();
    let line = |id: &str, parent: &str, message: Value| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-05-11T08:00:00Z", "message": message})
            .to_string()
    };
    let lines = [
        json!({"type": "session", "version": 3, "id": "s1", "timestamp": "2026-05-11T08:00:00Z"}).to_string(),
        line("a1", "", json!({"role": "user", "content": "# Map?\n<script>alert(1)</script> \u{1b}[2J `a<b`"}))
            .replace("\"parentId\":\"\"", "\"parentId\":null"),
        line("a2", "a1", json!({"role": "assistant", "content": "an abandoned answer"})),
        line(
            "a3",
            "a1",
            json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Where is it?"},
            {"type": "text", "text": "Look:\n```rust\nlet a = \"<b>\";\n"},
            {"type": "toolCall", "id": "t1", "name": "ls", "arguments": {"path": "</pre><img src=x onerror=alert(1)>"}},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]}),
        ),
        line("a4", "a3", json!({"role": "toolResult", "content": [{"type": "text", "text": "river.txt"}]})),
        json!({"type": "compaction", "id": "a5", "parentId": "a4", "summary": "They looked for a map."}).to_string(),
        line("a6", "a5", json!({"role": "user", "content": "token=zk-live-0123456789abcdefghij"})),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s1.jsonl"), lines.join("\n") + "\n").unwrap();
    let now = Timestamp::from_millis(NOW).unwrap();
    let paths = [folder.path().to_path_buf()];
    stores.engine("main").import(&paths, &ImportOptions::default(), now, &mut |_| {}).unwrap();
    stores
}

fn rendered(format: ExportFormat) -> String {
    let mut out = Vec::new();
    conversation().engine("main").export_session("s1", format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn markdown_is_the_conversation_and_nothing_takes_it_over() {
    let text = rendered(ExportFormat::Markdown);
    for part in [
        "- Session id: `s1`\n",
        "## User · 2026-05-11 08:00 UTC\n\n### Map?\n\\<script>alert(1)\\</script> \u{fffd}[2J `a<b`\n",
        "*Thinking*\n\n```\nWhere is it?\n```\n",
        "Look:\n\n```rust\nlet a = \"<b>\";\n```\n",
        "*Tool call: ls*\n",
        "*Image (5 bytes left out)*\n",
        "## Tool result · 2026-05-11 08:00 UTC\n\n```\nriver.txt\n```\n",
        "They looked for a map.\n",
        "- Credentials are masked\n",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("abandoned"), "what was rewound is no part of the conversation");
    assert!(!text.contains("0123456789abcdefghij"), "{text}");
}

#[test]
fn a_page_is_one_file_in_which_nothing_runs() {
    let page = rendered(ExportFormat::Html);
    for part in [
        "<!DOCTYPE html>",
        "default-src 'none'",
        "prefers-color-scheme: dark",
        "&lt;script&gt;alert(1)&lt;/script&gt; \u{fffd}[2J <code>a&lt;b</code>",
        "<pre dir=\"ltr\"><code>let a = &quot;&lt;b&gt;&quot;;</code></pre>",
        "<summary dir=\"auto\">Tool call: ls</summary>",
        "&lt;/pre&gt;&lt;img src=x onerror=alert(1)&gt;",
        "<time datetime=\"2026-05-11T08:00:00.000Z\">",
    ] {
        assert!(page.contains(part), "{part:?} is missing in\n{page}");
    }
    for never in ["<script", "<img", "<link", "src=\"", "href=", "abandoned", "0123456789abcdefghij", "\u{1b}"] {
        assert!(!page.contains(never), "{never:?} in\n{page}");
    }
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn lines_are_never_redacted() {
    assert!(rendered(ExportFormat::Jsonl).contains("token=zk-live-0123456789abcdefghij"));
}

#[test]
fn the_program_exports_to_a_folder_and_to_standard_output() {
    let program = Program::new();
    let out = program.path("out");
    let out = out.to_str().unwrap();
    let nothing = program.json(2, &["export", "--out", out]);
    assert!(nothing["error"].as_str().unwrap().contains("no store"), "{nothing}");
    program.run(&["import", fixtures().to_str().unwrap()]);

    let answer = program.json(0, &["export", "--out", out]);
    assert_eq!((&answer["format"], &answer["folder"]), (&json!("jsonl"), &json!(out)));
    assert_eq!((&answer["sessions"], &answer["events"], &answer["files"]), (&json!(6), &json!(57), &json!(8)));
    assert_eq!(answer["agents"][1]["agent"], "work");
    assert_eq!(answer["bytes"], files(Path::new(out)).values().map(Vec::len).sum::<usize>());
    let again = program.json(2, &["export", "--out", out]);
    assert!(again["error"].as_str().unwrap().contains("--overwrite"), "{again}");
    program.json(0, &["export", "--out", out, "--overwrite"]);

    let pages = program.path("pages");
    let answer = program.json(0, &["--agent", "work", "export", "--out", pages.to_str().unwrap(), "--format", "html"]);
    assert_eq!((&answer["sessions"], &answer["files"]), (&json!(1), &json!(1)));
    assert!(pages.join("agents/work/sessions/12edfaae-9d91-4561-8adc-2231cb804116.html").is_file());

    // A key's current window; the agent is the key's.
    let said = program.run(&["export", "--session-key", "agent:work:main"]);
    let file = fixtures().join("agents/work/sessions/12edfaae-9d91-4561-8adc-2231cb804116.jsonl");
    assert_eq!((said.code, said.stdout), (0, fs::read_to_string(file).unwrap()), "{}", said.stderr);
    let said = program.run(&["export", "--session-key", "agent:main:main"]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("1 earlier session of this key"), "{}", said.stderr);
    let said =
        program.run(&["export", "--session-key", "19f47910-6ce8-43ba-8c10-6518060d0683", "--format", "markdown"]);
    assert!(said.code == 0 && said.stdout.starts_with("# "), "{said:?}");
}

#[test]
fn the_program_says_why_it_exports_nothing() {
    let program = Program::new();
    program.append("agent:main:a", &[message("m1", "user", "one")]);
    let said = program.run(&["export"]);
    assert_eq!((said.code, said.stdout.lines().count()), (0, 1), "the only session needs no name: {said:?}");
    program.append("agent:main:b", &[message("m1", "user", "two")]);
    for (args, code, why) in [
        (&["export"][..], 2, "--session-key"),
        (&["export", "--session-key", "agent:main:c"], 2, "no session"),
        (&["export", "--session-key", "agent:main:dashboard:incognito-1"], 3, "incognito"),
        (&["--json", "export", "--session-key", "agent:main:a"], 2, "--out"),
        (&["export", "--format", "pdf"], 2, "pdf"),
    ] {
        let said = program.run(args);
        assert_eq!(said.code, code, "{args:?} {said:?}");
        assert!((said.stdout.clone() + &said.stderr).contains(why), "{args:?} {said:?}");
    }
    let file = program.write("file", "not a folder");
    let said = program.run(&["export", "--out", file.to_str().unwrap()]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stderr.contains("0 of 2 sessions were written"), "{said:?}");
    // The pipe's reader goes away, or takes nothing.
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let child = program.command(&["export", "--session-key", "agent:main:a"]).stdout(full).output().unwrap();
        assert_eq!(child.status.code(), Some(6), "{child:?}");
    }
}

#[test]
fn what_can_be_read_of_a_damaged_store_is_written_and_the_rest_is_told() {
    let program = Program::new();
    let lines = ["q1", "q2", "q3"].map(|id| message(id, "user", &format!("otter {id}")));
    program.append("agent:main:main", &lines);
    let path = program.root().join("agents/main/transcripts.redb");
    let mut bytes = fs::read(&path).unwrap();
    // The row of the second event, from its version on: no such version is known.
    let row = [1, 1, 1, 2, b'q', b'2'];
    let places: Vec<usize> = (0..bytes.len() - row.len()).filter(|&at| bytes[at..].starts_with(&row)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] = 9;
    }
    fs::write(&path, bytes).unwrap();

    for (format, missing) in [("jsonl", "otter q2"), ("markdown", "otter q2")] {
        let said = program.run(&["export", "--session-key", "agent:main:main", "--format", format]);
        assert_eq!(said.code, 5, "{said:?}");
        assert!(said.stdout.contains("otter q1") && said.stdout.contains("otter q3"), "{said:?}");
        assert!(!said.stdout.contains(missing) && said.stderr.contains("row version 9"), "{said:?}");
    }
    let out = program.path("out");
    let answer = program.json(5, &["export", "--out", out.to_str().unwrap()]);
    assert_eq!((&answer["sessions"], &answer["events"]), (&json!(1), &json!(2)));
    assert_eq!(answer["agents"][0]["unreadableTotal"], 1, "{answer}");
    assert_eq!(fs::read_to_string(out.join(only_transcript(&out))).unwrap().lines().count(), 2);
}

fn only_transcript(out: &Path) -> String {
    files(out).into_keys().find(|name| name.ends_with(".jsonl")).unwrap()
}

#[test]
#[cfg(unix)]
fn exported_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let exported = Stores::imported(&fixtures()).exported();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let sessions = exported.path().join("agents/main/sessions");
    assert_eq!(mode(sessions.join("sessions.json")), 0o600);
    assert_eq!(mode(sessions), 0o700);
}
