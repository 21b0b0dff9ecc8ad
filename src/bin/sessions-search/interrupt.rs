//! Ctrl-C: the first ends the work at hand where it may end, the second the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::INTERRUPTED;

/// Becomes true at the first interrupt.
pub(crate) fn on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    // Where the system gives no handler an interrupt ends the program at once: what is committed stays.
    let _ = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    });
    stop
}

/// Sleeps, unless interrupted. Tells whether it was.
pub(crate) fn sleep(stop: &AtomicBool, time: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let mut left = time;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let step = left.min(STEP);
        std::thread::sleep(step);
        left -= step;
    }
    stop.load(Ordering::Relaxed)
}
