//! Durations of one operation, repeated.

use std::time::{Duration, Instant};

/// Sorted when asked.
#[derive(Debug, Default, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The smallest time that at least `share` of all do not exceed, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1;
        ms(sorted[at])
    }

    pub fn median_ms(&self) -> f64 {
        self.quantile_ms(0.5)
    }
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn timed<R>(run: impl FnOnce() -> R) -> (Duration, R) {
    let started = Instant::now();
    let result = run();
    (started.elapsed(), result)
}
