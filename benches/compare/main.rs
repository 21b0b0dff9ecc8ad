//! Ours against SQLite FTS5: the same messages, the same operations, one run, both answers checked against each other
//! before a time counts. The figures go to `benches/results/`, and from there into the tables and charts of
//! `benches/RESULTS.md`.
//!
//! `cargo bench --bench compare`; `BENCH_SCALE` (default `10k,30k,100k`) names the sizes, `BENCH_CHAT` a folder of gzipped
//! chats to measure instead, `BENCH_ONLY=search,append` some groups of rows, where the others stay as they were noted. Stores of 500,000 messages and more are kept below the target folder and used again.
//! `BENCH_FTS5_MAPPED_MB=1024` lets SQLite map its file. `cargo bench --bench compare -- report` only writes tables and charts again.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program of this package's own")]

mod backend;
mod chart;
mod child;
#[path = "../corpus.rs"]
mod corpus;
mod figures;
mod fts5;
mod load;
mod machine;
mod ours;
mod report;
mod run;
mod stores;
mod targets;
mod times;

use std::path::Path;
use std::time::Duration;

use figures::Figures;
use load::Load;
use run::Run;

/// The parts of a run, by the group of their rows; `dead` comes after the sessions are deleted.
const GROUPS: [&str; 7] = ["bulk", "size", "open", "search", "append", "session", "dead"];

/// Whether a group is to be measured: all, or those that `BENCH_ONLY` names.
fn is_asked(group: &str) -> bool {
    std::env::var("BENCH_ONLY").map_or(true, |only| only.split(',').any(|asked| asked.trim() == group))
}

fn measure(load: &Load) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sessions = load.sessions().len();
    println!("\n{}: {} messages, {sessions} sessions", load.name, load.messages.len());
    println!("{:<58} {:>12} {:>12}", "", "ours", "FTS5");
    let mut rows = stores::prepare(load, folder.path());
    let mut run = Run::open(load, folder.path());
    let mut part = |groups: &[&str], measure: fn(&mut Run<'_>)| {
        if groups.iter().any(|group| is_asked(group)) {
            measure(&mut run);
        }
    };
    part(&["size"], |run| run.bytes());
    part(&["open"], |run| run.opens());
    part(&["size"], |run| run.memory());
    part(&["search"], |run| run.searches("search", ""));
    part(&["search"], |run| run.worst_query());
    part(&["append"], |run| run.appends("append at rest", 300, Duration::from_millis(10)));
    part(&["append"], |run| run.appends("append", 2_000, Duration::ZERO));
    part(&["search"], |run| run.searches_after_appends());
    part(&["search"], |run| run.searches_beside_appends());
    part(&["session", "dead"], |run| run.deletes());
    part(&["dead"], |run| run.searches("dead", ", 1 % dead"));
    part(&["session"], |run| run.replacements());
    part(&["append"], |run| [1, 4, 16].into_iter().for_each(|writers| run.throughput("appends a second", writers)));
    part(&["append"], |run| run.relaxed());
    part(&["open"], |run| run.kill());
    part(&["bulk"], |run| run.rebuild());
    rows.extend(run.finish());
    let commit = machine::commit();
    rows.iter_mut().filter(|row| row.commit.is_empty()).for_each(|row| row.commit.clone_from(&commit));
    let corpus = if fts5::mapped_mb() > 0 { format!("mapped-{}", load.name) } else { load.name.clone() };
    report::save(Figures {
        corpus,
        messages: load.messages.len(),
        sessions,
        date: machine::today(),
        machine: machine::description(),
        load_average: machine::load_average(),
        versions: machine::versions(),
        rows,
    });
    report::write();
}

/// `10000`, `10k`, `1m`.
fn number_of(size: &str) -> usize {
    let size = size.trim().to_ascii_lowercase();
    let (digits, factor) = match size.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if size.ends_with('k') { 1_000 } else { 1_000_000 }),
        None => (size.as_str(), 1),
    };
    digits.parse::<usize>().expect("BENCH_SCALE holds sizes such as 10k or 1m") * factor
}

fn main() {
    if child::run_part() {
        return;
    }
    if std::env::args().any(|argument| argument == "report") {
        return report::write();
    }
    if let Some(folder) = std::env::var_os("BENCH_CHAT") {
        return measure(&Load::from_folder(Path::new(&folder)));
    }
    let sizes = std::env::var("BENCH_SCALE").unwrap_or_else(|_| "10k,30k,100k".into());
    sizes.split(',').for_each(|size| measure(&Load::generated(number_of(size))));
}
