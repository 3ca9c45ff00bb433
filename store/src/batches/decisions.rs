//! Decisions about running batches: cancelled, stopped, paused and resumed.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::{self, Set},
    EntityTrait as _,
};

use super::{BatchId, BatchStatus, StopReason, leases::change, tables::batches};
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, signed},
};

impl Store {
    /// Cancels a batch. Returns true if that changed anything.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn cancel_batch(&self, id: BatchId, by: impl Into<By>) -> Result<bool, Error> {
        let row = batches::ActiveModel {
            status: Set(BatchStatus::Cancelling.to_string()),
            cancelling_at: Set(Some(clock::now())),
            ..Default::default()
        };
        self.decide(row, id, by.into(), AdminEvent::BatchCancelled { batch: id }).await
    }

    /// Stops the start of further items of a batch, for its coordinator. Returns true if the batch could be stopped.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn stop_batch(&self, id: BatchId, why: StopReason) -> Result<bool, Error> {
        let row = batches::ActiveModel { stopped: Set(Some(why.to_string())), ..Default::default() };
        change(&self.database.writer, row, id, &BatchStatus::RUNNING, None).await
    }

    /// Pauses a batch for a person: no further item starts. Returns true if the batch could be paused.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn pause_batch(&self, id: BatchId, by: impl Into<By>) -> Result<bool, Error> {
        let stopped = Set(Some(StopReason::Paused.to_string()));
        let row = batches::ActiveModel { stopped, ..Default::default() };
        self.decide(row, id, by.into(), AdminEvent::BatchPaused { batch: id }).await
    }

    /// Resumes a stopped batch, with a new budget if `max_micro_usd` is given. Returns true if the batch could be
    /// resumed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn resume_batch(
        &self,
        id: BatchId,
        max_micro_usd: Option<u64>,
        by: impl Into<By>,
    ) -> Result<bool, Error> {
        let row = batches::ActiveModel {
            stopped: Set(None),
            max_micro_usd: cap(max_micro_usd),
            ..Default::default()
        };
        self.decide(row, id, by.into(), AdminEvent::BatchResumed { batch: id, max_micro_usd }).await
    }

    /// Changes a running batch for a person.
    async fn decide(
        &self,
        row: batches::ActiveModel,
        id: BatchId,
        by: By,
        event: AdminEvent,
    ) -> Result<bool, Error> {
        self.database.transact(move |tx| decide(tx, row, id, by, event).boxed()).await
    }
}

/// Budget of a batch to store; unchanged without a value.
pub(super) fn cap(max_micro_usd: Option<u64>) -> ActiveValue<Option<i64>> {
    max_micro_usd.map_or(ActiveValue::NotSet, |limit| Set(Some(signed(limit))))
}

async fn decide(
    tx: &Transaction,
    row: batches::ActiveModel,
    id: BatchId,
    by: By,
    event: AdminEvent,
) -> Result<bool, Error> {
    if !change(tx, row, id, &BatchStatus::RUNNING, None).await? {
        return Ok(false);
    }
    record(tx, id, by, event).await?;
    Ok(true)
}

/// Appends a decision about a batch to the log of its tenant.
pub(super) async fn record(tx: &Transaction, id: BatchId, by: By, event: AdminEvent) -> Result<(), Error> {
    let tenant = batches::Entity::find_by_id(id).one(tx).await?.map(|row| row.tenant);
    append(tx, vec![Entry::new(tenant.as_deref(), by, event)]).await
}
