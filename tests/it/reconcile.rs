//! Sessions that wait for a rebuild, and what happens to them meanwhile (contract §9.4, R1 to R24).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redb::ReadableTable as _;
use sessions_search::__internal::faults::Tuning;
use sessions_search::__internal::store::{EventRow, encode_row};
use sessions_search::{Engine, OpenOptions, ReindexRequest, SearchRequest};

use crate::disk::{Change, Fault, Volume};
use crate::model::{
    Expected, Message, Model, Place, Step, StepGenerator, append_lines, do_to, id, now, settle, small, take,
};

/// A store in which sessions of more than ten events are rebuilt in the background, in small batches.
fn place() -> Place {
    Place::new(Volume::new(), &Tuning { sync_resolve_events: 10, session_batch_rows: 8, ..small() })
}

fn messages(session: &str, range: std::ops::Range<usize>) -> Vec<Message> {
    range.map(|n| Message::new(&format!("{session}{n}"), &format!("otter {session} number{n}"))).collect()
}

fn all(engine: &Engine, mut model: Model, steps: &[Step]) -> Model {
    for step in steps {
        do_to(engine, &model, step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        model = model.after(step);
    }
    model
}

fn check(engine: &Engine, model: Model) {
    settle(engine, &[Expected::of(model)]).unwrap();
}

/// The sessions that wait.
fn pending(engine: &Engine) -> Vec<String> {
    engine.status().unwrap().pending.into_iter().map(|pending| pending.session_id).collect()
}

/// A long session of which the last messages were just taken back, on a disk so slow that its rebuild takes a while.
fn hidden(place: &Place, len: usize, kept: usize) -> (Engine, Model) {
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[Step::Append("a", messages("a", 0..len))]);
    place.disk.slow_down("transcripts", Duration::from_micros(300));
    let model = all(&engine, model, &[Step::Rewind("a", kept)]);
    // Its rebuild begins with the next search.
    assert_eq!(pending(&engine), ["a"]);
    assert!(engine.search(&SearchRequest::new("otter")).unwrap().indexing);
    (engine, model)
}

#[test]
fn r1_rows_that_were_never_indexed_are_listed_and_indexed() {
    // A process that ends between storing and indexing: the next one does it without being asked.
    let place = place();
    let (engine, model) = hidden(&place, 60, 40);
    drop(engine);
    let engine = place.open().unwrap();
    check(&engine, model);
    assert!(pending(&engine).is_empty());
}

#[test]
fn r2_and_r3_what_needs_work_is_listed_once_and_nothing_else() {
    let place = place();
    let (engine, model) = hidden(&place, 60, 40);
    let steps = [
        Step::Append("b", messages("b", 0..5)),
        Step::Append("c", messages("c", 0..20)),
        Step::Rewind("c", 15),
        // Again: it stays one entry.
        Step::Rewind("c", 14),
    ];
    let model = all(&engine, model, &steps);
    let mut listed = pending(&engine);
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), engine.status().unwrap().pending.len(), "one entry a session");
    assert!(!listed.contains(&"b".to_owned()), "a session that is up to date");
    check(&engine, model);
    assert!(pending(&engine).is_empty());
}

#[test]
fn r4_what_no_session_holds_any_longer_is_swept_from_the_index() {
    let place = place();
    let (engine, model) = hidden(&place, 60, 40);
    let model = all(&engine, model, &[Step::Append("b", messages("b", 0..5)), Step::WaitForIndexing, Step::Checkpoint]);
    let model = all(&engine, model, &[Step::Delete("a"), Step::Checkpoint, Step::Checkpoint]);
    engine.compact().unwrap();
    check(&engine, model);
    drop(engine);
    place.verify(true).unwrap();
}

