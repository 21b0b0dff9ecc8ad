//! The power fails: at any write, rename, removal or sync, and of what was not synced any part is lost.
//!
//! A workload runs once and its changes of the disk are recorded. Every prefix of the record is a moment of a power
//! cut; the disk it leaves is opened again, and must hold every step that was acknowledged before that moment, the one
//! under way whole or not at all, and nothing else, and must answer as SQLite FTS5 does over the same messages.
//! What the opening itself does to the disk is recorded and cut in the same way.
//!
//! A run checks a sample. `SESSIONS_SEARCH_CRASH_CUTS=<n>` checks n cuts of every workload, 0 every single one, each with
//! all unsynced changes lost, with none, and with any.

use std::time::{Duration, Instant};

use sessions_search::__internal::faults::Tuning;

use crate::disk::{Change, Loss, Volume};
use crate::model::{
    Expected, Message, Model, Place, Step, StepGenerator, append_lines, do_to, index_folder, settle, small, take,
};
use crate::random::Random;

/// One run of steps: what it changed on the disk, and when each step began and was done.
struct Recording {
    start: Volume,
    changes: Vec<Change>,
    /// Of every step: changes recorded before it, and when it was acknowledged.
    steps: Vec<(usize, usize)>,
    /// What must be there after so many steps.
    states: Vec<Expected>,
}

