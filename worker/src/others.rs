//! Whether what a thread has under way is somebody else's, or nobody's: then it is left alone.

use std::time::Duration;

use shared::Standing;
use store::{Error, Job, Log, ThreadLog, queue::HeldBy};
use tracing::{debug, warn};

use crate::job::{Done, Hands};

/// When to look again at a thread that another worker is at. It has a token of its own, so nothing depends on this but a ring
/// that comes just as that one ends.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// Why a turn is not heard by a thread that was parked.
const PARKED: &str = "its thread was parked in the middle of an earlier turn, which failed: call that turn off, or mend what it \
                      failed of and run `turnfold store rebuild`, and submit this one again";

impl<L: Log> Hands<L> {
    /// What becomes of a job whose thread is under way, if that is not to be gone on with here.
    ///
    /// ## Why a token is not enough
    ///
    /// There may be two of one thread: somebody rang while a delayed ring was still to come, or a worker was at it. In one
    /// process they are one job. But a worker that finds what another has just begun would take that one for dead: it would
    /// ask, and pay, once more, and doubt a write that is on its way. Nor is a dead worker's token sure: while its lease ran
    /// out, another may have come to the thread by another ring. Only a successor's is, while the log ends where it was rung for.
    pub(crate) async fn leaves_alone(&self, log: &ThreadLog, job: &Job) -> Result<Option<Done>, Error> {
        if job.head == Some(log.head().seq) || log.thread().standing() != Standing::Busy {
            return Ok(None);
        }
        if self.is_parked(log).await? {
            while let Some(turn) = self.parts.store.next_queued(job.thread).await? {
                self.parts.store.refuse_queued(turn.id, PARKED).await?;
            }
            return Ok(Some(Done::Rested));
        }
        match self.parts.queue.is_held_besides(job).await {
            Ok(false) => Ok(None),
            Ok(true) => {
                debug!("another worker is at the thread");
                let why = HeldBy::Worker.because("another worker is at it");
                Ok(Some(Done::Held { after: BUSY_PAUSE, why }))
            }
            Err(error) => {
                warn!(%error, "cannot look whether another worker is at the thread; the job comes back");
                Ok(Some(Done::Held { after: BUSY_PAUSE, why: HeldBy::Retry.because(error.to_string()) }))
            }
        }
    }

    /// Whether the thread is under way by its log, while its rows say that its turn is over: a worker could not go on with it.
    async fn is_parked(&self, log: &ThreadLog) -> Result<bool, Error> {
        let store = &self.parts.store;
        // Rows and log change together: if the log has not moved since, the rows were those of this log.
        Ok(store.running(log.id()).await?.is_none() && store.head(log.id()).await? == *log.head())
    }
}
