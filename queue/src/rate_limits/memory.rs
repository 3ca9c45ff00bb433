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
    answers::RecentAnswers,
    availability::{Availability, CROWD_PART, Refusal, Standing, log_recovery},
    limiter::{
        ActualUsage, CROWD_PAUSE, DAY_SECONDS, Demand, Measure, Permit, RateLimiter, Reservation,
        SETTLE_GRACE, Subject, Timing,
    },
    window::Window,
};
use crate::{clock, error::QueueError};

/// Rate limits within one process. Clones share their counters.
#[derive(Clone, Debug)]
pub struct MemoryRateLimiter {
    timing: Timing,
    state: Arc<Mutex<State>>,
    answers: Arc<RecentAnswers>,
}

#[derive(Debug, Default)]
struct State {
    windows: BTreeMap<String, Window>,
    /// Permits that can still be settled: the end of that time, and the day on which each was granted.
    permits: BTreeMap<Uuid, (Instant, i64)>,
    /// Subjects that refused a request lately.
    refusing: BTreeMap<Subject, Availability>,
}

/// Obstacle to a reservation.
enum Obstacle<'a> {
    Limit(Measure),
    Refusal(&'a Availability),
}

impl MemoryRateLimiter {
    /// Creates a limiter with no usage.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self { timing, state: Arc::default(), answers: Arc::new(RecentAnswers::new()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics in the middle of a change, so a poisoned lock guards valid data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RateLimiter for MemoryRateLimiter {
    async fn take(&self, requester: &str, permit: Permit) -> Result<Reservation, QueueError> {
        let (now, seconds, ms) = (Instant::now(), clock::now() / 1_000_000, self.answers.now());
        let Permit { id, demands, ttl } = &permit;
        let mut state = self.state();
        let State { windows, permits, refusing } = &mut *state;
        permits.retain(|_, (until, _)| now < *until);
        if permits.contains_key(id) {
            return Ok(Reservation::Granted(permit));
        }
        refusing.retain(|_, refusal| !refusal.is_over(ms));
        let mut longest: Option<(Duration, &Demand, Obstacle<'_>)> = None;
        let mut add = |after, demand, obstacle| {
            if longest.as_ref().is_none_or(|(before, ..)| *before < after) {
                longest = Some((after, demand, obstacle));
            }
        };
        for demand in demands {
            let window = windows.entry(demand.subject.key()).or_default();
            window.expire(now, self.timing.minute);
            for (after, measure) in window.exceeded(requester, demand, now, seconds, self.timing.minute) {
                add(after, demand, Obstacle::Limit(measure));
            }
            if let Some(refusal) = refusing.get(&demand.subject).filter(|refusal| 0.0 < refusal.wait(ms)) {
                add(duration(refusal.wait(ms)), demand, Obstacle::Refusal(refusal));
            }
        }
        if let Some((after, demand, obstacle)) = longest {
            // Tokens are not kept for a request that waits for something else.
            for other in demands.iter().filter(|other| other.subject != demand.subject) {
                windows.entry(other.subject.key()).or_default().release_kept_tokens(requester);
            }
            let window = windows.entry(demand.subject.key()).or_default();
            let mut wait = |for_tokens, crowd_pause| {
                window.add_waiting(requester, demand, for_tokens, crowd_pause, after, now)
            };
            return Ok(match obstacle {
                Obstacle::Limit(measure) => Reservation::Wait {
                    after: wait(measure == Measure::Tokens, CROWD_PAUSE),
                    reason: measure.explain(demand, seconds),
                },
                Obstacle::Refusal(refusal) => {
                    let after = wait(false, CROWD_PAUSE.max(duration(refusal.spacing() * CROWD_PART)));
                    Reservation::Unavailable(Standing { after, ..standing(refusal, &demand.subject, ms, ms) })
                }
            });
        }
        let day = seconds.div_euclid(DAY_SECONDS);
        permits.insert(*id, (now + *ttl + SETTLE_GRACE, day));
        for demand in demands {
            if let Some(refusal) = refusing.get_mut(&demand.subject) {
                refusal.grant(ms);
            }
            let window = windows.entry(demand.subject.key()).or_default();
            window.remove_waiting(&demand.tenant, requester);
            window.grant(*id, demand, now, now + *ttl, day);
        }
        Ok(Reservation::Granted(permit))
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let until = Instant::now() + permit.ttl;
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

    async fn refused(&self, refusal: &Refusal) -> Result<Standing, QueueError> {
        let (now, seconds) = (self.answers.now(), clock::now() / 1_000_000);
        let (subject, mut state) = (&refusal.subject, self.state());
        state.refusing.retain(|_, refusal| !refusal.is_over(now));
        let new = || Availability::new(now, self.answers.rate(subject));
        let record = state.refusing.entry(subject.clone()).or_insert_with(new);
        let counted = record.refused(now, seconds, refusal);
        let standing = standing(record, subject, now, now - refusal.sent_ago.as_secs_f64() * 1_000.0);
        drop(state);
        if let Some(refusals) = counted {
            standing.log_pause(subject, refusals);
        }
        Ok(standing)
    }

    fn answered(&self, subject: &Subject, sent_ago: Duration) {
        self.answers.add(subject);
        let now = self.answers.now();
        let mut state = self.state();
        let Some(record) = state.refusing.get_mut(subject) else { return };
        let out_for = record.answered(now, now - sent_ago.as_secs_f64() * 1_000.0);
        drop(state);
        if let Some(out_for) = out_for {
            log_recovery(subject, duration(out_for));
        }
    }

    async fn forget(&self, subject: &Subject) -> Result<(), QueueError> {
        self.state().refusing.remove(subject);
        self.answers.forget(subject);
        Ok(())
    }

    fn is_refusing(&self, subject: &Subject) -> bool {
        let now = self.answers.now();
        self.state().refusing.get(subject).is_some_and(|refusal| !refusal.is_over(now))
    }

    fn timing(&self) -> Timing {
        self.timing
    }
}

fn standing(record: &Availability, subject: &Subject, now: f64, sent: f64) -> Standing {
    let (since, last) = record.cause();
    Standing {
        after: duration(record.wait(now)),
        out_for: record.out_for(now).map(duration),
        reason: Standing::explain(subject, since, last),
        answers_others: record.answered_after(sent),
    }
}

fn duration(ms: f64) -> Duration {
    Duration::from_secs_f64((ms / 1_000.0).max(0.0))
}
