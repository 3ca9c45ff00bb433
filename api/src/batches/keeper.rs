//! Who looks after batches: one task in every api, each batch kept by one of them at a time.

use std::{sync::Arc, time::Duration};

use store::bulk::{Batch, BatchStatus, ItemState};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::{house::House, problem::Problem};

/// How many items one step moves, at most.
pub(super) const PAGE: u64 = 500;

/// How often is looked for batches that nobody keeps, while this keeper keeps none.
const IDLE: Duration = Duration::from_secs(5);

/// How often files are swept whose time is over.
const SWEEP: Duration = Duration::from_secs(60);

/// After a step that did a little, the next look comes so many times sooner than after none.
const SOONER: u32 = 8;

/// How much was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Done {
    /// Nothing was to do.
    Nothing,
    /// All that was to do for now.
    All,
    /// As much as goes into a step: there may be more.
    Part,
}

impl Done {
    /// That so many were moved in a step.
    pub(super) fn of(moved: usize) -> Self {
        match moved as u64 {
            0 => Self::Nothing,
            moved if moved < PAGE => Self::All,
            _ => Self::Part,
        }
    }
}

/// Looks after batches.
pub(crate) struct Keeper {
    pub(super) house: Arc<House>,
    /// What it is called in the rows of its batches: no other keeper is ever called so.
    pub(super) name: String,
}

impl Keeper {
    pub(crate) fn new(house: Arc<House>) -> Self {
        Self { house, name: Uuid::now_v7().to_string() }
    }

    /// Looks after batches until the door closes, and leaves them to others then.
    pub(crate) async fn run(self) {
        let stop = self.house.stop.clone();
        let mut swept: Option<Instant> = None;
        loop {
            let pause = match self.look().await {
                Ok((0, _)) => IDLE.max(self.house.bulk.look),
                Ok((_, Done::Nothing)) => self.house.bulk.look,
                Ok((_, Done::All)) => self.house.bulk.look / SOONER,
                Ok((_, Done::Part)) => Duration::ZERO,
                Err(problem) => {
                    warn!(error = problem.detail(), "cannot look after batches; trying again");
                    self.house.bulk.look
                }
            };
            if swept.is_none_or(|it| SWEEP <= it.elapsed()) {
                swept = Some(Instant::now());
                match self.house.parts.store.sweep_files().await {
                    Ok(0) => {}
                    Ok(files) => info!(files, "swept files whose time was over"),
                    Err(error) => warn!(%error, "cannot sweep files"),
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.house.stirred.notified() => {}
                () = sleep(pause) => {}
            }
        }
        if let Err(error) = self.house.parts.store.leave_batches(&self.name).await {
            debug!(%error, "cannot leave the batches to others; their leases run out");
        }
    }

    /// Does one step of each batch: batches take turns, so a large one holds up no small one.
    async fn look(&self) -> Result<(usize, Done), Problem> {
        let lease = i64::try_from(self.house.bulk.lease.as_micros()).unwrap_or(i64::MAX);
        let batches = self.house.parts.store.keep_batches(&self.name, lease).await?;
        let mut most = Done::Nothing;
        for batch in &batches {
            if self.house.stop.is_cancelled() {
                break;
            }
            match self.step(batch).await {
                Ok(done) => most = most.max(done),
                // What is the matter with one batch holds up no other.
                Err(problem) => {
                    warn!(batch = %batch.id, error = problem.detail(), "a batch cannot go on for now");
                }
            }
        }
        Ok((batches.len(), most))
    }

    async fn step(&self, batch: &Batch) -> Result<Done, Problem> {
        match batch.status {
            BatchStatus::Validating => self.validate(batch).await,
            BatchStatus::InProgress => {
                let collected = self.collect(batch).await?;
                let expired = self.expire(batch).await?;
                let fed = self.feed(batch).await?;
                self.go_on(batch, collected.max(expired).max(fed)).await
            }
            BatchStatus::Cancelling => {
                let collected = self.collect(batch).await?;
                let cancelled = self.call_off(batch).await?;
                self.go_on(batch, collected.max(cancelled)).await
            }
            BatchStatus::Finalizing => self.finish(batch).await,
            BatchStatus::Failed | BatchStatus::Completed | BatchStatus::Expired | BatchStatus::Cancelled => {
                Ok(Done::Nothing)
            }
        }
    }

    /// Goes on to write the files, once all items have ended.
    async fn go_on(&self, batch: &Batch, done: Done) -> Result<Done, Problem> {
        for state in ItemState::ALL.iter().filter(|it| !it.is_over()) {
            if !self.house.parts.store.items(batch.id, *state, 1).await?.is_empty() {
                return Ok(done);
            }
        }
        self.advance(batch, BatchStatus::Finalizing, None).await
    }

    pub(super) async fn advance(
        &self,
        batch: &Batch,
        to: BatchStatus,
        fault: Option<&str>,
    ) -> Result<Done, Problem> {
        if self.house.parts.store.advance_batch(batch, &self.name, to, fault).await? {
            info!(batch = %batch.id, from = %batch.status, %to, "a batch went on");
        }
        Ok(Done::Part)
    }
}
