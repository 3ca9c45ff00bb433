//! The load of the deployment, and the rest of the indexing task that follows from it.
//!
//! ## Why it rests by the time that it worked
//!
//! A round that waits for a loaded database takes longer, and the rest after it grows with it. The share of the task stays below
//! 3 % of one connection while turns run, whatever the machine.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

/// A second in microseconds.
pub(super) const SECOND: i64 = 1_000_000;

/// Appends and steps per second above which turns count as running.
const BUSY: f64 = 20.0;

/// Rest after a round, in times of its duration: while turns run, and otherwise.
const REST_BUSY: u32 = 40;
const REST_IDLE: u32 = 1;

/// Longest rest after a round that found something.
const REST_MAX: Duration = Duration::from_secs(20);

/// Rest after a round that found nothing.
const REST_EMPTY: Duration = Duration::from_secs(1);

/// Load, as it was last measured.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Time of the last sign of life of this process.
    pub(super) beat_at: AtomicI64,
    /// Time and appends of this process at the last measurement.
    at: AtomicI64,
    appends: AtomicU64,
    /// Appends of this process and steps of all workers per second, in thousandths.
    own: AtomicU64,
    pub(super) workers: AtomicU64,
}

impl Load {
    /// Measures the appends of this process.
    pub(super) fn measure(&self, appends: u64, now: i64) {
        let (at, before) = (self.at.load(Ordering::Relaxed), self.appends.load(Ordering::Relaxed));
        if at == 0 {
            // Unknown yet, and taken for busy.
            self.own.store((BUSY * 1_000.0) as u64, Ordering::Relaxed);
            self.at.store(now, Ordering::Relaxed);
            self.appends.store(appends, Ordering::Relaxed);
            return;
        }
        if now - at < SECOND {
            return;
        }
        let seconds = (now - at) as f64 / SECOND as f64;
        let rate = appends.saturating_sub(before) as f64 / seconds;
        self.own.store((rate * 1_000.0) as u64, Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
        self.appends.store(appends, Ordering::Relaxed);
    }

    fn is_busy(&self) -> bool {
        let sum = self.own.load(Ordering::Relaxed) + self.workers.load(Ordering::Relaxed);
        (BUSY * 1_000.0) as u64 <= sum
    }

    /// Returns the rest after a round that took this long.
    pub(super) fn rest(&self, took: Duration, found: bool) -> Duration {
        if !found {
            return REST_EMPTY;
        }
        took.saturating_mul(if self.is_busy() { REST_BUSY } else { REST_IDLE }).min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_rests_longer_while_turns_run() {
        let load = Load::default();
        let took = Duration::from_millis(5);
        load.measure(0, SECOND);
        assert_eq!(load.rest(took, true), took * REST_BUSY, "nothing is known yet");
        load.measure(0, 2 * SECOND);
        assert_eq!(load.rest(took, true), took);
        load.measure(500, 3 * SECOND);
        assert_eq!(load.rest(took, true), took * REST_BUSY);
        assert_eq!(load.rest(took, false), REST_EMPTY);
        load.measure(501, 4 * SECOND);
        assert_eq!(load.rest(took, true), took);
    }
}
