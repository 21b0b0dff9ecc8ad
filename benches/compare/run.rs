//! Every operation, on both engines in turn, so that what else the machine does hits both. No time counts whose answers
//! were not the same.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{Acknowledge, Backend, Hit, Open, Query};
use crate::child;
use crate::corpus::Message;
use crate::figures::{Row, Unit};
use crate::load::Load;
use crate::times::{Times, cpu_timed, ms, timed};
use crate::{fts5, ours};

/// Both stores and what has been measured of them.
pub struct Run<'l> {
    load: &'l Load,
    /// Sessions, in order.
    sessions: Vec<String>,
    keys: Vec<String>,
    folder: PathBuf,
    ours: Option<Box<dyn Backend>>,
    fts5: Option<Box<dyn Backend>>,
    /// Messages of [`Load::more`] that both have by now.
    appended: usize,
    pub rows: Vec<Row>,
}

/// Both engines, ours first.
pub const ENGINES: [(&str, Open); 2] = [("ours", ours::open), ("fts5", fts5::open)];

impl<'l> Run<'l> {
    /// Opens the stores in `folder/ours` and `folder/fts5`, made where they are missing.
    pub fn open(load: &'l Load, folder: &Path) -> Self {
        let (sessions, keys) = (load.sessions(), load.some_keys());
        let folder = folder.to_owned();
        let mut run = Self { load, sessions, keys, folder, ours: None, fts5: None, appended: 0, rows: Vec::new() };
        run.reopen(Acknowledge::OnDisk);
        run
    }

    fn path(&self, engine: &str) -> PathBuf {
        self.folder.join(engine)
    }

    fn close(&mut self) {
        self.ours.take().into_iter().chain(self.fts5.take()).for_each(Backend::close);
    }

    fn reopen(&mut self, acknowledge: Acknowledge) {
        self.close();
        self.ours = Some(ours::open(&self.path("ours"), acknowledge));
        self.fts5 = Some(fts5::open(&self.path("fts5"), acknowledge));
    }

    fn both(&self) -> [&dyn Backend; 2] {
        [self.ours.as_deref().expect("open"), self.fts5.as_deref().expect("open")]
    }

    fn row(&mut self, group: &str, name: impl Into<String>, unit: Unit, figures: [f64; 2]) -> &mut Row {
        self.push(Row::new(group, name, unit, figures[0], Some(figures[1])))
    }

    fn push(&mut self, row: Row) -> &mut Row {
        crate::report::print_row(&row);
        self.rows.push(row);
        self.rows.last_mut().expect("pushed")
    }

    fn timed_row(&mut self, group: &str, name: impl Into<String>, times: &[Times; 2]) -> &mut Row {
        let p99 = |times: &Times| (times.len() >= 100).then(|| times.quantile_ms(0.99));
        let mut row = Row::new(group, name, Unit::Milliseconds, times[0].median_ms(), Some(times[1].median_ms()));
        (row.ours_p99, row.fts5_p99) = (p99(&times[0]), p99(&times[1]));
        row.repeats = Some(times[0].len().min(times[1].len()));
        self.push(row)
    }

