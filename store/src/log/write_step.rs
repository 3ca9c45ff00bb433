//! Writing a single step in a transaction, with the exact reason if it is rejected.

use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use shared::TurnStatus;

use crate::{
    Error,
    log::{
        batch::Batch,
        head::Head,
        ids::{ThreadId, plain, signed},
        insert_events::insert_events,
        pool::Transaction,
        read_model_update::{ReadModelUpdate, TurnUpdate},
        rows,
        tables::{threads, turns},
    },
};

/// Writes one step.
pub(crate) async fn write_one(
    tx: &Transaction,
    batch: &Batch,
    started: Option<u64>,
    update: &ReadModelUpdate,
) -> Result<(), Error> {
    insert_events(tx, &[batch]).await?;
    write_read_model(tx, [&batch.from, &batch.end], batch.at, started, update).await
}

/// Changes the rows at the time `at` for events between these heads.
pub(crate) async fn write_read_model(
    tx: &Transaction,
    [from, end]: [&Head; 2],
    at: i64,
    started: Option<u64>,
    update: &ReadModelUpdate,
) -> Result<(), Error> {
    let row = threads::ActiveModel {
        status: Set(update.status.to_string()),
        updated_at: Set(at),
        ..Default::default()
    };
    let of_thread = threads::Entity::update_many().set(row).filter(threads::Column::Id.eq(from.thread));
    if of_thread.exec(tx).await?.rows_affected == 0 {
        return Err(Error::UnknownThread(from.thread));
    }
    match &update.turn {
        Some(turn) => write_turn(tx, [from, end], at, started, turn).await,
        None => Ok(()),
    }
}

/// Verifies that `head` is the head of the log, and locks the thread's row until the transaction ends.
pub(crate) async fn lock_thread(tx: &Transaction, head: &Head) -> Result<(), Error> {
    // The other columns are not read: one of another type must not keep the thread from being compared.
    let row = threads::Entity::find_by_id(head.thread).select_only().column(threads::Column::Id);
    row.lock_exclusive().into_tuple::<ThreadId>().one(tx).await?;
    let end = rows::head(tx, head.thread).await?;
    if end == *head { Ok(()) } else { Err(Error::Stale { thread: head.thread, seq: head.seq }) }
}

async fn write_turn(
    tx: &Transaction,
    [from, end]: [&Head; 2],
    at: i64,
    started: Option<u64>,
    update: &TurnUpdate,
) -> Result<(), Error> {
    let last = end.seq.checked_sub(1).map(signed);
    let mut row = turns::ActiveModel {
        status: Set(update.status.to_string()),
        error: Set(update.error.as_deref().map(plain)),
        outcome: Set(update.outcome().map(str::to_owned)),
        cause: Set(update.cause()),
        ended_seq: Set(last.filter(|_| update.status.is_over())),
        updated_at: Set(at),
        ..Default::default()
    };
    let mut row_filter = turns::Entity::update_many()
        .filter(turns::Column::Id.eq(update.turn))
        .filter(turns::Column::ThreadId.eq(from.thread));
    if let Some(started) = started {
        row.started_seq = Set(Some(signed(started)));
        row_filter = row_filter.filter(turns::Column::Status.eq(TurnStatus::Queued.as_str()));
    }
    if row_filter.set(row).exec(tx).await?.rows_affected == 1 {
        return Ok(());
    }
    let known = turns::Entity::find().filter(turns::Column::Id.eq(update.turn)).one(tx).await?;
    match known {
        Some(_) => Err(Error::Stale { thread: from.thread, seq: from.seq }),
        None => Err(Error::UnknownTurn(update.turn)),
    }
}
