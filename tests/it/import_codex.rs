//! Import of Codex's rollouts: sessions and lineage, items and the events that repeat them, rollbacks, compression.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sessions_search::SessionKey;

use crate::imported::{Imported, assert_unchanged, counts};

const T: &str = "019fc8be-0000-7000-8000-000000000001";

fn rollout(kind: &str, payload: &str) -> String {
    format!("{{\"timestamp\":\"2026-02-01T09:00:00.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

fn meta(rest: &str) -> String {
    rollout("session_meta", &format!("{{\"id\":\"{T}\",\"cwd\":\"/w\",\"originator\":\"codex_cli_rs\"{rest}}}"))
}

fn said(role: &str, text: &str) -> String {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    rollout(
        "response_item",
        &format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}"#),
    )
}

fn event(kind: &str, rest: &str) -> String {
    rollout("event_msg", &format!("{{\"type\":\"{kind}\"{rest}}}"))
}

fn repeated(role: &str, text: &str) -> String {
    event(&format!("{role}_message"), &format!(",\"message\":\"{text}\""))
}

fn name(id: &str) -> String {
    format!("sessions/2026/02/01/rollout-2026-02-01T10-00-00-{id}.jsonl")
}

fn session_of(lines: &[String]) -> Imported {
    Imported::with(&[(&name(T), &lines.concat())])
}

fn hits(lines: &[u64]) -> Vec<String> {
    lines.iter().map(|line| format!("{T}/line-{line}")).collect()
}

#[test]
fn items_are_searched_and_the_events_that_repeat_them_are_not() {
    let store = session_of(&[
        meta(""),
        said("developer", "obey the zebra"),
        said("user", "<environment_context>zebra</environment_context>"),
        said("user", "# AGENTS.md instructions for /w\\n\\nzebra"),
        repeated("user", "count the otters"),
        said("user", "count the otters"),
        rollout("turn_context", r#"{"model":"zebra"}"#),
        rollout(
            "response_item",
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"zebra or otter"}],"encrypted_content":"zebra"}"#,
        ),
        rollout(
            "response_item",
            r#"{"type":"function_call","name":"shell","arguments":"{\"command\":[\"zebra\"]}","call_id":"c1"}"#,
        ),
        rollout("response_item", r#"{"type":"function_call_output","call_id":"c1","output":"zebra.txt"}"#),
        rollout(
            "response_item",
            r#"{"type":"custom_tool_call","name":"apply_patch","input":"*** zebra","call_id":"c2"}"#,
        ),
        rollout(
            "response_item",
            r#"{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"zebra"},{"type":"input_image","image_url":"data:image/png;base64,aGVsbG8="}]}"#,
        ),
        said("assistant", "nine otters"),
        repeated("agent", "nine otters"),
        rollout(
            "compacted",
            r#"{"message":"zebra","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"zebra"}]}]}"#,
        ),
        said("user", "and after that"),
        event("thread_name_updated", ",\"thread_name\":\"Otter count\""),
        rollout("something_new", r#"{"text":"zebra"}"#),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([18, 3, 0, 0], 1), "{summary:?}");
    assert_eq!(store.found("otters"), hits(&[13, 6]));
    assert_eq!(store.found("zebra"), [""; 0]);
    let session = store.session(T);
    assert_eq!(session.session_key.as_str(), format!("agent:main:codex:{T}"));
    assert_eq!(session.label.as_deref(), Some("Otter count"));
    assert_eq!(
        store.history(T),
        [
            "user: count the otters",
            "assistant: thinking[zebra or otter]",
            "assistant: toolCall[shell {\"command\":[\"zebra\"]}]",
            "toolResult: zebra.txt",
            "assistant: toolCall[apply_patch *** zebra]",
            "toolResult: text[zebra] image[(5 bytes)]",
            "assistant: nine otters",
            "user: and after that",
        ]
    );
    assert_unchanged(&store.import());
    store.append(&name(T), &format!("{}{}", repeated("user", "more otters"), said("user", "more otters")));
    assert_eq!(counts(&store.import()), [2, 1, 0, 0]);
    assert_eq!(store.found("more"), hits(&[20]));
}

#[test]
fn without_items_the_events_are_the_conversation() {
    let store = session_of(&[meta(""), repeated("user", "count the otters"), repeated("agent", "nine otters")]);
    assert_eq!(counts(&store.import()), [3, 2, 0, 0]);
    assert_eq!(store.found("otters"), hits(&[2, 3]));
    assert_unchanged(&store.import());
    // The first item shows that the events were repetitions: the file is read anew.
    store.append(&name(T), &said("user", "later otters"));
    assert_eq!(counts(&store.import()), [4, 1, 0, 0]);
    assert_eq!(store.found("otters"), hits(&[4]));
    assert_unchanged(&store.import());
}

#[test]
fn turns_that_were_undone_are_not_searched() {
    let mut lines = vec![meta(""), said("user", "one otters"), said("assistant", "one answer")];
    lines.extend([said("user", "two otters"), said("assistant", "two answer"), said("user", "three otters")]);
    lines.extend([event("thread_rolled_back", ",\"num_turns\":2"), said("user", "four otters")]);
    let whole = session_of(&lines);
    assert_eq!(counts(&whole.import()), [8, 6, 0, 0]);
    assert_eq!(whole.found("otters"), hits(&[2, 8]));
    assert_eq!(whole.history(T), ["user: one otters", "assistant: one answer", "user: four otters"]);

    // The same line by line.
    let grown = session_of(&lines[..1]);
    grown.import();
    for line in &lines[1..] {
        grown.append(&name(T), line);
        assert_eq!(grown.import().events, 1);
    }
    assert_eq!(grown.found("otters"), hits(&[2, 8]));
    grown.append(&name(T), &event("thread_rolled_back", ",\"num_turns\":9"));
    grown.import();
    assert_eq!(grown.found("otters"), [""; 0]);
    grown.append(&name(T), &said("user", "five otters"));
    grown.import();
    assert_eq!(grown.found("otters"), hits(&[10]));
    assert_eq!(grown.history(T), ["user: five otters"]);
}

#[test]
fn forks_and_sub_agents_name_where_they_come_from() {
    let key = |id: &str| SessionKey::parse(&format!("agent:main:codex:{id}")).unwrap();
    let spawn = r#","forked_from_id":"F","source":{"subagent":{"thread_spawn":{"parent_thread_id":"P","depth":1}}}"#;
    let store = Imported::with(&[
        (&name(T), &format!("{}{}{}", meta(spawn), meta(""), said("user", "x"))),
        ("b/rollout-x.jsonl", &rollout("session_meta", r#"{"session_id":"only","parent_thread_id":"Q"}"#)),
        (&format!("c/{}", name("019fc8be-0000-7000-8000-00000000000c")), &said("user", "x")),
    ]);
    store.import();
    let session = store.session(T);
    assert_eq!((session.spawned_by, session.parent_session_key), (Some(key("P")), Some(key("F"))));
    assert_eq!(store.session("only").spawned_by, Some(key("Q")));
    assert_eq!(store.session("019fc8be-0000-7000-8000-00000000000c").messages, 1);
}

#[test]
fn old_forms_are_read() {
    let store = Imported::with(&[
        (
            "rollout-a.jsonl",
            concat!(
                r#"{"id":"old","timestamp":"2025-05-01T09:00:00.000Z","instructions":null}"#,
                "\n",
                r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"old otters"}]}"#,
                "\n",
                r#"{"record_type":"state"}"#,
                "\n",
                r#"{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}"#,
                "\n",
                r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"old answer"}]}"#,
                "\n",
            ),
        ),
        (
            "plain.jsonl",
            concat!(
                r#"{"timestamp":"2025-09-10T10:00:00Z","role":"user","content":" plain otters "}"#,
                "\n",
                r#"{"timestamp":"2025-09-10T10:00:01Z","type":"tool_call","function":{"name":"git"},"arguments":"status"}"#,
                "\n",
                r#"{"timestamp":"2025-09-10T10:00:02Z","type":"tool_result","name":"git","result":"clean"}"#,
                "\n",
                r#"{"timestamp":"2025-09-10T10:00:05Z","role":"assistant","content":"plain answer"}"#,
            ),
        ),
        (
            "untyped.jsonl",
            &rollout("response_item", r#"{"role":"user","content":[{"type":"input_text","text":"no type"}]}"#),
        ),
        ("other.jsonl", "{\"role\":\"user\",\"content\":\"nothing else\"}\n"),
        ("history.jsonl", "{\"session_id\":\"s\",\"ts\":1,\"text\":\"x\"}\n"),
    ]);
    let summary = store.import();
    assert_eq!(counts(&summary), [10, 5, 0, 0], "{summary:?}");
    assert_eq!(store.found("otters"), ["old/line-2", "plain/line-1"]);
    assert_eq!(store.found("type"), ["untyped/line-1"]);
    assert_eq!(summary.files_skipped.len(), 2, "{summary:?}");
    assert_eq!(summary.warnings.len(), 3, "old items have no time: {summary:?}");
}

