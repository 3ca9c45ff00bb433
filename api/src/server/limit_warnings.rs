//! Warnings of limits that refuse requests or close connections: at most one a minute for each limit and tenant, with their number.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tracing::warn;

/// Time between two warnings of one limit.
const INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of limits that are counted at the same time.
const LIMITS_MAX: usize = 1_024;

/// A limit, by its key in the configuration, and the tenant that it is about; none for a limit of all tenants.
type Limit = (&'static str, Option<String>);

/// Refusals by limit since its last warning. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LimitWarnings(Arc<Mutex<BTreeMap<Limit, u64>>>);

impl LimitWarnings {
    /// Notes a refusal. The first is logged at once, further ones together at the end of each interval.
    pub(crate) fn note(&self, limit: &'static str, tenant: Option<&str>) {
        let key = (limit, tenant.map(str::to_owned));
        let mut refusals = self.lock();
        if let Some(count) = refusals.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if refusals.len() < LIMITS_MAX {
            refusals.insert(key.clone(), 0);
            drop(refusals);
            warn_of(&key, 1);
            let this = self.clone();
            tokio::spawn(async move { this.warn_later(key).await });
        }
    }

    async fn warn_later(&self, key: Limit) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let mut refusals = self.lock();
            let count = refusals.get_mut(&key).map_or(0, std::mem::take);
            if count == 0 {
                refusals.remove(&key);
                return;
            }
            drop(refusals);
            warn_of(&key, count);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Limit, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn_of((limit, tenant): &Limit, times: u64) {
    warn!(
        limit,
        tenant = tenant.as_deref(),
        times,
        "a limit is reached; the API refuses requests or closes connections"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_between_two_warnings() {
        let warnings = LimitWarnings::default();
        let counts = || warnings.lock().values().copied().collect::<Vec<_>>();
        for _ in 0..3 {
            warnings.note("waiting_max", None);
        }
        warnings.note("max_waiting_turns", Some("acme"));
        assert_eq!(counts(), [0, 2], "the first of each is logged at once");
        tokio::time::sleep(INTERVAL + Duration::from_secs(1)).await;
        assert_eq!(counts(), [0], "two are logged together, and the other limit is forgotten");
        warnings.note("waiting_max", None);
        assert_eq!(counts(), [1], "no further line before the interval ends");
        tokio::time::sleep(3 * INTERVAL).await;
        assert!(counts().is_empty());
    }

    #[tokio::test]
    async fn the_number_of_limits_is_bounded() {
        let warnings = LimitWarnings::default();
        for nth in 0..2 * LIMITS_MAX {
            warnings.note("max_waiting_turns", Some(&format!("tenant-{nth}")));
        }
        assert_eq!(warnings.lock().len(), LIMITS_MAX);
    }
}
