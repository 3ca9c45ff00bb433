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

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(400), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The pause in milliseconds after `tries` tries that faltered, counting from 0.
    pub fn pause_ms(&self, tries: u32) -> u64 {
        let whole = self.base.saturating_mul(2_u32.saturating_pow(tries.min(16))).min(self.max);
        let half = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX) / 2;
        half + fastrand::u64(0..=half)
    }
}

#[test]
fn pauses_grow_up_to_the_cap() {
    let backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(1) };
    for (tries, whole) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1_000), (60, 1_000)] {
        let pause = backoff.pause_ms(tries);
        assert!((whole / 2..=whole).contains(&pause), "{tries}: {pause}");
    }
}
