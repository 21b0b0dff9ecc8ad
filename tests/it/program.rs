//! Runs the real program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A store of its own, removed at the end, and the program on it.
pub(crate) struct Program(tempfile::TempDir);

/// What the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder beside the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The store's root; not there before a command makes it.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("store")
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The program with these arguments, in an environment that decides nothing.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessions-search"));
        command.args(args).env_clear().env("SESSIONS_SEARCH_STORE", self.root()).env("TZ", "UTC");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).spawn().unwrap())
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> Said {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // From a thread: a program that answers while it reads must not wait for us to read.
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let said = Said::of(child);
        writer.join().unwrap();
        said
    }

    /// The one JSON value a command prints with `--json`, after checking its exit code.
    pub(crate) fn json(&self, code: i32, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        let said = self.run(&args);
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        said.json()
    }

    /// Appends lines to a key; every line must be stored and searchable.
    pub(crate) fn append(&self, key: &str, lines: &[String]) {
        let input = lines.join("\n");
        let said = self.run_with_input(&["append", "--session-key", key, "--batch", "1000"], input);
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(said.json_lines().len(), lines.len());
    }

    /// The message ids that a search finds, best first.
    pub(crate) fn found(&self, words: &[&str]) -> Vec<String> {
        let args: Vec<&str> = ["--json", "search", "--limit", "10000", "--"].iter().chain(words).copied().collect();
        ids(&self.run(&args).json())
    }
}

impl Said {
    fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as exactly one JSON value on one line.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The message ids of a search's answer.
pub(crate) fn ids(answer: &Value) -> Vec<String> {
    answer["results"].as_array().unwrap().iter().map(|hit| hit["messageId"].as_str().unwrap().to_owned()).collect()
}

/// The keys of a JSON object, in no order.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// A message as a line, without a line end.
pub(crate) fn message(id: &str, role: &str, text: &str) -> String {
    serde_json::json!({"type": "message", "id": id, "message": {"role": role, "content": text}}).to_string()
}

/// The transcripts that ship with the project.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw")
}
