//! What the README shows is what happens.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use crate::program::Program;

/// The session in the README as its commands, each with what it prints.
fn session() -> Vec<(String, String)> {
    let readme = include_str!("../../README.md");
    let block = readme.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("the session begins with a command"),
        }
    }
    commands
}

/// Arguments as the shell reads them: words, single quotes, and one `echo '…' |` in front.
fn parse(command: &str) -> (Option<String>, Vec<String>) {
    let (input, command) = match command.strip_prefix("echo '") {
        Some(rest) => {
            let (input, command) = rest.split_once("' | ").unwrap();
            (Some(format!("{input}\n")), command)
        }
        None => (None, command),
    };
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some("sessions-search"));
    (input, words.map(str::to_owned).collect())
}

#[test]
fn the_session_is_what_the_program_says() {
    let program = Program::new();
    let both = program.path("output");
    let mut session = session();
    assert!(session.len() > 4);
    for (command, shown) in &mut session {
        let (input, args) = parse(command);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = File::create(&both).unwrap();
        let mut child = program.command(&args);
        child.current_dir(env!("CARGO_MANIFEST_DIR")).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.unwrap_or_default().as_bytes()).unwrap();
        child.wait().unwrap();
        let mut said = String::new();
        File::open(&both).unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said.trim_end(), shown.trim_end(), "$ {command}");
    }
}

#[test]
fn its_two_commands_are_there() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("\ncargo run --release -- search --from tests/fixtures/openclaw otter map\n"));
    assert!(readme.contains("\ncargo test\n"));
    // Not part of the published package.
    if let Ok(ci) = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/run")) {
        assert!(ci.contains("\nstep cargo test\n"));
    }
}