#[test]
fn a_compressed_rollout_is_the_same_session() {
    let text =
        [meta(""), said("user", "packed otters"), "\n".into(), "junk\n".into(), said("assistant", "yes")].concat();
    let zst = format!("{}.zst", name(T));
    let frame = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let store = Imported::with(&[]);
    store.write(&zst, &frame(&text));
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([3, 2, 1, 1], 1), "{summary:?}");
    assert_eq!(store.found("packed"), hits(&[2]));
    assert_unchanged(&store.import());
    // Compressed anew with more in it: other bytes, so all of it is read in the session's place.
    store.write(&zst, &frame(&format!("{text}{}", said("user", "later otters"))));
    assert_eq!(counts(&store.import()), [4, 3, 1, 1]);
    assert_eq!(store.found("otters"), hits(&[2, 6]));
    // The plain file beside it holds the same.
    store.write(&name(T), text.as_bytes());
    let summary = store.import();
    assert_eq!(summary.events, 0, "{summary:?}");
    assert!(summary.files_skipped.iter().any(|file| file.reason.starts_with("other copy of ")), "{summary:?}");
    assert_eq!(store.found("otters"), hits(&[2, 6]));
}

#[test]
fn hostile_compressed_files_are_bounded_and_reported() {
    let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let good = frame([meta(""), said("user", "kept otters")].concat().as_bytes());
    let store = Imported::with(&[]);
    store.write("a.jsonl.zst", b"no frame at all");
    store.write("b.jsonl.zst", &[&good[..], &good[..good.len() / 2]].concat());
    // One line far over the bound, in few bytes; what stands before it is kept.
    store.write(
        "c.jsonl.zst",
        &[frame(said("user", "before the bomb").as_bytes()), frame(&vec![b'x'; 80 << 20])].concat(),
    );
    let summary = store.import();
    let reason = |name: &str| {
        let skipped = summary.files_skipped.iter().find(|file| file.path.ends_with(name));
        skipped.map(|file| file.reason.clone()).unwrap_or_default()
    };
    assert!(reason("a.jsonl.zst").contains("zstd"), "{summary:?}");
    assert!(reason("b.jsonl.zst").contains("zstd") || reason("b.jsonl.zst").contains("end of"), "{summary:?}");
    assert!(reason("c.jsonl.zst").contains("expands to more than"), "{summary:?}");
    assert_eq!(store.found("kept"), hits(&[2]));
    assert_eq!(store.found("bomb"), ["c/line-1"]);
    assert_eq!(store.import().events, 0);
}

