//! Ended batches that run some of their items again.

use std::time::Duration;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _, QuerySelect as _,
    sea_query::{Condition, Expr, Func, Query},
};
use shared::TurnStatus;

use super::{
    Batch, BatchId, BatchStatus, ItemState,
    decisions::{cap, record},
    files::is_readable,
    results::CAUSE_CHARS,
    tables::{batches, batches::Column, items},
    transitions::TURN_FAILED,
};
use crate::{
    AdminEvent, By, Error, Store,
    log::{Transaction, error_fingerprint::error_fingerprint, plain, tables::turns},
};

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

impl Store {
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
