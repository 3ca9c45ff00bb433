//! Changes of schedules, each with its entry of the administrative log in one transaction.

use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, EntityTrait as _, QueryFilter as _, QuerySelect as _,
    sea_query::SimpleExpr,
};

use super::{
    Holder, ScheduleId, Stopped,
    table::{self, Column},
};
use crate::{
    AdminEvent, By, Error,
    admin::{Entry, append},
    log::Transaction,
};

pub(super) async fn remove(tx: &Transaction, id: ScheduleId, by: By) -> Result<bool, Error> {
    let Some(row) = table::Entity::find_by_id(id).lock_exclusive().one(tx).await? else { return Ok(false) };
    table::Entity::delete_by_id(id).exec(tx).await?;
    let deleted = AdminEvent::ScheduleDeleted { schedule: id };
    append(tx, vec![Entry::new(Some(&row.tenant), by, deleted)]).await?;
    Ok(true)
}

pub(super) async fn stop(
    tx: &Transaction,
    schedule: ScheduleId,
    reason: Stopped,
    by: By,
) -> Result<(), Error> {
    let at = clock::now();
    let (reason, event) = match reason {
        Stopped::Paused => (None, AdminEvent::SchedulePaused { schedule, at }),
        Stopped::Because(reason) => (Some(reason), AdminEvent::ScheduleStopped { schedule, at }),
    };
    let row = table::ActiveModel {
        due_at: Set(None),
        stopped_at: Set(Some(at)),
        stopped_reason: Set(reason),
        ..Default::default()
    };
    change(tx, schedule, row, Column::StoppedAt.is_null(), by, event).await
}

pub(super) async fn resume(
    tx: &Transaction,
    schedule: ScheduleId,
    holder: Holder,
    next_at: i64,
    by: By,
) -> Result<(), Error> {
    let Holder { key, is_operator: by_operator } = holder;
    let row = table::ActiveModel {
        by_operator: Set(by_operator),
        key_id: Set(key.clone()),
        next_at: Set(next_at),
        due_at: Set(Some(next_at)),
        stopped_at: Set(None),
        stopped_reason: Set(None),
        ..Default::default()
    };
    let event = AdminEvent::ScheduleResumed { schedule, key_id: key, by_operator };
    change(tx, schedule, row, Column::StoppedAt.is_not_null(), by, event).await
}

/// Changes a row that meets the condition, and writes the entry.
async fn change(
    tx: &Transaction,
    id: ScheduleId,
    row: table::ActiveModel,
    condition: SimpleExpr,
    by: By,
    event: AdminEvent,
) -> Result<(), Error> {
    let update = table::Entity::update_many().set(row).filter(Column::Id.eq(id)).filter(condition);
    if update.exec(tx).await?.rows_affected == 0 {
        return Ok(());
    }
    let Some(row) = table::Entity::find_by_id(id).one(tx).await? else { return Ok(()) };
    append(tx, vec![Entry::new(Some(&row.tenant), by, event)]).await
}
