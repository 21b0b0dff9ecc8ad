//! What power cuts, killed processes and failing disks have taught: one bug, one test.

use std::path::Path;
use std::time::Duration;

use sessions_search::__internal::faults::{Files as _, Tuning};
use sessions_search::{Durability, Engine, ImportOptions, SearchRequest, StoreError};

use crate::disk::{Change, Fault, Loss, Volume};
use crate::model::{
    Expected, Message, Model, Place, Step, StepError, StepGenerator, do_to, index_folder, now, settle, small,
};
use crate::random::Random;

/// Does steps, all of which must succeed; gives what must be there then.
fn all(engine: &Engine, mut model: Model, steps: &[Step]) -> Model {
    for step in steps {
        do_to(engine, &model, step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        model = model.after(step);
    }
    model
}

fn check(engine: &Engine, model: &Model) {
    settle(engine, &[Expected::of(model.clone())]).unwrap();
}

/// What is on the disk when the power comes back and everything unsynced is lost.
fn after_power_cut(place: &Place) -> Place {
    let image = place.disk.volume().after_power_cut(Loss::All, &mut Random::new(0));
    Place { cache_bytes: place.cache_bytes, ..Place::new(image, &place.tuning) }
}

#[test]
fn a_store_half_made_is_made_again() {
    let place = Place::new(Volume::new(), &small());
    place.disk.record();
    drop(place.open().unwrap());
    let changes = place.disk.take_record();
    let mut random = Random::new(1);
    let mut volume = Volume::new();
    for change in &changes {
        for loss in [Loss::All, Loss::Some, Loss::Some, Loss::Nothing] {
            let place = Place::new(volume.after_power_cut(loss, &mut random), &small());
            let engine = place.open().unwrap();
            let model = all(&engine, Model::default(), &[Step::Append("a", vec![Message::new("m", "otter")])]);
            check(&engine, &model);
        }
        volume.apply(change);
    }
}

#[test]
fn the_folders_of_a_store_are_as_durable_as_its_first_message() {
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[Step::Append("a", vec![Message::new("m", "otter")])]);
    drop(engine);
    check(&after_power_cut(&place).open().unwrap(), &model);
}

#[test]
fn a_store_named_by_a_process_that_was_killed_at_once_is_durable_too() {
    let place = Place::new(Volume::new(), &small());
    place.disk.record();
    drop(place.open().unwrap());
    let changes = place.disk.take_record();
    let named = changes.iter().position(|change| matches!(change, Change::Rename { .. })).unwrap();
    let mut volume = Volume::new();
    changes[..=named].iter().for_each(|change| volume.apply(change));
    // The next process finds the store, and the power fails after it has stored something.
    let place = Place::new(volume, &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[Step::Append("a", vec![Message::new("m", "otter")])]);
    drop(engine);
    check(&after_power_cut(&place).open().unwrap(), &model);
}

#[test]
fn a_checkpoint_after_one_that_was_cut_short_is_written() {
    let mut make = StepGenerator::new(2);
    let place = Place::new(Volume::new(), &Tuning { merge_segments: 100, ..small() });
    let engine = place.open().unwrap();
    let steps = [make.append("a", 3), make.append("b", 3), Step::Checkpoint, make.note(Step::Delete("b"))];
    let model = all(&engine, Model::default(), &steps);
    drop(engine);
    // A new writer counts its operations from where the last commit was, and so does the one after it.
    let engine = place.open().unwrap();
    place.disk.record();
    let mut volume = place.disk.volume();
    do_to(&engine, &model, &Step::Checkpoint).unwrap();
    drop(engine);
    // Killed right after it has made the file that says what of a segment is dead.
    let changes = place.disk.take_record();
    let is_deaths = |change: &Change| match change {
        Change::Create { name, .. } => name.to_string_lossy().ends_with(".del"),
        _ => false,
    };
    let at = changes.iter().position(is_deaths).expect("a deletion writes such a file");
    changes[..=at].iter().for_each(|change| volume.apply(change));
    let engine = Place::new(volume, &place.tuning).open().unwrap();
    all(&engine, model.clone(), &[Step::Checkpoint]);
    check(&engine, &model);
}

