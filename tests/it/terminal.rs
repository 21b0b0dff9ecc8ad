//! What people see, at the widths of their terminals. Printed commands and ids are never broken: they are for copying.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::Program;

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
