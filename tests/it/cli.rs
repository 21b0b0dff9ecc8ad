//! The program as scripts and people meet it: every command, exit code and shape of its answers.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Program, Said, fixtures, ids, keys, message};

const MAIN: &str = "agent:main:main";

fn imported() -> Program {
    let program = Program::new();
    let said = program.run(&["--quiet", "import", fixtures().to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    program
}

/// A failure as JSON is these two members and nothing else; as text it is one line on standard error.
fn fails(program: &Program, code: i32, args: &[&str], says: &str) {
    let failure = program.json(code, args);
    assert_eq!(keys(&failure), ["error", "status"], "{args:?}");
    assert_eq!(failure["status"], "error");
    assert!(failure["error"].as_str().unwrap().contains(says), "{args:?}: {failure}");
    let said = program.run(args);
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{args:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
}

#[test]
fn init_makes_the_store_once_for_its_owner_alone() {
    let program = Program::new();
    let made = program.json(0, &["init"]);
    assert_eq!(made["created"], true);
    assert_eq!(program.json(0, &["init"])["created"], false);
    let folder = program.root().join("agents/main");
    assert_eq!(made["store"].as_str().map(fs::canonicalize).unwrap().unwrap(), fs::canonicalize(&folder).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("transcripts.redb")), 0o600);
    }
    assert_eq!(program.run(&["init", "--redaction", "on"]).stderr, "");
    assert!(program.run(&["init", "--redaction", "off"]).stderr.contains("another choice of redaction"));
    assert_eq!(program.run(&["--quiet", "init", "--redaction", "off"]).stderr, "");

    let program = Program::new();
    fails(&program, 2, &["init", "--analyzer", "unheard-of"], "unicode-word");
    fails(&program, 2, &["init", "--redaction", "maybe"], "invalid value 'maybe'");
    fails(&program, 2, &["init", "--redaction", "off", "--redact-pattern", "otter"], "needs --redaction on");
    assert!(!program.root().exists());
}

#[test]
fn a_store_has_the_analyzer_that_init_or_reindex_gave_it() {
    let line = message("k1", "user", "请检查apiKey配置 token=0123456789abcdef");
    let program = Program::new();
    assert_eq!(program.json(0, &["init", "--analyzer", "cjk"])["analyzer"], "cjk");
    program.append(MAIN, std::slice::from_ref(&line));
    for words in ["检查apiKey", "配", "APIKEY"] {
        assert_eq!(program.found(&[words]), ["k1"], "{words}");
    }
    assert_eq!(program.json(0, &["status"])["analyzer"], "cjk");
    assert!(
        program.run(&["init", "--analyzer", "unicode-word"]).stderr.contains("made with analyzer cjk, and keeps it")
    );

    let done = program.json(0, &["reindex", "--analyzer", "unicode-word", "--wait"]);
    assert_eq!(done, json!({"sessions": 1, "pending": 0, "analyzer": "unicode-word", "redaction": "on"}));
    assert_eq!((program.found(&["配置"]), program.found(&["token"])), (vec![], vec!["k1".to_owned()]));
    let said = program.run(&["reindex", "--analyzer", "cjk", "--redaction", "off"]);
    assert_eq!(said.stdout, "indexed 1 session anew: analyzer cjk, redaction off\n", "{said:?}");
    assert_eq!((program.found(&["配置"]), program.found(&["0123456789abcdef"]).len()), (vec!["k1".to_owned()], 1));
    program.json(0, &["reindex", "--redact-pattern", "检查", "--wait"]);
    assert_eq!((program.found(&["检查"]), program.found(&["0123456789abcdef"]).len()), (vec![], 0));
    // Masked already: the patterns stay.
    program.json(0, &["reindex", "--redaction", "on"]);
    assert_eq!(program.found(&["检查"]), [""; 0]);

    fails(&program, 2, &["reindex", "--analyzer", "unheard-of"], "unicode-word");
    fails(&program, 2, &["reindex", "--redaction", "off", "--redact-pattern", "x"], "needs --redaction on");
    fails(&Program::new(), 2, &["reindex"], "there is no store yet");
}

#[test]
fn a_store_redacts_as_init_was_told() {
    let line = message("k1", "user", "river token=0123456789abcdef and OTTER-77");
    let program = Program::new();
    program.append(MAIN, std::slice::from_ref(&line));
    assert_eq!(program.json(0, &["init"])["redaction"], "on", "the first writing command makes it with the defaults");
    let snippet = |program: &Program| program.json(0, &["search", "river"])["results"][0]["snippet"].clone();
    assert_eq!(snippet(&program), "river token=*** and OTTER-77");

    let program = Program::new();
    let made = program
        .json(0, &["init", "--redact-pattern", "otter-[0-9]+", "--redact-pattern", "(", "--redact-pattern", " "]);
    assert_eq!(
        (&made["redaction"], &made["redactPatterns"], &made["rejectedPatterns"]),
        (&json!("on"), &json!(1), &json!([{"pattern": "(", "reason": "unclosed group"}]))
    );
    let said = program.run(&["init", "--redact-pattern", "otter-[0-9]+", "--redact-pattern", "("]);
    assert!(said.code == 0 && said.stderr.contains("\"(\" can't be used: unclosed group"), "{said:?}");
    program.append(MAIN, std::slice::from_ref(&line));
    assert_eq!(snippet(&program), "river token=*** and ***");

    let program = Program::new();
    assert_eq!(program.json(0, &["init", "--redaction", "off"])["redaction"], "off");
    program.append(MAIN, &[line]);
    assert_eq!(snippet(&program), "river token=0123456789abcdef and OTTER-77");
}

#[test]
fn import_accounts_for_every_line_and_repeats_nothing() {
    let program = Program::new();
    let path = fixtures();
    let path = path.to_str().unwrap();
    let first = program.json(0, &["import", path]);
    assert_eq!(
        keys(&first),
        [
            "events",
            "files",
            "filesSkipped",
            "messages",
            "rejected",
            "rejectedTotal",
            "sessions",
            "sessionsByAgent",
            "skipped",
            "skippedByReason",
            "warnings",
            "warningsTotal"
        ]
    );
    assert_eq!((&first["sessions"], &first["events"], &first["messages"]), (&json!(6), &json!(57), &json!(34)));
    assert_eq!(first["sessionsByAgent"], json!({"main": 5, "work": 1}));
    assert_eq!((&first["files"], &first["filesSkipped"], &first["rejected"]), (&json!(6), &json!([]), &json!([])));

    let again = program.json(0, &["import", path]);
    assert_eq!((&again["sessions"], &again["events"], &again["skipped"]), (&json!(0), &json!(0), &json!(0)));

    let said = program.run(&["import", path]);
    assert_eq!(said.stderr, "");
    assert!(said.stdout.starts_with("6 files, 0 sessions: 0 events"), "{said:?}");
}

#[test]
fn a_path_that_is_not_there_fails_and_leaves_nothing() {
    let program = Program::new();
    let missing = program.path("no such folder");
    fails(&program, 2, &["import", fixtures().to_str().unwrap(), missing.to_str().unwrap()], "is not there");
    fails(&program, 2, &["import"], "required arguments");
    assert!(!program.root().exists());
}

#[test]
fn rejected_lines_alone_are_no_failure() {
    let program = Program::new();
    let file = program.write("s.jsonl", format!("{}\nno json\n[1]\n\n", message("k1", "user", "river map")));
    let summary = program.json(0, &["import", file.to_str().unwrap()]);
    assert_eq!((&summary["events"], &summary["rejectedTotal"], &summary["skipped"]), (&json!(1), &json!(2), &json!(1)));
    assert_eq!(summary["skippedByReason"], json!({"blank line": 1}));
    let rejected = summary["rejected"].as_array().unwrap();
    assert_eq!(rejected.iter().map(|r| r["line"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3]);
    assert!(rejected.iter().all(|r| r["path"].as_str().unwrap().ends_with("s.jsonl") && r["reason"].is_string()));
    // The one line that was stored has no time.
    assert_eq!((&summary["warningsTotal"], &summary["warnings"][0]["line"]), (&json!(1), &json!(1)));
    assert_eq!(program.found(&["river"]), ["k1"]);
}

#[test]
fn a_grown_file_goes_on_where_it_ended() {
    let program = Program::new();
    let file = program.write("s.jsonl", message("k1", "user", "river") + "\n");
    program.json(0, &["import", file.to_str().unwrap()]);
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str(&(message("k2", "assistant", "river") + "\n"));
    fs::write(&file, text).unwrap();
    let summary = program.json(0, &["import", file.to_str().unwrap()]);
    assert_eq!((&summary["events"], &summary["skipped"]), (&json!(1), &json!(0)));
    assert_eq!(program.found(&["river"]).len(), 2);
}

#[test]
fn search_answers_with_the_documented_shape() {
    let program = imported();
    let answer = program.json(0, &["search", "otter", "map"]);
    assert_eq!(keys(&answer), ["coverage", "results"], "indexing, warning, truncated and reason only when they apply");
    let hit = &answer["results"][0];
    assert_eq!(keys(hit), ["messageId", "role", "score", "sessionId", "sessionKey", "snippet", "timestamp"]);
    assert_eq!((&hit["sessionKey"], &hit["role"]), (&json!(MAIN), &json!("user")));
    assert_eq!(hit["timestamp"], json!(1_778_486_321_000_i64));
    assert!(hit["score"].as_f64().unwrap() > 0.0 && hit["snippet"].as_str().unwrap().contains("otter map"));
    assert_eq!(answer["coverage"], json!({"sessions": 5, "searched": 5, "pending": 0}));

    let said = program.run(&["search", "otter", "map"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    for part in ["2026-05-11 07:58", "user", "Spring otter survey", "otter map", "--message-id 0376f01b"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
}

#[test]
fn a_search_without_hits_says_why() {
    let program = imported();
    let nothing = program.json(1, &["search", "lake"]);
    assert_eq!((&nothing["results"], &nothing["reason"]), (&json!([]), &json!("no_match")));
    assert_eq!(program.run(&["search", "lake"]).stdout, "");
    assert!(program.run(&["search", "lake"]).stderr.contains("nothing found"));

    let no_words = program.json(1, &["search", "🚀", "!"]);
    assert_eq!(no_words["reason"], "no_searchable_words");
    assert!(no_words["warning"].as_str().unwrap().contains("`🚀`"));
    let elsewhere = program.json(1, &["search", "otter", "--session-key", "agent:main:nobody"]);
    assert_eq!(elsewhere["reason"], "no_visible_sessions");
    assert_eq!(elsewhere["coverage"], json!({"sessions": 0, "searched": 0, "pending": 0}));

    let ignored = program.json(0, &["search", "otter", "-", "map"]);
    assert!(ignored["warning"].as_str().unwrap().contains("`-`"));
    let strict = program.json(1, &["search", "--fts5-strict", "otter", "-", "map"]);
    assert_eq!(strict["reason"], "no_match");
}

#[test]
fn without_a_store_reads_say_so_and_create_nothing() {
    let program = Program::new();
    let answer = program.json(1, &["search", "otter"]);
    assert_eq!((&answer["results"], &answer["reason"]), (&json!([]), &json!("no_store")));
    let said = program.run(&["search", "!"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains(program.root().to_str().unwrap()), "{said:?}");
    assert_eq!(program.json(1, &["sessions"]), json!({"count": 0, "sessions": []}));
    assert_eq!(program.json(1, &["status"])["events"], 0);
    fails(&program, 2, &["history", MAIN], "there is no store");
    fails(&program, 2, &["delete", "--session-key", MAIN, "--yes"], "there is no store");
    // Bad input is bad input, store or not.
    fails(&program, 2, &["search", "otter", "--limit", "0"], "limit");
    fails(&program, 2, &["search", " "], "must not be empty");
    fails(&program, 2, &["sessions", "--limit", "0"], "limit");
    assert!(!program.root().exists());
}

#[test]
fn search_takes_filters_orders_pages_and_words_of_any_kind() {
    let program = imported();
    let answer = |args: &[&str]| program.json(0, &[&["search"], args].concat());
    let all = ids(&answer(&["holt", "--limit", "10000"]));
    assert!(all.len() > 4, "{all:?}");

    let page = answer(&["holt", "--limit", "2"]);
    assert_eq!((ids(&page).as_slice(), &page["truncated"]), (&all[..2], &json!(true)));
    assert!(program.run(&["search", "holt", "--limit", "2"]).stderr.contains("--offset"));
    assert_eq!(ids(&answer(&["holt", "--limit", "2", "--offset", "2"])), all[2..4]);
    assert_eq!(program.json(1, &["search", "holt", "--offset", "10000"])["reason"], "no_match");

    let recent = answer(&["holt", "--order", "recent"]);
    let times: Vec<i64> =
        recent["results"].as_array().unwrap().iter().map(|hit| hit["timestamp"].as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");

    let of_user = answer(&["holt", "--role", "user"]);
    assert!(of_user["results"].as_array().unwrap().iter().all(|hit| hit["role"] == "user"));
    let since = answer(&["holt", "--since", "2026-05-14"]);
    assert!(
        since["results"].as_array().unwrap().iter().all(|hit| hit["timestamp"].as_i64() >= Some(1_778_716_800_000))
    );
    assert_eq!(program.json(1, &["search", "holt", "--until", "2026-05-01T00:00:00Z"])["reason"], "no_match");
    assert_eq!(program.json(1, &["search", "holt", "--since", "2h"])["reason"], "no_match");

    assert_eq!(program.json(1, &["search", "transec"])["reason"], "no_match");
    assert!(!ids(&answer(&["transec", "--prefix"])).is_empty());
    assert_eq!(ids(&answer(&["--", "CAFE", "-", "WEIR"])), ids(&answer(&["café", "weir"])));
    assert_eq!(program.json(1, &["search", "--", "cafe", "--limit"])["reason"], "no_match");
}

#[test]
fn a_session_id_stands_for_its_key_with_all_its_windows() {
    let program = imported();
    let sessions = program.json(0, &["sessions"]);
    let windows: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|session| session["sessionKey"] == MAIN)
        .map(|session| session["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(windows.len(), 2);
    let by_key = program.json(0, &["search", "holt", "--session-key", " Agent:MAIN:main "]);
    let by_id = program.json(0, &["search", "holt", "--session-key", windows[1]]);
    assert_eq!(by_key["results"], by_id["results"]);
    assert_eq!(by_key["coverage"]["sessions"], 2);
}

#[test]
fn explain_shows_the_numbers_behind_a_score() {
    let program = imported();
    let answer = program.json(0, &["search", "--explain", "release-notes", "--limit", "1", "--agent", "work"]);
    assert_eq!(keys(&answer["explain"]), ["averageLength", "documents", "pieces"]);
    let piece = &answer["explain"]["pieces"][0];
    assert_eq!(keys(piece), ["idf", "n", "piece", "tokens"]);
    assert_eq!((&piece["piece"], &piece["tokens"]), (&json!("release-notes"), &json!(["release", "notes"])));
    assert_eq!(keys(&answer["results"][0]["explain"]), ["f", "length"]);
    assert_eq!(answer["results"][0]["explain"]["f"].as_array().map(Vec::len), Some(1));
}

#[test]
fn limits_out_of_range_are_errors() {
    let program = imported();
    for limit in ["0", "10001"] {
        fails(&program, 2, &["search", "otter", "--limit", limit], "limit must be a positive integer, at most 10000");
        fails(&program, 2, &["sessions", "--limit", limit], "limit must be a positive integer, at most 10000");
    }
    for limit in ["0", "1001"] {
        fails(&program, 2, &["history", MAIN, "--limit", limit], "limit must be a positive integer, at most 1000");
    }
    for limit in ["ten", "1.5", ""] {
        fails(&program, 2, &["search", "otter", "--limit", limit], "give a whole number");
    }
    fails(&program, 2, &["search", "otter", "--limit=-1"], "invalid value");
    fails(&program, 2, &["search", &"x".repeat(4_097)], "at most 4096");
    fails(&program, 2, &["search", "  \u{feff}"], "must not be empty");
    fails(&program, 2, &["search", "otter", "--since", "soon"], "is not a time");
    assert!(!ids(&program.json(0, &["search", &format!(" {} ", "otter ".repeat(682))])).is_empty());
}

#[test]
fn usage_errors_are_one_line_or_json() {
    let program = Program::new();
    assert!(program.json(2, &[])["error"].as_str().unwrap().contains("requires a subcommand"));
    let said = program.run(&[]);
    assert!(said.code == 2 && said.stdout.is_empty() && said.stderr.contains("Commands:"), "{said:?}");
    fails(&program, 2, &["serach", "otter"], "unrecognized subcommand");
    fails(&program, 2, &["search"], "required arguments were not provided: <WORDS>");
    fails(&program, 2, &["search", "x", "--colour"], "unexpected argument");
    fails(&program, 2, &["search", "x", "--agent", "../up"], "agent id \"../up\" is not valid");
    fails(&program, 2, &["--store", "", "search", "x"], "a value is required for '--store <DIR>'");
    // After `--` it is a word.
    let said = program.run(&["search", "--limit", "x", "--", "--json"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    let said = program.run(&["--help"]);
    assert!(said.code == 0 && said.stdout.contains("search") && said.stderr.is_empty());
    assert!(program.run(&["--version"]).stdout.starts_with("sessions-search "));
    assert!(!program.root().exists());
}

#[test]
fn from_searches_files_without_a_store() {
    let program = Program::new();
    let path = fixtures();
    let path = path.to_str().unwrap();
    assert_eq!(ids(&program.json(0, &["search", "--from", path, "otter", "map"])), ["0376f01b"]);
    assert_eq!(program.json(1, &["search", "--from", path, "lake"])["reason"], "no_match");
    let said = program.run(&["search", "--from", path, "release"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("not searched: 1 session of agent work"), "{said:?}");
    assert!(
        !program.json(0, &["search", "--agent", "work", "--from", path, "release"])["results"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    fails(&program, 2, &["search", "--from", "/no/such/file", "otter"], "is not there");
    assert!(!program.root().exists());
}

#[test]
fn append_answers_each_line_and_is_found_at_once() {
    let program = Program::new();
    let input = [
        message("k1", "user", "the otter swims"),
        String::new(),
        message("k1", "user", "the otter swims"),
        message("k1", "user", "the mink swims"),
        "  ".into(),
        r#"{"type":"message","message":{"role":"user","content":"an otter without an id"}}"#.into(),
        "not json".into(),
        r#"{"type":"message","id":"t1","message":{"role":"toolResult","content":"an otter of a tool"}}"#.into(),
        message("k2", "assistant", "the otter dives"),
    ]
    .join("\n");
    let said = program.run_with_input(&["append", "--session-key", MAIN], input);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(said.code, 2);
    assert_eq!(lines[0], r#"{"seq":0,"messageId":"k1","indexed":true}"#);
    assert_eq!(lines[1], lines[0], "the same again is skipped, and says where it stands");
    assert_eq!(lines[2], r#"{"error":"id k1 is already stored with other content; the first is kept","line":4}"#);
    assert_eq!(lines[3], r#"{"seq":1,"messageId":null,"indexed":false}"#);
    assert!(lines[4].starts_with(r#"{"error":"not JSON"#) && lines[4].ends_with(r#","line":7}"#), "{}", lines[4]);
    assert_eq!(lines[5], r#"{"seq":2,"messageId":"t1","indexed":false}"#);
    assert_eq!(lines[6], r#"{"seq":3,"messageId":"k2","indexed":true}"#, "no parent: child of the leaf");
    assert_eq!(lines.len(), 7);
    assert_eq!(said.stderr, "");
    let mut found = program.found(&["otter"]);
    found.sort();
    assert_eq!(found, ["k1", "k2"]);
    assert!(program.found(&["mink"]).is_empty());

    let said =
        program.run_with_input(&["append", "--session-key", MAIN], message("k3", "user", "and the otter sleeps"));
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(program.found(&["sleeps"]), ["k3"]);
    let history = program.json(0, &["history", MAIN]);
    let shown: Vec<&Value> = history["messages"].as_array().unwrap().iter().map(|m| &m["messageId"]).collect();
    assert_eq!(shown, ["k1", "k2", "k3"], "what has no id is no part of the tree");
}

#[test]
fn a_batch_is_answered_like_its_lines() {
    let program = Program::new();
    let lines: Vec<String> = (0..25).map(|i| message(&format!("k{i}"), "user", "otter")).collect();
    let mut input = lines.join("\n");
    input.push_str("\nbad\n");
    let said = program.run_with_input(&["append", "--session-key", MAIN, "--batch", "10"], input);
    let answers = said.json_lines();
    assert_eq!((said.code, answers.len()), (2, 26));
    assert!(answers[..25].iter().enumerate().all(|(i, answer)| answer["seq"] == i && answer["indexed"] == true));
    assert_eq!(answers[25]["line"], 26);
    assert_eq!(program.found(&["otter"]).len(), 25);
    for batch in ["0", "10001", "x"] {
        fails(&program, 2, &["append", "--session-key", MAIN, "--batch", batch], "invalid value");
    }
}

#[test]
fn append_answers_while_its_input_is_open() {
    let program = Program::new();
    let mut child = program.command(&["append", "--session-key", MAIN]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for i in 0..3 {
        writeln!(stdin, "{}", message(&format!("k{i}"), "user", "otter")).unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("{{\"seq\":{i},\"messageId\":\"k{i}\",\"indexed\":true}}\n"));
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn append_chooses_the_window_and_keeps_what_is_known_of_the_session() {
    let program = Program::new();
    let append = |args: &[&str], id: &str| {
        let args = [&["append", "--session-key", "agent:main:subagent:x"], args].concat();
        program.run_with_input(&args, message(id, "user", "otter"))
    };
    let facts = ["--spawned-by", MAIN, "--parent", "agent:main:dashboard:1", "--label", "Gauge"];
    assert_eq!(append(&[&["--session-id", "w1"], &facts[..]].concat(), "k1").code, 0);
    assert_eq!(append(&["--session-id", "w2"], "k2").code, 0);
    assert_eq!(append(&[], "k3").code, 0);
    let answer = program.json(0, &["search", "otter", "--order", "recent"]);
    let place = |id: &str| {
        let hit = answer["results"].as_array().unwrap().iter().find(|hit| hit["messageId"] == id).unwrap();
        hit["sessionId"].as_str().unwrap().to_owned()
    };
    assert_eq!((place("k1"), place("k2"), place("k3")), ("w1".into(), "w2".into(), "w2".into()));

    let sessions = program.json(0, &["sessions"]);
    let first = sessions["sessions"].as_array().unwrap().iter().find(|s| s["sessionId"] == "w1").unwrap();
    assert_eq!(
        keys(first),
        [
            "archived",
            "kind",
            "label",
            "messages",
            "parentSessionKey",
            "sessionId",
            "sessionKey",
            "spawnedBy",
            "updatedAt"
        ]
    );
    assert_eq!((&first["spawnedBy"], &first["label"]), (&json!(MAIN), &json!("Gauge")));
    assert_eq!(first["parentSessionKey"], "agent:main:dashboard:1");

    let said =
        program.run_with_input(&["append", "--session-key", MAIN, "--session-id", "w1"], message("k4", "user", "x"));
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("belongs to agent:main:subagent:x"), "{said:?}");
    // A new key without a session id gets a UUID.
    assert_eq!(program.run_with_input(&["append", "--session-key", "hook:1"], message("k5", "user", "mink")).code, 0);
    assert_eq!(program.json(0, &["search", "mink"])["results"][0]["sessionId"].as_str().map(str::len), Some(36));
    let said = program
        .run_with_input(&["append", "--session-key", "agent:main:dashboard:incognito-1"], message("k", "user", "x"));
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("incognito"), "{said:?}");
}

#[test]
fn a_rewind_takes_effect_at_once() {
    let program = Program::new();
    program
        .append(MAIN, &[message("k1", "user", "where is the map"), message("k2", "assistant", "in the lake folder")]);
    assert_eq!(program.found(&["lake"]), ["k2"]);
    let input = r#"{"type":"leaf","id":"k3","parentId":"k2","targetId":"k1"}"#.to_owned()
        + "\n"
        + &message("k4", "assistant", "in the river folder");
    let said = program.run_with_input(&["append", "--session-key", MAIN], input);
    assert_eq!(said.json_lines()[1]["indexed"], true);
    assert!(program.found(&["lake"]).is_empty());
    assert_eq!(program.found(&["river"]), ["k4"]);
}

#[test]
fn a_deleted_session_is_found_by_nothing() {
    let program = imported();
    let path = fixtures();
    let deleted = program.json(0, &["delete", "--session-key", MAIN]);
    assert_eq!(deleted, json!({"sessions": 2, "messages": 13}), "a key means all its windows");
    assert_eq!(program.json(1, &["search", "otter", "map"])["reason"], "no_match");
    assert_eq!(program.json(1, &["search", "otter", "--session-key", MAIN])["reason"], "no_visible_sessions");
    fails(&program, 2, &["history", MAIN], "no session");
    fails(&program, 2, &["delete", "--session-key", MAIN], "no session");
    // Not by importing the same files again either, unless that is asked for.
    let summary = program.json(0, &["import", path.to_str().unwrap()]);
    assert_eq!(summary["filesSkipped"].as_array().map(Vec::len), Some(2));
    assert!(program.found(&["otter", "map"]).is_empty());

    let group = program.json(0, &["search", "camera"])["results"][0]["sessionId"].as_str().unwrap().to_owned();
    let said = program.run(&["delete", "--session-id", &group]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "deleted 1 session, 6 messages\n"));
    assert!(program.found(&["camera"]).is_empty());
    fails(&program, 2, &["delete"], "required arguments");
    fails(&program, 2, &["delete", "--session-key", "a", "--session-id", "b"], "cannot be used with");

    let revived = program.json(0, &["import", "--revive", path.to_str().unwrap()]);
    assert_eq!(revived["sessions"], 3);
    assert_eq!(program.found(&["otter", "map"]), ["0376f01b"]);
}

fn shown(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|m| m["messageId"].as_str().unwrap()).collect()
}

#[test]
fn history_shows_the_newest_part_or_the_place_of_a_hit() {
    let program = imported();
    let newest = program.json(0, &["history", MAIN, "--limit", "2"]);
    assert_eq!(
        keys(&newest),
        [
            "bytes",
            "contentRedacted",
            "contentTruncated",
            "droppedMessages",
            "messages",
            "sessionId",
            "sessionKey",
            "truncated"
        ]
    );
    assert_eq!(keys(&newest["messages"][0]), ["messageId", "role", "text", "timestamp"]);
    assert_eq!(shown(&newest).len(), 2);
    assert_eq!(newest["messages"][1]["text"], "👍");

    let hit = program.json(0, &["search", "spraint", "fish"])["results"][0].clone();
    let (id, window) = (hit["messageId"].as_str().unwrap(), hit["sessionId"].as_str().unwrap());
    let page = program.json(0, &["history", MAIN, "--message-id", id, "--session-id", window, "--limit", "3"]);
    assert_eq!((&page["anchor"], &page["sessionId"]), (&json!("found"), &json!(window)));
    assert!(shown(&page).contains(&id));
    // Without the window the id is looked for in all of them; a session id stands for its key.
    assert_eq!(program.json(0, &["history", window, "--message-id", id])["sessionId"], window);
    let said = program.run(&["history", MAIN, "--message-id", id]);
    assert!(said.stdout.contains("← here"), "{said:?}");

    let nowhere = program.json(1, &["history", MAIN, "--message-id", "nope"]);
    assert_eq!((&nowhere["anchor"], &nowhere["messages"]), (&json!("not_found"), &json!([])));
    // What was rewound is off the active path.
    assert_eq!(program.json(1, &["history", MAIN, "--message-id", "b933a92d"])["anchor"], "not_found");

    let other = program.json(0, &["search", "camera"])["results"][0]["sessionId"].as_str().unwrap().to_owned();
    fails(&program, 2, &["history", MAIN, "--message-id", id, "--session-id", &other], "is not a window of");
    fails(&program, 2, &["history", MAIN, "--message-id", id, "--session-id", "unheard-of"], "is not a window of");
    fails(&program, 2, &["history", MAIN, "--session-id", window], "needs a message id");
    fails(&program, 2, &["history", MAIN, "--message-id", id, "--offset", "0"], "not both");
    fails(&program, 2, &["history", "agent:main:nobody"], "no session");
}

#[test]
fn history_shows_tools_when_asked() {
    let program = imported();
    let plain = program.json(0, &["history", MAIN, "--limit", "100"]);
    let page = program.json(0, &["history", MAIN, "--limit", "100", "--include-tools"]);
    assert_eq!(shown(&page).len(), shown(&plain).len());
    let work = program.json(0, &["history", "agent:work:main", "--agent", "work", "--offset", "0", "--include-tools"]);
    let call = work["messages"].as_array().unwrap().iter().find(|m| m["blocks"][0]["type"] == "toolCall").unwrap();
    assert_eq!(call["blocks"][0]["name"], "exec");
    assert!(work["messages"].as_array().unwrap().iter().any(|m| m["role"] == "toolResult"));
    let said = program.run(&["history", "agent:work:main", "--agent", "work", "--offset", "0", "--include-tools"]);
    assert!(said.stdout.contains("[toolCall exec]") && said.stdout.contains("git log"), "{said:?}");

    // A reset bounds the newest part, not the pages.
    let newest = program.json(0, &["history", "agent:work:main", "--agent", "work"]);
    assert_eq!(shown(&newest).len(), 2);
    assert!(
        program.json(0, &["history", "agent:work:main", "--agent", "work", "--offset", "0"])["totalMessages"].as_u64()
            > Some(2)
    );
}

#[test]
fn sessions_lists_the_newest_first() {
    let program = imported();
    let list = program.json(0, &["sessions"]);
    assert_eq!(keys(&list), ["count", "sessions"]);
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!((list["count"].as_u64(), sessions.len()), (Some(5), 5));
    let times: Vec<i64> = sessions.iter().map(|session| session["updatedAt"].as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]));
    let group = sessions.iter().find(|session| session["kind"] == "group").unwrap();
    assert_eq!(
        (&group["label"], &group["messages"], &group["archived"]),
        (&json!("River team"), &json!(6), &json!(false))
    );
    assert_eq!(program.json(0, &["sessions", "--limit", "2"])["count"], 2);
    assert_eq!(program.json(0, &["sessions", "--agent", "work"])["sessions"][0]["sessionKey"], "agent:work:main");
    assert_eq!(program.json(1, &["sessions", "--archived"]), json!({"count": 0, "sessions": []}));
    assert!(program.run(&["sessions"]).stdout.contains("River team"));
}

#[test]
fn archived_sessions_leave_the_list_and_stay_searchable() {
    let program = Program::new();
    let index = r#"{"agent:main:old":{"sessionId":"s1","updatedAt":1,"archivedAt":2},"agent:main:new":{"sessionId":"s2","updatedAt":1}}"#;
    program.write("sessions/sessions.json", index);
    program.write("sessions/s1.jsonl", message("k1", "user", "otter") + "\n");
    program.write("sessions/s2.jsonl", message("k2", "user", "otter") + "\n");
    program.json(0, &["import", program.path("sessions").to_str().unwrap()]);
    let key = |args: &[&str]| program.json(0, args)["sessions"][0]["sessionKey"].clone();
    assert_eq!(
        (key(&["sessions"]), key(&["sessions", "--archived"])),
        (json!("agent:main:new"), json!("agent:main:old"))
    );
    assert_eq!(program.found(&["otter"]).len(), 2);
}

#[test]
fn status_counts_what_is_there() {
    let program = imported();
    let status = program.json(0, &["status"]);
    assert_eq!(
        keys(&status),
        ["analyzer", "bytes", "documents", "events", "pending", "schema", "sessions", "tail", "watermark"]
    );
    assert_eq!((&status["sessions"], &status["events"], &status["documents"]), (&json!(5), &json!(43), &json!(25)));
    assert_eq!((&status["watermark"], &status["tail"], &status["pending"]), (&json!(0), &json!(25), &json!([])));
    assert_eq!(status["analyzer"], "unicode-word");
    assert!(status["bytes"]["transcripts"].as_u64() > Some(0));
    assert!(program.run(&["status"]).stdout.contains("unicode-word"));
}

#[test]
fn a_store_that_another_process_holds_is_busy() {
    let program = imported();
    let mut holder = program.command(&["append", "--session-key", MAIN]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    writeln!(stdin, "{}", message("held", "user", "held")).unwrap();
    let mut answer = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut answer).unwrap();

    let name = format!("process {}", holder.id());
    let (search, append, status) = std::thread::scope(|scope| {
        let search = scope.spawn(|| program.run(&["--json", "search", "otter"]));
        let append =
            scope.spawn(|| program.run_with_input(&["append", "--session-key", MAIN], message("x", "user", "x")));
        let status = scope.spawn(|| program.run(&["--json", "status"]));
        (search.join().unwrap(), append.join().unwrap(), status.join().unwrap())
    });
    assert_eq!((search.code, append.code, status.code), (4, 4, 4));
    assert!(search.json()["error"].as_str().unwrap().contains(&name), "{search:?}");
    assert!(append.stdout.is_empty() && append.stderr.contains(&name), "{append:?}");
    let status = status.json();
    assert!(status["holder"].as_str().unwrap().contains(&name), "{status}");
    assert!(status["bytes"]["transcripts"].as_u64() > Some(0), "{status}");

    drop(stdin);
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    assert_eq!(program.found(&["held"]), ["held"]);
}

#[test]
fn a_second_process_waits_for_the_first() {
    let program = imported();
    let mut holder = program.command(&["append", "--session-key", MAIN]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    writeln!(stdin, "{}", message("held", "user", "held")).unwrap();
    let mut answer = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let waiting = program.command(&["--json", "search", "held"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(stdin);
    holder.wait().unwrap();
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let program = Program::new();
    let long: Vec<String> =
        (0..2_000).map(|i| message(&format!("k{i}"), "user", &format!("otter {}", "word ".repeat(60)))).collect();
    let mut child =
        program.command(&["append", "--session-key", MAIN, "--batch", "100"]).stdin(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(long.join("\n").as_bytes()).unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(program.found(&["otter"]).len(), 2_000, "events are stored whether or not their answers are read");

    let mut child = program.command(&["search", "otter", "--limit", "2000"]).spawn().unwrap();
    let mut first = [0; 16];
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let program = imported();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = program.command(&["search", "otter"]).stdout(full).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("input or output failed"));
}

#[test]
fn a_store_that_is_none_is_refused_with_its_own_code() {
    let program = Program::new();
    program.write(
        "store/agents/main/transcripts.redb",
        "this is no database, and long enough to be looked at ".repeat(100),
    );
    fails(&program, 5, &["search", "otter"], "damaged");
    fails(&program, 5, &["status"], "damaged");
    let text = fs::read_to_string(program.root().join("agents/main/transcripts.redb")).unwrap();
    assert!(text.starts_with("this is no database"), "never repaired into emptiness");

    let program = Program::new();
    program.write("store", "a file where the folder should be");
    fails(&program, 6, &["init"], "failed");
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let program = imported();
    assert!(!program.run(&["search", "otter"]).stdout.contains('\x1b'));
    assert!(!program.run(&["--color", "never", "search", "otter"]).stdout.contains('\x1b'));
    let always = program.command(&["--color", "always", "search", "otter"]).env("NO_COLOR", "1").output().unwrap();
    let text = String::from_utf8(always.stdout).unwrap();
    assert!(text.contains("\x1b[1;33motter\x1b[0m"), "{text}");

    // `script` gives the program a terminal; not every machine has it.
    let shell = format!("{} --store {} search otter", env!("CARGO_BIN_EXE_sessions-search"), program.root().display());
    let on_terminal = |no_color: &str| {
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &shell, "/dev/null"]).env("NO_COLOR", no_color).stdin(Stdio::null()).output().ok()
    };
    if let Some(output) = on_terminal("").filter(|output| output.status.success()) {
        assert!(String::from_utf8_lossy(&output.stdout).contains("\x1b[1;33motter"));
        let plain = on_terminal("1").unwrap();
        assert!(!String::from_utf8_lossy(&plain.stdout).contains("\x1b["), "NO_COLOR");
    } else {
        println!("the part on a terminal is skipped: no `script` here");
    }
}

#[test]
fn escapes_in_transcripts_reach_no_terminal() {
    let program = Program::new();
    let evil = "\x1b]0;title\x07 otter \x1b[2J\u{9b}31m \u{202e}drawkcab\u{2066} \r over";
    let append = ["append", "--session-key", "agent:main:e\x1b[1m", "--label", evil];
    assert_eq!(program.run_with_input(&append, message("k\x1b[5m", "user", evil)).code, 0);
    let file = program.write("e\u{1b}[3m.jsonl", "no json\n");
    let harmless = |said: Said| {
        let text = said.stdout + &said.stderr;
        let odd = |c: char| {
            (c.is_control() && c != '\n')
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c)
        };
        assert!(!text.contains(odd), "{text:?}");
    };
    harmless(program.run(&["search", "otter"]));
    harmless(program.run(&["search", "--explain", "otter\x1b[1m"]));
    harmless(program.run(&["history", "agent:main:e\x1b[1m"]));
    harmless(program.run(&["sessions"]));
    harmless(program.run(&["import", file.to_str().unwrap()]));
    harmless(program.run(&["import", "/nowhere/\x1b[1m"]));
    harmless(program.run(&["history", "\x1b[1mnobody"]));
    harmless(program.run(&["delete", "--session-key", "\x1b[1mnobody"]));
    harmless(program.run(&["search", "-", "otter", "\x1b"]));
    harmless(program.run(&["search\x1b[1m"]));
    // Programs get the text as it is.
    assert!(program.json(0, &["search", "otter"])["results"][0]["snippet"].as_str().unwrap().contains('\x1b'));
}

#[test]
fn agents_have_stores_of_their_own() {
    let program = imported();
    assert!(program.found(&["release"]).is_empty());
    assert!(!ids(&program.json(0, &["--agent", "work", "search", "release"])).is_empty());
    assert_eq!(program.json(0, &["--agent", "WORK", "sessions"])["count"], 1);
    assert_eq!(program.json(1, &["--agent", "nobody", "search", "otter"])["reason"], "no_store");
    assert!(!program.root().join("agents/nobody").exists());
}

#[test]
fn a_deleted_session_stays_deleted_by_whatever_name_it_was_imported() {
    let program = Program::new();
    let header = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-05-11T08:00:00Z"}"#;
    let line = |id: &str, text: &str| format!("{header}\n{}\n", message(id, "user", text));
    program.write("t/a.jsonl", line("k1", "otter"));
    let other = program.write("t/b.jsonl", line("k2", "mink"));
    let folder = program.path("t");
    let folder = folder.to_str().unwrap();
    // Two files of one id with no line in common: the second is a session of its own.
    program.json(0, &["import", folder]);
    let id = program.json(0, &["search", "mink"])["results"][0]["sessionId"].as_str().unwrap().to_owned();
    assert!(id.starts_with("s~"), "{id}");
    program.json(0, &["delete", "--session-id", &id]);
    let mut grown = fs::read_to_string(&other).unwrap();
    grown.push_str(&(message("k3", "user", "mink again") + "\n"));
    fs::write(&other, grown).unwrap();
    let summary = program.json(0, &["import", folder]);
    assert!(summary["filesSkipped"][0]["reason"].as_str().unwrap().contains("deleted on purpose"), "{summary}");
    assert!(program.found(&["mink"]).is_empty());
    assert_eq!(program.found(&["otter"]), ["k1"]);
    program.json(0, &["import", "--revive", folder]);
    assert_eq!(program.found(&["mink"]).len(), 2);
}

#[test]
fn a_session_can_be_renamed_archived_and_pruned() {
    let program = imported();
    let renamed = "agent:main:survey";
    assert_eq!(program.json(0, &["rekey", MAIN, renamed]), json!({"sessions": 2}));
    let answer = program.json(0, &["search", "otter", "map"]);
    assert_eq!(answer["results"][0]["sessionKey"], renamed);
    assert_eq!(program.json(1, &["search", "otter", "--session-key", MAIN])["reason"], "no_visible_sessions");
    fails(&program, 2, &["rekey", MAIN, "agent:main:other"], MAIN);
    fails(&program, 2, &["rekey", renamed, "agent:main:telegram:group:-1000000000042"], "group");
    fails(&program, 2, &["rekey", renamed, "agent:main:dashboard:incognito-1"], "incognito");
    fails(&program, 2, &["rekey", renamed], "required arguments");

    assert_eq!(program.json(0, &["archive", renamed]), json!({"sessions": 2}));
    assert_eq!(program.json(0, &["sessions"])["count"], 3);
    assert_eq!(program.json(0, &["sessions", "--archived"])["count"], 2);
    assert_eq!(program.found(&["otter", "map"]), ["0376f01b"]);
    assert_eq!(program.json(0, &["unarchive", renamed]), json!({"sessions": 2}));
    assert_eq!(program.json(0, &["sessions"])["count"], 5);
    fails(&program, 2, &["archive", MAIN], MAIN);

    assert_eq!(program.json(0, &["prune", "--older-than", "2026-05-10"]), json!({"sessions": 1, "messages": 4}));
    assert!(program.found(&["mink"]).is_empty());
    assert_eq!(program.json(0, &["prune", "--older-than", "2026-05-10"]), json!({"sessions": 0, "messages": 0}));
    fails(&program, 2, &["prune", "--older-than", "soon"], "is not a time");
    fails(&program, 2, &["prune"], "required arguments");

    let empty = Program::new();
    for args in [&["rekey", "a", "b"][..], &["archive", "a"], &["unarchive", "a"], &["prune", "--older-than", "1d"]] {
        fails(&empty, 2, args, "there is no store");
    }
    assert!(!empty.root().exists());
}

#[test]
fn a_renamed_session_goes_on_growing_from_its_file() {
    let program = Program::new();
    let file = program.write("s.jsonl", message("k1", "user", "otter") + "\n");
    let path = file.to_str().unwrap();
    program.json(0, &["import", path]);
    let key = program.json(0, &["search", "otter"])["results"][0]["sessionKey"].as_str().unwrap().to_owned();
    program.json(0, &["rekey", &key, "agent:main:survey"]);
    fs::write(&file, [message("k1", "user", "otter"), message("k2", "user", "otter")].join("\n") + "\n").unwrap();
    let summary = program.json(0, &["import", path]);
    assert_eq!((&summary["events"], &summary["rejectedTotal"]), (&json!(1), &json!(0)), "{summary}");
    let answer = program.json(0, &["search", "otter"]);
    let keys: Vec<&Value> = answer["results"].as_array().unwrap().iter().map(|hit| &hit["sessionKey"]).collect();
    assert_eq!(keys, ["agent:main:survey", "agent:main:survey"]);
}

#[test]
fn completions_name_the_commands() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = program.run(&["completions", shell]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.stdout.contains("session-key") && said.stdout.contains("verify"), "{shell}");
    }
    assert_eq!(program.run(&["completions", "csh"]).code, 2);
    let json = program.json(0, &["completions", "bash"]);
    assert_eq!(json["shell"], "bash");
}

#[test]
fn discover_lists_what_there_is_in_the_standard_places() {
    let program = Program::new();
    let home = program.path("home");
    let openclaw = home.join(".openclaw/agents/work/sessions");
    std::fs::create_dir_all(&openclaw).unwrap();
    std::fs::write(openclaw.join("s.jsonl"), "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n").unwrap();
    std::fs::write(openclaw.join("s.jsonl.bak"), "x").unwrap();
    let codex = home.join(".codex/sessions/2026/02/01");
    std::fs::create_dir_all(&codex).unwrap();
    let meta = r#"{"timestamp":"2026-02-01T09:00:00Z","type":"session_meta","payload":{"id":"t"}}"#;
    std::fs::write(codex.join("rollout-x.jsonl"), format!("{meta}\n")).unwrap();
    let ask = |args: &[&str]| {
        let mut command = program.command(args);
        command.env("HOME", &home).env("USERPROFILE", &home);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, stdout) = ask(&["--json", "import", "--discover"]);
    assert_eq!(code, 0, "{stdout}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&listed["sessions"], &listed["files"]), (&json!(2), &json!(2)), "{listed}");
    assert_eq!(listed["filesSkipped"].as_array().unwrap().len(), 1);
    let places: Vec<_> = listed["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| (place["format"].clone(), place["agent"].clone()))
        .collect();
    assert_eq!(places, [(json!("openclaw"), json!("work")), (json!("codex"), json!("main"))]);
    assert_eq!(listed["places"][1]["bytes"], json!(meta.len() + 1));
    let (code, stdout) = ask(&["import", "--discover"]);
    assert!(code == 0 && stdout.contains("codex of agent main: 1 session in 1 file"), "{stdout}");
    assert!(!program.root().exists(), "listing makes no store");
    assert_eq!(ask(&["--json", "import", "--discover", &home.join(".openclaw").to_string_lossy()]).0, 0);
    let empty = program.path("nothing");
    std::fs::create_dir_all(&empty).unwrap();
    assert_eq!(ask(&["import", "--discover", &empty.to_string_lossy()]).0, 1);
}

#[cfg(unix)]
#[test]
fn a_named_path_that_cannot_be_read_exits_6_after_the_rest_was_imported() {
    let program = Program::new();
    let good = program.write("good.jsonl", "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
    let looped = program.path("loop.jsonl");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    let said = program.run(&["import", &good.to_string_lossy(), &looped.to_string_lossy()]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stderr.contains("could not be read"), "{said:?}");
    let summary = program.json(6, &["import", &looped.to_string_lossy()]);
    assert_eq!(summary["filesSkipped"].as_array().unwrap().len(), 1, "{summary}");
    assert_eq!(program.json(0, &["sessions"])["count"], json!(1));
}

#[cfg(unix)]
#[test]
fn watch_imports_what_grows_until_it_is_interrupted() {
    let program = Program::new();
    let folder = program.path("watched");
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_string_lossy().into_owned();
    let mut child = program.command(&["--json", "watch", &folder, "--interval", "1"]).spawn().unwrap();
    let found = |id: &str, word: &str| {
        for _ in 0..200 {
            let said = program.run(&["--json", "search", word]);
            if said.code == 0 {
                assert_eq!(crate::program::ids(&said.json()), [id]);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{word} was not found");
    };
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}";
    program.write("watched/s.jsonl", format!("{header}\n{}\n", message("a", "user", "otter")));
    found("a", "otter");
    let more = format!("{header}\n{}\n{}\n", message("a", "user", "otter"), message("b", "user", "heron"));
    program.write("watched/s.jsonl", more);
    found("b", "heron");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait().unwrap();
    assert_eq!(output.code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    let summaries: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(summaries.iter().map(|summary| summary["events"].as_u64().unwrap()).sum::<u64>(), 3, "{said}");
}

/// Ctrl-C in the middle of an import: what was counted is stored, and the next run brings the rest and no line twice.
#[cfg(unix)]
#[test]
fn an_interrupted_import_goes_on() {
    let program = Program::new();
    let mut text = String::from("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
    let count = 60_000;
    for n in 0..count {
        text += &message(&format!("m{n}"), "user", &format!("otter {n}"));
        text.push('\n');
    }
    let file = program.write("s.jsonl", text).to_string_lossy().into_owned();
    let child = program.command(&["--json", "import", &file]).spawn().unwrap();
    // Once it has stored something.
    let store = program.root().join("agents/main/transcripts.redb");
    for _ in 0..600 {
        if std::fs::metadata(&store).is_ok_and(|facts| facts.len() > 3_000_000) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let first: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    assert!(code == 130 || (code == 0 && first["events"] == json!(count + 1)), "{code} {first}");
    let second = program.json(0, &["import", &file]);
    let stored = |summary: &Value| summary["events"].as_u64().unwrap();
    assert_eq!(stored(&first) + stored(&second), count + 1, "{first} {second}");
    assert_eq!(second["skipped"], json!(0));
    let status = program.json(0, &["status"]);
    assert_eq!((&status["events"], &status["documents"]), (&json!(count + 1), &json!(count)));
}

#[test]
fn the_manual_names_every_command() {
    let program = Program::new();
    let said = program.run(&["man"]);
    assert_eq!(said.code, 0, "{said:?}");
    for command in ["search", "import", "watch", "history", "export", "verify", "reindex", "mcp"] {
        assert!(said.stdout.contains(&format!(".TH sessions-search-{command} ")), "{command}");
    }
    assert!(program.json(0, &["man"])["page"].as_str().unwrap().starts_with(".ie"));
}

#[test]
fn context_opens_messages_on_either_side() {
    let program = Program::new();
    let lines: String = (0..9).map(|n| message(&format!("m{n}"), "user", &format!("otter {n}")) + "\n").collect();
    program.run_with_input(&["append", "--session-key", MAIN], lines);
    let page = program.json(0, &["history", MAIN, "--message-id", "m4", "--context", "2"]);
    let shown: Vec<&str> =
        page["messages"].as_array().unwrap().iter().map(|message| message["messageId"].as_str().unwrap()).collect();
    assert_eq!(shown, ["m2", "m3", "m4", "m5", "m6"]);
    fails(&program, 2, &["history", MAIN, "--context", "2"], "--message-id");
    fails(&program, 2, &["history", MAIN, "--message-id", "m4", "--context", "x"], "whole number");
    // All there are, and no word of more.
    assert_eq!(program.run(&["sessions", "--limit", "1"]).stderr, "");
    assert_eq!(ids(&program.json(0, &["search", "otter", "--since", "0", "--limit", "100"])).len(), 9);
}

#[test]
fn from_searches_with_the_analyzer_that_is_asked_for() {
    let program = Program::new();
    let file = program.write("s.jsonl", message("m", "user", "昨晚我们修改了登录服务") + "\n");
    let file = file.to_str().unwrap();
    assert_eq!(program.run(&["search", "--from", file, "登录"]).code, 1);
    assert_eq!(ids(&program.json(0, &["search", "--from", file, "--analyzer", "cjk", "登录"])), ["m"]);
    fails(&program, 2, &["search", "--analyzer", "cjk", "otter"], "--from");
}
