//! Figures as Markdown: between the marks of `benches/RESULTS.md`, from everything in `benches/results/`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::chart;
use crate::figures::{Figures, Row, Unit};
use crate::targets::{Bound, reason};
use crate::{GROUPS, is_asked};

const BEGIN: &str = "<!-- written by `cargo bench --bench compare`: change the bench, not this -->";
const END: &str = "<!-- until here -->";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches")
}

pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds if value >= 1_000.0 => format!("{:.2} s", value / 1e3),
        Unit::Milliseconds if value >= 10.0 => format!("{value:.1} ms"),
        Unit::Milliseconds => format!("{value:.3} ms"),
        Unit::Megabytes => format!("{value:.1} MB"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Fdatasyncs => format!("{value:.2}"),
    }
}

pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}×"),
        r if r >= 10.0 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

/// A line for whoever waits.
pub fn print_row(row: &Row) {
    let show = |value: Option<f64>| value.map_or("not measured".to_owned(), |value| figure(value, row.unit));
    let times = row.ratio().map_or("-".to_owned(), times);
    println!("{:<58} {:>12} {:>12} {:>9}", row.name, show(Some(row.ours)), show(row.fts5), times);
}

fn path_of(corpus: &str) -> PathBuf {
    folder().join("results").join(format!("{corpus}.json"))
}

/// Keeps one run's figures, beside those noted earlier of groups that it did not measure.
pub fn save(mut figures: Figures) {
    fs::create_dir_all(folder().join("results")).unwrap();
    let path = path_of(&figures.corpus);
    if let Ok(text) = fs::read_to_string(&path) {
        let noted: Figures = serde_json::from_str(&text).unwrap();
        let kept = noted.rows.into_iter().filter(|row| GROUPS.contains(&row.group.as_str()) && !is_asked(&row.group));
        let kept: Vec<Row> = kept.filter(|row| figures.row(&row.name).is_none()).collect();
        figures.rows.extend(kept);
        figures.rows.sort_by_key(|row| GROUPS.iter().position(|group| *group == row.group));
    }
    fs::write(path, serde_json::to_string_pretty(&figures).unwrap() + "\n").unwrap();
}

/// All figures that are kept: generated corpora by size, then the others.
fn kept() -> Vec<Figures> {
    let entries = fs::read_dir(folder().join("results")).unwrap().map(|entry| entry.unwrap().path());
    let json = entries.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut all: Vec<Figures> =
        json.map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()).collect();
    all.sort_by_key(|figures| (!figures.is_generated(), figures.messages));
    all
}

/// Writes the tables and charts of everything kept.
pub fn write() {
    let all = kept();
    let charts = chart::all(&all);
    for (name, svg) in &charts {
        fs::write(folder().join("results").join(name), svg).unwrap();
    }
    let path = folder().join("RESULTS.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("RESULTS.md has the mark where the tables begin");
    let (_, after) = rest.split_once(END).expect("RESULTS.md has the mark where the tables end");
    fs::write(&path, format!("{before}{BEGIN}\n\n{}\n{END}{after}", markdown(&all))).unwrap();
    println!("\nwritten: benches/RESULTS.md, benches/results/");
}

fn markdown(all: &[Figures]) -> String {
    let mut text = String::new();
    what_ran(&mut text, all);
    slower(&mut text, all);
    let generated: Vec<&Figures> = all.iter().filter(|figures| figures.is_generated()).collect();
    targets(&mut text, &generated);
    by_size(&mut text, &generated);
    growth(&mut text, &generated);
    all.iter().for_each(|figures| details(&mut text, figures));
    text
}

fn what_ran(text: &mut String, all: &[Figures]) {
    text.push_str("| corpus | messages | sessions | date | commit | load | machine | versions |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for f in all {
        let commit = f.commits();
        let Figures { corpus, messages, sessions, date, load_average, machine, versions, .. } = f;
        let _ = writeln!(
            text,
            "| {corpus} | {messages} | {sessions} | {date} | {commit} | {load_average:.1} | {machine} | {versions} |"
        );
    }
    text.push_str("\n`load`: processes that wanted to run, on average over the last five minutes of the run.\n");
}

fn slower(text: &mut String, all: &[Figures]) {
    text.push_str("\n### Where FTS5 is better\n\n");
    let mut found: Vec<(&str, String, &str)> = Vec::new();
    for figures in all {
        let rows = figures.rows.iter().filter(|row| row.unit != Unit::Fdatasyncs);
        for row in rows.filter(|row| row.ratio().is_some_and(|ratio| ratio < 1.0)) {
            let at = format!("{} ({})", times(row.ratio().unwrap_or_default()), figures.size_name());
            match found.iter_mut().find(|(name, ..)| *name == row.name) {
                Some((_, all, _)) => *all = format!("{all}, {at}"),
                None => found.push((&row.name, at, reason(row))),
            }
        }
    }
    if found.is_empty() {
        text.push_str("Nowhere.\n");
        return;
    }
    text.push_str("| what | ours is better by | why |\n| --- | --- | --- |\n");
    for (name, at, why) in found {
        let _ = writeln!(text, "| {name} | {at} | {why} |");
    }
}

fn bound(bound: Bound, unit: Unit) -> String {
    match bound {
        Bound::Better(ratio) => format!("≥ {}", times(ratio)),
        Bound::AtMost(most) => format!("≤ {}", figure(most, unit)),
    }
}

/// Every row with a target that is missed, and how many are met.
fn targets(text: &mut String, generated: &[&Figures]) {
    text.push_str("\n### Targets\n\n");
    let mut table = String::new();
    for figures in generated {
        let (mut met, mut missed) = (0, 0);
        for row in &figures.rows {
            let Some(target) = figures.target(row) else { continue };
            if target.must.is_met(row) {
                met += 1;
                continue;
            }
            missed += 1;
            let is = match target.must {
                Bound::Better(_) => row.ratio().map_or("not measured".to_owned(), times),
                Bound::AtMost(_) => figure(row.ours, row.unit),
            };
            let must = bound(target.must, row.unit);
            let _ = writeln!(table, "| {} | {} | {must} | {is} |", figures.size_name(), row.name);
        }
        if met + missed > 0 {
            let _ = writeln!(text, "- {}: {met} of {} met", figures.size_name(), met + missed);
        }
    }
    if !table.is_empty() {
        let _ = write!(text, "\nMissed:\n\n| messages | what | must | is |\n| --- | --- | --- | --- |\n{table}");
    }
}

/// Names of rows in order, each once.
fn names<'f>(all: &[&'f Figures]) -> Vec<&'f str> {
    let mut names: Vec<&str> = Vec::new();
    for row in all.iter().flat_map(|figures| &figures.rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    names
}

