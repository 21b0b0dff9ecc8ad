//! Memory after a large import and many searches, alone in its process.
//!
//! `cargo bench --bench memory`; `BENCH_MESSAGES` (default 1,000,000) names the size, `BENCH_CACHE_BYTES` another page cache
//! than the default. Said is what is the process's own (`RssAnon`) and what is mapped files (`RssFile`), which the system
//! takes back when it needs them.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

mod corpus;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corpus::{Corpus, FileWriter, anonymous_mb, resident_mb};
use sessions_search::{Engine, ImportOptions, OpenOptions, SearchRequest, Timestamp};

/// A thousand searches: single words, pairs, phrases, frequent and rare ones.
fn search(engine: &Engine, words: &[String]) {
    for n in 0..1_000 {
        let query = match n % 4 {
            0 => words[n].clone(),
            1 => format!("{} {}", words[n], words[n / 2]),
            2 => format!("{}-{}", words[n / 10], words[n / 7]),
            _ => ["common", "percent", "rare"][n % 3].to_owned(),
        };
        engine.search(&SearchRequest::new(query)).unwrap();
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.create = true;
    if let Ok(bytes) = std::env::var("BENCH_CACHE_BYTES") {
        options.cache_bytes = bytes.parse().unwrap();
    }
    options
}

fn say(when: &str) {
    println!("{when}: {} MB, and {} MB of mapped files", anonymous_mb(), resident_mb("RssFile"));
}

/// What glibc has kept of freed memory goes back to the system, as an embedder does it who imports much.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "a call of the C library that takes a number")]
fn give_back() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    say("after malloc_trim");
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

/// In a process of its own, so that nothing of the import's memory is left in the allocator.
fn reopen(store: &Path, size: usize) {
    let words: Vec<String> = Corpus::new(size).vocabulary.drain(..1_000).collect();
    let before = anonymous_mb();
    let started = Instant::now();
    let engine = Engine::open(store, options()).unwrap();
    let open_ms = started.elapsed().as_secs_f64() * 1e3;
    println!("a new process: {before} MB of its own, opened in {open_ms:.1} ms, {} MB", anonymous_mb());
    search(&engine, &words);
    say("a new process, after 1,000 searches");
}

/// Writes the messages and, beside them, the words to ask for.
fn generate(files: &Path, size: usize) {
    let mut corpus = Corpus::new(size);
    let mut writer = FileWriter::new(files);
    (0..size).for_each(|_| writer.add(&corpus.next()));
    writer.finish();
    fs::write(files.with_extension("words"), corpus.vocabulary[..1_000].join("\n")).unwrap();
}

/// The same in a process of its own, so that nothing of the generator's memory is counted.
fn generate_elsewhere(files: &Path, size: usize) -> Vec<String> {
    run_again("BENCH_GENERATE", files, size);
    fs::read_to_string(files.with_extension("words")).unwrap().lines().map(str::to_owned).collect()
}

/// This program again, told by a variable which part to run.
fn run_again(part: &str, path: &Path, size: usize) {
    let status = Command::new(std::env::current_exe().unwrap())
        .env(part, path)
        .env("BENCH_MESSAGES", size.to_string())
        .status()
        .unwrap();
    assert!(status.success());
}

fn main() {
    let size: usize = std::env::var("BENCH_MESSAGES").map_or(1_000_000, |size| size.parse().unwrap());
    if let Ok(files) = std::env::var("BENCH_GENERATE") {
        return generate(files.as_ref(), size);
    }
    if let Ok(store) = std::env::var("BENCH_STORE") {
        return reopen(store.as_ref(), size);
    }
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let store = folder.path().join("store");
    let words = generate_elsewhere(&files, size);
    println!("{size} messages written; {} MB before opening", anonymous_mb());
    let engine = Engine::open(&store, options()).unwrap();
    let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
    let started = Instant::now();
    let mut peak = 0;
    let mut watch = |_: &sessions_search::ImportProgress| peak = peak.max(anonymous_mb());
    let summary = engine.import(&[files], &ImportOptions::default(), now, &mut watch).unwrap();
    assert_eq!(summary.messages, size as u64);
    let seconds = started.elapsed().as_secs_f64();
    println!("imported in {seconds:.1} s, {:.0} messages a second, peak {peak} MB", size as f64 / seconds);
    search(&engine, &words);
    say("after 1,000 searches");
    // Merges end, then the index writer and its memory go.
    std::thread::sleep(Duration::from_secs(60));
    say("after a minute at rest");
    give_back();
    engine.close().unwrap();
    run_again("BENCH_STORE", &store, size);
}
