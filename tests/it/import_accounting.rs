//! Every line of every file is accounted for, whatever it holds; and what is searched of real files is what a count
//! that knows nothing of the importers says.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sessions_search::__internal::Event;
use sessions_search::__internal::import::{self, DiscoverOptions, Format, ImportError, Item, ResumePoint};

use crate::data;
use crate::imported::{Imported, assert_unchanged, counts};
use crate::random::Random;

/// Every file below a folder, sorted.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Lines of a file; of a whole object its messages.
fn num_lines(path: &Path, bytes: &[u8]) -> u64 {
    if path.extension().is_some_and(|extension| extension == "json") {
        let object: Value = serde_json::from_slice(bytes).unwrap();
        let messages = object.get("messages").or_else(|| object.get("history")).and_then(Value::as_array);
        return messages.map_or(0, Vec::len) as u64;
    }
    bytes.split_inclusive(|&byte| byte == b'\n').count() as u64
}

/// Each file of the data folder, in a store of its own: lines add up, messages are as counted, twice changes nothing.
#[test]
fn real_files_add_up_and_their_messages_are_as_counted() {
    let Some(data) = data::test_data("real_files_add_up_and_their_messages_are_as_counted") else { return };
    let mut messages: HashMap<&str, u64> = HashMap::new();
    for part in ["claude-code", "codex", "gemini-cli", "edge-cases"] {
        for path in files_below(&data.join(part)) {
            let bytes = fs::read(&path).unwrap();
            let store = Imported::with(&[]);
            let summary = store.import_from(&path);
            let lines = num_lines(&path, &bytes);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".meta.json") || name == "sessions-index.json" || bytes.is_empty() {
                assert_eq!(summary.files_skipped.len(), 1, "{path:?}");
                continue;
            }
            assert_eq!(summary.files_skipped, [], "{path:?}");
            let torn = u64::from(name == "truncated_last_line.jsonl");
            assert_eq!(summary.events + summary.skipped + summary.rejected_total, lines - torn, "{path:?} {summary:?}");
            let values: Vec<Value> =
                bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
            let counted = match part {
                "claude-code" => Some(claude_messages(&values)),
                "codex" => Some(codex_messages(&values)),
                "gemini-cli" if name.ends_with(".json") => {
                    let object: Value = serde_json::from_slice(&bytes).unwrap();
                    Some(gemini_messages(object["messages"].as_array().cloned().unwrap_or_default()))
                }
                "gemini-cli" => Some(gemini_messages(gemini_list(&values))),
                _ => None,
            };
            if let Some(counted) = counted {
                assert_eq!(summary.messages, counted, "{path:?} {summary:?}");
                *messages.entry(part).or_default() += counted;
            }
            assert_unchanged(&store.import_from(&path));
        }
    }
    assert!(messages["claude-code"] >= 150 && messages["codex"] > 30 && messages["gemini-cli"] > 20, "{messages:?}");
}

