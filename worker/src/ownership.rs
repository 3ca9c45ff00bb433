//! Ownership of a busy thread: another worker's thread is left alone, and so is a parked one.

use std::time::Duration;

use queue::{BlockedBy, Job};
use shared::RunStatus;
use store::Error;
use threads::{Log, ThreadLog};
use tracing::{debug, warn};

use crate::step::{StepOutcome, StepRunner};

/// Delay before a thread that another worker runs is checked again. That worker has a job of its own, so the delay
/// matters only for a job enqueued just as that one ends.
const BUSY_DELAY: Duration = Duration::from_secs(5);

/// Error of a turn that is sent to a parked thread.
const PARKED: &str = "the thread is parked because an earlier turn failed half-way; hint: cancel that turn, or fix the cause of its \
                      failure and run: turnfold store rebuild; then submit this turn again";

impl<L: Log> StepRunner<L> {
    /// Returns the outcome of a job whose busy thread must not be continued here; `None` if this worker may continue
    /// it.
    ///
    /// ## Why a lease is not enough
    ///
    /// One thread may have two jobs: it was enqueued while a delayed job was pending or while a worker ran it. Within
    /// one process they merge. But a worker that finds a request just started by another would take that worker for
    /// dead: it would send the request again, pay twice, and mark a write in flight as in doubt. The job of a dead
    /// worker is no proof either: while its lease ran out, another worker may have claimed the thread through another
    /// job. Only a successor's job is proof, as long as the log still ends where that job was enqueued.
    ///
    /// # Errors
    ///
    /// [`Error::CancelRequested`] if the turn is to be cancelled and the process that would have done it is gone. An append would say
    /// so too, but only after the requests of the turn were sent again.
    pub(crate) async fn check_ownership(
        &self,
        log: &ThreadLog,
        job: &Job,
    ) -> Result<Option<StepOutcome>, Error> {
        if job.head == Some(log.head().seq) || log.thread().status() != RunStatus::Busy {
            return Ok(None);
        }
        if self.is_parked(log).await? {
            while let Some(turn) = self.parts.store.next_queued(job.thread).await? {
                self.parts.store.refuse_queued(turn.id, PARKED).await?;
            }
            return Ok(Some(StepOutcome::Idle));
        }
        match self.parts.queue.has_other_holder(job).await {
            Ok(false) if self.parts.store.cancel_request(job.thread).await?.is_some() => {
                Err(Error::CancelRequested { thread: job.thread })
            }
            Ok(false) => Ok(None),
            Ok(true) => {
                debug!("another worker runs the thread");
                let why = BlockedBy::Worker.because("another worker runs it");
                Ok(Some(StepOutcome::Blocked { after: BUSY_DELAY, why }))
            }
            Err(error) => {
                warn!(%error, "cannot check whether another worker runs the thread, retrying in 5 s");
                Ok(Some(StepOutcome::Blocked {
                    after: BUSY_DELAY,
                    why: BlockedBy::Retry.because(error.to_string()),
                }))
            }
        }
    }

    /// Returns true if the log has a running turn but the rows say that the turn ended: a worker could not continue it.
    async fn is_parked(&self, log: &ThreadLog) -> Result<bool, Error> {
        let store = &self.parts.store;
        // Rows and log change in one transaction: if the log has not moved since, the rows belong to this log.
        Ok(store.running(log.id()).await?.is_none() && store.head(log.id()).await? == *log.head())
    }
}
