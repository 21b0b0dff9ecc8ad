//! How far a long command has come: a bar on a terminal, JSON lines for programs, or nothing. On standard error.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// What becomes of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nowhere,
    OnTerminal,
    AsJson,
}

/// Between two JSON lines of a phase, at least.
const PAUSE: Duration = Duration::from_millis(500);

/// One phase of a command. Dropping it ends it: the bar goes, the last JSON line comes.
pub(crate) struct Progress {
    phase: String,
    started: Instant,
    /// When the last JSON line was written.
    said: Instant,
    at: Option<At>,
    bar: Option<ProgressBar>,
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

impl Progress {
    pub(crate) fn new(shown: Shown, phase: impl Into<String>) -> Self {
        let (phase, now) = (phase.into(), Instant::now());
        let bar = (shown == Shown::OnTerminal).then(|| spinner(&phase));
        let progress = Self { phase, started: now, said: now, at: None, bar, as_json: shown == Shown::AsJson };
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
            let elapsed_ms = self.started.elapsed().as_millis();
            say(&JsonLine { phase: &self.phase, elapsed_ms, at: self.at.as_ref(), finished });
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

fn spinner(phase: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(phase.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn counting(unit: &str) -> ProgressStyle {
    let template = match unit {
        "bytes" => "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left  {msg}",
        _ => "{wide_bar} {pos}/{len} {eta} left  {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
