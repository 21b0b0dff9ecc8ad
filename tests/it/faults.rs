//! The disk fails: no space, or an error of the device, at each call in turn, once or until it is mended; a write may
//! have written a part, a sync may have lost what it should have written.
//!
//! Whatever fails, the error is a typed one, nothing acknowledged is lost, what failed is there whole or not at all, and
//! once the cause is gone everything works again without starting over. A power cut afterwards changes none of that.

use std::time::{Duration, Instant};

use sessions_search::__internal::faults::Tuning;
use sessions_search::{CheckpointError, SearchError, SearchRequest, StoreError};

use crate::disk::{Fault, Loss, Volume};
use crate::model::{
    EVERYWHERE, Expected, Message, Model, Place, Step, StepError, StepGenerator, index_folder, settle, small, take,
};
use crate::random::Random;

/// A store to fail on.
struct Prepared {
    volume: Volume,
    model: Model,
    tuning: Tuning,
    cache_bytes: usize,
}

impl Prepared {
    fn with(tuning: Tuning, steps: &[Step]) -> Self {
        let place = Place::new(Volume::new(), &tuning);
        let mut engine = Some(place.open().unwrap());
        let mut model = Model::default();
        for step in steps {
            take(&mut engine, || place.open(), &model, step).unwrap();
            model = model.after(step);
        }
        engine.unwrap().close().unwrap();
        Self { volume: place.disk.volume(), model, tuning, cache_bytes: place.cache_bytes }
    }

    /// The same with a disk that is asked for everything.
    fn without_cache(self) -> Self {
        Self { cache_bytes: 0, ..self }
    }

    fn place(&self) -> Place {
        Place { cache_bytes: self.cache_bytes, ..Place::new(self.volume.clone(), &self.tuning) }
    }

    /// How many calls the step makes that can fail so.
    fn num_calls(&self, fault: Fault, step: &Step) -> usize {
        let place = self.place();
        let mut engine = Some(place.open().unwrap());
        place.disk.take_calls();
        take(&mut engine, || place.open(), &self.model, step).unwrap();
        // What the background does after it belongs to it.
        std::thread::sleep(Duration::from_millis(5));
        place.disk.take_calls().iter().filter(|(call, _)| fault.concerns(*call)).count()
    }

    /// Fails the step at every call in turn: each once and for good, by either fault. A short run takes one of `of` of
    /// these, where they take long.
    #[expect(clippy::print_stderr, reason = "figures of a long run")]
    fn fail_everywhere(&self, of: usize, step: &Step) {
        let all = std::env::var_os("SESSIONS_SEARCH_ALL_FAULTS").is_some();
        let after = self.model.after(step);
        let known = [Expected::of(self.model.clone()), Expected::of(after)];
        let extra = Step::Append("later", vec![Message::new("later", "otter river after the failure")]);
        let later = [0, 1].map(|i| Expected::of(known[i].model.after(&extra)));
        let mut random = Random::new(5);
        let mut failures = 0;
        for fault in [Fault::NoSpace, Fault::Broken] {
            let calls = self.num_calls(fault, step);
            assert!(calls > 0, "{step:?} does nothing");
            for (call, times) in (0..calls).flat_map(|call| [(call, 1), (call, usize::MAX)]) {
                if !all && random.below(of) > 0 {
                    continue;
                }
                failures += 1;
                let what = format!("{fault:?} at call {call} of {calls}, {times} times");
                self.fail_once(step, &known, &extra, &later, (fault, call, times), &mut random)
                    .unwrap_or_else(|difference| panic!("{what}: {difference}"));
            }
        }
        eprintln!("{failures} failures of {}", step.name());
    }

