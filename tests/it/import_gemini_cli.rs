//! Import of Gemini CLI's chats: the object, the log and its replay, growth of both.

use sessions_search::SessionKey;

use crate::imported::{Imported, assert_unchanged, counts};

const LOG: &str = "tmp/p/chats/session-2026-02-01T09-00-aaaaaaaa.jsonl";
const OBJECT: &str = "tmp/p/chats/session-2026-02-01T09-00-aaaaaaaa.json";
const META: &str =
    "{\"sessionId\":\"g\",\"projectHash\":\"00\",\"startTime\":\"2026-02-01T09:00:00.000Z\",\"kind\":\"main\"}\n";

fn message(id: &str, kind: &str, rest: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timestamp\":\"2026-02-01T09:00:01.000Z\",\"type\":\"{kind}\",{rest}}}")
}

fn said(id: &str, kind: &str, text: &str) -> String {
    message(id, kind, &format!(r#""content":[{{"text":"{text}"}}]"#))
}

fn called(id: &str, text: &str, tool: &str) -> String {
    let result = r#"[{"functionResponse":{"response":{"output":"zebra.txt"}}}]"#;
    let calls =
        format!(r#"[{{"id":"t","name":"{tool}","args":{{"x":"zebra"}},"status":"success","result":{result}}}]"#);
    message(
        id,
        "gemini",
        &format!(r#""content":"{text}","thoughts":[{{"subject":"Zebra","description":"or not"}}],"toolCalls":{calls}"#),
    )
}

fn log(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn chat(lines: &[String]) -> Imported {
    Imported::with(&[(LOG, &format!("{META}{}", log(lines)))])
}

fn object(rest: &str, messages: &[String]) -> String {
    format!(
        "{{\n  \"sessionId\": \"g\",\n  \"projectHash\": \"00\",{rest}\n  \"messages\": [\n{}\n]}}",
        messages.join(",\n")
    )
}

fn hits(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| format!("g/{id}")).collect()
}

#[test]
fn a_log_becomes_a_session() {
    let store = chat(&[
        said("m1", "user", "count the otters"),
        r#"{"$set":{"lastUpdated":"2026-02-01T09:00:02.000Z"}}"#.into(),
        said("m2", "gemini", "I count"),
        called("m2", "I count otters", "ls"),
        said("m3", "info", "zebra cancelled"),
        said("m4", "user", "<session_context>zebra</session_context>"),
        message("m5", "user", r#""content":[{"text":"zebra zebra zebra"}],"displayContent":[{"text":"@file typed"}]"#),
        message("m6", "user", r#""content":[{"functionResponse":{"response":{"output":"zebra"}}}]"#),
        message(
            "m7",
            "gemini",
            r#""content":[{"text":"seen"},{"inlineData":{"mimeType":"image/png","data":"aGVsbG8="}}]"#,
        ),
        r#"{"$set":{"summary":" Otter count "}}"#.into(),
        r#"{"unknown":"zebra"}"#.into(),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([12, 4, 0, 0], 1), "{summary:?}");
    assert_eq!(store.found("otters"), hits(&["m1", "m2"]));
    assert_eq!(store.found("typed"), hits(&["m5"]));
    assert_eq!(store.found("zebra"), [""; 0]);
    let session = store.session("g");
    assert_eq!(session.session_key.as_str(), "agent:main:gemini-cli:g");
    assert_eq!(session.label.as_deref(), Some("Otter count"));
    assert_eq!(
        store.history("g"),
        [
            "user: count the otters",
            "assistant: thinking[Zebra: or not] text[I count otters] toolCall[ls {\"x\":\"zebra\"}] toolResult[zebra.txt]",
            "user: @file typed",
            "toolResult: toolResult[zebra]",
            "assistant: text[seen] image[(5 bytes)]",
        ]
    );
    assert_unchanged(&store.import());
}

#[test]
fn the_list_is_what_the_log_leaves_of_it() {
    let rewind = |id: &str| format!("{{\"$rewindTo\":\"{id}\"}}");
    let otters = |id: &str| said(id, "user", &format!("otters {id}"));
    let set = |messages: &[String]| format!("{{\"$set\":{{\"messages\":[{}]}}}}", messages.join(","));
    let left = |lines: &[String]| {
        let store = chat(lines);
        let summary = store.import();
        assert_eq!(summary.events, lines.len() as u64 + 1, "{summary:?}");
        assert_eq!((summary.skipped, summary.rejected_total, summary.warnings_total), (0, 0, 0), "{summary:?}");
        assert_eq!(summary.messages as usize, store.found("otters").len());
        assert_unchanged(&store.import());
        store.history("g").join(" ").replace("user: otters ", "")
    };
    let [a, b, c, d] = ["a", "b", "c", "d"].map(otters);
    assert_eq!(left(&[a.clone(), b.clone(), rewind("b"), c.clone()]), "a c");
    assert_eq!(left(&[a.clone(), b.clone(), c.clone(), rewind("b")]), "a");
    assert_eq!(left(&[a.clone(), b.clone(), rewind("unknown"), c.clone()]), "c");
    assert_eq!(left(&[a.clone(), b.clone(), rewind("b"), b.clone()]), "a b");
    let again = said("a", "user", "otters a2");
    assert_eq!(left(&[a.clone(), b.clone(), again.clone()]), "a2 b", "it keeps its place");
    assert_eq!(left(&[a.clone(), again.clone(), a.clone(), b.clone()]), "a b");
    assert_eq!(left(&[a.clone(), set(&[c.clone(), b.clone()]), d.clone()]), "c b d");
    assert_eq!(left(&[a.clone(), set(&[b.clone(), a.clone()]), again.clone(), rewind("b"), d.clone()]), "d");
    assert_eq!(left(&[set(&[a.clone(), b.clone()]), again.clone()]), "a2 b");
    assert_eq!(left(&[a.clone(), set(&[]), b.clone()]), "a b", "an empty list is none, as for the writer");
    assert_eq!(left(&[rewind("a"), set(&["7".into(), a.clone(), a.clone()])]), "a");
    assert_eq!(left(&[said(" a ", "user", "otters a"), rewind("a"), b.clone()]), "b");
    assert_eq!(
        left(&[
            set(std::slice::from_ref(&a)),
            format!("{{\"sessionId\":\"g\",\"projectHash\":\"1\",\"messages\":[{c}]}}")
        ]),
        "c"
    );
}

#[test]
fn a_log_that_grows_ends_up_as_if_it_were_read_whole() {
    let lines = [
        said("m1", "user", "otters one"),
        said("m2", "gemini", "otters half"),
        called("m2", "otters whole", "ls"),
        said("m3", "user", "otters taken back"),
        "{\"$rewindTo\":\"m3\"}".into(),
        said("m4", "user", "otters four"),
        "{\"$set\":{\"summary\":\"Title\"}}".into(),
        format!(
            "{{\"$set\":{{\"messages\":[{},{}]}}}}",
            said("m1", "user", "otters one"),
            said("n1", "user", "otters new")
        ),
        said("m5", "user", "otters five"),
    ];
    let grown = chat(&[]);
    grown.import();
    for upto in 1..=lines.len() {
        grown.append(LOG, &log(&lines[upto - 1..upto]));
        grown.import();
        assert_unchanged(&grown.import());
        let whole = chat(&lines[..upto]);
        let summary = whole.import();
        assert_eq!(grown.history("g"), whole.history("g"), "{upto}");
        assert_eq!(grown.found("otters"), whole.found("otters"), "{upto}");
        assert_eq!(grown.session("g"), whole.session("g"), "{upto}");
        assert_eq!(summary.events, upto as u64 + 1);
    }
    assert_eq!(grown.history("g"), ["user: otters one", "user: otters new", "user: otters five"]);
}

#[test]
fn a_log_that_only_gets_longer_goes_on() {
    let store = chat(&[said("m1", "user", "otters"), said("m2", "gemini", "yes")]);
    assert_eq!(counts(&store.import()), [3, 2, 0, 0]);
    // The same message again with other counts: nothing of it is stored differently.
    let counted = said("m2", "gemini", "yes").replace("\"type\"", "\"tokens\":{\"total\":3},\"type\"");
    store.append(LOG, &log(&[counted, said("m3", "user", "more")]));
    assert_eq!(counts(&store.import()), [2, 1, 0, 0]);
    assert_eq!(store.history("g"), ["user: otters", "assistant: yes", "user: more"]);
}

#[test]
fn an_object_is_read_message_by_message() {
    let messages = [
        said("m1", "user", "count the otters"),
        called("m2", "nine otters", "ls"),
        message("m3", "model", r#""parts":[{"text":"older otters"}]"#),
        "42".into(),
        said("m4", "info", "zebra"),
    ];
    let facts = "\"summary\": \"Otter count\", \"lastUpdated\": \"2026-02-01T10:00:00.000Z\",";
    let store = Imported::with(&[
        (OBJECT, &object(facts, &messages)),
        ("settings.json", "{\"theme\":\"x\"}"),
        ("logs.json", "[]"),
    ]);
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([4, 3, 0, 1], 1), "{summary:?}");
    assert_eq!(summary.files_skipped, []);
    assert_eq!(store.found("otters"), hits(&["m1", "m2", "m3"]));
    let session = store.session("g");
    assert_eq!(session.label.as_deref(), Some("Otter count"));
    assert_eq!(session.updated_at.as_millis(), 1_769_940_000_000);
    assert_unchanged(&store.import());

    // Written anew, with a message more and one less.
    store.write(OBJECT, object(facts, &[messages[0].clone(), said("m9", "user", "new otters")]).as_bytes());
    let summary = store.import();
    assert_eq!(counts(&summary), [2, 2, 0, 0], "{summary:?}");
    assert_eq!(store.found("otters"), hits(&["m1", "m9"]));
    // Cut off while it is written: nothing is lost, and all is taken when it is there.
    let whole = object("", &[messages[0].clone(), said("m2", "user", "late otters")]);
    store.write(OBJECT, &whole.as_bytes()[..whole.len() - 20]);
    let summary = store.import();
    assert!(summary.files_skipped[0].reason.starts_with("changed since"), "{summary:?}");
    assert_eq!(store.found("otters"), hits(&["m1", "m9"]));
    store.write(OBJECT, whole.as_bytes());
    assert_eq!(counts(&store.import()), [2, 2, 0, 0]);
    assert_eq!(store.found("otters"), hits(&["m1", "m2"]));
}

#[test]
fn an_object_that_is_cut_off_is_taken_as_far_as_it_goes() {
    let whole = object("", &[said("m1", "user", "otters"), said("m2", "user", "late otters")]);
    let store = Imported::with(&[(OBJECT, &whole[..whole.len() - 20])]);
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_unchanged(&store.import());
    store.write(OBJECT, whole.as_bytes());
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("otters"), hits(&["m1", "m2"]));
}

#[test]
fn a_log_takes_the_place_of_its_object() {
    let messages = [said("m1", "user", "old otters"), said("m2", "gemini", "old answer")];
    let store = Imported::with(&[(OBJECT, &object("", &messages))]);
    store.import();
    assert_eq!(store.found("otters"), hits(&["m1"]));
    store.write(
        LOG,
        format!("{META}{}", log(&[messages[0].clone(), messages[1].clone(), said("m3", "user", "new otters")]))
            .as_bytes(),
    );
    let summary = store.import();
    assert_eq!((counts(&summary), summary.sessions), ([4, 3, 0, 0], 1), "{summary:?}");
    assert!(summary.files_skipped[0].reason.starts_with("other copy of "), "{summary:?}");
    assert_eq!(store.found("otters"), hits(&["m1", "m3"]));
    assert_eq!(store.sessions().len(), 1);
    assert_unchanged(&store.import());
}

#[test]
fn sub_agents_are_sessions_of_the_folder_they_lie_in() {
    let agent = META.replace("\"g\"", "\"sub\"").replace("main", "subagent");
    let store = Imported::with(&[
        (LOG, &format!("{META}{}", log(&[said("m1", "user", "main otters")]))),
        ("tmp/p/chats/g/sub.jsonl", &format!("{agent}{}", log(&[said("m1", "user", "sub otters")]))),
    ]);
    store.import();
    assert_eq!(store.found("otters"), ["g/m1", "sub/m1"]);
    assert_eq!(store.session("sub").spawned_by.as_ref().map(SessionKey::as_str), Some("agent:main:gemini-cli:g"));
    assert_eq!(store.session("g").spawned_by, None);
}

/// Cases 9 to 12.
#[test]
fn broken_input_is_taken_as_far_as_it_goes() {
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(META.as_bytes());
    bytes.extend(log(&[said("m1", "user", "cut \\ud83d emoji")]).as_bytes());
    bytes.extend(log(&[said("m2", "user", "a @ byte")]).bytes().map(|byte| if byte == b'@' { 0xff } else { byte }));
    bytes.extend(b"null\n\r\n[1]\nnot json\n");
    let half = log(&[said("m3", "gemini", "late words")]);
    bytes.extend(&half.as_bytes()[..40]);
    let store = Imported::with(&[]);
    store.write(LOG, &bytes);
    let summary = store.import();
    assert_eq!(counts(&summary), [3, 2, 1, 3], "{summary:?}");
    assert_eq!(summary.warnings_total, 2, "{summary:?}");
    assert_unchanged(&store.import());
    store.append(LOG, half[40..].trim_end());
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
    assert_eq!(store.found("late words"), hits(&["m3"]));
    store.append(LOG, &format!("\n{}", log(&[said("m4", "user", "next")])));
    assert_eq!(counts(&store.import()), [1, 1, 0, 0]);
}
