//! What people see, at the widths of their terminals. Printed commands and ids are never broken: they are for copying.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{Program, message};

/// The fixtures, and a message of Chinese and emoji.
fn filled() -> Program {
    let program = Program::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw");
    assert_eq!(program.run(&["import", fixtures.to_str().unwrap()]).code, 0);
    let text = "otter 🦦🚀 昨晚我们修改了登录服务，请检查一下配置。再看看水獭地图和 apiKey 有没有问题。";
    let event = format!(
        r#"{{"type":"message","id":"w1","timestamp":"2026-05-15T08:00:00Z","message":{{"role":"user","content":"{text}"}}}}"#
    );
    let append = ["append", "--session-key", "agent:main:cjk", "--session-id", "w", "--label", "水獭地图"];
    assert_eq!(program.run_with_input(&append, event).code, 0);
    program
}

fn shown(program: &Program, columns: &str, args: &[&str]) -> String {
    let output = program.command(args).env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hits_are_broken_to_the_width_there_is() {
    let program = filled();
    let search = ["search", "otter", "--limit", "2"];
    let commands = [
        "  COMMAND history agent:main:cjk --session-id w --message-id w1\n",
        "  COMMAND history agent:main:telegram:group:-1000000000042 --session-id \
         19f47910-6ce8-43ba-8c10-6518060d0683 --message-id 8b621467\n",
    ]
    .map(|line| line.replace("COMMAND", "sessions-search"));
    let [first, second] = &commands;
    assert_eq!(
        shown(&program, "80", &search),
        format!(
            "\
2026-05-15 08:00  user  水獭地图
  otter 🦦🚀 昨晚我们修改了登录服务，请检查一下配置。再看看水獭地图和 apiKey 有
  没有问题。
{first}
2026-05-12 16:44  user  River team
  [Tue 2026-05-12 16:44 UTC] ok! photos of the otter cub are in the shared
  folder, file otter-cub_0512.jpg
{second}
"
        )
    );
    assert_eq!(
        shown(&program, "40", &search),
        format!(
            "\
2026-05-15 08:00  user  水獭地图
  otter 🦦🚀 昨晚我们修改了登录服务，请
  检查一下配置。再看看水獭地图和 apiKey
  有没有问题。
{first}
2026-05-12 16:44  user  River team
  [Tue 2026-05-12 16:44 UTC] ok! photos
  of the otter cub are in the shared
  folder, file otter-cub_0512.jpg
{second}
"
        )
    );
}

#[test]
fn a_conversation_is_broken_to_the_width_there_is() {
    let program = filled();
    let history = ["history", "agent:main:main", "--message-id", "fb815921", "--context", "1"];
    assert_eq!(
        shown(&program, "80", &history),
        "\
agent:main:main (f27ed90b-adf9-4c6c-8830-dacda709d04f)

2026-05-11 08:00  user
  Which of the holts had fresh spraint last time?

2026-05-11 08:00  assistant  ← here
  Holt 3 (under the alder roots) and holt 5 (the culvert). Holt 3 also had two
  sets of tracks: a mother with one cub, I think.

2026-05-11 08:02  user
  Don't plan holt 5 before Thursday, the culvert is flooded. What do we need to
  bring?
"
    );
    assert_eq!(
        shown(&program, "40", &history),
        "\
agent:main:main (f27ed90b-adf9-4c6c-8830-dacda709d04f)

2026-05-11 08:00  user
  Which of the holts had fresh spraint
  last time?

2026-05-11 08:00  assistant  ← here
  Holt 3 (under the alder roots) and
  holt 5 (the culvert). Holt 3 also had
  two sets of tracks: a mother with one
  cub, I think.

2026-05-11 08:02  user
  Don't plan holt 5 before Thursday, the
  culvert is flooded. What do we need to
  bring?
"
    );
}

#[test]
fn fields_of_a_list_go_below_each_other_where_there_is_no_room() {
    let program = filled();
    let wide = shown(&program, "80", &["sessions", "--limit", "3"]);
    assert_eq!(
        wide,
        "\
2026-05-15 08:00  agent:main:cjk  w  1 message  水獭地图
2026-05-14 10:16  agent:main:pi:9e65100d-151d-4ecb-83d0-52982321cbce
  9e65100d-151d-4ecb-83d0-52982321cbce  4 messages
2026-05-12 16:52  agent:main:telegram:group:-1000000000042
  19f47910-6ce8-43ba-8c10-6518060d0683  6 messages  River team
"
    );
    assert_eq!(
        shown(&program, "40", &["sessions", "--limit", "3"]),
        "\
2026-05-15 08:00  agent:main:cjk  w
  1 message  水獭地图
2026-05-14 10:16
  agent:main:pi:9e65100d-151d-4ecb-83d0-52982321cbce
  9e65100d-151d-4ecb-83d0-52982321cbce
  4 messages
2026-05-12 16:52
  agent:main:telegram:group:-1000000000042
  19f47910-6ce8-43ba-8c10-6518060d0683
  6 messages  River team
"
    );
}

#[test]
fn a_program_that_reads_the_answer_gets_whole_lines() {
    let program = filled();
    for columns in ["", "wide", "0", "19"] {
        let text = shown(&program, columns, &["search", "otter", "--limit", "1"]);
        assert!(text.contains("再看看水獭地图和 apiKey 有没有问题。\n"), "{columns:?}: {text}");
    }
}

#[test]
fn a_terminal_says_how_wide_it_is() {
    let program = filled();
    let shell = format!(
        "stty rows 24 cols 40; {} --store '{}' search otter --limit 1",
        env!("CARGO_BIN_EXE_sessions-search"),
        program.root().display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env("NO_COLOR", "").env_remove("COLUMNS").stdin(Stdio::null());
    match script.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("\x1b[1;33motter\x1b[0m 🦦🚀 昨晚我们修改了登录服务，请\r\n"), "{text:?}");
        }
        _ => println!("skipped: no `script` here"),
    }
}

