//! Memory after a large import and many searches, alone in its process.
//!
//! `cargo bench --bench memory`; `BENCH_MESSAGES` (default 1,000,000) names the size.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

mod corpus;

use std::time::{Duration, Instant};

use corpus::{Corpus, anonymous_mb, write_files};
use sessions_search::{Engine, ImportOptions, OpenOptions, SearchRequest, Timestamp};

fn main() {
    let size: usize = std::env::var("BENCH_MESSAGES").map_or(1_000_000, |size| size.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let words: Vec<String> = {
        let mut corpus = Corpus::new(size);
        write_files((0..size).map(|_| corpus.next()), &files, drop);
        corpus.vocabulary.drain(..1_000).collect()
    };
    println!("{size} messages written; {} MB before opening", anonymous_mb());
    let mut options = OpenOptions::default();
    options.create = true;
    let engine = Engine::open(&folder.path().join("store"), options.clone()).unwrap();
    let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
    let started = Instant::now();
    let mut peak = 0;
    let mut watch = |_: &sessions_search::ImportProgress| peak = peak.max(anonymous_mb());
    let summary = engine.import(&[files], &ImportOptions::default(), now, &mut watch).unwrap();
    assert_eq!(summary.messages, size as u64);
    let seconds = started.elapsed().as_secs_f64();
    println!("imported in {seconds:.1} s, {:.0} messages a second, peak {peak} MB", size as f64 / seconds);
    let search = |engine: &Engine| {
        for n in 0..1_000 {
            let query = match n % 4 {
                0 => words[n].clone(),
                1 => format!("{} {}", words[n], words[n / 2]),
                2 => format!("{}-{}", words[n / 10], words[n / 7]),
                _ => ["common", "percent", "rare"][n % 3].to_owned(),
            };
            engine.search(&SearchRequest::new(query)).unwrap();
        }
    };
    search(&engine);
    println!("after 1,000 searches: {} MB", anonymous_mb());
    // Merges may run for a while; then the index writer and its memory go.
    for _ in 0..24 {
        std::thread::sleep(Duration::from_secs(5));
        let now = anonymous_mb();
        println!("at rest: {now} MB");
        if now <= 64 {
            break;
        }
    }
    engine.close().unwrap();
    let started = Instant::now();
    let engine = Engine::open(&folder.path().join("store"), options).unwrap();
    println!("opened in {:.1} ms, {} MB", started.elapsed().as_secs_f64() * 1e3, anonymous_mb());
    search(&engine);
    println!("reopened, after 1,000 searches: {} MB", anonymous_mb());
}
