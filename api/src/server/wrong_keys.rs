//! Wrong keys, slowed down and logged by the address that sends them.
//!
//! ## Why valid keys pass
//!
//! Behind a proxy or a shared connection, many clients have one address. A client that repeats a wrong key must not shut the
//! others out, also after a restart or a rotation. Valid keys are therefore never slowed down. An issued key costs one lookup by its
//! id; only unknown ids and wrong secrets are counted.
//!
//! The code of a sign-in costs a request to the issuer before it is known to be wrong. It is counted in advance, and taken back if it is
//! right: neither many codes at once nor requests that are given up get past the limit.

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
    /// True if there was a log line in this interval.
    was_logged: bool,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST, refilled_at: now, unlogged: 0, was_logged: false }
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
        let address = group(address);
        let mut buckets = self.lock();
        let bucket = self.bucket(&mut buckets, address);
        let wait = bucket.wait(Instant::now());
        bucket.tokens = bucket.tokens.saturating_sub(1);
        if bucket.was_logged {
            bucket.unlogged = bucket.unlogged.saturating_add(1);
        } else {
            bucket.was_logged = true;
            warn!(%address, count = 1, "wrong API key or reply of a sign-in");
        }
        wait
    }

    /// Counts a wrong key before it is checked. Returns false, and counts none, if its address may send no more at once.
    pub(crate) fn reserve(&self, address: IpAddr) -> bool {
        let mut buckets = self.lock();
        let bucket = self.bucket(&mut buckets, group(address));
        let has_token = bucket.tokens != 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        has_token
    }

    /// Takes back what was counted before the check.
    pub(crate) fn release(&self, address: IpAddr) {
        if let Some(bucket) = self.lock().get_mut(&group(address)) {
            bucket.tokens = bucket.tokens.saturating_add(1).min(BURST);
        }
    }

    /// Returns the bucket of an address with all its tokens of now. A new bucket is watched until it is full again.
    fn bucket<'a>(&self, buckets: &'a mut BTreeMap<IpAddr, Bucket>, address: IpAddr) -> &'a mut Bucket {
        if ADDRESSES_MAX <= buckets.len() && !buckets.contains_key(&address) {
            warn!(
                addresses = ADDRESSES_MAX,
                "wrong keys from more addresses than are told apart; counting again"
            );
            buckets.clear();
        }
        let now = Instant::now();
        let bucket = buckets.entry(address).or_insert_with(|| {
            let this = self.clone();
            tokio::spawn(async move { this.watch(address).await });
            Bucket::new(now)
        });
        bucket.refill(now);
        bucket
    }

    /// Logs further wrong keys of an address once in each interval, until there are none and its bucket is full.
    async fn watch(&self, address: IpAddr) {
        loop {
            tokio::time::sleep(LOG_INTERVAL).await;
            let mut buckets = self.lock();
            let Some(bucket) = buckets.get_mut(&address) else { return };
            let count = std::mem::take(&mut bucket.unlogged);
            bucket.refill(Instant::now());
            bucket.was_logged = count != 0;
            if count == 0 && bucket.tokens == BURST {
                buckets.remove(&address);
                return;
            }
            drop(buckets);
            if count != 0 {
                warn!(%address, count, "wrong API keys or replies of sign-ins in the last minute");
            }
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
    async fn what_is_counted_in_advance_is_a_wrong_key_until_it_is_taken_back() {
        let keys = WrongKeys::default();
        let client = address("192.0.2.1");
        for nth in 0..BURST {
            assert!(keys.reserve(client), "{nth}");
        }
        assert!(!keys.reserve(client) && keys.note(client).is_some() && keys.reserve(address("192.0.2.2")));
        keys.release(client);
        assert!(keys.reserve(client) && !keys.reserve(client));
        tokio::time::sleep(REFILL).await;
        assert!(keys.reserve(client) && !keys.reserve(client));
        tokio::time::sleep(4 * LOG_INTERVAL).await;
        assert_eq!(keys.lock().len(), 0, "what was given up is forgotten");
        keys.release(client);
        assert_eq!(keys.lock().len(), 0);
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
