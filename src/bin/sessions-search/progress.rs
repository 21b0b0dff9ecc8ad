//! How far a long command has come: a bar on a terminal, JSON lines for programs, or nothing. On standard error.

use std::io::{self, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// What becomes of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nowhere,
    OnTerminal,
    AsJson,
}

/// Between two JSON lines of a phase, at least; work that is shorter shows no bar.
const PAUSE: Duration = Duration::from_millis(500);

/// One phase of a command. Dropping it ends it: the bar goes, the last JSON line comes.
pub(crate) struct Progress {
    phase: String,
    started: Instant,
    /// When the last JSON line was written.
    said: Instant,
    at: Option<At>,
    bar: Option<ProgressBar>,
    /// Its end tells the thread that shows the bar that there is nothing to show any more.
    _working: Option<Sender<()>>,
    as_json: bool,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct At {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// What `done` and `total` count.
    pub(crate) unit: &'static str,
    /// For people.
    pub(crate) detail: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLine<'p> {
    phase: &'p str,
    elapsed_ms: u128,
    #[serde(flatten)]
    at: Option<&'p At>,
    /// On average since the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

impl Progress {
    pub(crate) fn new(shown: Shown, phase: impl Into<String>) -> Self {
        let (phase, now) = (phase.into(), Instant::now());
        let (bar, working) = (shown == Shown::OnTerminal).then(|| spinner(&phase)).unzip();
        let as_json = shown == Shown::AsJson;
        let progress = Self { phase, started: now, said: now, at: None, bar, _working: working, as_json };
        progress.say(false);
        progress
    }

    /// Whether anybody looks.
    pub(crate) fn is_shown(&self) -> bool {
        self.as_json || self.bar.is_some()
    }

    pub(crate) fn at(&mut self, at: At) {
        if let Some(bar) = &self.bar {
            if self.at.is_none() {
                bar.set_style(counting(at.unit));
            }
            bar.set_length(at.total);
            bar.set_position(at.done);
            bar.set_message(at.detail.clone());
        }
        self.at = Some(at);
        if self.as_json && self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            self.say(false);
        }
    }

    fn say(&self, finished: bool) {
        if self.as_json {
            say(&JsonLine::of(&self.phase, self.started.elapsed(), self.at.as_ref(), finished));
        }
    }
}

impl<'p> JsonLine<'p> {
    fn of(phase: &'p str, elapsed: Duration, at: Option<&'p At>, finished: bool) -> Self {
        let per_second = |at: &At| at.done as f64 / elapsed.as_secs_f64();
        let rate = at.map(per_second).filter(|rate| rate.is_finite() && *rate > 0.0);
        let left = at.filter(|at| at.total > at.done && !finished).map(|at| (at.total - at.done) as f64);
        Self {
            phase,
            elapsed_ms: elapsed.as_millis(),
            at,
            per_second: rate.map(|rate| rate as u64),
            eta_ms: rate.zip(left).map(|(rate, left)| (left * 1_000.0 / rate) as u64),
            finished,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.say(true);
    }
}

/// The store's repair when it is opened after a crash: a few lines, for nobody tells when it is over.
pub(crate) fn repairing(shown: Shown, share: f64) {
    match shown {
        Shown::Nowhere => {}
        Shown::OnTerminal => {
            let _ = writeln!(io::stderr(), "repairing the store after a crash: {:.0} %", share * 100.0);
        }
        Shown::AsJson => {
            #[derive(Serialize)]
            struct Repairing {
                phase: &'static str,
                share: f64,
            }
            say(&Repairing { phase: "repair", share });
        }
    }
}

fn say<T: Serialize>(line: &T) {
    if let Ok(text) = serde_json::to_string(line) {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// A bar that is seen only where the work takes longer than a moment.
fn spinner(phase: &str) -> (ProgressBar, Sender<()>) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::default_spinner());
    bar.set_message(phase.to_owned());
    let (working, done) = mpsc::channel();
    let shown = bar.clone();
    std::thread::spawn(move || {
        if done.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(Duration::from_millis(200));
        }
    });
    (bar, working)
}

/// What matters most stands first: a narrow terminal cuts the end off.
fn counting(unit: &str) -> ProgressStyle {
    let template = match unit {
        "bytes" => "{percent:>3} %  {eta} left  {bar:16} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}",
        _ => "{percent:>3} %  {eta} left  {bar:16} {pos}/{len}  {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let line = |at: Option<&At>, seconds, finished| {
            serde_json::to_string(&JsonLine::of("import", Duration::from_secs(seconds), at, finished)).unwrap()
        };
        let at = At { done: 300, total: 900, unit: "bytes", detail: "1 files, 7 events".to_owned() };
        assert_eq!(
            line(Some(&at), 3, false),
            r#"{"phase":"import","elapsedMs":3000,"done":300,"total":900,"unit":"bytes","detail":"1 files, 7 events","perSecond":100,"etaMs":6000}"#
        );
        assert_eq!(line(None, 0, false), r#"{"phase":"import","elapsedMs":0}"#);
        assert!(line(Some(&at), 0, true).ends_with(r#"events","finished":true}"#), "no rate of no time, nothing left");
    }
}
