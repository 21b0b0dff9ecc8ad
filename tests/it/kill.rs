//! A process is killed at random moments while it works; what it had acknowledged is there (cases 13 and 23).
//!
//! The child is this test binary again. It takes the steps of a seed, one after the other, and prints the number of each
//! one that is done. 20 rounds, or as many as `SESSIONS_SEARCH_KILLS` says.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sessions_search::__internal::faults::Tuning;
use sessions_search::{Durability, Engine, OpenOptions, StoreError};

use crate::model::{Expected, Model, Step, StepGenerator, settle, small, take};
use crate::random::Random;

const SEED: u64 = 23;

fn open(root: &Path, durability: Durability) -> Result<Engine, StoreError> {
    let mut options = OpenOptions::default();
    options.create = true;
    options.durability = durability;
    options.tuning = Tuning {
        checkpoint_documents: 8,
        idle: Duration::from_millis(5),
        idle_checkpoint_documents: 1,
        max_replay_documents: 30,
        ..small()
    };
    Engine::open(root, options)
}

/// The work itself: started by the other test with what to do in the environment, and killed by it.
#[test]
#[ignore = "started by another test"]
fn works_until_it_is_killed() {
    let Some(root) = std::env::var_os("SESSIONS_SEARCH_KILL_ROOT") else { return };
    let root = Path::new(&root);
    let done: usize = std::env::var("SESSIONS_SEARCH_KILL_DONE").unwrap().parse().unwrap();
    let mut make = StepGenerator::new(SEED);
    let mut model = Model::default();
    let relaxed = std::env::var_os("SESSIONS_SEARCH_KILL_RELAXED").is_some();
    let durability = if relaxed { Durability::Relaxed } else { Durability::Durable };
    let mut engine = Some(open(root, durability).unwrap());
    for number in 0.. {
        let step = make.any();
        if number >= done {
            take(&mut engine, || open(root, durability), &model, &step).unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "done {}", number + 1).unwrap();
            out.flush().unwrap();
        }
        model = model.after(&step);
    }
}

fn kills(by_default: usize) -> usize {
    std::env::var("SESSIONS_SEARCH_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(by_default)
}

#[test]
fn case_23_everything_acknowledged_is_there_after_kill_9() {
    kill_in_rounds(kills(20), Durability::Durable);
}

#[test]
fn relaxed_is_a_moment_behind_and_whole_after_kill_9() {
    kill_in_rounds(kills(10), Durability::Relaxed);
}

fn kill_in_rounds(rounds: usize, durability: Durability) {
    // Steps that may be lost: each is one transaction at most.
    let (may_lose, relaxed) = if durability == Durability::Relaxed { (64, Some("1")) } else { (0, None) };
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(SEED);
    let mut make = StepGenerator::new(SEED);
    let mut states = vec![Model::default()];
    let mut done = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::works_until_it_is_killed", "--ignored", "--nocapture", "--test-threads=1"])
            .env("SESSIONS_SEARCH_KILL_ROOT", folder.path())
            .env("SESSIONS_SEARCH_KILL_DONE", done.to_string())
            .envs(relaxed.map(|yes| ("SESSIONS_SEARCH_KILL_RELAXED", yes)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers =
            // The first comes after the test's name.
            lines.map_while(Result::ok).filter_map(|line| line.rsplit_once("done ")?.1.parse::<usize>().ok());
        // Now and then before the first step is done, else in the middle of the work.
        let mut acknowledged = done;
        if random.below(4) > 0 {
            acknowledged = numbers.next().expect("the child works");
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);

        while states.len() <= acknowledged + 1 {
            let step: Step = make.any();
            let next = states[states.len() - 1].after(&step);
            states.push(next);
        }
        // The newest first: what changes nothing counts as done.
        let oldest = acknowledged.saturating_sub(may_lose);
        let may_be: Vec<_> = (oldest..=acknowledged + 1).rev().map(|n| Expected::of(states[n].clone())).collect();
        let engine = open(folder.path(), durability).unwrap();
        let found = settle(&engine, &may_be)
            .unwrap_or_else(|difference| panic!("round {round}, {acknowledged} steps acknowledged: {difference}"));
        done = acknowledged + 1 - found;
        // Left as it is: the next child finds what this one's end leaves.
        drop(engine);
    }
    assert!(done > rounds / 2, "{done} steps in {rounds} rounds");
}
