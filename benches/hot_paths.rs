//! The paths that every message and every search takes, one by one: time, and instructions counted by callgrind, which are
//! the same however busy the machine is.
//!
//! `cargo bench --bench hot_paths` compares with `benches/hot_paths.tsv` and fails when a path takes over 5 % more
//! instructions than noted there; `-- record` notes what is. Without valgrind times alone are shown. `-- profile <name>` runs
//! a path for twenty seconds in a store of 100,000 messages, for `perf record`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

mod corpus;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use corpus::{Corpus, Message, key_of};
use sessions_search::__internal::excerpt::{Excerpt, ExcerptStyle};
use sessions_search::__internal::index::{DocFacts, GroupedText, IndexView, Run};
use sessions_search::__internal::instances::PhraseFinder;
use sessions_search::__internal::phrase_set::PhraseSet;
use sessions_search::__internal::query::ParsedQuery;
use sessions_search::__internal::{DocNumber, Ordinal, Redactor, TokenText};
use sessions_search::{
    AppendRequest, Engine, OpenOptions, Redaction, Role, SearchRequest, SessionId, SessionKey, Timestamp, UnicodeWord,
};

/// Messages in the store that is searched: all in one segment.
const STORED: usize = 4_096;
/// Operations of one measurement.
const REPEATS: usize = 200;
/// A path that takes so much more than noted has regressed.
const TOLERANCE: f64 = 1.05;

/// What is counted: everything below this function, and nothing else.
#[inline(never)]
fn counted(operations: &mut dyn FnMut()) {
    operations();
}

/// Runs operations inside [`counted`], or times them.
type Counted<'c> = &'c mut dyn FnMut(&mut dyn FnMut());

