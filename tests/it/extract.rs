//! Extraction, by the scenarios of contract §9.1. The table of shapes is in `src/transcript/extract.rs`.

use sessions_search::__internal::{Event, TimestampNote};

fn text(line: &str) -> Option<String> {
    let event = Event::parse(line.as_bytes()).expect("a JSON object");
    event.searchable().map(|(_, message)| message.text.clone())
}

fn of_message(message: &str) -> Option<String> {
    text(&format!(r#"{{"type":"message","id":"m","message":{message}}}"#))
}

#[test]
fn e1_plain_string_content_is_one_text() {
    assert_eq!(
        of_message(r#"{"role":"user","content":"where is the otter?"}"#).as_deref(),
        Some("where is the otter?")
    );
}

#[test]
fn e2_texts_around_a_tool_call_are_joined_without_it() {
    let message = r#"{"role":"assistant","content":[{"type":"text","text":"first"},
        {"type":"toolCall","id":"t","name":"exec","arguments":{"command":"ls"}},{"type":"text","text":"second"}]}"#;
    assert_eq!(of_message(message).as_deref(), Some("first\nsecond"));
}

#[test]
fn e3_a_lone_tool_call_yields_nothing() {
    assert_eq!(of_message(r#"{"role":"assistant","content":[{"type":"toolCall","id":"t","name":"exec"}]}"#), None);
}

#[test]
fn e4_tool_and_system_roles_yield_nothing() {
    for role in ["tool", "toolResult", "system", "bashExecution", "Assistant", ""] {
        assert_eq!(of_message(&format!(r#"{{"role":"{role}","content":"words"}}"#)), None, "{role:?}");
    }
}

#[test]
fn e5_other_events_yield_nothing() {
    for kind in [
        "session",
        "model_change",
        "thinking_level_change",
        "custom",
        "custom_message",
        "compaction",
        "branch_summary",
        "label",
        "session_info",
        "reset",
        "leaf",
        "Message",
        "",
    ] {
        let line = format!(
            r#"{{"type":"{kind}","id":"x","content":"words","summary":"words","message":{{"role":"user","content":"words"}}}}"#
        );
        assert_eq!(text(&line), None, "{kind:?}");
    }
}

#[test]
fn e6_white_space_alone_yields_nothing() {
    assert_eq!(of_message(r#"{"role":"user","content":" \n\t\ufeff\u00a0\u2028 "}"#), None);
    assert_eq!(of_message(r#"{"role":"user","content":[{"type":"text","text":"\u3000"}]}"#), None);
}

#[test]
fn e7_a_timestamp_is_text_a_number_or_unknown() {
    let event = |member: &str| Event::parse(format!(r#"{{"type":"message","id":"m"{member}}}"#).as_bytes()).unwrap();
    assert_eq!(event(r#","timestamp":"2026-07-01T08:00:01.000Z""#).timestamp.as_millis(), 1_782_892_801_000);
    assert_eq!(event(r#","timestamp":1782892801000"#).timestamp.as_millis(), 1_782_892_801_000);
    assert_eq!(event("").timestamp_note, Some(TimestampNote::Missing));
    assert!(!event("").timestamp.is_known());
}

#[test]
fn e8_a_text_member_beats_a_list_of_blocks() {
    let message = r#"{"role":"user","text":"member","content":[{"type":"text","text":"block"}]}"#;
    assert_eq!(of_message(message).as_deref(), Some("member"));
}

#[test]
fn e9_an_empty_text_member_hides_a_list_of_blocks() {
    assert_eq!(of_message(r#"{"role":"user","text":"","content":[{"type":"text","text":"block"}]}"#), None);
}

#[test]
fn e10_a_message_without_an_id_yields_nothing() {
    for id in ["", r#""id":"  ","#, r#""id":7,"#, r#""id":null,"#] {
        let line = format!(r#"{{"type":"message",{id}"message":{{"role":"user","content":"words"}}}}"#);
        assert_eq!(text(&line), None, "{id}");
    }
}

#[test]
fn e11_thinking_is_absent() {
    let message = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","text":"hm"},
        {"type":"reasoning","text":"hm"},{"type":"redacted_thinking","text":"hm"},{"type":"text","text":"said"}]}"#;
    assert_eq!(of_message(message).as_deref(), Some("said"));
}

#[test]
fn e12_an_image_with_words_beside_it_is_absent() {
    let message = r#"{"role":"user","content":[{"type":"image","data":"aGk=","alt":"a cat","text":"a cat"},
        {"type":"refusal","text":"no"},{"type":"input_text","text":"look"}]}"#;
    assert_eq!(of_message(message).as_deref(), Some("look"));
}
