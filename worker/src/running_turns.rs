//! Limits of running turns: a turn takes a place of its tenant when it starts, and keeps it until it ends, whichever worker runs it.
//!
//! A turn that finds no place waits in the queue without a slot. The places are permits of the rate limits, named by the thread, so
//! any worker frees the place of a turn whose worker died. Tenants without a limit cost nothing.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use queue::{
    BlockedBy, Job,
    rate_limits::{ActualUsage, Permit, RateLimiter, Reservation},
};
use store::ThreadId;
use tracing::warn;

use crate::{blocked::LIMITS_RETRY_DELAY, step::StepOutcome};

/// Maximum number of turns that run at the same time, by tenant.
#[derive(Clone, Debug, Default)]
pub struct MaxRunningTurns {
    /// Limits of tenants, by name. `None`: no limit.
    pub named: BTreeMap<String, Option<u64>>,
    /// Limit of each other tenant.
    pub others: Option<u64>,
}

impl MaxRunningTurns {
    fn permit(&self, thread: ThreadId, tenant: &str) -> Option<Permit> {
        let max = self.named.get(tenant).copied().unwrap_or(self.others)?;
        Some(Permit::of_turn(thread, tenant, max))
    }
}

/// Places of running turns.
pub(crate) struct RunningTurns {
    limits: Arc<dyn RateLimiter>,
    max: MaxRunningTurns,
}

impl RunningTurns {
    pub(crate) fn new(limits: Arc<dyn RateLimiter>, max: MaxRunningTurns) -> Self {
        Self { limits, max }
    }

    /// Takes a place for the next turn of a thread. Returns the outcome of the job if there is none.
    pub(crate) async fn enter(&self, thread: ThreadId, tenant: &str) -> Option<StepOutcome> {
        let permit = self.max.permit(thread, tenant)?;
        match self.limits.take(&thread.to_string(), permit).await {
            Ok(Reservation::Granted(_)) => None,
            Ok(Reservation::Wait { after, reason }) => {
                Some(StepOutcome::Blocked { after, why: BlockedBy::Limit.because(reason) })
            }
            Ok(Reservation::Unavailable(it)) => {
                Some(StepOutcome::Blocked { after: it.after, why: it.reason })
            }
            Err(error) => {
                warn!(%error, "cannot count the running turns of a tenant, so no turn starts; retrying in 1 s");
                let why = BlockedBy::Limit.because(error.to_string());
                Some(StepOutcome::Blocked { after: LIMITS_RETRY_DELAY, why })
            }
        }
    }

    /// Frees or renews the place of a thread after a job. `head` is present if the job knows the end of the log. Returns before the
    /// thread's next job can start: it might take the place that is freed.
    pub(crate) async fn after_job(&self, job: &Job, outcome: &StepOutcome, head: Option<u64>) {
        let Some(permit) = self.max.permit(job.thread, &job.lane.tenant) else { return };
        let is_over = match outcome {
            // Another worker may run the thread.
            StepOutcome::Idle | StepOutcome::NextTurn(_) if head.is_none() => return,
            StepOutcome::Continue => return,
            StepOutcome::Idle | StepOutcome::NextTurn(_) => true,
            StepOutcome::RetryLater { .. } | StepOutcome::Blocked { .. } => false,
        };
        let done = match is_over {
            true => self.limits.settle(&permit, ActualUsage::NONE).await,
            false => self.limits.renew(&permit).await,
        };
        if let Err(error) = done {
            warn!(%error, "cannot free or renew the place of a turn; it expires on its own");
        }
    }

    /// Keeps the places of turns whose jobs run.
    pub(crate) async fn renew(&self, jobs: &[Job]) {
        let permits = jobs.iter().filter_map(|job| self.max.permit(job.thread, &job.lane.tenant));
        let renew = async |permit: Permit| {
            if let Err(error) = self.limits.renew(&permit).await {
                warn!(%error, "cannot renew the place of a turn, retrying at the next renewal");
            }
        };
        join_all(permits.map(renew)).await;
    }
}