/// One path: prepared, then run `REPEATS` times inside [`counted`].
struct HotPath {
    name: &'static str,
    run: fn(&Setting, Counted<'_>),
}

/// What all paths find ready.
struct Setting {
    messages: Vec<Message>,
    vocabulary: Vec<String>,
    store: PathBuf,
}

const HOT_PATHS: &[HotPath] = &[
    HotPath { name: "tokenise a message", run: tokenise },
    HotPath { name: "redact a message", run: redact },
    HotPath { name: "add a message to the tail", run: add_to_tail },
    HotPath { name: "swap the view", run: swap_view },
    HotPath { name: "append a message, prepared to published", run: append },
    HotPath {
        name: "score every match of five words",
        run: |s, c| search(s, c, [1, 2, 4, 5, 6].map(|i| &*s.vocabulary[i]).join(" ")),
    },
    HotPath { name: "score with blocks passed over", run: |s, c| search(s, c, s.vocabulary[0].clone()) },
    HotPath { name: "score a phrase", run: |s, c| search(s, c, format!("{}-{}", s.vocabulary[1], s.vocabulary[2])) },
    HotPath { name: "excerpt of a message", run: excerpt },
];

fn tokenise(setting: &Setting, counted: Counted<'_>) {
    counted(&mut || {
        for message in &setting.messages[..REPEATS] {
            black_box(TokenText::new(&UnicodeWord, &message.text));
        }
    });
}

fn redact(setting: &Setting, counted: Counted<'_>) {
    let redactor = Redactor::new(&Redaction::on()).unwrap();
    // The automata of the patterns are built as they are met.
    setting.messages[..REPEATS].iter().for_each(|message| drop(black_box(redactor.redact(&message.text))));
    counted(&mut || {
        for message in &setting.messages[..REPEATS] {
            black_box(redactor.redact(&message.text));
        }
    });
}

/// What is kept of a message beside its postings.
fn facts(number: u64, message: &Message, tokens: &TokenText) -> DocFacts {
    DocFacts {
        number: DocNumber(number),
        ordinal: Ordinal(number as u32 % 40),
        timestamp: Timestamp::from_millis(message.timestamp).unwrap(),
        role: Role::User,
        length: tokens.len(),
    }
}

/// A run of one document.
fn run(number: u64, message: &Message) -> Run {
    let tokens = TokenText::new(&UnicodeWord, &message.text);
    Run::single(facts(number, message, &tokens), &GroupedText::new(&tokens))
}

/// A view with a thousand documents in its tail.
fn view(setting: &Setting) -> IndexView {
    let mut view = IndexView::default();
    (0..).zip(&setting.messages[..1_000]).for_each(|(n, message)| view.tail.push(run(n, message)));
    view
}

fn add_to_tail(setting: &Setting, counted: Counted<'_>) {
    let mut view = view(setting);
    let texts: Vec<(u64, &Message, TokenText)> = (1_000..)
        .zip(&setting.messages[1_000..1_000 + REPEATS])
        .map(|(n, message)| (n, message, TokenText::new(&UnicodeWord, &message.text)))
        .collect();
    counted(&mut || {
        for (number, message, tokens) in &texts {
            view.tail.push(Run::single(facts(*number, message, tokens), &GroupedText::new(tokens)));
        }
    });
    black_box(view);
}

/// As a publish does, with the view before pinned by a reader: copied, one session more hidden, swapped in.
fn swap_view(setting: &Setting, counted: Counted<'_>) {
    let mut view = view(setting);
    (0..200).for_each(|ordinal| view.hidden.hide_ordinal(Ordinal(ordinal)));
    let shared = RwLock::new(Arc::new(view));
    counted(&mut || {
        for n in 0..REPEATS {
            let pinned = Arc::clone(&shared.read().unwrap());
            let mut next = IndexView::clone(&pinned);
            next.hidden.hide_ordinal(Ordinal(1_000 + n as u32));
            next.num_documents += 1;
            drop(std::mem::replace(&mut *shared.write().unwrap(), Arc::new(next)));
            black_box(pinned);
        }
    });
}

fn open(root: &Path) -> Engine {
    let mut options = OpenOptions::default();
    options.create = true;
    Engine::open(root, options).unwrap()
}

fn append_to(engine: &Engine, messages: &[Message]) {
    for message in messages {
        let key = SessionKey::parse(&key_of(&message.session)).unwrap();
        let mut request = AppendRequest::new(key, vec![message.line().into_bytes()]);
        request.session_id = Some(SessionId::parse(&message.session).unwrap());
        let now = Timestamp::from_millis(message.timestamp).unwrap();
        engine.append(request, now).unwrap().into_iter().for_each(|stored| drop(stored.unwrap()));
    }
}

fn append(setting: &Setting, counted: Counted<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    append_to(&engine, &setting.messages[..REPEATS]);
    counted(&mut || append_to(&engine, &setting.messages[REPEATS..2 * REPEATS]));
}

fn search(setting: &Setting, counted: Counted<'_>, words: String) {
    let engine = open(&setting.store);
    let mut request = SearchRequest::new(words);
    request.limit = 1;
    // What is worked out once and kept.
    (0..REPEATS).for_each(|_| assert_eq!(engine.search(&request).unwrap().results.len(), 1));
    counted(&mut || {
        for _ in 0..REPEATS {
            black_box(engine.search(&request).unwrap());
        }
    });
}

fn excerpt(setting: &Setting, counted: Counted<'_>) {
    let words = format!("{} {}-{}", setting.vocabulary[0], setting.vocabulary[1], setting.vocabulary[2]);
    let query = ParsedQuery::parse(&words, &UnicodeWord, false).unwrap();
    let phrases = PhraseSet::new(&query.phrases);
    let finder = PhraseFinder::new(&phrases);
    counted(&mut || {
        for message in &setting.messages[..REPEATS] {
            let matched = finder.find(&UnicodeWord, &message.text);
            black_box(Excerpt::new(&matched, &phrases, ExcerptStyle::Readable));
        }
    });
}

/// A store of so many messages in one segment.
fn make_store(folder: &Path, messages: &[Message]) -> PathBuf {
    let (files, store) = (folder.join("files"), folder.join("store"));
    corpus::write_files(messages, &files);
    let engine = open(&store);
    let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
    engine.import(&[files], &sessions_search::ImportOptions::default(), now, &mut |_| {}).unwrap();
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    store
}

/// Nanoseconds of one operation: the best of several runs, which is the least disturbed.
fn time(path: &HotPath, setting: &Setting) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        (path.run)(setting, &mut |operations| {
            let started = Instant::now();
            operations();
            best = best.min(started.elapsed());
        });
    }
    best.as_nanos() as f64 / REPEATS as f64
}

