//! How far long work is, on standard error: a line that moves at a terminal, JSON lines where they were asked for.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::text::counted;

/// Work that is shorter shows nothing at a terminal.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two JSON lines, and between two pictures of the bar.
const INTERVAL: Duration = Duration::from_millis(200);

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Nobody,
    Person,
    Program,
}

/// One piece of work under way. The bar goes when this is dropped.
pub(crate) struct Progress {
    phase: String,
    unit: &'static str,
    began: Instant,
    at: At,
    told: Option<Instant>,
    bar: Option<Bar>,
    is_json: bool,
}

/// How far it is. A total of 0 is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct At {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// What else is counted, by its noun in the singular.
    pub(crate) counts: Vec<(&'static str, u64)>,
}

struct Bar {
    bar: ProgressBar,
    /// Its end wakes the thread that shows the bar.
    _working: Sender<()>,
}

/// One JSON line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'l> {
    phase: &'l str,
    unit: &'l str,
    done: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    counts: BTreeMap<String, u64>,
    elapsed_ms: u64,
    /// On average since the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_ms: Option<u64>,
    finished: bool,
}

impl Progress {
    /// `unit` is what `done` counts, in the plural.
    pub(crate) fn new(audience: Audience, phase: &str, unit: &'static str) -> Self {
        let mut progress = Self {
            phase: phase.to_owned(),
            unit,
            began: Instant::now(),
            at: At::default(),
            told: None,
            bar: (audience == Audience::Person).then(|| Bar::new(phase)),
            is_json: audience == Audience::Program,
        };
        progress.tell(false);
        progress
    }

    pub(crate) fn report(&mut self, at: At) {
        self.at = at;
        if let Some(Bar { bar, .. }) = &self.bar {
            if bar.length() != Some(self.at.total) {
                bar.set_length(self.at.total);
                bar.set_style(style(self.unit, self.at.total > 0));
            }
            bar.set_position(self.at.done);
            let counts: Vec<String> = self.at.counts.iter().map(|(noun, count)| counted(*count, noun)).collect();
            bar.set_message(counts.join(", "));
        }
        if self.told.is_none_or(|told| told.elapsed() >= INTERVAL) {
            self.tell(false);
        }
    }

    /// It came to its end. Work that fails or is interrupted says nothing more.
    pub(crate) fn finish(mut self) {
        self.tell(true);
    }

    fn tell(&mut self, finished: bool) {
        if !self.is_json {
            return;
        }
        self.told = Some(Instant::now());
        let line = Line::of(self, self.began.elapsed(), finished);
        if let Ok(text) = serde_json::to_string(&line) {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

impl<'l> Line<'l> {
    fn of(progress: &'l Progress, elapsed: Duration, finished: bool) -> Self {
        let At { done, total, counts } = &progress.at;
        let seconds = elapsed.as_secs_f64();
        let rate = (*done > 0 && seconds > 0.0).then(|| *done as f64 / seconds);
        let left = (*total > 0 && !finished).then(|| total.saturating_sub(*done));
        Self {
            phase: &progress.phase,
            unit: progress.unit,
            done: *done,
            total: (*total > 0).then_some(*total),
            counts: counts.iter().map(|(noun, count)| (format!("{noun}s"), *count)).collect(),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            per_second: rate.map(|rate| rate as u64),
            eta_ms: rate.zip(left).map(|(rate, left)| (left as f64 * 1_000.0 / rate) as u64),
            finished,
        }
    }
}

impl Bar {
    fn new(phase: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        bar.set_style(style("", false));
        bar.set_prefix(phase.to_owned());
        let (working, done) = mpsc::channel();
        let shown = bar.clone();
        std::thread::spawn(move || {
            if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(INTERVAL);
            }
        });
        Self { bar, _working: working }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What matters most stands first: a narrow terminal cuts the end off.
fn style(unit: &str, has_total: bool) -> ProgressStyle {
    let template = match (has_total, unit) {
        (false, _) => "{spinner} {prefix}  {elapsed}  {msg}".to_owned(),
        (true, "bytes") => {
            "{prefix} {percent:>3} %  {eta} left  {bar:16} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}".to_owned()
        }
        (true, unit) => {
            format!(
                "{{prefix}} {{percent:>3}} %  {{eta}} left  {{bar:16}} {{pos}}/{{len}} {unit}  {{per_sec}}  {{msg}}"
            )
        }
    };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: At, seconds: u64, finished: bool) -> String {
        let mut progress = Progress::new(Audience::Nobody, "import", "bytes");
        progress.at = at;
        serde_json::to_string(&Line::of(&progress, Duration::from_secs(seconds), finished)).unwrap()
    }

    #[test]
    fn a_line_says_what_is_known() {
        assert_eq!(
            line(At { done: 300, total: 900, counts: vec![("file", 1), ("event", 7)] }, 3, false),
            r#"{"phase":"import","unit":"bytes","done":300,"total":900,"counts":{"events":7,"files":1},"elapsedMs":3000,"perSecond":100,"etaMs":6000,"finished":false}"#
        );
        assert_eq!(
            line(At::default(), 0, false),
            r#"{"phase":"import","unit":"bytes","done":0,"counts":{},"elapsedMs":0,"finished":false}"#
        );
        assert!(
            line(At { done: 9, total: 9, counts: Vec::new() }, 1, true).ends_with(r#""perSecond":9,"finished":true}"#)
        );
    }
}
