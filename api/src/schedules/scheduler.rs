//! Submits what is due: one task in every API process.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{HeaderName, HeaderValue},
};
use futures::{StreamExt as _, stream};
use queue::clock;
use serde_json::Value;
use shared::ScheduleTarget;
use store::schedules::{Firing, Schedule};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{catch_up, timetable::Timetable};
use crate::server::{
    principal::{Principal, USER_HEADER},
    problem::ApiError,
    rest::{Refusal, Rest},
    state::AppState,
};

/// Interval of checks for due firings.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of firings per round, and of those that are submitted at the same time.
const PER_ROUND: u32 = 64;
const AT_ONCE: usize = 8;

/// Delay before a firing that could not be submitted is submitted again, in microseconds.
const RETRY_DELAY: i64 = 5_000_000;

/// Submits due firings.
pub(crate) struct Scheduler {
    app: Arc<AppState>,
    routes: Router,
}

impl Scheduler {
    /// Creates a scheduler that submits to these routes.
    pub(crate) fn new(app: Arc<AppState>, routes: Router<Arc<AppState>>) -> Self {
        Self { routes: routes.with_state(Arc::clone(&app)), app }
    }

    /// Submits due firings until shutdown.
    pub(crate) async fn run(self) {
        let stop = self.app.stop.clone();
        let rounds = async {
            loop {
                match self.round().await {
                    Ok(0) => {}
                    Ok(_) => continue,
                    Err(error) => warn!(%error, "cannot read due schedules; retrying"),
                }
                sleep(CHECKED_EVERY).await;
            }
        };
        stop.run_until_cancelled(rounds).await;
    }

    /// Submits what is due now, and returns the number of schedules that are no longer due.
    async fn round(&self) -> Result<usize, store::Error> {
        let due = self.app.backends.store.due_schedules(PER_ROUND).await?;
        let firings: Vec<_> = due.iter().map(|schedule| self.fire(schedule)).collect();
        let fired: Vec<_> = stream::iter(firings).buffered(AT_ONCE).collect().await;
        let mut settled = 0;
        for (schedule, outcome) in due.iter().zip(fired) {
            match outcome {
                Ok(()) => settled += 1,
                Err(error) => {
                    warn!(schedule = %schedule.id, error = error.detail(), "cannot fire a schedule; retrying");
                }
            }
        }
        Ok(settled)
    }

    /// Submits a firing, and then moves the schedule to its next one.
    async fn fire(&self, schedule: &Schedule) -> Result<(), ApiError> {
        let store = &self.app.backends.store;
        let Some(rest) = self.rest(schedule).await? else {
            let reason = stopped_reason(schedule.holder.key.as_deref());
            warn!(schedule = %schedule.id, reason, "schedule stopped");
            return Ok(store.stop_schedule(schedule.id, &reason).await?);
        };
        let timetable = match Timetable::new(&schedule.cron, &schedule.zone) {
            Ok(timetable) => timetable,
            Err(error) => return self.stop(schedule, error.detail()).await,
        };
        let now = clock::now();
        let due = catch_up::due(&timetable, schedule.missed, schedule.next_at, now);
        let fired = match due {
            Some(at) => match submit(rest, schedule, at).await {
                Ok(id) => Some(Firing { at, outcome: Ok(id) }),
                Err(refusal) if is_temporary(refusal.status) => {
                    warn!(schedule = %schedule.id, error = refusal.error.message, "firing not accepted; retrying");
                    return Ok(store.retry_schedule(schedule, now + RETRY_DELAY).await?);
                }
                Err(refusal) => Some(Firing { at, outcome: Err(refusal.error.message) }),
            },
            None => None,
        };
        info!(schedule = %schedule.id, ?fired, "schedule fired");
        match timetable.after(due.unwrap_or(now)) {
            Some(next_at) => Ok(store.advance_schedule(schedule, fired, next_at).await?),
            None => {
                store.advance_schedule(schedule, fired, i64::MAX).await?;
                self.stop(schedule, "no further time comes").await
            }
        }
    }

    async fn stop(&self, schedule: &Schedule, reason: &str) -> Result<(), ApiError> {
        Ok(self.app.backends.store.stop_schedule(schedule.id, reason).await?)
    }

    /// Returns the routes as the holder of the schedule's key, or none if the key is no longer accepted.
    async fn rest(&self, schedule: &Schedule) -> Result<Option<Rest>, ApiError> {
        let Some(caller) = self.app.keys.with_id(schedule.holder.key.as_deref()).await? else {
            return Ok(None);
        };
        let tenant = (!schedule.holder.is_operator).then_some(schedule.tenant.as_str());
        let principal = Principal::on_behalf(caller, tenant);
        let author = HeaderValue::from_bytes(schedule.author.as_bytes());
        let author = author.map(|author| (HeaderName::from_static(USER_HEADER), author));
        Ok(Some(Rest::new(&self.routes, principal, author.into_iter().collect())))
    }
}

/// Submits a firing under its own key. Returns the id of the turn or batch.
async fn submit(rest: Rest, schedule: &Schedule, at: i64) -> Result<String, Refusal> {
    let path = match schedule.target {
        ScheduleTarget::Turn => "/v1/turns",
        ScheduleTarget::Batch => "/v1/batches",
    };
    let key = format!("schedule-{}-{}", schedule.id, clock::rfc3339(at));
    let created: Value = rest.with_idempotency_key(&key).post_text(path, schedule.body.clone()).await?;
    Ok(created["id"].as_str().unwrap_or_default().to_owned())
}

/// Reports whether a later attempt may succeed.
fn is_temporary(status: u16) -> bool {
    matches!(status, 429 | 500..=506 | 508..=599)
}

/// Explains why a schedule may submit nothing.
fn stopped_reason(key: Option<&str>) -> String {
    match key {
        Some(key) => format!("the key {key} was revoked, has expired or is no longer configured"),
        None => "it was created without a key, and the API now requires one".to_owned(),
    }
}
