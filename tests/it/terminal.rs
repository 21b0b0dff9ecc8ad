//! The program at a terminal, which util-linux's `script` gives it; where there is none these tests say so and pass.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{Program, message};

/// What a terminal of that size gets; `None` without `script`.
#[expect(clippy::print_stdout, reason = "whoever runs the tests is told")]
fn at_terminal(program: &Program, size: (u32, u32), env: &[(&str, &str)], args: &str) -> Option<String> {
    let (columns, rows) = size;
    // In the line: a shell has its own mind about COLUMNS.
    let env: String = env.iter().map(|(name, value)| format!(" {name}='{value}'")).collect();
    let program_path = env!("CARGO_BIN_EXE_sessions-search");
    let line = format!("stty cols {columns} rows {rows}; env -u COLUMNS{env} {program_path} {args}");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("SESSIONS_SEARCH_STORE", program.root()).env("TZ", "UTC");
    for unset in ["NO_COLOR", "PAGER", "LESS"] {
        script.env_remove(unset);
    }
    script.env("TERM", "xterm").stdin(Stdio::null());
    let Ok(output) = script.output() else {
        println!("skipped: no `script` here");
        return None;
    };
    Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"))
}

fn imported() -> Program {
    let program = Program::new();
    program.run(&["import", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openclaw")]);
    program
}

const HIGH: u32 = 1_000;

#[test]
fn lines_are_as_wide_as_the_terminal() {
    let program = imported();
    let Some(shown) = at_terminal(&program, (40, HIGH), &[("NO_COLOR", "1")], "search holt") else { return };
    let texts = shown.lines().filter(|line| !line.contains(" history "));
    assert!(texts.clone().count() > 20, "{shown}");
    assert!(texts.clone().all(|line| line.chars().count() <= 40), "{shown}");
    // COLUMNS says otherwise.
    let wide = at_terminal(&program, (40, HIGH), &[("COLUMNS", "200")], "search holt").unwrap();
    assert!(wide.lines().count() < shown.lines().count());
}

#[test]
fn colours_end_with_their_line() {
    let Some(shown) = at_terminal(&imported(), (40, HIGH), &[], "search holt") else { return };
    assert!(shown.contains("\x1b[1;33m"));
    for line in shown.lines() {
        let last = line.rfind("\x1b[").map(|at| &line[at..]);
        assert!(last.is_none_or(|last| last.starts_with("\x1b[0m")), "{line:?}");
    }
}

#[test]
fn what_is_higher_than_the_screen_goes_through_the_pager() {
    let program = imported();
    let pager = [("PAGER", "sed s/^/paged:/")];
    let Some(shown) = at_terminal(&program, (80, 10), &pager, "search holt") else { return };
    assert!(shown.lines().next().is_some_and(|line| line.starts_with("paged:")), "{shown}");
    for (size, env, args) in [
        ((80, HIGH), &pager[..], "search holt"),
        ((80, 10), &pager, "--json search holt"),
        ((80, 10), &[("PAGER", "cat")], "search holt"),
        ((80, 10), &[("PAGER", "")], "search holt"),
        ((80, 10), &[("PAGER", "no-such-pager-here")], "search holt"),
        ((80, 10), &[("PAGER", "sed s/^/paged:/"), ("TERM", "dumb")], "search holt"),
        ((80, 10), &pager, "search holt </dev/null"),
        ((80, 10), &pager, "search holt | cat"),
    ] {
        let shown = at_terminal(&program, size, env, args).unwrap();
        assert!(shown.contains("alder roots") && !shown.contains("paged:"), "{env:?} {args}: {shown}");
    }
}

/// Enough that an import of it takes a while.
fn long_transcript(program: &Program) -> String {
    let mut text = String::from("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
    for n in 0..40_000 {
        let words = "the otter swims up the river and down again ".repeat(4);
        let _ = writeln!(text, "{}", message(&format!("m{n}"), "user", &words));
    }
    program.write("s.jsonl", text).to_str().unwrap().to_owned()
}

#[test]
fn long_work_shows_how_far_it_is() {
    let program = Program::new();
    let path = long_transcript(&program);
    let Some(shown) = at_terminal(&program, (100, 24), &[], &format!("import {path}")) else { return };
    assert!(shown.contains("import ") && shown.contains(" % ") && shown.contains(" left "), "{shown:?}");
    let last = shown.lines().rfind(|line| line.contains("searchable messages")).unwrap();
    assert!(
        last.ends_with("1 file, 1 session: 40001 events (40000 searchable messages), 0 skipped, 0 rejected"),
        "{last:?}"
    );
    // Short work, and work that nobody wants to watch, show nothing.
    for args in [format!("import {path}"), format!("--quiet import --revive {path}"), "--progress never compact".into()]
    {
        let shown = at_terminal(&program, (100, 24), &[], &args).unwrap();
        assert!(!shown.contains('\x1b') && !shown.contains(" left "), "{args}: {shown:?}");
    }
}

#[test]
fn progress_as_json_lines() {
    let program = Program::new();
    let path = long_transcript(&program);
    let said = program.run(&["--json", "--quiet", "--progress", "json", "import", &path]);
    assert_eq!((said.code, &said.json()["messages"]), (0, &Value::from(40_000)));
    let lines: Vec<Value> = said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 2, "{lines:?}");
    let done: Vec<u64> = lines.iter().map(|line| line["done"].as_u64().unwrap()).collect();
    assert!(done.is_sorted(), "{done:?}");
    let last = lines.last().unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!((&last["phase"], &last["unit"], &last["finished"]), (&"import".into(), &"bytes".into(), &true.into()));
    assert_eq!((&last["done"], &last["total"]), (&size.into(), &size.into()));
    assert_eq!((&last["counts"]["files"], &last["counts"]["events"]), (&1.into(), &40_001.into()));
    assert!(lines[..lines.len() - 1].iter().all(|line| line["finished"] == false));
    let middle = lines.iter().find(|line| line["done"].as_u64() > Some(0) && line["finished"] == false).unwrap();
    assert!(middle["perSecond"].as_u64() > Some(0) && middle["etaMs"].is_u64(), "{middle}");
    for (phase, args) in [("indexing", &["reindex", "--wait"][..]), ("compact", &["compact"]), ("verify", &["verify"])]
    {
        let said = program.run(&[&["--progress", "json"], args].concat());
        let last: Value = serde_json::from_str(said.stderr.lines().last().unwrap()).unwrap();
        assert_eq!((said.code, &last["phase"], &last["finished"]), (0, &phase.into(), &true.into()), "{said:?}");
    }
    assert_eq!(program.run(&["compact"]).stderr, "", "quiet where there is no terminal");
}
