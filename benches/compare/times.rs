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

/// Processor time of this thread: that of a search on an idle machine, and hardly more on a busy one, where long
/// operations are interrupted and short ones are not.
pub fn cpu_timed<R>(run: impl FnOnce() -> R) -> (Duration, R) {
    let started = thread_time();
    let result = run();
    (thread_time() - started, result)
}

#[expect(unsafe_code, reason = "the standard library has no clock of a thread's processor time")]
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes, and the clock is one that every Unix has.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the thread's clock can be read");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
