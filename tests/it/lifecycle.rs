//! Append, rewind, reset, replace, delete, re-key: every way a transcript changes (contract §9.3, A1 to A14). What a
//! crash does to each is in `crash`.

use std::path::Path;

use sessions_search::{
    AppendRequest, Engine, HistoryRequest, LineError, ListRequest, OpenOptions, RekeyError, ReplaceError,
    SearchRequest, SessionFacts, SessionId, SessionKey, Timestamp,
};

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn key(name: &str) -> SessionKey {
    SessionKey::parse(&format!("agent:main:{name}")).unwrap()
}

fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// Appends lines to a window of a key; gives whether each can be found.
fn append(engine: &Engine, session_key: &str, session_id: &str, lines: &[&str]) -> Vec<bool> {
    let mut request = AppendRequest::new(key(session_key), lines.iter().map(|line| line.as_bytes().to_vec()).collect());
    request.session_id = Some(id(session_id));
    engine.append(request, at(1_785_000_000_000)).unwrap().into_iter().map(|place| place.unwrap().indexed).collect()
}

fn said(message_id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { String::new() } else { format!(r#""parentId":"{parent}","#) };
    format!(r#"{{"type":"message","id":"{message_id}",{parent}"message":{{"role":"user","content":"{text}"}}}}"#)
}

/// The message ids that are found, sorted; none may be missing for being indexed.
fn found(engine: &Engine, query: &str) -> Vec<String> {
    let answer = engine.search(&SearchRequest::new(query)).unwrap();
    assert!(!answer.indexing);
    let mut ids: Vec<String> = answer.results.iter().map(|hit| hit.message_id.as_str().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn a1_an_appended_message_is_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let lines = [said("u", "", "where is the otter"), said("a", "u", "the otter is here")];
    assert_eq!(append(&engine, "main", "s", &[&lines[0], &lines[1]]), [true, true]);
    assert_eq!(found(&engine, "otter"), ["a", "u"]);
}

#[test]
fn a2_a_row_that_is_no_message_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("u", "", "otter")]);
    let custom = r#"{"type":"custom","id":"c","parentId":"u","customType":"x","data":"otter"}"#;
    assert_eq!(append(&engine, "main", "s", &[custom, r#"{"anything":"otter"}"#]), [false, false]);
    append(&engine, "main", "s", &[&said("a", "c", "otter too")]);
    assert_eq!(found(&engine, "otter"), ["a", "u"]);
}

fn replace(engine: &Engine, session_id: &str, lines: &[String]) -> Result<Vec<bool>, ReplaceError> {
    let lines = lines.iter().map(|line| line.clone().into_bytes()).collect();
    let places = engine.replace(&id(session_id), lines, at(1_785_000_000_000))?;
    Ok(places.into_iter().map(|place| place.indexed).collect())
}

#[test]
fn a3_a_replaced_transcript_is_found_as_it_is_now_and_not_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(
        &engine,
        "main",
        "s",
        &[&said("a", "", "otter one"), &said("b", "a", "otter two"), &said("c", "b", "otter three")],
    );
    append(&engine, "elsewhere", "other", &[&said("x", "", "otter elsewhere")]);
    // Ids of before may come again, with other content too.
    let compacted = [said("n", "", "summary of the otter"), said("c", "n", "otter three, shorter")];
    assert_eq!(replace(&engine, "s", &compacted).unwrap(), [true, true]);
    assert_eq!(found(&engine, "otter"), ["c", "n", "x"]);
    assert_eq!(found(&engine, "two"), Vec::<String>::new());
    assert_eq!(found(&engine, "shorter"), ["c"]);
    // It goes on from there.
    append(&engine, "main", "s", &[&said("d", "c", "otter four")]);
    let history = engine.history(&HistoryRequest::new("agent:main:main")).unwrap();
    let shown: Vec<_> = history.messages.iter().filter_map(|message| message.message_id.as_deref()).collect();
    assert_eq!(shown, ["n", "c", "d"], "the key stays the one it was");
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(found(&engine, "otter"), ["c", "d", "n", "x"]);
    // Branches are resolved as those of a file.
    let branched = [said("a", "", "otter one"), said("b", "a", "otter two"), said("c", "a", "otter three")];
    assert_eq!(replace(&engine, "s", &branched).unwrap(), [true, false, true]);
    assert_eq!(found(&engine, "otter"), ["a", "c", "x"]);
    // Nothing in its place, and it is still there.
    assert_eq!(replace(&engine, "s", &[]).unwrap(), Vec::<bool>::new());
    assert_eq!(found(&engine, "otter"), ["x"]);
    assert_eq!(append(&engine, "main", "s", &[&said("a", "", "otter again")]), [true]);
}

#[test]
fn a_replacement_that_cannot_be_stored_whole_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter one")]);
    let conflict = [said("n", "", "otter new"), said("n", "", "otter other")];
    for lines in [&conflict[..], &[said("n", "", "otter new"), "[]".to_owned()]] {
        match replace(&engine, "s", lines) {
            Err(ReplaceError::Line { line: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(found(&engine, "otter"), ["a"]);
    }
    assert!(matches!(replace(&engine, "unknown", &[]), Err(ReplaceError::UnknownSession { .. })));
}

#[test]
fn a4_a_replacement_above_the_bound_hides_the_session_until_it_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let old: Vec<String> = (0..2_100).map(|n| said(&format!("old{n}"), "", &format!("otter old word{n}"))).collect();
    append(&engine, "main", "long", &old.iter().map(String::as_str).collect::<Vec<_>>());
    append(&engine, "other", "short", &[&said("x", "", "otter elsewhere")]);
    let new: Vec<String> = (0..2_000).map(|n| said(&format!("new{n}"), "", &format!("otter new word{n}"))).collect();
    assert!(replace(&engine, "long", &new).unwrap().iter().all(|indexed| !indexed));
    let answer = engine.search(&SearchRequest::new("old")).unwrap();
    assert!(answer.results.is_empty() && answer.indexing && answer.coverage.pending == 1, "{answer:?}");
    assert!(engine.wait_for_indexing(std::time::Duration::from_secs(60)));
    assert!(found(&engine, "old").is_empty());
    assert_eq!(found(&engine, "word1999"), ["new1999"]);
    assert_eq!(engine.status().unwrap().documents, 2_001);
}

#[test]
fn a5_a_rewind_hides_the_abandoned_branch_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter one"), &said("b", "a", "otter two")]);
    append(&engine, "main", "s", &[r#"{"type":"leaf","id":"l","parentId":"b","targetId":"a"}"#]);
    assert_eq!(found(&engine, "otter"), ["a"]);
    append(&engine, "main", "s", &[&said("c", "a", "otter three")]);
    assert_eq!(found(&engine, "otter"), ["a", "c"]);
    // And back again.
    append(&engine, "main", "s", &[r#"{"type":"leaf","id":"m","parentId":"c","targetId":"b"}"#]);
    assert_eq!(found(&engine, "otter"), ["a", "b"]);
}

#[test]
fn a6_after_a_leaf_control_an_append_goes_on_from_the_older_entry() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter"), &said("b", "a", "otter"), &said("c", "b", "otter")]);
    let leaf = r#"{"type":"leaf","id":"l","parentId":"c","targetId":"a"}"#;
    append(&engine, "main", "s", &[leaf, &said("d", "", "otter")]);
    assert_eq!(found(&engine, "otter"), ["a", "d"]);
}

#[test]
fn a7_and_a8_deleted_sessions_are_gone_with_all_windows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "one", &[&said("a", "", "otter")]);
    append(&engine, "main", "two", &[&said("b", "", "otter")]);
    append(&engine, "other", "three", &[&said("c", "", "otter")]);
    engine.checkpoint().unwrap();
    assert_eq!(engine.delete_session(&id("three"), at(1)).unwrap().messages, 1);
    assert_eq!(found(&engine, "otter"), ["a", "b"]);
    assert_eq!(engine.delete_key(&key("main"), at(1)).unwrap().sessions, 2);
    assert!(found(&engine, "otter").is_empty());
    assert!(engine.delete_key(&key("main"), at(1)).is_err());
    assert_eq!(engine.status().unwrap().events, 0);
}

#[test]
fn a9_a_session_created_again_holds_only_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter old")]);
    engine.checkpoint().unwrap();
    engine.delete_session(&id("s"), at(1)).unwrap();
    append(&engine, "main", "s", &[&said("a", "", "otter new")]);
    let answer = engine.search(&SearchRequest::new("otter")).unwrap();
    assert_eq!(answer.results.len(), 1);
    assert_eq!(answer.results[0].snippet, "otter new");
}

#[test]
fn a10_a_renamed_session_is_found_under_the_new_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "old", "one", &[&said("a", "", "otter")]);
    append(&engine, "old", "two", &[&said("b", "", "otter")]);
    append(&engine, "taken", "three", &[&said("c", "", "otter")]);
    engine.checkpoint().unwrap();
    assert!(matches!(engine.rekey(&key("old"), &key("taken")), Err(RekeyError::Refused(_))));
    assert!(matches!(engine.rekey(&key("nobody"), &key("x")), Err(RekeyError::Refused(_))));
    assert!(matches!(engine.rekey(&key("old"), &key("dashboard:incognito-1")), Err(RekeyError::Incognito { .. })));
    assert!(matches!(
        engine.rekey(&key("old"), &SessionKey::parse("agent:work:x").unwrap()),
        Err(RekeyError::OtherAgent { .. })
    ));
    assert_eq!(engine.rekey(&key("old"), &key("new")).unwrap(), 2);
    let by_key = |name: &str| {
        let mut request = SearchRequest::new("otter");
        request.session_keys = Some(vec![key(name).as_str().to_owned()]);
        engine.search(&request).unwrap().results.len()
    };
    assert_eq!((by_key("old"), by_key("new"), by_key("taken")), (0, 2, 1));
    // The newest window is still the current one: an append without a session id goes there.
    let request = AppendRequest::new(key("new"), vec![said("d", "", "otter").into_bytes()]);
    engine.append(request, at(2)).unwrap();
    let page = engine.history(&HistoryRequest::new(key("new").as_str())).unwrap();
    assert_eq!(page.session_id.as_deref(), Some("two"));
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(found(&engine, "otter"), ["a", "b", "c", "d"]);
}

#[test]
fn a11_every_window_of_a_key_is_found_with_its_own_id() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "first", &[&said("a", "", "otter")]);
    append(&engine, "main", "second", &[&said("a", "", "otter")]);
    let answer = engine.search(&SearchRequest::new("otter")).unwrap();
    let mut windows: Vec<&str> = answer.results.iter().map(|hit| hit.session_id.as_str()).collect();
    windows.sort_unstable();
    assert_eq!(windows, ["first", "second"]);
    assert!(answer.results.iter().all(|hit| hit.session_key == key("main")));
}

