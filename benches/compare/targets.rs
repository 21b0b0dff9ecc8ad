//! What is asked of each row, and why some rows are slower than FTS5's.

use crate::figures::{Row, Unit};

/// How good a figure has to be.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// So many times better than FTS5.
    Better(f64),
    /// So much in the row's unit.
    AtMost(f64),
}

impl Bound {
    pub fn is_met(self, row: &Row) -> bool {
        match self {
            Self::Better(times) => row.ratio().is_some_and(|ratio| ratio >= times),
            Self::AtMost(most) => row.ours <= most,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub must: Bound,
    pub aim: Option<Bound>,
}

/// What the design asks of a row of the generated corpus at this size. `store_bytes`: how large ours is.
pub fn target(row: &Row, messages: usize, store_bytes: f64) -> Option<Target> {
    let better = |must: f64, aim: f64| Some(Target { must: Bound::Better(must), aim: Some(Bound::Better(aim)) });
    let at_most = |must: f64, aim: f64| Some(Target { must: Bound::AtMost(must), aim: Some(Bound::AtMost(aim)) });
    let at = |sizes: &[usize]| sizes.contains(&messages);
    let (small, medium, large) = (messages == 10_000, messages == 100_000, messages == 1_000_000);
    let name = row.name.strip_suffix(", 1 % dead").unwrap_or(&row.name);
    match (row.group.as_str(), name) {
        ("search" | "dead", "word in 30 %") if small => better(50.0, 150.0),
        ("search" | "dead", "word in 30 %") if medium => better(500.0, 1_000.0),
        ("search" | "dead", "word in 30 %") if large => better(1_000.0, 5_000.0),
        ("search" | "dead", "word in 1 %") if large => better(300.0, 1_000.0),
        ("search", "2,048 one-letter words") if small => Some(Target { must: Bound::AtMost(10.0), aim: None }),
        ("search" | "dead", "2,048 one-letter words") => None,
        ("search" | "dead", _) if small => better(2.0, 10.0),
        ("search" | "dead", _) if medium => better(4.0, 10.0),
        ("search" | "dead", _) if large => better(8.0, 10.0),
        ("append", "append, p50" | "append at rest, p50") if large => better(0.8, 2.0),
        ("append", "append, p99" | "append at rest, p99") if at(&[100_000, 1_000_000]) => better(1.0 / 0.35, 20.0),
        ("append", "appends a second, 1 writer") if large => better(2.0, 5.0),
        ("append", "appends a second, 16 writers") if medium => better(5.0, 20.0),
        ("session", "delete a session") if large => better(500.0, 2_000.0),
        ("session", "rebuild a session") if large => better(200.0, 500.0),
        ("bulk", "import" | "rebuild the index from the transcripts") if medium => better(1.3, 2.5),
        ("size", "index bytes") if large => better(1.0 / 0.95, 1.0 / 0.85),
        ("size", "whole store bytes") if large => better(1.0 / 0.7, 1.0 / 0.4),
        ("size", "memory after 1,000 searches") if large => Some(Target { must: Bound::AtMost(64.0), aim: None }),
        ("open", "open after a clean close") if large => at_most(50.0, 10.0),
        ("open", "open after kill -9, first search") if large => at_most(1.1e-6 * store_bytes + 150.0, 150.0),
        _ => None,
    }
}

/// Why a row is slower, or larger, than FTS5's.
pub fn reason(row: &Row) -> &'static str {
    let starts = |start: &str| row.name.starts_with(start);
    if starts("append at rest, p50") || starts("append, p50") || starts("relaxed append, p50") {
        "one redb commit writes some twenty pages, 70 KB, to journal and file; SQLite appends a few pages to its log and \
         merges its index now and then, which is its 99th percentile"
    } else if starts("appends a second") || starts("relaxed appends a second") {
        "the median append again; several writers share a sync, but one thread writes the pages of all"
    } else if starts("open after a clean close") {
        "SQLite opens one file and reads nothing before it is asked; ours opens transcripts and index, and reads the \
         sessions"
    } else if starts("open after kill") {
        "redb walks the whole file before it trusts it after a crash, and the tail is indexed again from the transcripts; \
         SQLite reads its log"
    } else if starts("open, first search") {
        "opening is most of it, and the first search of a word looks at all its postings once"
    } else if starts("memory") {
        "SQLite holds what it has read of a small file, or maps it; ours holds lengths, sessions and redb's page cache"
    } else if starts("whole store bytes") {
        "redb keeps whole pages and the pages of the transaction before; the searchable text lies beside the line it is from"
    } else if starts("import") {
        "ours works with two threads, and a busy machine gives it less than two cores"
    } else if starts("rebuild the index from the transcripts") {
        "ours writes every document's row anew beside the index, session by session; not tuned as the import is"
    } else if starts("rebuild the index, FTS5 from its own copy") {
        "FTS5 only makes words of texts that lie ready; ours reads every line anew, finds the active branch, extracts and \
         redacts"
    } else if row.unit == Unit::Megabytes {
        "small stores: each segment has files of its own"
    } else {
        "noise, or not explained yet"
    }
}
