//! A process is killed at random moments while it works; what it had acknowledged is there (cases 13 and 23).
//!
//! The child is this test binary again. It takes the steps of a seed, one after the other, and prints the number of each
//! one that is done. 20 rounds, or as many as `SESSIONS_SEARCH_KILLS` says.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sessions_search::__internal::faults::Tuning;
use sessions_search::{Engine, OpenOptions, StoreError};

use crate::model::{Expected, Model, Step, StepGenerator, settle, small, take};
use crate::random::Random;

const SEED: u64 = 23;

fn open(root: &Path) -> Result<Engine, StoreError> {
    let mut options = OpenOptions::default();
    options.create = true;
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
    let mut engine = Some(open(root).unwrap());
    for number in 0.. {
        let step = make.any();
        if number >= done {
            take(&mut engine, || open(root), &model, &step).unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "done {}", number + 1).unwrap();
            out.flush().unwrap();
        }
        model = model.after(&step);
    }
}

#[test]
fn case_23_everything_acknowledged_is_there_after_kill_9() {
    let rounds: usize = std::env::var("SESSIONS_SEARCH_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
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
        let may_be = [acknowledged, acknowledged + 1].map(|n| Expected::of(states[n].clone()));
        let engine = open(folder.path()).unwrap();
        let found = settle(&engine, &may_be)
            .unwrap_or_else(|difference| panic!("round {round}, {acknowledged} steps acknowledged: {difference}"));
        done = acknowledged + found;
        // Left as it is: the next child finds what this one's end leaves.
        drop(engine);
    }
    assert!(done > rounds, "{done} steps in {rounds} rounds");
}
