//! Wrong keys, slowed down and logged by the address that sends them.
//!
//! ## Why valid keys pass
//!
//! Behind a proxy or a shared connection, many clients have one address. A client that repeats a wrong key must not shut the
//! others out, also after a restart or a rotation. Valid keys are therefore never slowed down. An issued key costs one lookup by its
//! id; only unknown ids and wrong secrets are counted.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

/// Number of wrong keys that an address may send at once.
const BURST: u32 = 20;

/// Time after which an address may send another wrong key.
const REFILL: Duration = Duration::from_secs(3);

/// Maximum number of addresses that are distinguished.
const ADDRESSES_MAX: usize = 10_000;

/// Minimum time between two log lines about one address.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Wrong keys by address. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct WrongKeys(Arc<Mutex<BTreeMap<IpAddr, Bucket>>>);

/// Token bucket of one address.
struct Bucket {
    tokens: u32,
    /// Time of the last refill.
    refilled_at: Instant,
    /// Wrong keys since the last log line.
    unlogged: u64,
    /// True while a task waits to log the wrong keys of this interval.
    is_logging: bool,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST, refilled_at: now, unlogged: 0, is_logging: false }
    }

    fn refill(&mut self, now: Instant) {
        let refills = now.duration_since(self.refilled_at).as_nanos() / REFILL.as_nanos();
        let refills = u32::try_from(refills).unwrap_or(BURST).min(BURST);
        if refills != 0 {
            self.tokens = self.tokens.saturating_add(refills).min(BURST);
            self.refilled_at = if self.tokens == BURST { now } else { self.refilled_at + REFILL * refills };
        }
    }

    /// Returns the seconds until the next token, or none if there is one.
    fn wait(&self, now: Instant) -> Option<u16> {
        let rest = (self.refilled_at + REFILL).saturating_duration_since(now);
        (self.tokens == 0).then(|| u16::try_from(rest.as_secs().saturating_add(1)).unwrap_or(u16::MAX))
    }
}

impl WrongKeys {
    /// Notes a wrong key, and returns the seconds that its address must wait, if it has to.
    pub(crate) fn note(&self, address: IpAddr) -> Option<u16> {
        let (address, now) = (group(address), Instant::now());
        let mut buckets = self.lock();
        if ADDRESSES_MAX <= buckets.len() && !buckets.contains_key(&address) {
            warn!(
                addresses = ADDRESSES_MAX,
                "wrong keys from more addresses than are told apart; counting again"
            );
            buckets.clear();
        }
        let bucket = buckets.entry(address).or_insert_with(|| Bucket::new(now));
        bucket.refill(now);
        let wait = bucket.wait(now);
        bucket.tokens = bucket.tokens.saturating_sub(1);
        if bucket.is_logging {
            bucket.unlogged = bucket.unlogged.saturating_add(1);
        } else {
            bucket.is_logging = true;
            warn!(%address, count = 1, "wrong API key or reply of a sign-in");
            let this = self.clone();
            tokio::spawn(async move { this.log_later(address).await });
        }
        wait
    }

    /// Logs further wrong keys of an address once in each interval, until there are none.
    async fn log_later(&self, address: IpAddr) {
        loop {
            tokio::time::sleep(LOG_INTERVAL).await;
            let mut buckets = self.lock();
            let Some(bucket) = buckets.get_mut(&address) else { return };
            let count = std::mem::take(&mut bucket.unlogged);
            if count == 0 {
                bucket.is_logging = false;
                bucket.refill(Instant::now());
                if bucket.tokens == BURST {
                    buckets.remove(&address);
                }
                return;
            }
            drop(buckets);
            warn!(%address, count, "wrong API keys or replies of sign-ins in the last minute");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address that stands for all addresses of one client: for IPv6, its network of 64 bits.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_slowed_down_and_recovers() {
        let keys = WrongKeys::default();
        let (slowed, other) = (address("192.0.2.1"), address("192.0.2.2"));
        for nth in 0..BURST {
            assert_eq!(keys.note(slowed), None, "{nth}");
        }
        assert_eq!((keys.note(slowed), keys.note(other)), (Some(4), None));
        assert_eq!(keys.note(address("::ffff:192.0.2.1")), Some(4), "the same address in another form");
        tokio::time::sleep(REFILL).await;
        assert_eq!((keys.note(slowed), keys.note(slowed).is_some()), (None, true));
        tokio::time::sleep(BURST * REFILL).await;
        for nth in 0..BURST {
            assert_eq!(keys.note(slowed), None, "{nth}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_empties() {
        let keys = WrongKeys::default();
        for nth in 0..25_000_u32 {
            keys.note(IpAddr::V4(nth.into()));
        }
        assert!(keys.lock().len() <= ADDRESSES_MAX);
        for nth in 0..100_u128 {
            keys.note(Ipv6Addr::from_bits((0x2001_0db8 << 96) + nth).into());
        }
        assert!(keys.note(address("2001:db8::ffff")).is_some(), "one network is one client");
        tokio::time::sleep(3 * LOG_INTERVAL).await;
        assert_eq!(keys.lock().len(), 0);
    }
}