#[test]
fn a14_the_same_text_twice_is_two_hits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter"), &said("b", "a", "otter")]);
    assert_eq!(found(&engine, "otter"), ["a", "b"]);
}

#[test]
fn the_same_id_again_is_known_and_other_content_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter")]);
    let spaced = r#"{ "id":"a", "type":"message", "message":{"content":"otter","role":"user"} }"#;
    assert_eq!(append(&engine, "main", "s", &[spaced]), [true]);
    let request = || {
        let mut request = AppendRequest::new(
            key("main"),
            vec![said("a", "", "beaver").into_bytes(), said("b", "", "beaver").into_bytes()],
        );
        request.session_id = Some(id("s"));
        request
    };
    let results = engine.append(request(), at(1)).unwrap();
    assert!(matches!(results[0], Err(LineError::Refused(_))));
    assert!(results[1].as_ref().unwrap().indexed);
    assert_eq!((found(&engine, "otter").len(), found(&engine, "beaver").len()), (1, 1));
    assert_eq!(engine.status().unwrap().events, 2);
}

#[test]
fn a_stale_parent_is_rebased_so_that_no_answer_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter"), &said("b", "a", "otter")]);
    // A second writer that still thinks `a` is the end.
    assert_eq!(append(&engine, "main", "s", &[&said("c", "a", "otter")]), [true]);
    assert_eq!(found(&engine, "otter"), ["a", "b", "c"]);
}

