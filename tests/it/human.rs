//! What people read: the program's words at 80 and 40 columns, compared with `tests/fixtures/output/<columns>.txt`.
//!
//! `SESSIONS_SEARCH_BLESS=1 cargo test --test it -- human` writes these files anew; read the difference before you keep it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::program::{Program, message};

const FIXTURES: &str = "tests/fixtures/openclaw";

/// Every command that speaks to people, in an order that makes sense on one store.
const COMMANDS: &[&[&str]] = &[
    &["search", "otter"],
    &["import", "--discover", FIXTURES],
    &["import", FIXTURES],
    &["search", "culvert", "Thursday"],
    &["search", "holt", "--limit", "1"],
    &["search", "--explain", "otter-map"],
    &["search", "登录"],
    &["search", "lake"],
    &["search", "otter", "lake", "canoe"],
    &["search", "otter", "gauge"],
    &["search", "otter", "--until", "2000-01-01"],
    &["search", "🚀", "!"],
    &["search", "otter", "-", "map"],
    &["search", "otter", "--session-key", "agent:main:nobody"],
    &["search", "release"],
    &["search", "release", "--limit", "1", "--as", "agent:main:main", "--visibility", "all", "--agent-to-agent", "*"],
    &["search", "--from", FIXTURES, "otter", "map"],
    &["search", "otter", "--limit", "abc"],
    &["history", "agent:main:main", "--message-id", "fb815921", "--context", "1"],
    &["history", "agent:main:main", "--limit", "2"],
    &["history", "agent:main:main", "--offset", "0", "--limit", "1"],
    &["history", "agent:main:main", "--message-id", "b933a92d"],
    &["history", "agent:work:main", "--agent", "work", "--offset", "0", "--include-tools"],
    &["history", "agent:main:wide"],
    &["sessions"],
    &["sessions", "--limit", "2"],
    &["status"],
    &["verify", "--deep"],
    &["archive", "agent:main:main"],
    &["sessions", "--archived"],
    &["unarchive", "agent:main:main"],
    &["rekey", "agent:main:wide", "agent:main:broad"],
    &["reindex", "--wait"],
    &["backup", "COPY"],
    &["export", "--out", "OUT"],
    &["prune", "--older-than", "2026-05-10"],
    &["delete", "--session-key", "agent:main:broad"],
    &["delete", "--session-key", "agent:main:broad"],
    &["compact"],
];

/// The program's two streams as a terminal shows them, in their order.
fn said(program: &Program, columns: &str, args: &[&str]) -> String {
    let both = program.path("said");
    let file = File::create(&both).unwrap();
    let paths: Vec<String> = args
        .iter()
        .map(|arg| match *arg {
            "COPY" | "OUT" => program.path(arg).to_str().unwrap().to_owned(),
            arg => arg.to_owned(),
        })
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut command = program.command(&paths);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("COLUMNS", columns);
    command.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
    let root = program.path("").to_str().unwrap().to_owned();
    let text = fs::read_to_string(&both).unwrap().replace(&root, "…/");
    // What a file takes is redb's business.
    text.split_inclusive('\n').map(without_sizes).collect()
}

fn without_sizes(line: &str) -> String {
    let has_sizes = ["bytes ", " bytes"].iter().any(|unit| line.contains(unit));
    let is_size = |word: &str| has_sizes && word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = line.split(' ').map(|word| if is_size(word) { "…" } else { word }).collect();
    let line = words.join(" ");
    // A column of sizes is set to the right.
    if line.starts_with("bytes ") { line.split_inclusive(' ').filter(|word| *word != " ").collect() } else { line }
}