#[test]
fn what_cannot_be_stored_in_full_is_stored_bare() {
    // Inside the call it would be nested too deeply.
    let arguments = format!("{{\\\"a\\\":{}{}}}", "[".repeat(125), "]".repeat(125));
    let call = format!(r#"{{"type":"function_call","name":"x","arguments":"{arguments}","call_id":"c"}}"#);
    let store =
        session_of(&[meta(""), said("user", "otters"), rollout("response_item", &call), said("user", "otters")]);
    assert_eq!(counts(&store.import()), [4, 2, 0, 0]);
    assert_eq!(store.history(T), ["user: otters", "user: otters"]);
}

/// Cases 9 to 12.
#[test]
fn broken_input_is_taken_as_far_as_it_goes() {
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(meta("").as_bytes());
    bytes.extend(said("user", "cut \\ud83d emoji").as_bytes());
    bytes.extend(said("user", "a @ byte").bytes().map(|byte| if byte == b'@' { 0xff } else { byte }));
    bytes.extend(b"null\n\r\n[1]\nnot json\n");
    let half = said("assistant", "late words");
    bytes.extend(&half.as_bytes()[..70]);
    let store = Imported::with(&[]);
    store.write(&name(T), &bytes);
    let summary = store.import();
    assert_eq!(counts(&summary), [3, 2, 1, 3], "{summary:?}");
    assert_eq!(summary.warnings_total, 2, "{summary:?}");
    store.append(&name(T), half[70..].trim_end());
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("late words"), hits(&[8]));
    store.append(&name(T), &format!("\n{}", said("user", "next")));
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
}