#[test]
fn r5_a_search_returns_before_the_rebuild_it_starts() {
    let place = place();
    let (engine, model) = hidden(&place, 512, 500);
    let model = all(&engine, model, &[Step::Append("b", messages("b", 0..10))]);
    let started = Instant::now();
    let answer = engine.search(&SearchRequest::new("otter")).unwrap();
    let took = started.elapsed();
    assert!(answer.indexing && pending(&engine) == ["a"], "the rebuild was over before the search");
    assert_eq!((answer.results.len(), answer.coverage.pending), (10, 1));
    assert!(answer.warning.is_some() && took < Duration::from_secs(1), "{took:?}");
    check(&engine, model);
}

#[test]
fn r6_and_r7_however_many_ask_a_session_is_rebuilt_once() {
    let place = place();
    let (engine, model) = hidden(&place, 192, 150);
    let engine = Arc::new(engine);
    let askers: Vec<_> = (0..4)
        .map(|n| {
            let engine = Arc::clone(&engine);
            std::thread::spawn(move || {
                if n % 2 == 0 {
                    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
                }
                engine.search(&SearchRequest::new("otter")).unwrap();
            })
        })
        .collect();
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    check(&engine, model);
    drop(engine);
    // Nothing twice, nothing left over.
    place.verify(true).unwrap();
}

#[test]
fn r10_an_append_elsewhere_does_not_wait_for_a_rebuild() {
    let place = place();
    let (engine, mut model) = hidden(&place, 800, 700);
    let mut slowest = Duration::ZERO;
    let mut during = 0;
    for n in 0..2_000 {
        let step = Step::Append("b", messages("b", n..n + 1));
        let started = Instant::now();
        do_to(&engine, &model, &step).unwrap();
        slowest = slowest.max(started.elapsed());
        model = model.after(&step);
        if pending(&engine).is_empty() {
            break;
        }
        during += 1;
    }
    assert!(during > 10, "{during} appends while it was rebuilt");
    // One batch of the rebuild may go before; not all of it.
    assert!(slowest < Duration::from_millis(700), "{slowest:?}");
    check(&engine, model);
}

#[test]
fn r14_the_flag_stays_until_the_last_session_is_done() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let place = place();
    let engine = place.open().unwrap();
    let mut model = Model::default();
    for name in NAMES {
        model = all(&engine, model, &[Step::Append(name, messages(name, 0..60))]);
    }
    place.disk.slow_down("transcripts", Duration::from_micros(300));
    for name in NAMES {
        model = all(&engine, model, &[Step::Rewind(name, 50)]);
    }
    let mut request = SearchRequest::new("otter");
    request.limit = 1_000;
    let mut counts = Vec::new();
    loop {
        let answer = engine.search(&request).unwrap();
        assert_eq!(answer.indexing, answer.coverage.pending > 0);
        // Whole sessions, and what is said of the others is true.
        assert_eq!(answer.results.len(), (5 - answer.coverage.pending) * 50);
        counts.push(answer.coverage.pending);
        if !answer.indexing {
            break;
        }
    }
    counts.dedup();
    assert!(counts.is_sorted_by(|a, b| a > b) && counts.len() > 2, "{counts:?}");
    check(&engine, model);
}

/// Does `steps` at some moment of a rebuild, at many in turn.
fn meanwhile(steps: &[Step]) {
    let mut during = 0;
    for wait in 0..8 {
        let place = place();
        let (engine, model) = hidden(&place, 120, 100);
        std::thread::sleep(Duration::from_millis(wait * wait * 2));
        during += usize::from(!pending(&engine).is_empty());
        let model = all(&engine, model, steps);
        check(&engine, model.clone());
        drop(engine);
        check(&place.open().unwrap(), model);
        place.verify(true).unwrap();
    }
    assert!(during > 2, "{during} of 8 during the rebuild");
}

#[test]
fn r15_an_append_during_a_rebuild_is_not_lost() {
    meanwhile(&[Step::Append("a", messages("late", 0..3))]);
}

#[test]
fn r16_a_rewind_during_a_rebuild_is_not_undone_by_it() {
    meanwhile(&[Step::Rewind("a", 30)]);
    meanwhile(&[Step::Append("a", messages("late", 0..20)), Step::Rewind("a", 5)]);
}