#[test]
fn a_side_append_is_beside_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter")]);
    let side =
        r#"{"type":"message","id":"x","parentId":"a","appendMode":"side","message":{"role":"user","content":"otter"}}"#;
    assert_eq!(append(&engine, "main", "s", &[side, &said("b", "x", "otter")]), [false, true]);
    assert_eq!(found(&engine, "otter"), ["a", "b"]);
}

#[test]
fn a_reset_hides_nothing_from_search() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter")]);
    append(
        &engine,
        "main",
        "s",
        &[r#"{"type":"reset","id":"r","parentId":"a","reason":"new"}"#, &said("b", "r", "otter")],
    );
    assert_eq!(found(&engine, "otter"), ["a", "b"]);
    // Plain history starts at the reset.
    let page = engine.history(&HistoryRequest::new(key("main").as_str())).unwrap();
    let ids: Vec<_> = page.messages.iter().filter_map(|message| message.message_id.as_deref()).collect();
    assert_eq!(ids, ["b"]);
}

#[test]
fn archived_sessions_leave_the_list_and_stay_searchable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter")]);
    assert_eq!(engine.set_archived(&key("main"), true).unwrap(), 1);
    assert!(engine.set_archived(&key("nobody"), true).is_err());
    assert_eq!(engine.sessions(&ListRequest::default()).unwrap().count, 0);
    let archived = ListRequest { archived: true, ..ListRequest::default() };
    assert_eq!(engine.sessions(&archived).unwrap().count, 1);
    assert_eq!(found(&engine, "otter"), ["a"]);
    engine.set_archived(&key("main"), false).unwrap();
    assert_eq!(engine.sessions(&ListRequest::default()).unwrap().count, 1);
}