    fn fail_once(
        &self,
        step: &Step,
        known: &[Expected; 2],
        extra: &Step,
        later: &[Expected; 2],
        (fault, call, times): (Fault, usize, usize),
        random: &mut Random,
    ) -> Result<(), String> {
        let place = self.place();
        let disk = &place.disk;
        let mut engine = Some(place.open().unwrap());
        disk.fail(fault, call, times);
        let result = take(&mut engine, || place.open(), &self.model, step);
        if let Err(error) = &result {
            expect_typed(error)?;
        }
        if let Some(engine) = &engine {
            // While the disk fails: the truth or an error, and never a panic.
            for _ in 0..2 {
                match engine.search(&SearchRequest::new(EVERYWHERE)) {
                    Ok(_) => {
                        let right = known.iter().map(|expected| expected.allows(engine)).collect::<Vec<_>>();
                        if right.iter().all(Result::is_err) && disk.still_fails() == 0 {
                            return Err(format!("while it fails: {right:?}"));
                        }
                    }
                    Err(SearchError::Store(_) | SearchError::Unreadable { .. }) => {}
                    Err(other) => return Err(format!("searching: {other}")),
                }
            }
        }
        disk.mend();
        let acknowledged = result.is_ok();
        let engine = match engine {
            Some(engine) => engine,
            // The step was an opening that failed.
            None => place.open().map_err(|error| format!("does not open again: {error}"))?,
        };
        let found = settle(&engine, if acknowledged { &known[1..] } else { known })? + usize::from(acknowledged);
        let mut engine = Some(engine);
        take(&mut engine, || place.open(), &known[found].model, extra)
            .map_err(|error| format!("works no more: {error}"))?;
        take(&mut engine, || place.open(), &known[found].model, &Step::Checkpoint)
            .map_err(|error| format!("writes no checkpoint any more: {error}"))?;
        settle(engine.as_ref().unwrap(), &later[found..=found])?;
        drop(engine);
        let loss = [Loss::All, Loss::Some, Loss::Nothing][random.below(3)];
        let image = Place::new(disk.volume().after_power_cut(loss, random), &self.tuning);
        let engine = image.open().map_err(|error| format!("after a power cut: {error}"))?;
        settle(&engine, &later[found..=found]).map_err(|error| format!("after a power cut ({loss:?}): {error}"))?;
        Ok(())
    }
}

fn expect_typed(error: &StepError) -> Result<(), String> {
    match error {
        StepError::Store(StoreError::Io { .. } | StoreError::OutcomeUnknown { .. } | StoreError::Poisoned { .. })
        | StepError::Checkpoint(CheckpointError::Index(_) | CheckpointError::Store(_)) => Ok(()),
        other => Err(format!("an error of another kind: {other:?}")),
    }
}

fn some_sessions() -> Vec<Step> {
    let mut make = StepGenerator::new(40);
    vec![make.append("a", 4), make.append("b", 3), Step::Checkpoint, make.append("a", 2), make.append("b", 2)]
}

#[test]
fn every_call_of_an_append_fails() {
    let prepared = Prepared::with(small(), &some_sessions());
    prepared.fail_everywhere(
        4,
        &Step::Append("a", vec![Message::new("x1", "otter lake map"), Message::new("x2", "otter river")]),
    );
}

#[test]
fn every_call_of_an_append_without_a_cache_fails() {
    // Reads too: those of the commit, and those that show what is committed.
    let prepared = Prepared::with(small(), &some_sessions()).without_cache();
    prepared.fail_everywhere(4, &Step::Append("a", vec![Message::new("x1", "otter lake map")]));
}

#[test]
fn every_call_of_a_checkpoint_without_a_cache_fails() {
    // Reads too: those between the commit of the index and its view.
    let tuning = Tuning { idle_checkpoint_documents: 1_000, ..small() };
    Prepared::with(tuning, &some_sessions()).without_cache().fail_everywhere(12, &Step::Checkpoint);
}

#[test]
fn every_call_of_a_large_append_fails() {
    // So large that the file of the transcripts has to grow.
    let prepared = Prepared::with(small(), &some_sessions());
    let large = Message { ballast: 2_000_000, ..Message::new("x1", "otter stone") };
    prepared.fail_everywhere(24, &Step::Append("b", vec![large]));
}

#[test]
fn every_call_of_a_rewind_fails() {
    let prepared = Prepared::with(small(), &some_sessions());
    prepared.fail_everywhere(4, &Step::Rewind("b", 2));
}

#[test]
fn every_call_of_a_deletion_fails() {
    let prepared = Prepared::with(small(), &some_sessions());
    prepared.fail_everywhere(4, &Step::Delete("a"));
}