/// The whole data folder in one store.
#[test]
fn the_whole_data_folder_is_taken_once() {
    let Some(data) = data::test_data("the_whole_data_folder_is_taken_once") else { return };
    for part in ["claude-code", "codex", "gemini-cli"] {
        let store = Imported::with(&[]);
        let summary = store.import_from(&data.join(part));
        assert!(summary.sessions > 5, "{part}: {summary:?}");
        assert_eq!(store.sessions().len() as u64, summary.sessions, "{part}");
        assert_unchanged(&store.import_from(&data.join(part)));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_said(text: &str, injected: &[&str]) -> bool {
    !text.trim().is_empty() && !injected.iter().any(|beginning| text.trim_start().starts_with(beginning))
}

/// Whether a string, or a block of text in a list, says anything.
fn says(content: &Value, injected: &[&str]) -> bool {
    match content {
        Value::String(content) => is_said(content, injected),
        Value::Array(blocks) => blocks.iter().any(|block| {
            let is_text = block["type"].is_null() || text(&block["type"]).ends_with("text");
            is_text && (is_said(text(&block["text"]), injected) || is_said(text(block), injected))
        }),
        _ => false,
    }
}

fn claude_messages(lines: &[Value]) -> u64 {
    let injected = [
        "<command-name>",
        "<command-message>",
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<bash-stdout>",
        "<bash-stderr>",
        "<system-reminder>",
        "<task-notification>",
        "<ide_",
        "Caveat:",
        "[Request interrupted",
    ];
    let mut seen = HashSet::new();
    let mut count = 0;
    for line in lines {
        if text(&line["uuid"]).is_empty() || !seen.insert(text(&line["uuid"])) {
            continue;
        }
        let content = &line["message"]["content"];
        let answers =
            content.as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
        let by_program = line["isMeta"] == true || line["isCompactSummary"] == true || answers;
        count += u64::from(match text(&line["type"]) {
            "user" => !by_program && says(content, &injected),
            "assistant" => says(content, &[]),
            "attachment" => {
                let attachment = &line["attachment"];
                attachment["type"] == "queued_command" && says(&attachment["prompt"], &injected)
            }
            _ => false,
        });
    }
    count
}

fn codex_messages(lines: &[Value]) -> u64 {
    let injected = ["<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md"];
    let (mut items, mut events) = (0, 0);
    for line in lines {
        let payload = &line["payload"];
        let item = if line["type"] == "response_item" { payload } else { line };
        let is_message = item["type"] == "message" || item["type"].is_null();
        let content = if item["content"].is_null() { &item["message"] } else { &item["content"] };
        items += u64::from(match text(&item["role"]) {
            "user" => is_message && says(content, &injected),
            "assistant" => is_message && says(content, &[]),
            _ => false,
        });
        let is_event =
            line["type"] == "event_msg" && ["user_message", "agent_message"].contains(&text(&payload["type"]));
        events += u64::from(is_event && says(&payload["message"], &injected));
    }
    if items > 0 { items } else { events }
}

/// The list that a log leaves.
fn gemini_list(lines: &[Value]) -> Vec<Value> {
    let mut list: Vec<Value> = Vec::new();
    for line in lines {
        if let Some(id) = line["$rewindTo"].as_str() {
            list.truncate(list.iter().position(|message| message["id"] == id).unwrap_or(0));
        } else if line["id"].is_string() {
            match list.iter_mut().find(|message| message["id"] == line["id"]) {
                Some(message) => *message = line.clone(),
                None => list.push(line.clone()),
            }
        } else if let Some(messages) = line["$set"]["messages"].as_array() {
            list.clone_from(messages);
        }
    }
    list
}

fn gemini_messages(list: Vec<Value>) -> u64 {
    let counts = |message: &&Value| {
        let content = if message["content"].is_null() { &message["parts"] } else { &message["content"] };
        ["user", "gemini", "model"].contains(&text(&message["type"])) && says(content, &["<session_context>"])
    };
    list.iter().filter(counts).count() as u64
}

/// Invented files, one or more a format, which the tests below spoil.
fn samples() -> Vec<(Format, &'static str, Vec<String>)> {
    let claude = [
        r#"{"type":"summary","summary":"Otters","leafUuid":"u3"}"#,
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-02-01T09:00:00Z","isSidechain":false,"message":{"role":"user","content":"hello"}}"#,
        r#"{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":1769936400000,"message":{"role":"assistant","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"ls","input":{"a":[1]}}]}}"#,
        r#"{"type":"user","uuid":"u3","parentUuid":"u2","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]}]}}"#,
        r#"{"type":"user","uuid":"c1","parentUuid":null,"isSidechain":true,"sessionId":"s","message":{"role":"user","content":"side"}}"#,
        r#"{"type":"assistant","uuid":"c2","parentUuid":"c1","isSidechain":true,"agentId":"x","sessionId":"s","message":{"role":"assistant","content":"side"}}"#,
        r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"u3","sessionId":"s"}"#,
        r#"{"type":"attachment","uuid":"q","parentUuid":"b","sessionId":"s","attachment":{"type":"queued_command","prompt":"more"}}"#,
        r#"{"type":"custom-title","customTitle":"T","sessionId":"s"}"#,
    ];
    let codex = [
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"session_meta","payload":{"id":"0a1b2c3d-0000-4000-8000-00000000000a","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p"}}}}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"hello"}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"},{"type":"input_image","image_url":"data:;base64,AA"}]}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"response_item","payload":{"type":"reasoning","summary":[{"text":"hm"}]}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"response_item","payload":{"type":"function_call","name":"ls","arguments":"{\"a\":1}","call_id":"c"}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":{"a":[1]}}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"response_item","payload":{"role":"assistant","content":"hi"}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}"#,
        r#"{"timestamp":"2026-02-01T09:00:00Z","type":"compacted","payload":{"message":"x","replacement_history":[]}}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"bare"}]}"#,
    ];
    let gemini = [
        r#"{"sessionId":"g","projectHash":"0","startTime":"2026-02-01T09:00:00Z","summary":"x"}"#,
        r#"{"id":"a","timestamp":"2026-02-01T09:00:00Z","type":"user","content":[{"text":"hello"}],"displayContent":"hello"}"#,
        r#"{"id":"b","timestamp":"2026-02-01T09:00:00Z","type":"gemini","content":"","thoughts":[{"subject":"s"}]}"#,
        r#"{"id":"b","timestamp":"2026-02-01T09:00:00Z","type":"gemini","content":"hi","toolCalls":[{"id":"t","name":"ls","args":{},"result":[{"functionResponse":{"response":{"output":"a"}}}]}]}"#,
        r#"{"$rewindTo":"b"}"#,
        r#"{"id":"c","type":"info","content":{"text":"x"}}"#,
        r#"{"$set":{"messages":[{"id":"a","type":"user","content":"hello"},{"id":"d","type":"gemini","content":[{"text":"x"},{"inlineData":{"data":"AA"}}]}],"summary":"y"}}"#,
        r#"{"id":"a","type":"user","content":"again"}"#,
        r#"{"id":"e","type":"user","content":[{"functionResponse":{"response":{}}}]}"#,
    ];
    let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    vec![
        (Format::ClaudeCode, "s.jsonl", own(&claude)),
        (Format::Codex, "rollout-0a1b2c3d-0000-4000-8000-00000000000a.jsonl", own(&codex)),
        (Format::GeminiCli, "g.jsonl", own(&gemini)),
        (
            Format::GeminiCli,
            "session-h.json",
            vec![format!("{{\"sessionId\":\"h\",\"projectHash\":\"0\",\"messages\":[{},{}]}}", gemini[1], gemini[3])],
        ),
    ]
}

