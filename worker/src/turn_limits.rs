//! Limits of a turn that a worker enforces, whatever its strategy does: deaths of workers, events, and memory.

use queue::{Deaths, Job};
use shared::{Failed, RunStatus};
use store::Error;
use threads::{Log, ThreadLog};
use tracing::warn;

use crate::{
    executor::JobExecutor,
    step::{StepOutcome, StepRunner},
};

/// Limits of a turn. At a limit its node fails, with a reason that names the limit, and an operator can retry it.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Workers that may die or stall during one job.
    pub deaths: u64,
    /// Events in a row without a person, such as a message or a retry.
    pub events: usize,
    /// Bytes of messages, facts and tools that a thread keeps in memory.
    pub bytes: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { deaths: 3, events: 100_000, bytes: 64 << 20 }
    }
}

impl TurnLimits {
    /// Returns the reason why a job that killed these workers must not run again, if there are too many.
    pub(crate) fn deadly(&self, deaths: Option<&Deaths>) -> Option<String> {
        let Deaths { count, last } = deaths.filter(|deaths| self.deaths <= deaths.count)?;
        Some(format!(
            "workers died or stalled {count} times while they ran this turn, the last one was {last}; hint: look for the cause \
             in the log and the memory use of that worker, then run: turnfold turn retry"
        ))
    }

    /// Returns the limit that a busy thread has reached.
    pub(crate) fn reached(&self, log: &ThreadLog) -> Option<String> {
        let (events, bytes) = (log.events_in_a_row(), log.weight());
        let is_within = events < self.events && bytes < self.bytes;
        if is_within || log.thread().status() != RunStatus::Busy {
            return None;
        }
        Some(if self.events <= events {
            format!(
                "the turn has {events} events, and may have {} (worker.max_events_per_turn); hint: run turnfold turn retry to \
                 let it have as many again, or ask for less in a new turn",
                self.events
            )
        } else {
            format!(
                "the messages, facts and tools of the thread have {} MiB, and may have {} (worker.max_thread_mib); hint: go on \
                 in a new thread, or raise the limit and run turnfold turn retry",
                bytes >> 20,
                self.bytes >> 20
            )
        })
    }
}

impl<L: Log> StepRunner<L> {
    /// Fails the current node of a busy thread.
    ///
    /// # Errors
    ///
    /// As [`StepRunner::run_job`].
    pub(crate) async fn fail_node(&self, log: &mut ThreadLog, reason: &str) -> Result<StepOutcome, Error> {
        let node = log.thread().node().unwrap_or_default();
        warn!(thread = %log.id(), node, reason, "the worker fails the turn");
        log.push(Failed { node, reason: reason.to_owned(), worker: Some(self.name.clone()) }.into())?;
        self.outcome_after(log).await
    }
}

impl<L: Log> JobExecutor<L> {
    /// Fails the turn that is running or starts next, at the node where it stands.
    ///
    /// # Errors
    ///
    /// As [`StepRunner::run_job`].
    pub(crate) async fn fail_turn(&self, job: &Job, reason: &str) -> Result<StepOutcome, Error> {
        let mut log = self.steps.open(job.thread).await?;
        if let Some(deaths) = &job.deaths {
            self.record_takeover(&mut log, deaths).await?;
        }
        if log.thread().status() != RunStatus::Busy
            && let Some(outcome) = self.steps.start_turn(&mut log).await?
        {
            return Ok(outcome);
        }
        self.steps.fail_node(&mut log, reason).await
    }
}