    fn more(&mut self, count: usize) -> &'l [Message] {
        let start = self.appended;
        self.appended += count;
        self.load.more.get(start..self.appended).expect("enough messages to append")
    }

    /// Every query gives the same answer on both.
    fn assert_same(&self) {
        let [ours, fts5] = self.both();
        for query in &self.load.queries {
            assert_hits(query, &ours.search(query, None), &fts5.search(query, None));
        }
    }

    /// All messages into both.
    pub fn import(&mut self, files: &Path) {
        let figures = self.both().map(|engine| {
            let (time, ()) = timed(|| {
                engine.import(files, &self.load.messages);
                engine.settle();
            });
            ms(time)
        });
        self.assert_same();
        self.row("bulk", "import", Unit::Milliseconds, figures);
    }

    pub fn bytes(&mut self) {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let [ours, fts5] = self.both().map(|engine| engine.bytes());
        self.row("size", "index bytes", Unit::Megabytes, [mb(ours.index), mb(fts5.index)]);
        self.row("size", "whole store bytes", Unit::Megabytes, [mb(ours.whole), mb(fts5.whole)]);
    }

    /// Every class, with and without a list of 200 keys.
    pub fn searches(&mut self, group: &str, suffix: &str) {
        for query in &self.load.queries {
            for filtered in [false, true] {
                let keys = filtered.then(|| self.keys.clone());
                let [ours, fts5] = self.both();
                let mut times = [Times::default(), Times::default()];
                // What a class costs once is not seen in the median of many, hence the rows of first searches.
                let enough = |times: &[Times; 2]| {
                    let spent = times[0].total() + times[1].total();
                    times[1].len() >= 101 || times[1].len() >= 7 && spent > Duration::from_secs(3)
                };
                while !enough(&times) {
                    let (time, found) = cpu_timed(|| ours.search(query, keys.as_deref()));
                    times[0].push(time);
                    let (time, expected) = cpu_timed(|| fts5.search(query, keys.as_deref()));
                    times[1].push(time);
                    assert_hits(query, &found, &expected);
                }
                let matches = (!filtered).then(|| crate::fts5::count(&self.path("fts5"), query));
                let filter = if filtered { ", 200 keys" } else { "" };
                self.timed_row(group, format!("{}{filter}{suffix}", query.class), &times).matches = matches;
            }
        }
    }

    /// Opening, and opening until there is an answer; each query meets stores that were opened for it.
    pub fn opens(&mut self) {
        let mut opened = [Times::default(), Times::default()];
        let queries: Vec<Query> = self.load.queries.iter().take(6).cloned().collect();
        for query in queries {
            let mut first = [Times::default(), Times::default()];
            for _ in 0..5 {
                self.close();
                let mut answers = Vec::new();
                for (i, (engine, open)) in ENGINES.into_iter().enumerate() {
                    let path = self.path(engine);
                    let (time, engine) = timed(|| open(&path, Acknowledge::OnDisk));
                    opened[i].push(time);
                    let (search, found) = timed(|| engine.search(&query, None));
                    first[i].push(time + search);
                    answers.push(found);
                    engine.close();
                }
                assert_hits(&query, &answers[0], &answers[1]);
            }
            self.timed_row("open", format!("open, first search: {}", query.class), &first);
        }
        self.timed_row("open", "open after a clean close", &opened);
        self.reopen(Acknowledge::OnDisk);
    }

    /// Memory of a process that has opened the store and searched a thousand times.
    pub fn memory(&mut self) {
        self.close();
        let words = self.folder.join("words");
        fs::write(&words, self.load.words.join("\n")).unwrap();
        let figures = ENGINES.map(|(engine, _)| child::memory(engine, &self.path(engine), &words));
        self.row("size", "memory after 1,000 searches", Unit::Megabytes, figures);
        self.reopen(Acknowledge::OnDisk);
    }

    /// A query of 2,048 pieces; SQLite's time is measured once and in small stores, for it may take a minute.
    pub fn worst_query(&mut self) {
        let [ours, fts5] = self.both();
        let mut times = Times::default();
        for _ in 0..9 {
            times.push(cpu_timed(|| ours.search(&self.load.worst, None)).0);
        }
        let theirs = (self.load.messages.len() <= 20_000).then(|| {
            let (time, expected) = cpu_timed(|| fts5.search(&self.load.worst, None));
            assert_hits(&self.load.worst, &ours.search(&self.load.worst, None), &expected);
            ms(time)
        });
        let name = self.load.worst.class;
        self.push(Row::new("search", name, Unit::Milliseconds, times.median_ms(), theirs));
    }

    /// Appends of one message, one engine after the other, and an fdatasync of 4 KiB of a file that is there.
    pub fn appends(&mut self, name: &str, count: usize, pause: Duration) {
        let mut times = [Times::default(), Times::default()];
        let mut syncs = Times::default();
        let raw = fs::File::create(self.folder.join("raw")).unwrap();
        (&raw).write_all(&[0; 4096]).unwrap();
        raw.sync_all().unwrap();
        for message in self.more(count) {
            thread::sleep(pause);
            for (engine, times) in self.both().into_iter().zip(&mut times) {
                times.push(timed(|| engine.append(message)).0);
            }
            std::os::unix::fs::FileExt::write_all_at(&raw, &[1; 4096], 0).unwrap();
            syncs.push(timed(|| raw.sync_data().unwrap()).0);
        }
        self.assert_same();
        let at = |share| [times[0].quantile_ms(share), times[1].quantile_ms(share)];
        let (p50, p99) = (at(0.5), at(0.99));
        self.row("append", format!("{name}, p50"), Unit::Milliseconds, p50).repeats = Some(count);
        self.row("append", format!("{name}, p99"), Unit::Milliseconds, p99).repeats = Some(count);
        let syncs = syncs.median_ms();
        self.push(Row::new("append", format!("{name}, a raw fdatasync beside it"), Unit::Milliseconds, syncs, None));
        let name = format!("{name}, p50 in raw fdatasyncs");
        self.row("append", name, Unit::Fdatasyncs, p50.map(|p50| p50 / syncs)).repeats = Some(count);
    }

    /// Appends a second of so many threads.
    pub fn throughput(&mut self, name: &str, writers: usize) {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            let messages = self.more(384);
            for (engine, rates) in self.both().into_iter().zip(&mut rates) {
                let (time, ()) = timed(|| {
                    thread::scope(|scope| {
                        for part in messages.chunks(messages.len().div_ceil(writers)) {
                            scope.spawn(move || part.iter().for_each(|message| engine.append(message)));
                        }
                    });
                });
                rates.push(messages.len() as f64 / time.as_secs_f64());
            }
        }
        self.assert_same();
        let median = |mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        };
        let name = format!("{name}, {writers} writer{}", if writers == 1 { "" } else { "s" });
        self.row("append", name, Unit::PerSecond, rates.map(median));
    }

    /// The same with writes that are acknowledged before they are on disk.
    pub fn relaxed(&mut self) {
        self.reopen(Acknowledge::Soon);
        self.appends("relaxed append", 1_000, Duration::ZERO);
        self.throughput("relaxed appends a second", 1);
        self.throughput("relaxed appends a second", 16);
        self.reopen(Acknowledge::OnDisk);
    }

    /// Each search right after an append, so that nothing kept from the search before is of this moment.
    pub fn searches_after_appends(&mut self) {
        for query in self.load.queries.iter().take(3) {
            let mut times = [Times::default(), Times::default()];
            for message in self.more(101) {
                let mut answers = Vec::new();
                for (engine, times) in self.both().into_iter().zip(&mut times) {
                    engine.append(message);
                    let (time, found) = cpu_timed(|| engine.search(query, None));
                    times.push(time);
                    answers.push(found);
                }
                assert_hits(query, &answers[0], &answers[1]);
            }
            self.timed_row("search", format!("{}, right after an append", query.class), &times);
        }
    }

    /// Searches beside a thread that appends 400 messages a second and ends each second with a checkpoint.
    pub fn searches_beside_appends(&mut self) {
        for query in self.load.queries.iter().take(3) {
            let messages = self.more(1_000);
            let times = self.both().map(|engine| {
                let reader = engine.reader();
                let mut times = Times::default();
                thread::scope(|scope| {
                    let writer = scope.spawn(move || write_steadily(engine, messages));
                    while !writer.is_finished() {
                        times.push(timed(|| reader(query)).0);
                        thread::sleep(Duration::from_millis(1));
                    }
                });
                times
            });
            self.assert_same();
            let at = |share| [times[0].quantile_ms(share), times[1].quantile_ms(share)];
            self.row("search", format!("{}, beside appends, p50", query.class), Unit::Milliseconds, at(0.5));
            self.row("search", format!("{}, beside appends, p99", query.class), Unit::Milliseconds, at(0.99));
        }
    }

    /// One session in a hundred, at least five.
    pub fn deletes(&mut self) {
        let count = (self.sessions.len() / 100).clamp(5, 100).min(self.sessions.len() / 4);
        let mut times = [Times::default(), Times::default()];
        let step = self.sessions.len() / count;
        let deleted: Vec<String> = self.sessions.iter().skip(1).step_by(step).take(count).cloned().collect();
        for session in &deleted {
            for (engine, times) in self.both().into_iter().zip(&mut times) {
                times.push(timed(|| engine.delete_session(session)).0);
            }
        }
        self.sessions.retain(|session| !deleted.contains(session));
        self.assert_same();
        self.timed_row("session", "delete a session", &times);
    }

    /// A session's messages by the same, as a compaction does.
    pub fn replacements(&mut self) {
        let mut times = [Times::default(), Times::default()];
        let chosen: Vec<String> = self.sessions.iter().step_by(self.sessions.len().div_ceil(7)).cloned().collect();
        for session in &chosen {
            let messages: Vec<&Message> =
                self.load.messages.iter().filter(|message| &message.session == session).collect();
            for (engine, times) in self.both().into_iter().zip(&mut times) {
                times.push(timed(|| engine.replace_session(session, &messages)).0);
            }
        }
        self.assert_same();
        self.timed_row("session", "rebuild a session", &times);
    }

    pub fn rebuild(&mut self) {
        let figures = self.both().map(|engine| ms(timed(|| engine.rebuild()).0));
        self.assert_same();
        self.row("bulk", "rebuild the index from the transcripts", Unit::Milliseconds, figures);
        let [_, fts5] = self.both();
        let (time, done) = timed(|| fts5.rebuild_from_own_copy());
        assert!(done);
        let name = "rebuild the index, FTS5 from its own copy of the texts";
        self.row("bulk", name, Unit::Milliseconds, [figures[0], ms(time)]);
    }

    /// Opening after a process was killed that had just appended 600 messages.
    pub fn kill(&mut self) {
        self.close();
        let lines = self.folder.join("lines");
        let mut rows = Vec::new();
        for _ in 0..3 {
            let messages = self.more(600);
            fs::write(&lines, messages.iter().map(child::to_line).collect::<String>()).unwrap();
            let mut answers = Vec::new();
            let query = &self.load.queries[1];
            let figures = ENGINES.map(|(engine, open)| {
                let path = self.path(engine);
                child::append_and_die(engine, &path, &lines);
                let (time, (engine, found)) = timed(|| {
                    let engine = open(&path, Acknowledge::OnDisk);
                    let found = engine.search(query, None);
                    (engine, found)
                });
                answers.push(found);
                engine.close();
                time
            });
            assert_hits(query, &answers[0], &answers[1]);
            rows.push(figures);
        }
        let mut times = [Times::default(), Times::default()];
        for figures in rows {
            times[0].push(figures[0]);
            times[1].push(figures[1]);
        }
        self.timed_row("open", "open after kill -9, first search", &times);
        self.reopen(Acknowledge::OnDisk);
        self.assert_same();
    }

    pub fn finish(mut self) -> Vec<Row> {
        self.close();
        self.rows
    }
}

fn write_steadily(engine: &dyn Backend, messages: &[Message]) {
    let started = Instant::now();
    for (n, message) in messages.iter().enumerate() {
        let due = Duration::from_micros(2_500) * n as u32;
        thread::sleep(due.saturating_sub(started.elapsed()));
        engine.append(message);
        if n % 400 == 399 {
            engine.settle();
        }
    }
}

fn assert_hits(query: &Query, ours: &[Hit], fts5: &[Hit]) {
    assert_eq!(ours, fts5, "{}: {:.80}", query.class, query.words);
}