/// Instructions of one operation: this program again, under callgrind. `None` where there is no valgrind.
fn instructions(path: &HotPath, setting: &Setting) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=hot_paths::counted*"])
        .arg(std::env::current_exe().unwrap())
        .env("BENCH_PATH", path.name)
        .env("BENCH_STORE", &setting.store)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains("Collected"))?;
    let count: u64 = line.rsplit(' ').next()?.parse().ok()?;
    Some(count / REPEATS as u64)
}

fn noted() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hot_paths.tsv")
}

/// One path over and over, in a larger store.
fn profile(name: &str) {
    let mut corpus = Corpus::new(100_000);
    let messages: Vec<Message> = (0..100_000).map(|_| corpus.next()).collect();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = make_store(folder.path(), &messages);
    let setting = Setting { messages, vocabulary: corpus.vocabulary, store };
    let path = HOT_PATHS.iter().find(|path| path.name.contains(name)).expect("the name of a path");
    println!("{}: process {}", path.name, std::process::id());
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(20) {
        (path.run)(&setting, &mut |operations| counted(operations));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let asked = arguments.next();
    if asked.as_deref() == Some("profile") {
        return profile(&arguments.next().expect("a path to profile"));
    }
    let mut corpus = Corpus::new(STORED);
    let messages: Vec<Message> = (0..STORED).map(|_| corpus.next()).collect();
    let mut setting = Setting { messages, vocabulary: corpus.vocabulary, store: PathBuf::new() };
    if let Ok(name) = std::env::var("BENCH_PATH") {
        setting.store = std::env::var_os("BENCH_STORE").unwrap().into();
        let path = HOT_PATHS.iter().find(|path| path.name == name).unwrap();
        return (path.run)(&setting, &mut |operations| counted(operations));
    }
    let folder = tempfile::tempdir().unwrap();
    setting.store = make_store(folder.path(), &setting.messages);
    let before: BTreeMap<String, u64> = fs::read_to_string(noted())
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once('\t')?;
            Some((name.to_owned(), rest.split('\t').next()?.parse().ok()?))
        })
        .collect();
    let mut table = "path\tinstructions\tnanoseconds\n".to_owned();
    let mut worse = Vec::new();
    println!("{:<42} {:>10} {:>14} {:>8}", "", "ns", "instructions", "change");
    for path in HOT_PATHS {
        let nanoseconds = time(path, &setting);
        let Some(count) = instructions(path, &setting) else {
            println!("{:<42} {nanoseconds:>10.0} {:>14}", path.name, "no valgrind");
            continue;
        };
        let change = before.get(path.name).map(|&noted| count as f64 / noted as f64);
        let shown = change.map_or("new".to_owned(), |change| format!("{:+.1} %", (change - 1.0) * 100.0));
        println!("{:<42} {nanoseconds:>10.0} {count:>14} {shown:>8}", path.name);
        table.push_str(&format!("{}\t{count}\t{nanoseconds:.0}\n", path.name));
        if change.is_some_and(|change| change > TOLERANCE) {
            worse.push(path.name);
        }
    }
    if asked.as_deref() == Some("record") {
        fs::write(noted(), table).unwrap();
    } else if !worse.is_empty() {
        println!("\nmore instructions than noted: {}", worse.join(", "));
        std::process::exit(1);
    }
}
