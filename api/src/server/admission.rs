//! Admission control for new turns: limits the number of queued turns. Turns submitted by batches do not count.
//!
//! Queued turns are counted at most once a second, by a count that stops slightly above the limit. Between counts, each API
//! process adds the turns that it admits itself. Several processes together may therefore exceed the limit by the turns of
//! one second.

use std::{collections::BTreeMap, time::Duration};

use store::Store;
use tokio::{sync::Mutex, time::Instant};

use super::{
    limit_warnings::LimitWarnings,
    problem::{ApiError, Kind},
};

/// Maximum age of a count.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum `Retry-After` in seconds.
const RETRY_AFTER_MAX: u16 = 60;

/// Admission control for new turns.
pub(crate) struct AdmissionControl {
    /// Limit for all tenants together.
    max: u64,
    /// Last count by tenant. The key of the count of all tenants is `None`.
    counts: Mutex<BTreeMap<Option<String>, Count>>,
    warnings: LimitWarnings,
}

/// A count of queued turns.
#[derive(Clone, Copy, Debug)]
struct Count {
    at: Instant,
    turns: u64,
    /// Turns admitted since the count.
    admitted: u64,
    /// Decrease since the previous count, and the time between the two.
    decrease: Option<(u64, Duration)>,
}

impl AdmissionControl {
    pub(crate) fn new(max: u64, warnings: LimitWarnings) -> Self {
        Self { max, counts: Mutex::default(), warnings }
    }

    /// Admits one more turn of a tenant, which may have a limit of its own.
    ///
    /// # Errors
    ///
    /// [`Kind::TooManyWait`] with a `Retry-After` if a limit is reached.
    pub(crate) async fn admit(&self, store: &Store, tenant: &str, own: Option<u64>) -> Result<(), ApiError> {
        let own = own.map(|max| (Some(tenant), max));
        let limits: Vec<_> = [Some((None, self.max)), own].into_iter().flatten().collect();
        // The lock is held during a count, so concurrent requests share it.
        let mut counts = self.counts.lock().await;
        for (tenant, max) in &limits {
            let key = tenant.map(str::to_owned);
            let count = Self::count(store, *tenant, *max, counts.get(&key).copied()).await?;
            counts.insert(key, count);
            if *max <= count.queued() {
                self.warnings.note(setting(*tenant), *tenant);
                return Err(too_many(*tenant, *max, &count));
            }
        }
        for (tenant, _) in &limits {
            if let Some(count) = counts.get_mut(&tenant.map(str::to_owned)) {
                count.admitted += 1;
            }
        }
        Ok(())
    }

    async fn count(
        store: &Store,
        tenant: Option<&str>,
        max: u64,
        before: Option<Count>,
    ) -> Result<Count, ApiError> {
        if let Some(count) = before.filter(|count| count.at.elapsed() < FRESH) {
            return Ok(count);
        }
        // Counting slightly beyond the limit shows a decrease.
        let enough = max.saturating_add(max / 10).saturating_add(1_000);
        let turns = store.queued(tenant, enough).await?;
        let decrease = before.map(|count| (count.turns.saturating_sub(turns), count.at.elapsed()));
        Ok(Count { at: Instant::now(), turns, admitted: 0, decrease })
    }
}

impl Count {
    fn queued(&self) -> u64 {
        self.turns.saturating_add(self.admitted)
    }

    /// Predicts the seconds until a turn can be admitted, from the recent decrease.
    fn retry_after(&self, max: u64) -> u16 {
        let excess = self.queued().saturating_sub(max).saturating_add(1);
        match self.decrease {
            // The next count shows the decrease.
            None => 1,
            Some((0, _)) => RETRY_AFTER_MAX,
            Some((decrease, within)) => {
                let ms = u128::from(excess) * within.as_millis() / u128::from(decrease);
                u16::try_from(ms.div_ceil(1_000)).unwrap_or(RETRY_AFTER_MAX).clamp(1, RETRY_AFTER_MAX)
            }
        }
    }
}

/// Returns the key of the limit in the configuration.
fn setting(tenant: Option<&str>) -> &'static str {
    if tenant.is_some() { "max_waiting_turns" } else { "waiting_max" }
}

fn too_many(tenant: Option<&str>, max: u64, count: &Count) -> ApiError {
    let seconds = count.retry_after(max);
    let detail = match tenant {
        Some(tenant) => format!("tenant {tenant} already has {max} queued turns"),
        None => format!("there are already {max} queued turns"),
    };
    let why = match count.decrease {
        Some((0, _)) => {
            "; the number has not decreased: GET /v1/queue (`turnfold queue list`) shows what the turns wait for"
        }
        None | Some(_) => "",
    };
    let hint =
        format!("send the request again in {seconds} s{why}; an operator can raise `{}`", setting(tenant));
    Kind::TooManyWait.because(detail).hint(hint).retry_after(seconds)
}

#[test]
fn retry_after_is_predicted_from_the_recent_decrease() {
    let count = |turns, decrease| Count { at: Instant::now(), turns, admitted: 5, decrease };
    let second = Duration::from_secs(1);
    for (turns, decrease, seconds) in [
        (95, None, 1),
        (95, Some((0, second)), 60),
        (95, Some((10, second)), 1),
        (194, Some((10, second)), 10),
        (194, Some((10, 2 * second)), 20),
        (100_000, Some((1, second)), 60),
    ] {
        assert_eq!(count(turns, decrease).retry_after(100), seconds, "{turns} {decrease:?}");
    }
    for (decrease, text) in [
        (None, "in 1 s; an operator"),
        (Some((0, second)), "in 60 s; the number has not decreased: GET /v1/queue"),
        (Some((10, second)), "in 1 s; an operator"),
    ] {
        let message = too_many(None, 100, &count(95, decrease)).message();
        assert!(message.contains(text), "{message}");
    }
}
