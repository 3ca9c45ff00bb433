//! Open batches: one API server processes each under a lease; its owner stops or resumes it.

use std::time::Duration;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::{self, Set},
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, ExprTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _,
    sea_query::{Condition, Expr, Func, Query},
};

use super::{
    Batch, BatchId, BatchStatus, FileId, ItemState, StopReason,
    batch::is_open,
    files::is_readable,
    results::CAUSE_CHARS,
    tables::{batches, batches::Column, items},
    transitions::TURN_FAILED,
    webhook_events::announce,
};
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, error_fingerprint::error_fingerprint, plain, signed, tables::turns},
};
use shared::TurnStatus;

impl Store {
    /// Leases open batches to `owner` for `lease` microseconds: those it already holds and those without a valid
    /// lease. Returns them oldest first.
    ///
    /// A lease is renewed once less than half of it is left, so an idle coordinator writes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn acquire_batch_leases(&self, owner: &str, lease: i64) -> Result<Vec<Batch>, Error> {
        let now = clock::now();
        let mine = || Column::LeaseOwner.eq(owner);
        let free = Column::LeaseExpiresAt.lt(now).or(mine().and(Column::LeaseExpiresAt.lt(now + lease / 2)));
        let some = batches::Entity::find().filter(is_open()).filter(free.clone());
        if some.one(&self.database.pool).await?.is_some() {
            let row = batches::ActiveModel {
                lease_owner: Set(Some(owner.to_owned())),
                lease_expires_at: Set(now + lease),
                ..Default::default()
            };
            let update = batches::Entity::update_many().set(row).filter(is_open()).filter(free);
            update.exec(&self.database.writer).await?;
        }
        let rows = batches::Entity::find().filter(is_open()).filter(mine()).order_by_asc(Column::Id);
        rows.all(&self.database.pool).await?.into_iter().map(Batch::try_from).collect()
    }

    /// Returns the current state of a batch if it is open and `owner` holds it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn leased_batch(&self, id: BatchId, owner: &str) -> Result<Option<Batch>, Error> {
        let rows = batches::Entity::find_by_id(id).filter(is_open()).filter(Column::LeaseOwner.eq(owner));
        rows.one(&self.database.hot).await?.map(Batch::try_from).transpose()
    }

    /// Releases all leases of `owner`, so that other coordinators can take the batches at once.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn release_batch_leases(&self, owner: &str) -> Result<(), Error> {
        let row = batches::ActiveModel { lease_expires_at: Set(0), ..Default::default() };
        let update =
            batches::Entity::update_many().set(row).filter(is_open()).filter(Column::LeaseOwner.eq(owner));
        update.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Advances a batch from the status in `batch`. Returns true if it still had that status and `owner` still holds
    /// it. Deliveries to the interested webhooks are written in the same transaction as the end of the batch.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn advance_batch(
        &self,
        batch: &Batch,
        owner: &str,
        to: BatchStatus,
        fault: Option<&str>,
    ) -> Result<bool, Error> {
        let mut row = batches::ActiveModel { status: Set(to.to_string()), ..Default::default() };
        let now = Set(Some(clock::now()));
        match to {
            BatchStatus::Validating => {}
            BatchStatus::InProgress => row.in_progress_at = now,
            BatchStatus::Finalizing => {
                row.finalizing_at = now;
                row.output_file = Set(Some(clock::new_id()));
                row.error_file = Set(Some(clock::new_id()));
            }
            BatchStatus::Completed => row.completed_at = now,
            BatchStatus::Failed => {
                row.failed_at = now;
                row.fault = Set(fault.map(plain));
            }
            BatchStatus::Expired => row.expired_at = now,
            BatchStatus::Cancelling => row.cancelling_at = now,
            BatchStatus::Cancelled => row.cancelled_at = now,
        }
        if !to.is_open() {
            row.stopped = Set(None);
        }
        let (batch, owner) = (batch.clone(), owner.to_owned());
        self.database.transact(move |tx| advance(tx, row, batch, owner, to).boxed()).await
    }

    /// Records the ids of a batch's result files.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn name_results(
        &self,
        batch: &Batch,
        owner: &str,
        output: Option<FileId>,
        error: Option<FileId>,
    ) -> Result<bool, Error> {
        let row =
            batches::ActiveModel { output_file: Set(output), error_file: Set(error), ..Default::default() };
        self.change(row, batch.id, &[BatchStatus::Finalizing], Some(owner)).await
    }

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
        self.change(row, id, &BatchStatus::RUNNING, None).await
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

    /// Reopens an ended batch: runs its items in the final state `only` again, with a new time limit in seconds,
    /// and with a new budget if `max_micro_usd` is given. Returns the number of these items, or `None` if the input
    /// file is gone.
    ///
    /// An item whose failed turn has been retried in the meantime is not run again; it continues with that turn.
    ///
    /// ## Why a batch with unvalidated lines cannot be reopened
    ///
    /// It would end as if the unvalidated lines did not exist, and validating them now would run lines that were
    /// cancelled.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn reopen_batch(
        &self,
        id: BatchId,
        only: impl Into<Rerun>,
        seconds: u64,
        max_micro_usd: Option<u64>,
        by: impl Into<By>,
    ) -> Result<Option<u64>, Error> {
        let (only, by) = (only.into(), by.into());
        self.database.transact(move |tx| rerun(tx, id, only, seconds, max_micro_usd, by).boxed()).await
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

    async fn change(
        &self,
        row: batches::ActiveModel,
        id: BatchId,
        from: &[BatchStatus],
        owner: Option<&str>,
    ) -> Result<bool, Error> {
        change(&self.database.writer, row, id, from, owner).await
    }
}