/// A file made of some of the lines, in any order, with a few bytes spoiled.
fn spoiled(random: &mut Random, lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(2 * lines.len()) {
        bytes.extend_from_slice(lines[random.below(lines.len())].as_bytes());
        bytes.extend_from_slice(random.pick(&[&b"\n"[..], b"\n", b"\n", b"\r\n", b"\n\n", b"", b"\xef\xbb\xbf\n"]));
    }
    for _ in 0..random.pick(&[0, 0, 1, 3, 10]) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] = random.pick(b"{}[]\",:\\n0"),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at.max(1)),
            _ => {
                let end = (at + random.below(40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// The items' lines in order: each once, parts after their line, nothing after a torn one.
fn check_items(items: &[Item], is_object: bool) -> u64 {
    let (mut lines, mut is_torn) = (0, false);
    for item in items {
        assert!(!is_torn);
        match item {
            Item::Event(event) => {
                if let Some(normalized) = &event.normalized {
                    Event::parse(normalized).unwrap();
                }
                if event.is_part {
                    assert!(event.raw.is_empty() && event.line == lines);
                    continue;
                }
                assert!(!event.raw.is_empty());
                lines += 1;
                assert_eq!(event.line, lines);
            }
            Item::Skipped { line, end } | Item::Rejected { line, end, .. } => {
                lines += 1;
                assert_eq!((*line, end.line), (lines, lines));
            }
            Item::Torn { line, .. } => {
                assert_eq!(*line, lines + 1);
                is_torn = true;
            }
        }
    }
    if is_torn && !is_object { lines + 1 } else { lines }
}

#[test]
fn no_bytes_make_an_importer_panic_or_lose_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name, lines) in samples() {
        let path = folder.path().join(name);
        let is_object = name.ends_with(".json");
        for seed in 0..400 {
            let bytes = spoiled(&mut Random::new(seed), &lines);
            fs::write(&path, &bytes).unwrap();
            let options = DiscoverOptions { format: Some(format), ..DiscoverOptions::default() };
            let found = import::discover(std::slice::from_ref(&path), &options).unwrap();
            let Some(source) = found.sources.first() else { continue };
            let items: Vec<Item> = import::open(source, None).unwrap().collect::<Result<_, _>>().unwrap();
            let counted = check_items(&items, is_object);
            let expected = bytes.split_inclusive(|&byte| byte == b'\n').count() as u64;
            // A log's line that is being written is left for later without a word.
            let torn = u64::from(name == "g.jsonl" && !bytes.ends_with(b"\n"));
            if !is_object {
                assert!((expected - torn..=expected).contains(&counted), "{format:?} {seed}: {counted} of {expected}");
            }

            // From any place between two lines on, the rest comes as before, or the file has to be read anew.
            let places = items.iter().filter_map(|item| match item {
                Item::Event(event) => Some(event.end),
                Item::Skipped { end, .. } | Item::Rejected { end, .. } => Some(*end),
                Item::Torn { .. } => None,
            });
            for place in places.step_by(3) {
                let point = ResumePoint::at(&path, place).unwrap();
                match import::open(source, Some(&point)) {
                    Ok(reader) => {
                        let rest: Vec<Item> = reader.collect::<Result<_, _>>().unwrap();
                        let after = |item: &&Item| match item {
                            Item::Event(event) => event.line > place.line,
                            Item::Skipped { line, .. } | Item::Rejected { line, .. } | Item::Torn { line, .. } => {
                                *line > place.line
                            }
                        };
                        let expected: Vec<_> = items.iter().filter(after).collect();
                        assert_eq!(
                            format!("{expected:?}"),
                            format!("{:?}", rest.iter().collect::<Vec<_>>()),
                            "{format:?} {seed}"
                        );
                    }
                    Err(error) => assert!(matches!(error, ImportError::Restated { .. }), "{error}"),
                }
            }
        }
    }
}

#[test]
fn spoiled_files_are_imported_once_and_add_up() {
    for (format, name, lines) in samples() {
        for seed in 1_000..1_012 {
            let mut random = Random::new(seed);
            let mut bytes = spoiled(&mut random, &lines);
            bytes.push(b'\n');
            let mut store = Imported::with(&[]);
            store.options.format = Some(format);
            if !name.ends_with(".json") {
                store.write(name, &bytes[..cut(&mut random, &bytes)]);
                store.import();
                assert_unchanged(&store.import());
            }
            // It grew, perhaps in the middle of a line: it is as if it were imported at once.
            store.write(name, &bytes);
            store.import();
            assert_unchanged(&store.import());
            let mut whole = Imported::with(&[]);
            whole.options.format = Some(format);
            whole.write(name, &bytes);
            let [events, _, skipped, rejected] = counts(&whole.import());
            if !name.ends_with(".json") {
                let expected = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
                assert_eq!(events + skipped + rejected, expected, "{format:?} {seed}");
            }
            let shown = |store: &Imported| {
                let ids = store.sessions().into_iter().map(|session| (session.session_id, session.messages));
                (ids.collect::<Vec<_>>(), store.found("hello"), store.found("hi"))
            };
            assert_eq!(shown(&store), shown(&whole), "{format:?} {seed}");
        }
    }
}

/// Somewhere in the file, but not behind an object that is complete without its line end: that one counts.
fn cut(random: &mut Random, bytes: &[u8]) -> usize {
    let at = random.below(bytes.len());
    let line = bytes[..at].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if Event::parse(line).is_err() {
        return at;
    }
    at + bytes[at..].iter().position(|&byte| byte == b'\n').unwrap_or_default() + 1
}
