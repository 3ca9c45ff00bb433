//! Open batches: one API server processes each under a lease.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait, EntityTrait as _, ExprTrait as _, QueryFilter as _,
    QueryOrder as _, QueryTrait as _,
};

use super::{
    Batch, BatchId, BatchStatus, FileId,
    batch::is_open,
    tables::{batches, batches::Column},
    webhook_events::announce,
};
use crate::{
    Error, Store,
    log::{Transaction, plain},
};

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
        change(&self.database.writer, row, batch.id, &[BatchStatus::Finalizing], Some(owner)).await
    }
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

/// Changes a batch that has one of these statuses, and that `owner` holds if it is given. Returns true if it did.
pub(super) async fn change(
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