#[test]
fn a_checkpoint_tried_again_does_not_bring_back_what_was_deleted_since() {
    let mut make = StepGenerator::new(3);
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[make.append("a", 3)]);
    place.disk.fail_within("/index/", Fault::Broken, 0, usize::MAX);
    do_to(&engine, &model, &Step::Checkpoint).unwrap_err();
    assert!(place.disk.mend() > 0);
    // The tail of the failed checkpoint still waits; this goes into a new one.
    let steps =
        [make.append("b", 2), make.append("a", 2), make.note(Step::Rewind("a", 4)), make.note(Step::Delete("b"))];
    let model = all(&engine, model, &steps);
    let model = all(&engine, model, &[Step::Checkpoint]);
    check(&engine, &model);
    let model = all(&engine, model, &[Step::Checkpoint]);
    check(&engine, &model);
    drop(engine);
    check(&place.open().unwrap(), &model);
}

#[test]
fn an_index_rebuild_tried_again_adds_nothing_twice() {
    let mut make = StepGenerator::new(4);
    let place = Place::new(Volume::new(), &Tuning { max_replay_documents: 3, index_batch_documents: 4, ..small() });
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[make.append("a", 6), make.append("b", 5), Step::Checkpoint]);
    drop(engine);
    let mut volume = place.disk.volume();
    volume.remove_folder(index_folder());
    // After documents of a batch were added: the note of the store fails, then files of the index do.
    for (within, calls) in [("transcripts", 30), ("/index/", 40)] {
        for call in 0..calls {
            let place = Place::new(volume.clone(), &place.tuning);
            place.disk.fail_within(within, Fault::Broken, call, 1);
            let Ok(engine) = place.open() else { continue };
            check(&engine, &model);
            drop(engine);
            place.disk.mend();
            check(&place.open().unwrap(), &model);
        }
    }
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_written_again() {
    let mut make = StepGenerator::new(5);
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[make.append("a", 6), make.append("b", 2)]);
    drop(engine);
    let (volume, mut random) = (place.disk.volume(), Random::new(5));
    let mut unknown = 0;
    for unsure in [make.append("a", 1), Step::Rewind("a", 3), Step::Delete("a")] {
        let states = [Expected::of(model.clone()), Expected::of(model.after(&unsure))];
        for call in 0..20 {
            let place = Place::new(volume.clone(), &small());
            let engine = place.open().unwrap();
            place.disk.fail_within("transcripts", Fault::NoSpace, call, 1);
            let outcome = do_to(&engine, &model, &unsure);
            place.disk.mend();
            if !matches!(outcome, Err(StepError::Store(StoreError::OutcomeUnknown { .. }))) {
                continue;
            }
            // Where it was the sync that failed, what it should have written is shown, and lost.
            unknown += 1;
            let found = settle(&engine, &states).unwrap();
            // Stored after the disk is well again: no power cut may take it, nor what it stands on.
            let later = Step::Append("c", vec![Message::new("c1", "otter lake map")]);
            let model = all(&engine, states[found].model.clone(), &[later]);
            drop(engine);
            for loss in [Loss::All, Loss::Some, Loss::Some] {
                let image = place.disk.volume().after_power_cut(loss, &mut random);
                check(&Place::new(image, &small()).open().unwrap(), &model);
            }
        }
    }
    assert!(unknown > 10, "{unknown} outcomes unknown");
}

#[test]
fn case_13_an_append_after_a_full_disk_is_stored_and_the_one_before_is_not() {
    // Half a record, and the next append must not be fused with it.
    let mut make = StepGenerator::new(6);
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[make.append("a", 2)]);
    place.disk.fail(Fault::NoSpace, 0, usize::MAX);
    let refused = Step::Append("a", vec![Message::new("lost", "otter that finds no room")]);
    for _ in 0..3 {
        let error = do_to(&engine, &model, &refused).unwrap_err();
        assert!(matches!(error, StepError::Store(_)), "{error:?}");
        let found = engine.search(&SearchRequest::new("room"));
        assert!(found.map_or(true, |answer| answer.results.is_empty()));
    }
    place.disk.mend();
    let model = all(&engine, model, &[make.append("a", 1), make.append("b", 1)]);
    check(&engine, &model);
}