/// Budget of a batch to store; unchanged without a value.
fn cap(max_micro_usd: Option<u64>) -> ActiveValue<Option<i64>> {
    max_micro_usd.map_or(ActiveValue::NotSet, |limit| Set(Some(signed(limit))))
}

async fn change(
    db: &impl ConnectionTrait,
    row: batches::ActiveModel,
    id: BatchId,
    from: &[BatchStatus],
    owner: Option<&str>,
) -> Result<bool, Error> {
    let from = from.iter().map(|status| status.as_str());
    let update = batches::Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(id))
        .filter(Column::Status.is_in(from))
        .apply_if(owner, |update, owner| update.filter(Column::LeaseOwner.eq(owner)));
    Ok(update.exec(db).await?.rows_affected == 1)
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
async fn record(tx: &Transaction, id: BatchId, by: By, event: AdminEvent) -> Result<(), Error> {
    let tenant = batches::Entity::find_by_id(id).one(tx).await?.map(|row| row.tenant);
    append(tx, vec![Entry::new(tenant.as_deref(), by, event)]).await
}

async fn advance(
    tx: &Transaction,
    row: batches::ActiveModel,
    batch: Batch,
    owner: String,
    to: BatchStatus,
) -> Result<bool, Error> {
    if !change(tx, row, batch.id, &[batch.status], Some(&owner)).await? {
        return Ok(false);
    }
    if !to.is_open() {
        announce(tx, &batch, to).await?;
    }
    Ok(true)
}

/// Items of a batch to run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerun {
    /// Only items in this state.
    pub state: ItemState,
    /// Only items with this cause, as [`Store::causes`] groups them.
    pub cause: Option<String>,
}

impl From<ItemState> for Rerun {
    fn from(state: ItemState) -> Self {
        Self { state, cause: None }
    }
}

impl Rerun {
    /// Builds the condition for the items.
    fn lines(&self, batch: BatchId) -> Condition {
        let start = |text: Expr| -> Expr { Func::cust("SUBSTR").arg(text).arg(1).arg(CAUSE_CHARS).into() };
        let turn = Expr::col((turns::Entity, turns::Column::Id));
        let has = |cause: &String| {
            let of_turn = Query::select()
                .expr(Expr::val(1))
                .from(turns::Entity)
                .and_where(turn.equals((items::Entity, items::Column::TurnId)))
                .and_where(
                    start(Expr::col((turns::Entity, turns::Column::Cause)))
                        .eq(start(Expr::val(error_fingerprint(&plain(cause))))),
                )
                .take();
            let message = Expr::col((items::Entity, items::Column::Message));
            Condition::any().add(start(message).eq(start(Expr::val(plain(cause))))).add(Expr::exists(of_turn))
        };
        Condition::all()
            .add(items::Column::BatchId.eq(batch))
            .add(items::Column::State.eq(self.state.as_str()))
            .add_option(self.cause.as_ref().map(has))
    }
}