#[test]
fn every_call_of_a_checkpoint_fails() {
    let prepared = Prepared::with(Tuning { idle_checkpoint_documents: 1_000, ..small() }, &some_sessions());
    prepared.fail_everywhere(12, &Step::Checkpoint);
}

#[test]
fn every_call_of_the_first_checkpoint_fails() {
    let mut make = StepGenerator::new(41);
    let tuning = Tuning { idle_checkpoint_documents: 1_000, ..small() };
    let prepared = Prepared::with(tuning, &[make.append("a", 4), make.append("b", 3)]);
    prepared.fail_everywhere(12, &Step::Checkpoint);
}

#[test]
fn every_call_of_a_rebuild_fails() {
    let mut make = StepGenerator::new(42);
    // Left pending: the rewind is above the bound, and the engine goes before it is rebuilt.
    let prepared = Prepared::with(small(), &[make.append("a", 6), make.append("a", 6), Step::Checkpoint]);
    prepared.fail_everywhere(4, &make.note(Step::Rewind("a", 5)));
}

#[test]
fn every_call_of_opening_fails() {
    let prepared = Prepared::with(small(), &some_sessions());
    prepared.fail_everywhere(8, &Step::Reopen(true));
    prepared.fail_everywhere(8, &Step::Reopen(false));
}

#[test]
fn every_call_of_an_index_rebuild_fails() {
    let mut prepared = Prepared::with(Tuning { max_replay_documents: 3, ..small() }, &some_sessions());
    prepared.volume.remove_folder(index_folder());
    prepared.fail_everywhere(8, &Step::Reopen(false));
}

#[test]
fn every_call_of_making_a_store_fails() {
    let mut random = Random::new(6);
    let tuning = small();
    for fault in [Fault::NoSpace, Fault::Broken] {
        for call in 0.. {
            let place = Place::new(Volume::new(), &tuning);
            place.disk.fail(fault, call, 1);
            let opened = place.open();
            let failed = place.disk.mend();
            match &opened {
                Ok(_) => {}
                Err(StoreError::Io { .. } | StoreError::OutcomeUnknown { .. }) => assert!(failed > 0),
                Err(other) => panic!("{fault:?} at call {call}: {other:?}"),
            }
            if opened.is_ok() && failed == 0 {
                assert!(call > 10, "{call}");
                break;
            }
            drop(opened);
            for loss in [Loss::All, Loss::Some, Loss::Nothing] {
                let image = Place::new(place.disk.volume().after_power_cut(loss, &mut random), &tuning);
                let mut engine = Some(image.open().unwrap());
                let model = Model::default();
                let step = Step::Append("a", vec![Message::new("x1", "otter")]);
                take(&mut engine, || image.open(), &model, &step).unwrap();
                Expected::of(model.after(&step)).compare(&engine.unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn a_failing_disk_is_tried_at_most_once_in_the_interval() {
    let tuning = Tuning { reopen_interval: Duration::from_millis(300), ..small() };
    let prepared = Prepared::with(tuning, &some_sessions());
    let place = prepared.place();
    let disk = &place.disk;
    let mut engine = Some(place.open().unwrap());
    let step = Step::Append("a", vec![Message::new("x1", "otter")]);
    disk.fail(Fault::Broken, 0, usize::MAX);
    let mut outcomes = Vec::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(200) {
        outcomes.push(take(&mut engine, || place.open(), &prepared.model, &step).unwrap_err());
    }
    let tried = outcomes.iter().filter(|e| !matches!(e, StepError::Store(StoreError::Poisoned { .. }))).count();
    assert!(outcomes.len() > 20 && tried <= 2, "{tried} of {}", outcomes.len());
    disk.mend();
    let acknowledged = loop {
        match take(&mut engine, || place.open(), &prepared.model, &step) {
            Ok(()) => break started.elapsed(),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(acknowledged >= Duration::from_millis(290) && acknowledged < Duration::from_secs(5), "{acknowledged:?}");
    Expected::of(prepared.model.after(&step)).compare(&engine.unwrap()).unwrap();
}