#[test]
fn a12_and_case_18_rolled_back_text_is_never_found() {
    // A transaction fails after a message is staged.
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[Step::Append("a", vec![Message::new("m1", "otter")])]);
    let staged = Step::Append("a", vec![Message::new("m2", "otter staged")]);
    place.disk.fail_within("transcripts", Fault::Broken, 0, 1);
    let failed = do_to(&engine, &model, &staged).is_err();
    place.disk.mend();
    assert!(failed);
    let states = [Expected::of(model.clone()), Expected::of(model.after(&staged))];
    assert_eq!(settle(&engine, &states), Ok(0), "the first call of a commit had failed");
    let model = all(&engine, model, &[Step::Append("a", vec![Message::new("m3", "otter")]), staged]);
    check(&engine, &model);
}

#[test]
fn a_full_tail_without_an_index_refuses_appends_and_takes_them_again_later() {
    let tuning =
        Tuning { checkpoint_documents: 4, max_tail_documents: 6, room_timeout: Duration::from_millis(50), ..small() };
    let place = Place::new(Volume::new(), &tuning);
    let engine = place.open().unwrap();
    let mut make = StepGenerator::new(7);
    place.disk.fail_within("/index", Fault::NoSpace, 0, usize::MAX);
    let mut model = Model::default();
    let refusal = loop {
        let step = Step::Append("a", make.messages(1));
        match do_to(&engine, &model, &step) {
            Ok(()) => model = model.after(&step),
            Err(error) => break error,
        }
        assert!(model.num_messages() < 20, "the tail grows without end");
    };
    assert!(matches!(&refusal, StepError::Store(StoreError::IndexBehind { .. })), "{refusal:?}");
    check(&engine, &model);
    place.disk.mend();
    // The checkpoint is tried again after a while.
    let step = Step::Append("a", make.messages(1));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while do_to(&engine, &model, &step).is_err() {
        assert!(std::time::Instant::now() < deadline, "it stays behind");
    }
    check(&engine, &model.after(&step));
}

