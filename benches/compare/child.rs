//! Parts that need a process of their own: this program again, told by the environment what to do.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::backend::{Acknowledge, Open, Query};
use crate::corpus::{Message, anonymous_mb};
use crate::run::ENGINES;

const PART: &str = "BENCH_CHILD";

fn again(part: &str, engine: &str, store: &Path, input: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PART, part).env("BENCH_ENGINE", engine).env("BENCH_STORE", store).env("BENCH_INPUT", input);
    command.stdout(Stdio::piped());
    command
}

/// Memory beyond mapped files, in MB, after a thousand searches.
pub fn memory(engine: &str, store: &Path, words: &Path) -> f64 {
    let output = again("memory", engine, store, words).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Lets a process append what `lines` holds and kills it as soon as all is acknowledged.
pub fn append_and_die(engine: &str, store: &Path, lines: &Path) {
    let mut child = again("append", engine, store, lines).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "done\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A message for the child.
pub fn to_line(message: &Message) -> String {
    let Message { session, id, role, timestamp, text } = message;
    serde_json::json!([session, id, role, timestamp, text]).to_string() + "\n"
}

fn from_line(line: &str) -> Message {
    let (session, id, role, timestamp, text): (String, String, String, i64, String) =
        serde_json::from_str(line).unwrap();
    Message { session, id, role: if role == "user" { "user" } else { "assistant" }, timestamp, text }
}

/// Does a part and tells so, where this process was started for one.
pub fn run_part() -> bool {
    let Ok(part) = std::env::var(PART) else { return false };
    let variable = |name: &str| std::env::var(name).unwrap();
    let engine = variable("BENCH_ENGINE");
    let (_, open): (_, Open) = ENGINES.into_iter().find(|(name, _)| *name == engine).unwrap();
    let input = fs::read_to_string(variable("BENCH_INPUT")).unwrap();
    let engine = open(variable("BENCH_STORE").as_ref(), Acknowledge::OnDisk);
    match part.as_str() {
        "memory" => {
            let words: Vec<&str> = input.lines().collect();
            for n in 0..1_000 {
                let (a, b, c) = (words[n % words.len()], words[n / 2 % words.len()], words[n / 7 % words.len()]);
                let words = match n % 3 {
                    0 => a.to_owned(),
                    1 => format!("{a} {b}"),
                    _ => format!("{b}-{c}"),
                };
                engine.search(&Query { class: "", words, prefix: false }, None);
            }
            println!("{}", anonymous_mb());
            engine.close();
        }
        _ => {
            input.lines().for_each(|line| engine.append(&from_line(line)));
            println!("done");
            // Until it is killed.
            std::thread::sleep(Duration::from_secs(600));
        }
    }
    true
}
