//! The import rules of ARCHITECTURE.md: who may name whom. What is deliberately absent cannot be read off the code.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of `src`, comments and tests blanked out, line by line.
struct Source {
    /// Relative to `src`, with `/`.
    path: String,
    /// The first folder below `src`, or the file itself: `store`, `bin`, `lib.rs`.
    part: String,
    lines: Vec<String>,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(source(&root, &path));
        }
    }
    assert!(sources.len() > 50, "the scan must see the code it judges");
    sources
}

fn source(root: &Path, path: &PathBuf) -> Source {
    let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
    let text = fs::read_to_string(path).unwrap();
    let lines = code_lines(&text);
    let part = name.split('/').next().unwrap().to_owned();
    Source { path: name, part, lines }
}

/// The code of a file: without comments, texts in quotes, and the test module at its end.
fn code_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        if line == "#[cfg(test)]" && rest.peek().is_some_and(|next| next.starts_with("mod ")) {
            break;
        }
        let mut code = String::new();
        let mut quoted = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if quoted => {
                    chars.next();
                }
                // A quote as a character, not the beginning of a text.
                '\'' if !quoted && chars.peek() == Some(&'"') => {
                    chars.nth(1);
                }
                '"' => quoted = !quoted,
                '/' if !quoted && chars.peek() == Some(&'/') => break,
                c if !quoted => code.push(c),
                _ => {}
            }
        }
        lines.push(code);
    }
    lines
}

/// The parts of this crate that a file names: every `crate::part`, and the heads of `use crate::{…}`.
fn named_parts(source: &Source) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (i, line) in source.lines.iter().enumerate() {
        for (at, _) in line.match_indices("crate::") {
            let preceded = line.get(..at).and_then(|before| before.chars().next_back()).is_some_and(is_word);
            let rest = &line[at + "crate::".len()..];
            assert!(
                !rest.starts_with(['{', '*']),
                "{}:{}: one path a `use`, so that it can be judged",
                source.path,
                i + 1
            );
            let word: String = rest.chars().take_while(|&c| is_word(c)).collect();
            if !preceded && !word.is_empty() {
                named.push((i + 1, word));
            }
        }
    }
    named
}

fn names_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let after = line[at + word.len()..].chars().next().is_some_and(is_word);
        !before && !after
    })
}

/// Every part below `src` and the parts it may name beside itself. `None`: everything.
const MAY_NAME: &[(&str, Option<&[&str]>)] = &[
    ("limits.rs", Some(&[])),
    ("files.rs", Some(&[])),
    ("model", Some(&["limits"])),
    ("transcript", Some(&["model", "limits"])),
    ("analysis", Some(&["limits"])),
    ("import", Some(&["model", "limits", "transcript"])),
    ("export", Some(&["model", "limits", "transcript"])),
    ("store", Some(&["files", "model", "limits", "transcript"])),
    ("index", Some(&["files", "model", "limits", "analysis"])),
    ("search", Some(&["model", "limits", "analysis", "index"])),
    ("access", Some(&["model", "limits", "transcript"])),
    ("commit", Some(&["files", "model", "limits", "analysis", "transcript", "store", "index"])),
    ("engine", None),
    ("tools", Some(&["model", "limits", "access", "search", "engine"])),
    ("lib.rs", None),
    ("bin", None),
];

#[test]
fn every_part_names_only_what_it_may() {
    let mut broken = Vec::new();
    for source in sources() {
        let Some((_, may)) = MAY_NAME.iter().find(|(part, _)| *part == source.part) else {
            broken.push(format!("{}: no rule for this part; give it one here and in ARCHITECTURE.md", source.path));
            continue;
        };
        let Some(may) = may else { continue };
        for (line, named) in named_parts(&source) {
            if named != source.part && !may.contains(&named.as_str()) {
                broken.push(format!("{}:{line}: {} must not name {named}", source.path, source.part));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn only_commit_and_engine_know_store_and_index() {
    for (part, may) in MAY_NAME {
        let both = may.is_none_or(|may| may.contains(&"store") && may.contains(&"index"));
        assert!(!both || ["commit", "engine", "lib.rs", "bin"].contains(part), "{part}");
    }
}

/// A word, where it may stand, and why nowhere else.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("redb", &["store"], "the database is named in `store` alone"),
    ("regex", &["transcript"], "patterns are for redaction alone"),
    ("tantivy", &["index", "search"], "the index library is named in `index` and `search` alone"),
    ("fs", &["files.rs", "import", "bin"], "a store reaches its disk through `files` alone"),
    ("SystemTime", &["bin"], "times come in as arguments"),
    ("Instant", &["bin", "commit", "engine"], "monotonic time is for `commit` and `engine`"),
    ("std::env", &["bin"], "the environment is the program's"),
    ("env::var", &["bin"], "the environment is the program's"),
    ("env::var_os", &["bin"], "the environment is the program's"),
    ("current_dir", &["bin"], "paths come in as arguments"),
    ("Zoned::now", &["bin"], "times come in as arguments"),
    ("Timestamp::now", &["bin"], "times come in as arguments"),
    ("TimeZone::system", &["bin"], "the local zone is the program's"),
    ("println", &["bin"], "the library does not print"),
    ("eprintln", &["bin"], "the library does not print"),
    ("print", &["bin"], "the library does not print"),
    ("eprint", &["bin"], "the library does not print"),
    ("stdout", &["bin"], "the library does not print"),
    ("stderr", &["bin"], "the library does not print"),
    ("clap", &["bin"], "the program's libraries stay in the program"),
    ("indicatif", &["bin"], "the program's libraries stay in the program"),
    ("rusqlite", &["import"], "SQLite reads OpenClaw's own store, with a feature; else it is the judge in the tests"),
];

#[test]
fn libraries_clock_environment_and_output_stay_where_they_belong() {
    let mut broken = Vec::new();
    for source in sources() {
        for (i, line) in source.lines.iter().enumerate() {
            for (word, parts, reason) in WORDS {
                if names_word(line, word) && !parts.contains(&source.part.as_str()) {
                    broken.push(format!("{}:{}: {word}: {reason}", source.path, i + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_program_uses_the_public_interface_only() {
    for source in sources().iter().filter(|source| source.part == "bin") {
        for (i, line) in source.lines.iter().enumerate() {
            assert!(!line.contains("__internal"), "{}:{}", source.path, i + 1);
        }
        for (line, named) in named_parts(source) {
            let own = [
                "append",
                "args",
                "caller",
                "environment",
                "failure",
                "import",
                "interrupt",
                "mcp",
                "output",
                "pager",
                "progress",
                "run",
                "search",
                "shell",
                "upkeep",
                "wrapping",
            ];
            assert!(own.contains(&named.as_str()), "{}:{line}: {named}", source.path);
        }
    }
}

#[test]
fn the_scan_sees_code_and_nothing_else() {
    let lines = code_lines(
        "let a = \"tantivy // \\\" redb\"; use redb; // tantivy\nlet q = '\"'; redb\n#[cfg(test)]\nmod tests {\nredb",
    );
    assert_eq!(lines, ["let a = ; use redb; ", "let q = ; redb"]);
    assert!(names_word("use redb::Table;", "redb") && !names_word("let redbean = 1;", "redb"));
    let source =
        Source { path: "x/y.rs".into(), part: "x".into(), lines: vec!["pub use crate::model::Role; crate::x".into()] };
    assert_eq!(named_parts(&source), [(1, "model".into()), (1, "x".into())]);
}