#[test]
fn r17_a_replacement_by_as_many_rows_is_not_overwritten_by_an_older_plan() {
    for wait in [0, 3, 10, 30, 60] {
        let place = place();
        let (engine, model) = hidden(&place, 120, 100);
        std::thread::sleep(Duration::from_millis(wait));
        // As many rows as there are: 120 messages and the rewind.
        let new = messages("new", 0..121);
        engine.replace(&id("a"), new.iter().map(|message| message.line(false)).collect(), now()).unwrap();
        let mut model = model;
        model.sessions.insert("a", new);
        check(&engine, model);
        drop(engine);
        place.verify(true).unwrap();
    }
}

#[test]
fn r18_a_deletion_during_a_rebuild_leaves_no_ghost() {
    meanwhile(&[Step::Delete("a")]);
    meanwhile(&[Step::Delete("a"), Step::Append("a", messages("again", 0..15))]);
}

#[test]
fn r19_long_messages_are_rebuilt_in_bounded_batches() {
    const MESSAGES: usize = 120;
    let tuning = Tuning { sync_resolve_events: 10, ..Tuning::default() };
    let place = Place::new(Volume::new(), &tuning);
    let engine = place.open().unwrap();
    let long =
        |n: usize| Message::new(&format!("m{n}"), &format!("otter number{n} {}", "stone ".repeat(140 * 1_024 / 6)));
    for n in (0..MESSAGES).step_by(10) {
        let lines = (n..n + 10).map(|n| long(n).line(false)).collect();
        append_lines(&engine, "a", lines).unwrap();
    }
    place.disk.record();
    let leaf = format!(r#"{{"type":"leaf","id":"l","parentId":"m{}","targetId":"m109"}}"#, MESSAGES - 1);
    append_lines(&engine, "a", vec![leaf.into_bytes()]).unwrap();
    assert!(engine.wait_for_indexing(Duration::from_secs(120)));
    let mut request = SearchRequest::new("otter");
    request.limit = 1_000;
    assert_eq!(engine.search(&request).unwrap().results.len(), 110);
    let (mut unsynced, mut largest, mut total) = (HashMap::new(), 0, 0);
    for change in place.disk.take_record() {
        match change {
            Change::Write { file, data, .. } => {
                *unsynced.entry(file).or_insert(0) += data.len();
                total += data.len();
            }
            Change::SyncFile { file } => largest = largest.max(unsynced.remove(&file).unwrap_or(0)),
            _ => {}
        }
    }
    // A batch is 4 MiB of text, which the database writes into pages of twice its size, and most of them twice.
    assert!(total > 48 * 1_024 * 1_024 && largest < 17 * 1_024 * 1_024, "{largest} of {total} bytes at a time");
}

fn agent_folder(root: &Path) -> std::path::PathBuf {
    root.join("agents/main")
}

#[test]
fn r20_a_row_that_cannot_be_read_hides_itself_alone() {
    const EVENTS: redb::TableDefinition<'_, (u64, u64), &[u8]> = redb::TableDefinition::new("events");
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let mut options = OpenOptions::default();
        options.create = true;
        Engine::open(folder.path(), options).unwrap()
    };
    let engine = open();
    for name in ["a", "b"] {
        append_lines(&engine, name, messages(name, 0..5).iter().map(|message| message.line(false)).collect()).unwrap();
    }
    engine.close().unwrap();
    // The line of a2 becomes something that no reader understands.
    let database = redb::Database::open(agent_folder(folder.path()).join("transcripts.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut events = write.open_table(EVENTS).unwrap();
        let stored = events.get((0, 2)).unwrap().unwrap().value().to_vec();
        let row: EventRow<'_> = postcard::from_bytes(&stored[1..]).unwrap();
        let spoiled = encode_row(&EventRow { raw: b"{\"type\":", ..row });
        events.insert((0, 2), spoiled.as_slice()).unwrap();
    }
    write.commit().unwrap();
    drop(database);
    let engine = open();
    engine.reindex(&ReindexRequest::default()).unwrap();
    assert!(engine.wait_for_indexing(Duration::from_secs(30)));
    let answer = engine.search(&SearchRequest::new("otter")).unwrap();
    let mut ids: Vec<&str> = answer.results.iter().map(|hit| hit.message_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a0", "a1", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]);
}

#[test]
fn r22_a_rebuild_that_fails_is_tried_again_neither_hot_nor_never() {
    let place = place();
    let (engine, model) = hidden(&place, 120, 100);
    place.disk.fail_within("transcripts", Fault::Broken, 0, usize::MAX);
    let failing = Instant::now();
    while failing.elapsed() < Duration::from_millis(1_500) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let failed = place.disk.mend();
    // 0, 50, 200, 500, 1000 ms: a handful of tries, each of which meets a few failing calls.
    assert!((1..200).contains(&failed), "{failed} failing calls in 1.5 s");
    // Nobody asks again.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !pending(&engine).is_empty() {
        assert!(Instant::now() < deadline, "it is not tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    check(&engine, model);
}

#[test]
fn r23_an_engine_that_is_closed_while_work_is_queued_leaves_it_to_the_next() {
    for in_order in [true, false] {
        let place = place();
        let (engine, mut model) = hidden(&place, 200, 150);
        let mut engine = Some(engine);
        let started = Instant::now();
        take(&mut engine, || place.open(), &model, &Step::Reopen(in_order)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
        let engine = engine.unwrap();
        model = all(&engine, model, &[Step::Append("a", messages("late", 0..2))]);
        check(&engine, model);
    }
}

#[test]
fn status_tells_how_far_a_rebuild_is() {
    let place = place();
    let (engine, model) = hidden(&place, 400, 300);
    let mut seen = Vec::new();
    while let Some(pending) = engine.status().unwrap().pending.first() {
        assert_eq!((pending.session_id.as_str(), pending.events), ("a", 401));
        seen.push(pending.documents);
    }
    seen.dedup();
    assert!(seen.len() > 3 && seen.is_sorted(), "{seen:?}");
    check(&engine, model);
}

#[test]
fn case_17_a_storm_of_writers_neither_blocks_a_search_nor_keeps_a_session_hidden() {
    let seconds = std::env::var("SESSIONS_SEARCH_STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir().unwrap();
    let mut options = OpenOptions::default();
    options.create = true;
    let engine = Arc::new(Engine::open(folder.path(), options).unwrap());
    // 4 MiB and more: above the bound of D17.
    let mut make = StepGenerator::new(17);
    let long = |message: Message| Message { text: message.text + &" stone".repeat(2_500), ..message };
    let step = Step::Append("a", make.messages(300).into_iter().map(long).collect());
    let mut model = all(&engine, Model::default(), &[step]);
    model = all(&engine, model, &[Step::Rewind("a", 290)]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut steps = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let n = steps.len();
                let step = Step::Append(["a", "b"][n % 2], messages("storm", n..n + 1));
                do_to(&engine, &Model::default(), &step).unwrap();
                steps.push(step);
                std::thread::sleep(Duration::from_millis(20));
            }
            steps
        })
    };
    let (mut took, mut flagged, mut ready_at) = (Vec::new(), 0, None);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(seconds) || ready_at.is_none() {
        let asked = Instant::now();
        let answer = engine.search(&SearchRequest::new("otter")).unwrap();
        took.push(asked.elapsed());
        if answer.indexing {
            flagged += 1;
            assert!(started.elapsed() < Duration::from_secs(60), "it never catches up");
        } else {
            ready_at.get_or_insert_with(|| started.elapsed());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!writer.is_finished());
    stop.store(true, Ordering::Relaxed);
    for step in writer.join().unwrap() {
        model = model.after(&step);
    }
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    assert!(flagged > 0 && p99 < Duration::from_secs(1), "{flagged} flagged, p99 {p99:?}, ready at {ready_at:?}");
    assert!(engine.wait_for_indexing(Duration::from_secs(60)));
    let mut request = SearchRequest::new("otter");
    request.limit = 10_000;
    assert_eq!(engine.search(&request).unwrap().results.len(), model.num_messages());
}
