//! How long to wait before a request is tried again, where the world did not say.

use std::time::Duration;

/// Exponential, capped, with jitter: half of the pause is fixed and half is drawn, so that what faltered together
/// does not come back together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The pause after the first falter.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
}

/// How many times longer each pause is than the one before.
///
/// ## Why so steep
///
/// A request has four tries: their three pauses carry it over the half minute for which a provider restarts or throttles,
/// and the first is short all the same.
const GROWTH: u32 = 4;

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(2), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The pause in milliseconds after `tries` tries that faltered, counting from 0.
    pub fn pause_ms(&self, tries: u32) -> u64 {
        let whole = self.base.saturating_mul(GROWTH.saturating_pow(tries.min(16))).min(self.max);
        let half = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX) / 2;
        half + fastrand::u64(0..=half)
    }
}

#[test]
fn pauses_grow_up_to_the_cap() {
    let backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(1) };
    for (tries, whole) in [(0, 100), (1, 400), (2, 1_000), (3, 1_000), (60, 1_000)] {
        let pause = backoff.pause_ms(tries);
        assert!((whole / 2..=whole).contains(&pause), "{tries}: {pause}");
    }
}

#[test]
fn all_tries_of_a_request_carry_it_over_half_a_minute() {
    let all = |_| (0..shared::FALTERS_MAX - 1).map(|tries| Backoff::default().pause_ms(tries)).sum::<u64>();
    for whole in (0..100).map(all) {
        assert!((20_000..=60_000).contains(&whole), "{whole} ms");
    }
}