#[test]
fn pruning_takes_what_is_old_and_known_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    for (name, time) in [("old", 1_000), ("young", 9_000)] {
        let line = format!(
            r#"{{"type":"message","id":"m","timestamp":{time},"message":{{"role":"user","content":"otter {name}"}}}}"#
        );
        append(&engine, name, name, &[&line]);
    }
    assert_eq!(engine.prune(at(5_000), at(10_000)).unwrap().sessions, 1);
    assert!(found(&engine, "old").is_empty());
    assert_eq!(found(&engine, "young"), ["m"]);
}

#[test]
fn facts_given_later_are_kept_with_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append(&engine, "main", "s", &[&said("a", "", "otter")]);
    let mut request = AppendRequest::new(key("main"), vec![said("b", "a", "otter").into_bytes()]);
    request.facts =
        SessionFacts { label: Some("River".into()), spawned_by: Some(key("boss")), ..SessionFacts::default() };
    engine.append(request, at(2)).unwrap();
    let list = engine.sessions(&ListRequest::default()).unwrap();
    assert_eq!(list.sessions[0].label.as_deref(), Some("River"));
    assert_eq!(list.sessions[0].spawned_by, Some(key("boss")));
}

/// Above D17's bound a rewind hides the session, and the background brings it back.
#[test]
fn a5_a_rewind_of_a_long_session_hides_it_until_it_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let lines: Vec<String> = (0..4_200).map(|n| said(&format!("m{n}"), "", &format!("otter word{n}"))).collect();
    for chunk in lines.chunks(1_000) {
        append(&engine, "main", "long", &chunk.iter().map(String::as_str).collect::<Vec<_>>());
    }
    append(&engine, "other", "short", &[&said("x", "", "otter elsewhere")]);
    append(&engine, "main", "long", &[r#"{"type":"leaf","id":"l","parentId":"m4199","targetId":"m99"}"#]);
    let answer = engine.search(&SearchRequest::new("word4000")).unwrap();
    assert!(answer.results.is_empty());
    if answer.indexing {
        assert_eq!((answer.coverage.sessions, answer.coverage.pending), (2, 1));
        // What is said meanwhile is stored, and found afterwards.
        assert_eq!(append(&engine, "main", "long", &[&said("late", "", "otter late")]), [false]);
    } else {
        append(&engine, "main", "long", &[&said("late", "", "otter late")]);
    }
    assert!(engine.wait_for_indexing(std::time::Duration::from_secs(60)));
    assert!(found(&engine, "word4000").is_empty());
    assert_eq!(found(&engine, "word99"), ["m99"]);
    assert_eq!(found(&engine, "late"), ["late"]);
    let mut all = SearchRequest::new("otter");
    all.limit = 10_000;
    assert_eq!(engine.search(&all).unwrap().results.len(), 102);
}
