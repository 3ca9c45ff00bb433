//! Rate limits within one process. Their counts are lost when the process ends.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    limiter::{
        ActualUsage, DAY_SECONDS, Demand, Measure, Permit, RateLimiter, Reservation, SETTLE_GRACE, Timing,
    },
    window::Window,
};
use crate::{clock, error::QueueError};

/// Rate limits within one process. Clones share their counters.
#[derive(Clone, Debug)]
pub struct MemoryRateLimiter {
    timing: Timing,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    windows: BTreeMap<String, Window>,
    /// Permits that can still be settled: the end of that time, and the day on which each was granted.
    permits: BTreeMap<Uuid, (Instant, i64)>,
}

impl MemoryRateLimiter {
    /// Creates a limiter with no usage.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self { timing, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics in the middle of a change, so a poisoned lock guards valid data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RateLimiter for MemoryRateLimiter {
    async fn reserve(&self, requester: &str, demands: &[Demand]) -> Result<Reservation, QueueError> {
        let (now, seconds) = (Instant::now(), clock::now() / 1_000_000);
        let demands: Vec<Demand> = demands.iter().map(Demand::capped).collect();
        let mut state = self.state();
        state.permits.retain(|_, (until, _)| now < *until);
        let mut longest: Option<(Duration, &Demand, Measure)> = None;
        for demand in &demands {
            let window = state.windows.entry(demand.subject.key()).or_default();
            window.expire(now, self.timing.minute);
            for (after, measure) in window.exceeded(requester, demand, now, seconds, self.timing.minute) {
                if longest.is_none_or(|(before, ..)| before < after) {
                    longest = Some((after, demand, measure));
                }
            }
        }
        if let Some((after, demand, measure)) = longest {
            let window = state.windows.entry(demand.subject.key()).or_default();
            let after = window.add_waiting(requester, demand, measure, after, now);
            return Ok(Reservation::Wait { after, reason: measure.explain(demand, seconds) });
        }
        let (id, day) = (Uuid::now_v7(), seconds.div_euclid(DAY_SECONDS));
        state.permits.insert(id, (now + self.timing.permit_ttl + SETTLE_GRACE, day));
        for demand in &demands {
            let window = state.windows.entry(demand.subject.key()).or_default();
            window.remove_waiting(&demand.tenant, requester);
            window.grant(id, demand, now, now + self.timing.permit_ttl, day);
        }
        Ok(Reservation::Granted(Permit { id, demands }))
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let until = Instant::now() + self.timing.permit_ttl;
        let mut state = self.state();
        if let Some((settle_until, _)) = state.permits.get_mut(&permit.id) {
            *settle_until = until + SETTLE_GRACE;
        }
        for demand in &permit.demands {
            if let Some(window) = state.windows.get_mut(&demand.subject.key()) {
                window.renew(permit.id, until);
            }
        }
        Ok(())
    }

    async fn settle(&self, permit: &Permit, usage: ActualUsage) -> Result<(), QueueError> {
        let mut state = self.state();
        let Some((_, day)) = state.permits.remove(&permit.id) else { return Ok(()) };
        for demand in &permit.demands {
            if let Some(window) = state.windows.get_mut(&demand.subject.key()) {
                window.settle(permit.id, demand, usage, day);
            }
        }
        Ok(())
    }

    fn timing(&self) -> Timing {
        self.timing
    }
}