fn by_size(text: &mut String, generated: &[&Figures]) {
    text.push_str("\n### How many times better, by size\n\n");
    text.push_str("✓ target met, ✓✓ aim met, ✗ missed; without a mark nothing is asked at that size.\n\n");
    text.push_str("![How many times better, by class](results/ratio.svg)\n\n| what |");
    generated.iter().for_each(|figures| text.push_str(&format!(" {} |", figures.size_name())));
    text.push_str("\n| --- |");
    generated.iter().for_each(|_| text.push_str(" --- |"));
    text.push('\n');
    for name in names(generated) {
        let _ = write!(text, "| {name} |");
        for figures in generated {
            let cell = figures.row(name).map_or(String::new(), |row| cell(figures, row));
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
}

fn cell(figures: &Figures, row: &Row) -> String {
    let shown = row.ratio().map_or_else(|| figure(row.ours, row.unit), times);
    let mark = figures.target(row).map_or("", |target| match target.aim {
        Some(aim) if aim.is_met(row) => " ✓✓",
        _ if target.must.is_met(row) => " ✓",
        _ => " ✗",
    });
    shown + mark
}

/// What each class costs from size to size.
fn growth(text: &mut String, generated: &[&Figures]) {
    text.push_str("\n### Growth\n\n");
    text.push_str("Cost against size, and of searches against the number of messages that match.\n\n");
    text.push_str("![Cost against size](results/growth.svg)\n\n![Cost against matches](results/matches.svg)\n");
    let (Some(first), Some(last)) = (generated.first(), generated.last()) else { return };
    if first.messages == last.messages {
        return;
    }
    let _ = write!(
        text,
        "\nFrom {} to {} messages:\n\n| what | matches | ours | FTS5 |\n| --- | --- | --- | --- |\n",
        first.size_name(),
        last.size_name()
    );
    let timed = |row: &&Row| row.unit == Unit::Milliseconds && !row.name.contains("200 keys");
    for row in first.rows.iter().filter(timed) {
        let Some(later) = last.row(&row.name) else { continue };
        let times_more = |before: Option<f64>, after: Option<f64>| {
            before.zip(after).filter(|(before, _)| *before > 0.0).map_or(String::new(), |(b, a)| times(a / b))
        };
        let matches = times_more(row.matches.map(|n| n as f64), later.matches.map(|n| n as f64));
        let ours = times_more(Some(row.ours), Some(later.ours));
        let _ = writeln!(text, "| {} | {matches} | {ours} | {} |", row.name, times_more(row.fts5, later.fts5));
    }
}

fn details(text: &mut String, figures: &Figures) {
    let _ = write!(
        text,
        "\n### {}: {} messages, {} sessions\n\n\
         | what | ours | FTS5 | better | ours p99 | FTS5 p99 | repeats | matches |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        figures.corpus, figures.messages, figures.sessions
    );
    for row in &figures.rows {
        let show = |value: Option<f64>| value.map_or(String::new(), |value| figure(value, row.unit));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            show(Some(row.ours)),
            show(row.fts5),
            row.ratio().map_or(String::new(), times),
            show(row.ours_p99),
            show(row.fts5_p99),
            row.repeats.map_or(String::new(), |n| n.to_string()),
            row.matches.map_or(String::new(), |n| n.to_string()),
        );
    }
}
