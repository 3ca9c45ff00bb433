//! Delay before a failed request is attempted again, if the endpoint did not name one.

use std::time::Duration;

/// Exponential backoff with a maximum and jitter: half of the delay is fixed and half is random, so that requests that
/// failed together do not return together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first failed attempt.
    pub base: Duration,
    /// Maximum delay between two attempts.
    pub max: Duration,
}

/// Factor between successive delays.
///
/// ## Why so steep
///
/// A request has four attempts. Their three delays cover the half minute for which a provider restarts or throttles,
/// and the first delay is still short.
const GROWTH: u32 = 4;

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(2), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// Returns the delay in milliseconds after `attempts` failed attempts, counting from 0.
    pub fn delay_ms(&self, attempts: u32) -> u64 {
        let whole = self.base.saturating_mul(GROWTH.saturating_pow(attempts.min(16))).min(self.max);
        let half = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX) / 2;
        half + fastrand::u64(0..=half)
    }
}

#[test]
fn delays_grow_up_to_the_maximum() {
    let backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(1) };
    for (attempts, whole) in [(0, 100), (1, 400), (2, 1_000), (3, 1_000), (60, 1_000)] {
        let delay = backoff.delay_ms(attempts);
        assert!((whole / 2..=whole).contains(&delay), "{attempts}: {delay}");
    }
}

#[test]
fn all_attempts_of_a_request_together_span_half_a_minute() {
    let all =
        |_| (0..shared::ATTEMPTS_MAX - 1).map(|attempts| Backoff::default().delay_ms(attempts)).sum::<u64>();
    for whole in (0..100).map(all) {
        assert!((20_000..=60_000).contains(&whole), "{whole} ms");
    }
}