fn filled() -> Program {
    let program = Program::new();
    let texts = [
        ("w1", "user", "昨晚我们修改了登录服务，请检查apiKey配置。"),
        (
            "w2",
            "assistant",
            "👩‍👩‍👧 👍🏽 ok: ログインは直りました。확인했습니다. e\u{301}te\u{301} \x1b[31mred\x1b[0m\n\tfn main() {}\n\nend",
        ),
    ];
    let lines: Vec<String> = texts
        .iter()
        .map(|(id, role, text)| {
            let message = json!({"role": role, "content": text});
            json!({"type": "message", "id": id, "timestamp": "2026-05-15T09:00:00Z", "message": message}).to_string()
        })
        .collect();
    let append = ["append", "--session-key", "agent:main:wide", "--session-id", "w", "--label", "登录服务的修改与检查"];
    assert_eq!(program.run_with_input(&append, lines.join("\n")).code, 0);
    program
}

fn compare(columns: &str) {
    let mut transcript = String::new();
    let empty = Program::new();
    transcript += &format!("$ search otter\n{}", said(&empty, columns, &["search", "otter"]));
    let program = filled();
    for args in &COMMANDS[1..] {
        transcript += &format!("$ {}\n{}", args.join(" "), said(&program, columns, args));
    }
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/output/{columns}.txt"));
    if std::env::var_os("SESSIONS_SEARCH_BLESS").is_some() {
        fs::write(&path, &transcript).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (n, (is, should)) in transcript.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "{}:{}", path.display(), n + 1);
    }
    assert_eq!(transcript.len(), expected.len(), "{}", path.display());
}

#[test]
fn at_80_columns() {
    compare("80");
}

#[test]
fn at_40_columns() {
    compare("40");
}

/// A hint that is copied into a shell opens the very hit, whatever its names hold.
#[test]
fn a_printed_command_opens_its_hit() {
    if Command::new("bash").arg("-c").arg("true").status().is_err() {
        println!("skipped: no bash here");
        return;
    }
    let program = Program::new();
    for (n, name) in ["it's $(touch broken) `x`", "-x", "=ls", "e\x1b[1m1", "登录 \u{202e}x", "a\\'b", "~", "{a,b}*"]
        .iter()
        .enumerate()
    {
        let (key, word, id) = (format!("{name}:{n}"), format!("otter{n}"), (*name).to_owned());
        let append = program.run_with_input(&["append", &format!("--session-key={key}")], message(&id, "user", &word));
        assert_eq!(append.code, 0, "{append:?}");
        let hint = program.run(&["search", &word]).stdout;
        let hint = hint.lines().find_map(|line| line.trim().strip_prefix("sessions-search ")).unwrap().to_owned();
        assert!(!hint.contains(|c: char| c.is_control() || c == '\u{202e}'), "{hint:?}");
        let folder = program.path("here");
        fs::create_dir_all(&folder).unwrap();
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("{} --json {hint}", env!("CARGO_BIN_EXE_sessions-search")));
        let output = shell.current_dir(&folder).env("SESSIONS_SEARCH_STORE", program.root()).output().unwrap();
        let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert_eq!((&page["anchor"], &page["messages"][0]["text"]), (&json!("found"), &json!(word)), "{hint} {page}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{hint}");
    }
}

#[test]
fn a_printed_command_goes_on() {
    let program = Program::new();
    program.run(&["import", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openclaw")]);
    // From page to page until there is none: every message once.
    let all = program.json(0, &["history", "agent:main:main", "--offset", "0", "--limit", "1000"]);
    let all = all["messages"].as_array().unwrap().len();
    let mut args = vec!["history".to_owned(), "agent:main:main".into(), "--limit".into(), "4".into()];
    let mut seen = 0;
    for _ in 0..10 {
        let said = program.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        seen += said.stdout.lines().filter(|line| line.starts_with("2026-")).count();
        let Some(next) = said.stderr.lines().find_map(|line| line.strip_prefix("older messages: sessions-search "))
        else {
            assert!(seen == all && all > 4, "{seen} of {all}");
            return;
        };
        args = next.split(' ').map(str::to_owned).collect();
    }
    panic!("it never ends");
}
