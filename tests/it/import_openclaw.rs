//! Import of OpenClaw's and pi's JSONL: what is found, what each line becomes, and that every line is accounted for.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sessions_search::__internal::import::{
    self, DiscoverOptions, Discovery, Format, ImportError, Item, LineWarning, Relation, ResumePoint, SkipReason,
    Source, StoredLines,
};
use sessions_search::__internal::{AgentId, Event, EventError, EventKind, SessionKey, TimestampNote};
use sessions_search::limits::MAX_EVENT_BYTES;

/// A folder that is removed at the end, with invented files in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    fn discover(&self) -> Discovery {
        self.discover_with(&DiscoverOptions::default())
    }

    fn discover_with(&self, options: &DiscoverOptions) -> Discovery {
        import::discover(&[self.0.path().to_path_buf()], options).unwrap()
    }

    /// The only source.
    fn source(&self) -> Source {
        let found = self.discover();
        assert_eq!(found.sources.len(), 1, "{found:?}");
        found.sources.into_iter().next().unwrap()
    }

    fn skipped(&self, found: &Discovery) -> Vec<(String, SkipReason)> {
        let name = |path: &Path| path.strip_prefix(self.0.path()).unwrap_or(path).to_string_lossy().into_owned();
        found.skipped.iter().map(|(path, reason)| (name(path), reason.clone())).collect()
    }
}

fn header(id: &str) -> String {
    format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-07-01T08:00:00.000Z\"}}\n")
}

fn message(id: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"2026-07-01T08:00:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn read(source: &Source, from: Option<&ResumePoint>) -> Vec<Item> {
    import::open(source, from).unwrap().collect::<Result<_, _>>().unwrap()
}