#[test]
fn an_older_page_is_a_command_to_copy() {
    let program = filled();
    let said = program.run(&["history", "agent:main:main", "--offset", "0", "--limit", "1"]);
    let expected = "older messages: sessions-search history agent:main:main --limit 1 --offset 1\n";
    assert_eq!(said.stderr, expected);
}

#[test]
fn progress_is_json_lines_on_request_and_nothing_else_where_nobody_looks() {
    let program = Program::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw");
    let copy = program.path("copy");
    let commands: [(&str, &[&str]); 6] = [
        ("import", &["import", fixtures.to_str().unwrap()]),
        ("index", &["reindex", "--wait"]),
        ("index", &["search", "--wait", "otter"]),
        ("compact", &["compact"]),
        ("backup", &["--agent", "main", "backup", copy.to_str().unwrap()]),
        ("verify", &["verify"]),
    ];
    for (phase, command) in commands {
        let asked: Vec<&str> = ["--quiet", "--progress", "json"].iter().chain(command).copied().collect();
        let said = program.run(&asked);
        assert_eq!(said.code, 0, "{said:?}");
        let lines: Vec<Value> = said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.len() >= 2, "{said:?}");
        assert!(lines.iter().all(|line| line["phase"] == phase && line["elapsedMs"].is_u64()), "{said:?}");
        let finished: Vec<bool> = lines.iter().map(|line| line["finished"] == true).collect();
        assert_eq!(finished.iter().position(|&is| is), Some(lines.len() - 1), "{said:?}");
        if phase == "import" {
            let last = lines.last().unwrap();
            assert_eq!((&last["done"], &last["unit"]), (&last["total"], &Value::from("bytes")), "{last}");
        }
        assert!(!said.stdout.contains("phase"), "{said:?}");
    }
    let said = program.run(&["--quiet", "verify"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(!program.run(&["verify"]).stderr.contains("phase"));
}

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

const HIGH: u32 = 1_000;

#[test]
fn colours_end_with_their_line() {
    let Some(shown) = at_terminal(&filled(), (40, HIGH), &[], "search holt") else { return };
    assert!(shown.contains("\x1b[1;33m"));
    for line in shown.lines() {
        let last = line.rfind("\x1b[").map(|at| &line[at..]);
        assert!(last.is_none_or(|last| last.starts_with("\x1b[0m")), "{line:?}");
    }
}

#[test]
fn what_is_higher_than_the_screen_goes_through_the_pager() {
    let program = filled();
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
    assert!(shown.contains(" %  ") && shown.contains(" left "), "{shown:?}");
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