impl Recording {
    /// Runs `steps` on a disk that holds `model` already, or nothing.
    fn of(start: Volume, model: Model, tuning: &Tuning, steps: &[Step]) -> Self {
        let place = Place::new(start.clone(), tuning);
        let disk = &place.disk;
        disk.record();
        let mut states = vec![Expected::of(model.clone())];
        let mut marks = Vec::new();
        let mut engine = Some(place.open().unwrap());
        let mut model = model;
        for step in steps {
            let began = disk.recorded();
            take(&mut engine, || place.open(), &model, step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
            marks.push((began, disk.recorded()));
            model = model.after(step);
            states.push(Expected::of(model.clone()));
        }
        engine.unwrap().close().unwrap();
        Self { start, changes: disk.take_record(), steps: marks, states }
    }

    /// What may be there when the power fails before change `at`: what was acknowledged, and that with the step under
    /// way.
    fn allowed(&self, at: usize) -> &[Expected] {
        let done = self.steps.iter().take_while(|(_, done)| *done <= at).count();
        let begun = self.steps.get(done).is_some_and(|(began, _)| *began <= at);
        &self.states[done..=done + usize::from(begun)]
    }
}

/// Opens what a power cut left, and compares. Gives the index of the state that is there.
fn reopen(image: &Volume, tuning: &Tuning, allowed: &[Expected]) -> Result<usize, String> {
    let place = Place::new(image.clone(), tuning);
    let engine = place.open().map_err(|error| format!("it does not open: {error}"))?;
    let at_once: Vec<_> = allowed.iter().map(|expected| expected.allows(&engine)).collect();
    if at_once.iter().all(Result::is_err) {
        return Err(format!("at once: {at_once:?}"));
    }
    let found = settle(&engine, allowed)?;
    drop(engine);
    place.verify(true)?;
    Ok(found)
}

/// Works on after a power cut, records that too, and cuts it.
fn cut_the_recovery(image: &Volume, tuning: &Tuning, allowed: &[Expected], cuts: usize, random: &mut Random) -> usize {
    let place = Place::new(image.clone(), tuning);
    let disk = &place.disk;
    disk.record();
    let engine = place.open().unwrap();
    let opened = disk.recorded();
    let found = settle(&engine, allowed).unwrap();
    let more = Message::new("after", "otter river after the power cut");
    let found_model = allowed[found].model.clone();
    let with_more = Expected::of(found_model.after(&Step::Append("after", vec![more.clone()])));
    let began = disk.recorded();
    append_lines(&engine, "after", vec![more.line(false)]).unwrap();
    let done = disk.recorded();
    engine.checkpoint().unwrap();
    with_more.compare(&engine).unwrap();
    engine.close().unwrap();
    let changes = disk.take_record();
    let found = [Expected::of(found_model), with_more];

    let mut volume = image.clone();
    let mut at = 0;
    let mut chosen: Vec<usize> = (0..cuts).map(|_| random.below(changes.len() + 1)).collect();
    chosen.sort_unstable();
    for &cut in &chosen {
        for change in &changes[at..cut] {
            volume.apply(change);
        }
        at = cut;
        let may_be = if cut < opened {
            allowed
        } else if cut < began {
            &found[..1]
        } else if cut < done {
            &found[..]
        } else {
            &found[1..]
        };
        let loss = [Loss::All, Loss::Some, Loss::Some, Loss::Nothing][random.below(4)];
        let image = volume.after_power_cut(loss, random);
        if let Err(difference) = reopen(&image, tuning, may_be) {
            panic!("recovery cut at {cut} of {}, {loss:?} lost: {difference}", changes.len());
        }
    }
    chosen.len()
}

/// Cuts a workload, and a part of the recoveries.
#[expect(clippy::print_stderr, reason = "figures of a long run")]
fn check(name: &str, seed: u64, recording: &Recording, tuning: &Tuning) {
    let started = Instant::now();
    let wanted: usize = std::env::var("SESSIONS_SEARCH_CRASH_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(36);
    let mut random = Random::new(seed);
    let moments = recording.changes.len() + 1;
    let mut cuts: Vec<(usize, Loss)> = if wanted == 0 {
        let losses = [Loss::All, Loss::Nothing, Loss::Some, Loss::Some];
        (0..moments).flat_map(|at| losses.map(|loss| (at, loss))).collect()
    } else {
        let losses = [Loss::All, Loss::Some, Loss::Some, Loss::Nothing];
        (0..wanted).map(|_| (random.below(moments), losses[random.below(4)])).collect()
    };
    cuts.sort_by_key(|cut| cut.0);
    let mut volume = recording.start.clone();
    let (mut at, mut of_recovery) = (0, 0);
    for &(cut, loss) in &cuts {
        for change in &recording.changes[at..cut] {
            volume.apply(change);
        }
        at = cut;
        let image = volume.after_power_cut(loss, &mut random);
        let allowed = recording.allowed(cut);
        if let Err(difference) = reopen(&image, tuning, allowed) {
            panic!(
                "{name}: cut at {cut} of {} ({:?}), {loss:?} lost: {difference}",
                recording.changes.len(),
                recording.changes.get(cut.saturating_sub(1)),
            );
        }
        if random.below(8) == 0 {
            of_recovery += cut_the_recovery(&image, tuning, allowed, 4, &mut random);
        }
    }
    eprintln!(
        "{name}: {} changes, {} cuts, {of_recovery} cuts of recoveries, {:.1} s",
        recording.changes.len(),
        cuts.len(),
        started.elapsed().as_secs_f64()
    );
}

fn run(name: &str, seed: u64, tuning: &Tuning, steps: &[Step]) {
    check(name, seed, &Recording::of(Volume::new(), Model::default(), tuning, steps), tuning);
}

#[test]
fn power_cuts_during_appends() {
    let mut make = StepGenerator::new(1);
    let steps = [make.append("a", 1), make.append("a", 3), make.append("b", 1), make.aside("a"), make.append("a", 2)];
    run("appends", 1, &small(), &steps);
}

#[test]
fn power_cuts_during_rewinds_and_deletions() {
    let mut make = StepGenerator::new(2);
    let steps = [
        make.append("a", 4),
        make.note(Step::Rewind("a", 2)),
        make.append("a", 2),
        make.append("b", 2),
        Step::Checkpoint,
        make.note(Step::Rewind("a", 1)),
        make.note(Step::Delete("b")),
        make.append("b", 1),
        Step::Checkpoint,
        make.note(Step::Rewind("b", 0)),
        make.note(Step::Delete("a")),
    ];
    run("rewinds and deletions", 2, &small(), &steps);
}

#[test]
fn power_cuts_during_checkpoints() {
    let mut make = StepGenerator::new(3);
    let steps = [
        make.append("a", 3),
        Step::Checkpoint,
        make.append("a", 2),
        make.append("b", 3),
        Step::Checkpoint,
        make.note(Step::Delete("b")),
        Step::Checkpoint,
        make.append("b", 2),
        make.append("a", 1),
        Step::Checkpoint,
    ];
    let tuning = Tuning { merge_segments: 100, ..small() };
    run("checkpoints", 3, &tuning, &steps);
}

#[test]
fn power_cuts_during_merges() {
    let mut make = StepGenerator::new(4);
    let tuning = Tuning { checkpoint_documents: 2, idle: Duration::from_millis(2), ..small() };
    let mut steps = Vec::new();
    for round in 0..5 {
        steps.extend([make.append("a", 2), Step::Pause, make.append("b", 1), make.append("b", 1), Step::Pause]);
        if round == 2 {
            steps.push(make.note(Step::Rewind("a", 1)));
        }
    }
    run("merges", 4, &tuning, &steps);
}

#[test]
fn power_cuts_during_the_rebuild_of_a_session() {
    let mut make = StepGenerator::new(5);
    let steps = [
        make.append("a", 6),
        make.append("a", 5),
        Step::Checkpoint,
        make.note(Step::Rewind("a", 7)),
        Step::WaitForIndexing,
        make.append("a", 2),
        make.note(Step::Rewind("a", 3)),
        make.append("a", 1),
        Step::WaitForIndexing,
        Step::Checkpoint,
    ];
    run("rebuild of a session", 5, &small(), &steps);
}

#[test]
fn power_cuts_during_the_rebuild_of_the_index() {
    let mut make = StepGenerator::new(6);
    let tuning = Tuning { max_replay_documents: 4, ..small() };
    let steps = [make.append("a", 5), make.append("b", 6), make.append("a", 2), Step::Checkpoint, Step::Reopen(true)];
    let before = Recording::of(Volume::new(), Model::default(), &tuning, &steps);
    let mut volume = before.start.clone();
    before.changes.iter().for_each(|change| volume.apply(change));
    volume.remove_folder(index_folder());
    let model = before.states.last().unwrap().model.clone();
    let steps = [
        make.append("b", 1),
        make.note(Step::Delete("a")),
        Step::WaitForIndexing,
        make.append("a", 1),
        Step::Checkpoint,
    ];
    check("rebuild of the index", 6, &Recording::of(volume, model, &tuning, &steps), &tuning);
}

#[test]
fn power_cuts_while_a_session_is_deleted_and_made_again() {
    let mut make = StepGenerator::new(7);
    let mut steps = Vec::new();
    for round in 0..4 {
        steps.push(make.append("a", 2 + round));
        if round % 2 == 0 {
            steps.push(Step::Checkpoint);
        }
        steps.push(make.note(Step::Delete("a")));
    }
    steps.push(make.append("a", 1));
    run("made again", 7, &small(), &steps);
}

#[test]
fn power_cuts_while_it_is_closed_and_opened() {
    let mut make = StepGenerator::new(8);
    let mut steps = Vec::new();
    for round in 0..5 {
        steps.extend([make.append("a", 1 + round), Step::Reopen(round % 2 == 0)]);
    }
    run("closed and opened", 8, &small(), &steps);
}

#[test]
fn power_cuts_with_everything_in_the_background() {
    let mut make = StepGenerator::new(9);
    let tuning = Tuning {
        checkpoint_documents: 3,
        idle: Duration::from_millis(1),
        idle_checkpoint_documents: 1,
        max_replay_documents: 5,
        ..small()
    };
    let steps: Vec<Step> = (0..60).map(|_| make.any()).collect();
    run("background", 9, &tuning, &steps);
}

#[test]
fn power_cuts_during_anything() {
    for seed in 10..14 {
        let mut make = StepGenerator::new(seed);
        let steps: Vec<Step> = (0..25).map(|_| make.any()).collect();
        run(&format!("anything {seed}"), seed, &small(), &steps);
    }
}

#[test]
fn a13_a_crash_between_the_commits_of_store_and_index_loses_and_doubles_nothing() {
    let mut make = StepGenerator::new(13);
    let place = Place::new(Volume::new(), &small());
    let engine = place.open().unwrap();
    let mut model = Model::default();
    for step in [make.append("a", 4), Step::Checkpoint, make.append("b", 3), make.note(Step::Delete("a"))] {
        do_to(&engine, &model, &step).unwrap();
        model = model.after(&step);
    }
    let mut volume = place.disk.volume();
    place.disk.record();
    engine.checkpoint().unwrap();
    // Every moment of the checkpoint: before and after its intent is in the store, its segments and its commit are on
    // the disk.
    let expected = [Expected::of(model)];
    let mut random = Random::new(13);
    for change in place.disk.take_record() {
        for loss in [Loss::All, Loss::Nothing] {
            let image = volume.after_power_cut(loss, &mut random);
            assert_eq!(reopen(&image, &place.tuning, &expected), Ok(0), "before {change:?}, {loss:?} lost");
        }
        volume.apply(&change);
    }
}

#[test]
fn power_cuts_while_a_rewritten_file_takes_its_sessions_place() {
    power_cuts_during_a_replacement(&small(), 21);
}

#[test]
fn power_cuts_while_a_rewritten_file_takes_its_sessions_place_with_checkpoints_meanwhile() {
    power_cuts_during_a_replacement(&Tuning { checkpoint_documents: 2, ..small() }, 22);
}

fn power_cuts_during_a_replacement(tuning: &Tuning, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.jsonl");
    let write = |word: &str, count: usize| {
        let mut text = String::from("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
        for n in 0..count {
            let message = format!(r#"{{"role":"user","content":"{word} otter {n}"}}"#);
            text += &format!("{{\"type\":\"message\",\"id\":\"m{n}\",\"message\":{message}}}\n");
        }
        std::fs::write(&file, text).unwrap();
    };
    let import = |engine: &sessions_search::Engine| {
        let now = sessions_search::Timestamp::from_millis(1).unwrap();
        let options = sessions_search::ImportOptions::default();
        engine.import(std::slice::from_ref(&file), &options, now, &mut |_| ()).unwrap()
    };
    let found = |engine: &sessions_search::Engine, word: &str| {
        let mut request = sessions_search::SearchRequest::new(word);
        request.limit = 100;
        engine.search(&request).unwrap().results.len()
    };
    let place = Place::new(Volume::new(), tuning);
    let engine = place.open().unwrap();
    write("old", 9);
    import(&engine);
    engine.close().unwrap();
    let mut volume = place.disk.volume();
    place.disk.record();
    let engine = place.open().unwrap();
    write("new", 12);
    import(&engine);
    assert_eq!((found(&engine, "old"), found(&engine, "new")), (0, 12));
    let at_the_end = place.disk.recorded();
    engine.close().unwrap();
    let changes = place.disk.take_record();

    let mut random = Random::new(seed);
    let (mut old, mut new) = (0, 0);
    for (at, change) in changes.iter().enumerate() {
        for loss in [Loss::All, Loss::Some, Loss::Nothing] {
            // A sample where there are many: each takes three openings.
            if random.below(changes.len()) > 80 {
                continue;
            }
            let left = Place::new(volume.after_power_cut(loss, &mut random), tuning);
            left.verify(true).unwrap();
            let engine = left.open().unwrap();
            assert!(engine.wait_for_indexing(Duration::from_secs(60)));
            match (found(&engine, "old"), found(&engine, "new")) {
                (9, 0) => old += 1,
                (0, 12) => new += 1,
                mixed => panic!("cut at {at}, {loss:?} lost: {mixed:?} of old and new"),
            }
            assert!(at <= at_the_end || found(&engine, "new") == 12, "it was acknowledged");
            // Whatever is there, the file is taken in again, whole.
            import(&engine);
            assert!(engine.wait_for_indexing(Duration::from_secs(60)));
            assert_eq!((found(&engine, "old"), found(&engine, "new")), (0, 12), "cut at {at}");
            engine.close().unwrap();
            left.verify(true).unwrap();
        }
        volume.apply(change);
    }
    assert!(old > 3 && new > 3, "{old} {new}");
}