async fn rerun(
    tx: &Transaction,
    id: BatchId,
    only: Rerun,
    seconds: u64,
    max_micro_usd: Option<u64>,
    by: By,
) -> Result<Option<u64>, Error> {
    let (state, cause) = (only.state.to_string(), only.cause.as_deref().map(plain));
    let reopened = reopen(tx, id, only, seconds, max_micro_usd).await?;
    if let Some(lines @ 1..) = reopened {
        record(tx, id, by, AdminEvent::BatchRerun { batch: id, state, cause, lines, max_micro_usd }).await?;
    }
    Ok(reopened)
}

/// **Invariant:** the earlier usage of an item stays in the batch's totals, because it was paid for.
async fn reopen(
    tx: &Transaction,
    id: BatchId,
    only: Rerun,
    seconds: u64,
    max_micro_usd: Option<u64>,
) -> Result<Option<u64>, Error> {
    let over = BatchStatus::ALL.iter().filter(|status| !status.is_open()).map(|status| status.as_str());
    let rows = batches::Entity::find_by_id(id)
        .filter(Column::Status.is_in(over))
        .filter(Column::InProgressAt.is_not_null())
        .lock_exclusive();
    let Some(batch) = rows.one(tx).await? else { return Ok(Some(0)) };
    if !is_readable(tx, batch.input_file).await? {
        return Ok(None);
    }
    let (mut counts, now) = (Batch::try_from(batch)?.counts, clock::now());
    let retried = retried(tx, id, &only, now).await?;
    let row = items::ActiveModel {
        state: Set(ItemState::Waiting.to_string()),
        thread_id: Set(None),
        turn_id: Set(None),
        submitted_at: Set(None),
        input_tokens: Set(0),
        output_tokens: Set(0),
        micro_usd: Set(0),
        code: Set(None),
        message: Set(None),
        result_no: Set(None),
        ..Default::default()
    };
    let reopened = items::Entity::update_many()
        .set(row)
        .col_expr(items::Column::Attempt, Expr::col(items::Column::Attempt).add(1))
        .filter(only.lines(id))
        .exec(tx)
        .await?
        .rows_affected;
    if retried + reopened == 0 {
        return Ok(Some(0));
    }
    counts.shift(only.state, ItemState::Submitted, retried);
    counts.shift(only.state, ItemState::Waiting, reopened);
    let row = batches::ActiveModel {
        status: Set(BatchStatus::InProgress.to_string()),
        counts: Set(counts.to_string()),
        stopped: Set(None),
        max_micro_usd: cap(max_micro_usd),
        expires_at: Set(now.saturating_add(clock::duration_micros(Duration::from_secs(seconds)))),
        in_progress_at: Set(Some(now)),
        finalizing_at: Set(None),
        completed_at: Set(None),
        expired_at: Set(None),
        cancelling_at: Set(None),
        cancelled_at: Set(None),
        output_file: Set(None),
        error_file: Set(None),
        lease_expires_at: Set(0),
        ..Default::default()
    };
    batches::Entity::update_many().set(row).filter(Column::Id.eq(id)).exec(tx).await?;
    Ok(Some(retried + reopened))
}

/// Moves items back in progress whose failed turn has since been retried. Returns their number.
///
/// Their earlier usage stays recorded: it belongs to the same thread, and only additional usage is added to the batch's
/// totals.
async fn retried(tx: &Transaction, id: BatchId, only: &Rerun, now: i64) -> Result<u64, Error> {
    let goes_on = TurnStatus::ALL.iter().filter(|status| match status {
        TurnStatus::Queued | TurnStatus::Running | TurnStatus::Interrupted | TurnStatus::Completed => true,
        TurnStatus::Failed | TurnStatus::Cancelled => false,
    });
    let turn = Expr::col((turns::Entity, turns::Column::Id));
    let tried = Query::select()
        .expr(Expr::val(1))
        .from(turns::Entity)
        .and_where(turn.equals((items::Entity, items::Column::TurnId)))
        .and_where(turns::Column::Status.is_in(goes_on.map(|status| status.as_str())))
        .take();
    let row = items::ActiveModel {
        state: Set(ItemState::Submitted.to_string()),
        submitted_at: Set(Some(now)),
        code: Set(None),
        message: Set(None),
        result_no: Set(None),
        ..Default::default()
    };
    let update = items::Entity::update_many()
        .set(row)
        .filter(only.lines(id))
        .filter(items::Column::Code.eq(TURN_FAILED))
        .filter(Expr::exists(tried));
    Ok(update.exec(tx).await?.rows_affected)
}