#[test]
fn a_store_that_vanished_is_not_made_again_by_opening_it_after_a_failure() {
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[Step::Append("a", vec![Message::new("m1", "otter")])]);
    place.disk.fail_within("transcripts", Fault::Broken, 0, 1);
    let step = Step::Append("a", vec![Message::new("m2", "otter")]);
    do_to(&engine, &model, &step).unwrap_err();
    place.disk.mend();
    place.disk.remove_folder(Path::new("/store/agents/main")).unwrap();
    match do_to(&engine, &model, &step) {
        Err(StepError::Store(StoreError::Missing { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_in_the_background_ends_no_background() {
    let tuning = Tuning { checkpoint_documents: 3, idle: Duration::from_millis(1), ..small() };
    let mut make = StepGenerator::new(8);
    let steps: Vec<Step> = (0..6).map(|_| make.append("a", 2)).collect();
    for call in (0..60).step_by(7) {
        let place = Place::new(Volume::new(), &tuning);
        let engine = place.open().unwrap();
        place.disk.fail_within("/index", Fault::Panic, call, 1);
        let mut model = all(&engine, Model::default(), &steps);
        // A panic may come at any time, and with it the rebuild of the index.
        Expected::of(model.clone()).allows(&engine).unwrap();
        place.disk.mend();
        // The tail is written without anybody asking for it.
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while engine.status().unwrap().tail >= 3 {
            assert!(std::time::Instant::now() < deadline, "call {call}: no checkpoint any more");
            std::thread::sleep(Duration::from_millis(2));
        }
        model = all(&engine, model, &[Step::Append("b", vec![Message::new("b1", "otter")]), Step::Checkpoint]);
        check(&engine, &model);
        drop(engine);
        check(&place.open().unwrap(), &model);
    }
}

#[test]
fn an_import_that_failed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("conversation.jsonl");
    let header = r#"{"type":"session","version":3,"id":"conversation","timestamp":"2026-07-01T08:00:00.000Z"}"#;
    // So many that opening after the failure leaves them to a rebuild.
    let tuning = Tuning { max_replay_documents: 100, ..small() };
    let messages: Vec<Message> = StepGenerator::new(9).messages(130);
    let lines = messages.iter().map(|message| String::from_utf8(message.line(false)).unwrap());
    let text: String = std::iter::once(header.to_owned()).chain(lines).map(|line| line + "\n").collect();
    std::fs::write(&file, text).unwrap();
    let import =
        |engine: &Engine| engine.import(std::slice::from_ref(&file), &ImportOptions::default(), now(), &mut |_| {});
    let mut failed = 0;
    for call in (0..60).step_by(4) {
        let place = Place::new(Volume::new(), &tuning);
        let engine = place.open().unwrap();
        place.disk.fail_within("transcripts", Fault::NoSpace, call, 1);
        failed += usize::from(import(&engine).is_err());
        place.disk.mend();
        let summary = import(&engine).unwrap();
        assert_eq!(summary.rejected_total, 0, "{summary:?}");
        assert!(engine.wait_for_indexing(Duration::from_secs(30)));
        let mut request = SearchRequest::new("otter");
        request.limit = 10_000;
        assert_eq!(engine.search(&request).unwrap().results.len(), 130);
        assert_eq!(engine.status().unwrap().events, 131);
        drop(engine);
        let engine = after_power_cut(&place).open().unwrap();
        assert!(engine.wait_for_indexing(Duration::from_secs(30)));
        assert_eq!(engine.search(&request).unwrap().results.len(), 130);
    }
    assert!(failed > 3, "{failed}");
}

/// A store whose writes are deferred, with these bounds.
fn relaxed(max_transactions: usize, max_age: Duration) -> Place {
    let tuning = Tuning { max_deferred_transactions: max_transactions, max_deferred_age: max_age, ..small() };
    Place { durability: Durability::Relaxed, ..Place::new(Volume::new(), &tuning) }
}

const NEVER: Duration = Duration::from_secs(3_600);

#[test]
fn relaxed_loses_the_newest_transactions_alone_and_no_more_than_promised() {
    let place = relaxed(8, NEVER);
    place.disk.record();
    let engine = place.open().unwrap();
    let mut make = StepGenerator::new(61);
    let (mut states, mut model) = (vec![Model::default()], Model::default());
    let mut done = Vec::new();
    for number in 0..60 {
        let step = match number % 9 {
            5 => make.note(Step::Rewind("a", 2)),
            8 => make.note(Step::Delete("a")),
            _ => make.append(["a", "b"][number % 2], 1),
        };
        // Neither a rewind nor a deletion where there is nothing: every step is one transaction.
        let exists = model.sessions.get("a").is_some_and(|messages| messages.len() > 2);
        if matches!(step, Step::Rewind(..) | Step::Delete(_)) && !exists {
            continue;
        }
        do_to(&engine, &model, &step).unwrap();
        model = model.after(&step);
        states.push(model.clone());
        done.push(place.disk.recorded());
    }
    drop(engine);
    let changes = place.disk.take_record();
    let mut random = Random::new(61);
    let (mut volume, mut at, mut lost_most) = (Volume::new(), 0, 0);
    let mut cuts: Vec<usize> = (0..60).map(|_| random.below(changes.len() + 1)).collect();
    cuts.extend(&done);
    cuts.sort_unstable();
    for cut in cuts {
        changes[at..cut].iter().for_each(|change| volume.apply(change));
        at = cut;
        let acknowledged = done.iter().take_while(|at| **at <= cut).count();
        let loss = [Loss::All, Loss::Some][random.below(2)];
        let engine = Place::new(volume.after_power_cut(loss, &mut random), &place.tuning).open().unwrap();
        // With the one under way.
        let newest = (acknowledged + 1).min(states.len() - 1);
        let may_be: Vec<Expected> =
            (acknowledged.saturating_sub(8)..=newest).rev().map(|n| Expected::of(states[n].clone())).collect();
        let found = newest - settle(&engine, &may_be).unwrap_or_else(|difference| panic!("cut at {cut}: {difference}"));
        lost_most = lost_most.max(acknowledged.saturating_sub(found));
    }
    assert!((4..=8).contains(&lost_most), "{lost_most} lost at most: nothing was deferred");
}

#[test]
fn relaxed_is_on_disk_after_a_while_and_after_a_checkpoint_and_a_close() {
    let mut make = StepGenerator::new(62);
    let append = make.append("a", 3);
    let model = Model::default().after(&append);

    let place = relaxed(1_000, Duration::from_millis(100));
    let engine = place.open().unwrap();
    do_to(&engine, &Model::default(), &append).unwrap();
    let at_once = after_power_cut(&place);
    std::thread::sleep(Duration::from_millis(400));
    check(&after_power_cut(&place).open().unwrap(), &model);
    check(&at_once.open().unwrap(), &Model::default());
    drop(engine);

    for end in [|engine: Engine| engine.checkpoint().unwrap(), |engine: Engine| engine.close().unwrap(), drop] {
        let place = relaxed(1_000, NEVER);
        let engine = place.open().unwrap();
        do_to(&engine, &Model::default(), &append).unwrap();
        check(&after_power_cut(&place).open().unwrap(), &Model::default());
        end(engine);
        check(&after_power_cut(&place).open().unwrap(), &model);
    }
}

#[test]
fn relaxed_never_lets_the_index_get_ahead_of_the_store() {
    let tuning = Tuning {
        checkpoint_documents: 4,
        idle: Duration::from_millis(1),
        idle_checkpoint_documents: 1,
        max_deferred_age: NEVER,
        ..small()
    };
    let place = Place { durability: Durability::Relaxed, ..Place::new(Volume::new(), &tuning) };
    place.disk.record();
    let engine = place.open().unwrap();
    let mut make = StepGenerator::new(63);
    let mut states = vec![Model::default()];
    for _ in 0..40 {
        let step = make.any();
        let step = if matches!(step, Step::Reopen(_)) { Step::Pause } else { step };
        let model = states.last().unwrap().clone();
        do_to(&engine, &model, &step).unwrap();
        let next = model.after(&step);
        if next != model {
            states.push(next);
        }
    }
    drop(engine);
    let changes = place.disk.take_record();
    let mut random = Random::new(63);
    let states: Vec<Expected> = states.into_iter().map(Expected::of).collect();
    let (mut volume, mut at, mut least) = (Volume::new(), 0, 0);
    let mut cuts: Vec<usize> = (0..40).map(|_| random.below(changes.len() + 1)).collect();
    cuts.sort_unstable();
    for cut in cuts {
        changes[at..cut].iter().for_each(|change| volume.apply(change));
        at = cut;
        let image = Place::new(volume.after_power_cut(Loss::All, &mut random), &place.tuning);
        let engine = image.open().unwrap();
        // Whatever is durable stays so.
        least += settle(&engine, &states[least..]).unwrap_or_else(|difference| panic!("cut at {cut}: {difference}"));
    }
    assert!(least > 5, "{least}");
}

#[test]
fn a_store_on_a_disk_that_takes_no_writes_says_so_and_stays_as_it_is() {
    let mut make = StepGenerator::new(64);
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let model = all(&engine, Model::default(), &[make.append("a", 3), Step::Checkpoint]);
    engine.close().unwrap();
    place.disk.fail(Fault::ReadOnly, 0, usize::MAX);
    match place.open() {
        Ok(_) => assert_eq!(place.disk.still_fails(), 0, "a write was tried and its failure swallowed"),
        Err(error @ StoreError::Io { .. }) => {
            assert!(error.to_string().to_lowercase().contains("read-only"), "{error}")
        }
        Err(other) => panic!("{other:?}"),
    }
    place.disk.mend();
    check(&place.open().unwrap(), &model);
}