/// One word an item: `kind@line`, with what is worth telling.
fn shape(items: &[Item]) -> String {
    let words = items.iter().map(|item| match item {
        Item::Event(event) => {
            let id = event.event.id.as_ref().map_or("-", |id| id.as_str());
            let warnings: String = event.warnings.iter().map(|warning| format!(" !{warning}")).collect();
            format!("{}:{id}{warnings}", event.line)
        }
        Item::Skipped { line, .. } => format!("{line}:blank"),
        Item::Rejected { line, .. } => format!("{line}:rejected"),
        Item::Torn { line, bytes } => format!("{line}:torn({bytes})"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn shape_of(text: &[u8]) -> String {
    let folder = Folder::with(&[]);
    folder.write("s.jsonl", text);
    shape(&read(&folder.source(), None))
}

#[test]
fn a_state_folder_yields_its_sessions_with_keys_and_names() {
    let index = r#"{
        "agent:main:main": {"sessionId":"s1","updatedAt":1769936400000,"sessionFile":"s1.jsonl","label":"Otters"},
        "agent:main:subagent:x": {"sessionId":"s2","updatedAt":1,"sessionFile":"/home/somebody/sessions/s2.jsonl",
            "spawnedBy":"agent:main:main","archived":true},
        "cron:nightly": {"sessionId":"s3","updatedAt":1},
        "agent:main:dashboard:incognito-1": {"sessionId":"s4","updatedAt":1}
    }"#;
    let (s1, s2, s3, s4, s5) = (header("s1"), header("s2"), header("s3"), header("s4"), header("s5"));
    let folder = Folder::with(&[
        ("agents/main/sessions/sessions.json", index),
        ("agents/main/sessions/s1.jsonl", &s1),
        ("agents/main/sessions/s2.jsonl", &s2),
        ("agents/main/sessions/s3.jsonl", &s3),
        ("agents/main/sessions/s4.jsonl", &s4),
        ("agents/main/sessions/s5.jsonl", &s5),
        ("agents/main/sessions/s6.jsonl.reset.2026-02-01T09-00-00.000Z", &header("s6")),
        ("agents/main/sessions/s1.jsonl.reset.2026-02-01T09-00-00.000Z", &header("s1-old")),
        ("agents/main/sessions/s7.jsonl.deleted.2026-02-01T09-00-00.000Z", &header("s7")),
        ("agents/main/sessions/s1.checkpoint.0a.jsonl", &header("copy")),
        ("agents/main/sessions/s1.trajectory.jsonl", "{}\n"),
        ("agents/main/sessions/s1.jsonl.lock", ""),
        ("agents/main/sessions/s1.jsonl.bak.2026-02-01T09-00-00.000Z", &s1),
        ("agents/main/sessions/sessions.json.bak.1", index),
        ("agents/main/agent/openclaw-agent.sqlite", "SQLite format 3"),
        ("agents/main/sessions/empty.jsonl", ""),
        ("workspace/notes.md", "# notes"),
        ("workspace/table.jsonl", "{\"a\":1}\n"),
    ]);
    let found = folder.discover();
    let sources: Vec<_> = found
        .sources
        .iter()
        .map(|source| (source.session_id.as_str(), source.session_key.as_str(), source.format, source.agent.as_str()))
        .collect();
    let format = Format::OpenClaw;
    assert_eq!(
        sources,
        [
            ("s1", "agent:main:main", format, "main"),
            ("s1-old", "agent:main:main", format, "main"),
            ("s2", "agent:main:subagent:x", format, "main"),
            ("s3", "cron:nightly", format, "main"),
            ("s5", "agent:main:openclaw:s5", format, "main"),
            ("s6", "agent:main:openclaw:s6", format, "main"),
        ]
    );
    assert_eq!(found.sources[0].facts.label.as_deref(), Some("Otters"));
    assert_eq!(found.sources[0].facts.updated_at.map(|t| t.as_millis()), Some(1_769_936_400_000));
    assert_eq!(found.sources[2].facts.spawned_by.as_ref().map(SessionKey::as_str), Some("agent:main:main"));
    assert!(found.sources[2].facts.archived);
    assert_eq!(found.sources[1].facts, Default::default(), "an archive has the key of its entry, not its state");
    assert_eq!(
        folder.skipped(&found),
        [
            ("agents/main/agent/openclaw-agent.sqlite", SkipReason::Database),
            ("agents/main/sessions/empty.jsonl", SkipReason::Empty),
            ("agents/main/sessions/s1.checkpoint.0a.jsonl", SkipReason::CheckpointCopy),
            ("agents/main/sessions/s1.jsonl.bak.2026-02-01T09-00-00.000Z", SkipReason::Backup),
            ("agents/main/sessions/s1.jsonl.lock", SkipReason::Lock),
            ("agents/main/sessions/s1.trajectory.jsonl", SkipReason::Trajectory),
            ("agents/main/sessions/s4.jsonl", SkipReason::Incognito),
            ("agents/main/sessions/s7.jsonl.deleted.2026-02-01T09-00-00.000Z", SkipReason::Deleted),
            ("agents/main/sessions/sessions.json.bak.1", SkipReason::Backup),
            ("workspace/table.jsonl", SkipReason::UnknownFormat),
        ]
        .map(|(path, reason)| (path.to_owned(), reason))
    );
    assert_eq!(found.num_unrelated, 1);

    let all = folder.discover_with(&DiscoverOptions { include_deleted: true, ..DiscoverOptions::default() });
    assert_eq!(all.sources.last().map(|source| source.session_id.as_str()), Some("s7"));
}

#[test]
fn a_transcript_alone_is_pis_and_belongs_to_the_chosen_agent() {
    let folder = Folder::with(&[
        ("--work-demo--/2026-02-01T09-00-00-000Z_p1.jsonl", &header("p1")),
        ("--work-demo--/without-header.jsonl", &message("a", "words")),
    ]);
    let options = DiscoverOptions { agent: AgentId::parse("work").unwrap(), ..DiscoverOptions::default() };
    let found = folder.discover_with(&options);
    let keys: Vec<_> = found.sources.iter().map(|source| (source.session_key.as_str(), source.format)).collect();
    assert_eq!(keys, [("agent:work:pi:p1", Format::Pi), ("agent:work:pi:without-header", Format::Pi)]);

    let options = DiscoverOptions { format: Some(Format::OpenClaw), ..DiscoverOptions::default() };
    let found = folder.discover_with(&options);
    assert_eq!(found.sources[0].session_key.as_str(), "agent:main:openclaw:p1");
}

#[test]
fn a_single_file_is_the_session_that_it_is_in_its_folder() {
    let folder = Folder::with(&[
        (
            "agents/work/sessions/sessions.json",
            r#"{"main":{"sessionId":"s1"},"x":{"sessionId":"s2","sessionFile":"s2.jsonl"}}"#,
        ),
        ("agents/work/sessions/s1.jsonl", &header("s1")),
    ]);
    let whole = folder.source();
    let path = folder.path("agents/work/sessions/s1.jsonl");
    let alone = import::discover(&[path.clone(), path.clone()], &DiscoverOptions::default()).unwrap();
    assert_eq!(whole.session_key.as_str(), "agent:work:main");
    assert_eq!(alone.sources.len(), 1);
    assert_eq!(alone.sources[0].session_key, whole.session_key);
    assert_eq!(alone.skipped, [], "the index is about more than this file");
}

#[test]
fn a_session_file_never_leads_out_of_the_folder() {
    let outside = Folder::with(&[("secret.jsonl", &header("secret"))]);
    let absolute = outside.path("secret.jsonl");
    let index = format!(
        r#"{{"agent:main:a":{{"sessionId":"a","sessionFile":"../../../../secret.jsonl"}},
            "agent:main:b":{{"sessionId":"b","sessionFile":"{}"}},
            "agent:main:c":{{"sessionId":"c","sessionFile":"link.jsonl"}},
            "agent:main:d":{{"sessionId":"d","sessionFile":"gone.jsonl"}},
            "agent:main:e":{{"sessionId":"e","sessionFile":"C:\\Users\\x\\sessions\\e.jsonl"}}}}"#,
        absolute.display()
    );
    let folder = Folder::with(&[("sessions/sessions.json", &index), ("sessions/e.jsonl", &header("e"))]);
    link(&absolute, &folder.path("sessions/link.jsonl"));
    let found = folder.discover();
    let ids: Vec<_> = found.sources.iter().map(|source| source.session_id.as_str()).collect();
    assert_eq!(ids, ["e"]);
    let mut reasons: Vec<_> = folder.skipped(&found).into_iter().map(|(_, reason)| reason.to_string()).collect();
    reasons.sort();
    reasons.dedup();
    if cfg!(unix) {
        assert_eq!(
            reasons,
            [
                "a symbolic link; name its target to import it",
                "named in the index of sessions, but outside the imported folder",
                "named in the index of sessions, but there is no such file",
            ]
        );
    }
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) {
    std::os::unix::fs::symlink(target, at).unwrap();
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) {}

#[cfg(unix)]
#[test]
fn loops_pipes_and_odd_folders_neither_hang_nor_fail() {
    let folder = Folder::with(&[("a.jsonl/inner.jsonl", &header("inner"))]);
    link(folder.0.path(), &folder.path("loop"));
    link(&folder.path("nowhere"), &folder.path("dangling.jsonl"));
    let made = std::process::Command::new("mkfifo").arg(folder.path("pipe.jsonl")).status();
    let found = folder.discover();
    assert_eq!(found.sources.len(), 1);
    let skipped = folder.skipped(&found);
    assert!(skipped.contains(&("loop".to_owned(), SkipReason::SymbolicLink)), "{skipped:?}");
    assert!(skipped.contains(&("dangling.jsonl".to_owned(), SkipReason::SymbolicLink)), "{skipped:?}");
    if made.is_ok_and(|status| status.success()) {
        assert!(skipped.contains(&("pipe.jsonl".to_owned(), SkipReason::NotAFile)), "{skipped:?}");
    }
    // A link that was named is followed.
    let given = import::discover(&[folder.path("loop"), folder.path("gone")], &DiscoverOptions::default()).unwrap();
    assert_eq!(given.sources.len(), 1);
    assert_eq!(given.missing, [folder.path("gone")]);
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_reported_and_the_rest_goes_on() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with(&[("a.jsonl", &header("a")), ("b.jsonl", &header("b"))]);
    fs::set_permissions(folder.path("a.jsonl"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(folder.path("a.jsonl")).is_ok() {
        println!("skipped: this user may read every file");
        return;
    }
    let found = folder.discover();
    assert_eq!(found.sources.len(), 1);
    assert!(matches!(found.skipped.as_slice(), [(_, SkipReason::Unreadable(_))]));
}

#[test]
fn names_of_agents_outside_the_grammar_collapse_and_must_not_collide() {
    let folder = Folder::with(&[("agents/My Agent!/sessions/s.jsonl", &header("s"))]);
    assert_eq!(folder.source().session_key.as_str(), "agent:my-agent:openclaw:s");
    folder.write("agents/my-agent/sessions/t.jsonl", header("t").as_bytes());
    let error = import::discover(&[folder.0.path().to_path_buf()], &DiscoverOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::AgentCollision { .. }));
    assert!(error.to_string().contains("my agent!") && error.to_string().contains("nothing was imported"));
}

#[test]
fn a_broken_index_costs_names_but_no_transcript() {
    for index in ["", "{\"a\":", "[]", "{\"sessions\":[{\"sessionId\":\"s\"}]}", "\u{0}"] {
        let folder = Folder::with(&[("x/sessions.json", index), ("x/s.jsonl", &header("s"))]);
        let found = folder.discover();
        assert_eq!(found.sources.len(), 1, "{index:?}");
        assert_eq!(found.sources[0].session_key.as_str(), "agent:main:openclaw:s");
        let is_wrong = !index.starts_with("{\"sessions\"");
        assert_eq!(found.skipped.len(), usize::from(is_wrong), "{index:?}");
    }
}

#[test]
fn keys_that_share_a_file_and_headers_that_differ_are_noted() {
    let index = r#"{"agent:main:a":{"sessionId":"other","sessionFile":"s.jsonl"},"agent:main:b":{"sessionId":"s"}}"#;
    let folder = Folder::with(&[("x/sessions.json", index), ("x/s.jsonl", &header("s"))]);
    let found = folder.discover();
    assert_eq!(found.sources[0].session_key.as_str(), "agent:main:b", "its id is the header's");
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);

    let index = r#"{"agent:main:a":{"sessionId":"other","sessionFile":"s.jsonl"}}"#;
    let folder = Folder::with(&[("x/sessions.json", index), ("x/s.jsonl", &header("s"))]);
    let found = folder.discover();
    assert_eq!(found.sources[0].session_id.as_str(), "other");
    assert!(found.notes[0].1.contains("header says session s"), "{:?}", found.notes);
}

#[test]
fn what_openclaw_moved_away_when_it_changed_to_a_database_is_found() {
    let folder = Folder::with(&[
        ("agents/main/session-sqlite-import-archive/agent_main_main.s1.jsonl.imported-1796079667665", &header("s1")),
        (
            "agents/main/session-sqlite-import-archive/legacy-store.sessions.json.imported-1796079667811",
            r#"{"agent:main:main":{"sessionId":"s1","sessionFile":"s1.jsonl"}}"#,
        ),
    ]);
    let found = folder.discover();
    assert_eq!(found.sources.len(), 1);
    assert_eq!(found.sources[0].session_key.as_str(), "agent:main:main");
    assert_eq!(found.skipped, []);
}

#[test]
fn every_kind_of_line_is_accounted_for() {
    let mut text = b"\xef\xbb\xbf".to_vec();
    text.extend_from_slice(header("s").replace('\n', "\r\n").as_bytes());
    text.extend_from_slice(b"\n   \r\n\xc2\xa0\xe3\x80\x80\nnot json\n42\n[1]\nnull\n");
    text.extend_from_slice(message("a1", "words").as_bytes());
    text.extend_from_slice(
        b"{\"type\":\"future_thing\",\"id\":\"f\",\"parentId\":\"a1\"}\n{}{}\n{\"type\":\"message\",\"id\":\"a2",
    );
    assert_eq!(
        shape_of(&text),
        "1:s, 2:blank, 3:blank, 4:blank, 5:rejected, 6:rejected, 7:rejected, 8:rejected, 9:a1, 10:f, 11:rejected, 12:torn(26)"
    );
}

/// Cases 9, 10, 11 and 27.
#[test]
fn repairs_and_unknown_times_are_told_with_their_line() {
    let mut text = header("s").into_bytes();
    text.extend_from_slice(message("a", "cut \\ud83d").as_bytes());
    text.extend_from_slice(
        &message("b", "caf?").into_bytes().iter().map(|&b| if b == b'?' { 0xff } else { b }).collect::<Vec<_>>(),
    );
    for (id, time) in [("c", "1785000000000.7"), ("d", "1e20"), ("e", "-5"), ("f", "\"soon\""), ("g", "null")] {
        text.extend_from_slice(message(id, "x").replace("\"2026-07-01T08:00:01.000Z\"", time).as_bytes());
    }
    text.extend_from_slice(
        b"{\"type\":\"message\",\"parentId\":null,\"timestamp\":1,\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n",
    );
    text.extend_from_slice(b"{\"type\":\"custom\",\"id\":\"h\",\"parentId\":null}\n");
    let folder = Folder::with(&[]);
    folder.write("s.jsonl", &text);
    let items = read(&folder.source(), None);
    let warnings: Vec<_> = items
        .iter()
        .filter_map(
            |item| if let Item::Event(event) = item { Some((event.line, event.warnings.clone())) } else { None },
        )
        .filter(|(_, warnings)| !warnings.is_empty())
        .collect();
    let unknown = |note| vec![LineWarning::UnknownTime(note)];
    assert_eq!(
        warnings,
        [
            (2, vec![LineWarning::LoneSurrogates(1)]),
            (3, vec![LineWarning::InvalidUtf8(1)]),
            (4, unknown(TimestampNote::Fractional)),
            (5, unknown(TimestampNote::AfterYear9999)),
            (6, unknown(TimestampNote::NotPositive)),
            (7, unknown(TimestampNote::Unparsable)),
            (8, unknown(TimestampNote::Missing)),
            (9, vec![LineWarning::NoId]),
        ]
    );
    let raw: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    for item in &items {
        let Item::Event(event) = item else { panic!("{item:?}") };
        assert_eq!(event.raw, raw[event.line as usize - 1], "byte for byte");
    }
}

#[test]
fn rows_of_the_first_version_get_ids_by_their_line_and_chain() {
    let row = r#"{"type":"message","timestamp":"2026-02-01T09:00:01.000Z","message":{"role":"user","content":"x"}}"#;
    let v1 =
        format!("{{\"type\":\"session\",\"id\":\"s\"}}\n{row}\n\n{row}\n{{\"type\":\"compaction\",\"id\":\"own\"}}\n");
    assert_eq!(shape_of(v1.as_bytes()), "1:s, 2:line-2, 3:blank, 4:line-4, 5:own");
    let stated = v1.replacen("\"id\":\"s\"", "\"id\":\"s\",\"version\":1", 1);
    assert_eq!(shape_of(stated.as_bytes()), "1:s, 2:line-2, 3:blank, 4:line-4, 5:own");
    // A later version, also when its number comes last, and a file without a header: stored, not searched.
    let note = "a message without an id is stored, but not searched";
    let v3 = v1.replacen("\"id\":\"s\"", "\"id\":\"s\",\"version\":3", 1);
    assert_eq!(shape_of(v3.as_bytes()), format!("1:s, 2:- !{note}, 3:blank, 4:- !{note}, 5:own"));
    assert_eq!(shape_of(format!("{row}\n").as_bytes()), format!("1:- !{note}"));
}

#[test]
fn the_header_may_come_late_and_twice() {
    let folder = Folder::with(&[(
        "x.jsonl",
        &format!("{}{}{}{}", message("a", "x"), header("s"), message("b", "y"), header("t")),
    )]);
    let source = folder.source();
    assert_eq!(source.session_id.as_str(), "s");
    assert_eq!(shape(&read(&source, None)), "1:a, 2:s, 3:b, 4:t");
}

/// Case 12.
#[test]
fn a_torn_line_is_taken_when_it_is_complete() {
    let whole = message("b", "late");
    let (half, rest) = whole.split_at(40);
    let before = format!("{}{}", header("s"), message("a", "early"));
    let folder = Folder::with(&[("s.jsonl", &format!("{before}{half}"))]);
    let items = read(&folder.source(), None);
    assert_eq!(shape(&items), "1:s, 2:a, 3:torn(40)");
    let Item::Event(last) = &items[1] else { panic!() };
    let point = ResumePoint::at(&folder.path("s.jsonl"), last.end).unwrap();
    assert_eq!(shape(&read(&folder.source(), Some(&point))), "3:torn(40)");

    folder.write("s.jsonl", format!("{before}{half}{rest}").as_bytes());
    assert_eq!(shape(&read(&folder.source(), Some(&point))), "3:b");
}

#[test]
fn a_complete_last_line_counts_without_its_line_end() {
    let text = format!("{}{}", header("s"), message("a", "x"));
    for line_end in ["\n", "\r\n"] {
        let text = text.replace('\n', line_end);
        let folder = Folder::with(&[("s.jsonl", text.trim_end())]);
        let items = read(&folder.source(), None);
        assert_eq!(shape(&items), "1:s, 2:a");
        let Item::Event(last) = &items[1] else { panic!() };
        let point = ResumePoint::at(&folder.path("s.jsonl"), last.end).unwrap();
        folder.write("s.jsonl", format!("{text}{}", message("b", "y")).as_bytes());
        assert_eq!(shape(&read(&folder.source(), Some(&point))), "3:b");
    }
    // What is no object may still become one.
    assert_eq!(shape_of(format!("{}  ", header("s")).as_bytes()), "1:s, 2:torn(2)");
    assert_eq!(shape_of(format!("{}42", header("s")).as_bytes()), "1:s, 2:torn(2)");
}

#[test]
fn a_rewritten_file_does_not_go_on_where_it_ended() {
    let folder = Folder::with(&[("s.jsonl", &format!("{}{}", header("s"), message("a", "x")))]);
    let source = folder.source();
    let Item::Event(last) = read(&source, None).pop().unwrap() else { panic!() };
    let point = ResumePoint::at(&source.path, last.end).unwrap();
    assert!(import::open(&source, Some(&point)).is_ok());
    let stored: ResumePoint = serde_json::from_str(&serde_json::to_string(&point).unwrap()).unwrap();
    assert_eq!(stored, point);
    for text in [header("s"), format!("{}{}", header("s"), message("z", "x")), String::new()] {
        folder.write("s.jsonl", text.as_bytes());
        assert!(matches!(import::open(&source, Some(&point)), Err(ImportError::Rewritten { .. })), "{text}");
    }
    fs::remove_file(folder.path("s.jsonl")).unwrap();
    assert!(matches!(import::open(&source, Some(&point)), Err(ImportError::Io { .. })));
}

#[test]
fn an_overlong_line_is_rejected_with_its_length() {
    let folder = Folder::with(&[("s.jsonl", &header("s"))]);
    let bytes = MAX_EVENT_BYTES as u64 + 1_000;
    let file = fs::OpenOptions::new().append(true).open(folder.path("s.jsonl")).unwrap();
    let start = file.metadata().unwrap().len();
    file.set_len(start + bytes).unwrap();
    drop(file);
    let mut file = fs::OpenOptions::new().append(true).open(folder.path("s.jsonl")).unwrap();
    std::io::Write::write_all(&mut file, format!("\n{}", message("a", "x")).as_bytes()).unwrap();
    let items = read(&folder.source(), None);
    assert_eq!(shape(&items), "1:s, 2:rejected, 3:a");
    assert!(matches!(items[1], Item::Rejected { reason: EventError::TooLong { bytes: found }, .. } if found == bytes));
}

/// D26.
#[test]
fn of_two_files_of_one_session_the_named_one_owns_it() {
    let (a, b) = (format!("{}{}", header("s"), message("a", "x")), format!("{}{}", header("s"), message("b", "y")));
    let folder = Folder::with(&[("x/a.jsonl", &a), ("x/b.jsonl", &b)]);
    let owner = |found: &Discovery| found.sources[0].path.file_name().unwrap().to_string_lossy().into_owned();
    let found = folder.discover();
    assert_eq!(owner(&found), "a.jsonl");
    assert_eq!(found.sources[1].copy_of.as_ref(), Some(&folder.path("x/a.jsonl")));
    folder.write("x/sessions.json", br#"{"agent:main:main":{"sessionId":"s","sessionFile":"b.jsonl"}}"#);
    let found = folder.discover();
    assert_eq!(owner(&found), "b.jsonl");
    assert_eq!(found.sources[0].copy_of, None);

    let copy = found.sources[1].clone();
    let apart = copy.clone().apart();
    let (id, mark) = apart.session_id.as_str().split_once('~').unwrap();
    assert_eq!((id, mark.len()), ("s", 8));
    assert!(mark.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(apart.session_key.as_str(), format!("agent:main:openclaw:s~{mark}"));
    assert_eq!(copy.apart(), apart, "the same every time");
}

/// D26.
#[test]
fn a_copy_extends_a_session_by_whole_lines_or_is_none() {
    let lines = |ids: &[&str]| ids.iter().map(|id| message(id, "x")).collect::<String>();
    let stored = |text: &str| {
        let mut stored = StoredLines::default();
        for line in text.lines() {
            stored.push(line.as_bytes(), Event::parse(line.as_bytes()).unwrap().kind == EventKind::Header);
        }
        stored
    };
    let relation = |session: &StoredLines, file: &str| {
        let folder = Folder::with(&[("s.jsonl", file)]);
        session.relation_of(import::open(&folder.source(), None).unwrap()).unwrap()
    };
    let head = header("s");
    let session = stored(&format!("{head}{}", lines(&["a", "b", "c"])));
    let longer = format!("{head}{}", lines(&["a", "b", "c"]));
    let Relation::Extends { from } = relation(&session, &format!("{longer}{}", lines(&["d"]))) else { panic!() };
    assert_eq!((from.offset, from.line), (longer.len() as u64, 4));
    assert!(matches!(relation(&session, &lines(&["c", "d"])), Relation::Extends { .. }), "its beginning was cut");
    let repeated = format!("{}\nnot json\n{}", lines(&["a", "a", "b"]), lines(&["c", "d"]));
    assert!(
        matches!(relation(&session, &repeated), Relation::Extends { .. }),
        "lines that are never stored do not count"
    );
    assert_eq!(relation(&session, &longer), Relation::OtherCopy, "nothing new");
    assert_eq!(relation(&session, &lines(&["a", "b", "x"])), Relation::OtherCopy, "it went another way");
    assert_eq!(relation(&session, &lines(&["a", "x", "c"])), Relation::OtherCopy);
    assert_eq!(relation(&session, &format!("{head}{}", lines(&["x", "y"]))), Relation::Unrelated);
    assert!(matches!(relation(&stored(&head), &longer), Relation::Extends { .. }), "only the header was there");
}

/// Reads a source and checks that each line of its file came up once, and that every byte belongs to one.
fn check_accounting(source: &Source) {
    let text = fs::read(&source.path).unwrap();
    let (mut lines, mut torn, mut end) = (0, 0, 0);
    for item in import::open(source, None).unwrap() {
        let place = match item.unwrap() {
            Item::Event(event) => {
                let read = &text[..event.end.offset as usize];
                assert!(read.trim_ascii_end().ends_with(event.raw.trim_ascii_end()), "{source:?}");
                event.end
            }
            Item::Skipped { end, .. } | Item::Rejected { end, .. } => end,
            Item::Torn { line, .. } => {
                assert_eq!(line, lines + 1, "{source:?}");
                torn += 1;
                end = text.len() as u64;
                continue;
            }
        };
        assert_eq!(torn, 0, "nothing comes after a torn line: {source:?}");
        lines += 1;
        assert_eq!(place.line, lines, "{source:?}");
        end = place.offset;
    }
    assert_eq!(lines + torn, text.split_inclusive(|&byte| byte == b'\n').count() as u64, "{source:?}");
    assert_eq!(end, text.len() as u64, "{source:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lines_add_up_whatever_the_file_holds(
        parts in proptest::collection::vec(
            prop_oneof![
                Just(header("s").into_bytes()),
                Just(message("a", "x").into_bytes()),
                Just(b"\n".to_vec()),
                Just(b"\r\n".to_vec()),
                Just(b"\xef\xbb\xbf".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..12),
            ],
            1..12,
        )
    ) {
        let folder = Folder::with(&[]);
        folder.write("s.jsonl", &parts.concat());
        let options = DiscoverOptions { format: Some(Format::Pi), ..DiscoverOptions::default() };
        folder.discover_with(&options).sources.iter().for_each(check_accounting);
    }
}

/// Every file below the data folder that others wrote.
#[test]
fn all_lines_of_real_files_add_up() {
    let Some(data) = std::env::var_os("SESSIONS_SEARCH_TEST_DATA") else {
        println!("skipped: SESSIONS_SEARCH_TEST_DATA is not set");
        return;
    };
    let options = DiscoverOptions { include_deleted: true, ..DiscoverOptions::default() };
    let mut files = 0;
    for part in ["openclaw", "edge-cases"] {
        let found = import::discover(&[Path::new(&data).join(part)], &options).unwrap();
        // A database has rows: `import_openclaw_sqlite` counts those.
        let has_lines = |source: &&Source| source.path.extension().is_none_or(|extension| extension != "sqlite");
        found.sources.iter().filter(has_lines).for_each(check_accounting);
        files += found.sources.len();
        for (path, reason) in found.skipped {
            assert!(!matches!(reason, SkipReason::Unreadable(_)), "{path:?}: {reason}");
        }
    }
    assert!(files > 40, "{files}");
}
