//! Legal holds: threads that must not be deleted until a person releases them.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{ActiveValue::Set, EntityTrait, QueryOrder, QuerySelect};

use crate::{
    AdminEvent, By, Error,
    admin::{Entry, append},
    log::{
        Store, Transaction,
        ids::{ThreadId, plain},
        tables::{holds, threads},
    },
};

/// A person's instruction to keep a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Reason for the hold.
    pub reason: String,
    /// Author of the hold.
    pub by: String,
    /// Time of the hold, in microseconds since the Unix epoch.
    pub at: i64,
}

impl Store {
    /// Places a hold on a thread. Returns the hold in effect, which may be an earlier one.
    ///
    /// **Invariant:** the thread's row is locked, as it is during deletion, so one of the two sees the other.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the thread does not exist or has been deleted.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn hold(&self, thread: ThreadId, reason: &str, by: impl Into<By>) -> Result<Hold, Error> {
        let by = By { reason: Some(plain(reason)), ..by.into() };
        let hold = Hold { thread, reason: plain(reason), by: plain(&by.name), at: clock::now() };
        self.database.transact(move |tx| place(tx, hold, by).boxed()).await
    }

    /// Releases a thread and returns the hold that it was under, if any.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn release(&self, thread: ThreadId, by: impl Into<By>) -> Result<Option<Hold>, Error> {
        let by = by.into();
        self.database.transact(move |tx| lift(tx, thread, by).boxed()).await
    }

    /// Returns all holds, newest first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn holds(&self) -> Result<Vec<Hold>, Error> {
        let rows = holds::Entity::find().order_by_desc(holds::Column::PlacedAt);
        Ok(rows.all(&self.database.pool).await?.into_iter().map(Hold::from).collect())
    }
}

async fn place(tx: &Transaction, hold: Hold, by: By) -> Result<Hold, Error> {
    let row = threads::Entity::find_by_id(hold.thread).lock_exclusive().one(tx).await?;
    let tenant = row.ok_or(Error::UnknownThread(hold.thread))?.tenant;
    if let Some(before) = holds::Entity::find_by_id(hold.thread).one(tx).await? {
        return Ok(before.into());
    }
    let row = holds::ActiveModel {
        thread_id: Set(hold.thread),
        reason: Set(hold.reason.clone()),
        placed_by: Set(hold.by.clone()),
        placed_at: Set(hold.at),
    };
    holds::Entity::insert(row).exec_without_returning(tx).await?;
    let placed = AdminEvent::HoldPlaced { thread: hold.thread, at: hold.at };
    append(tx, vec![Entry::new(Some(&tenant), by, placed)]).await?;
    Ok(hold)
}

async fn lift(tx: &Transaction, thread: ThreadId, by: By) -> Result<Option<Hold>, Error> {
    let Some(hold) = holds::Entity::find_by_id(thread).lock_exclusive().one(tx).await? else {
        return Ok(None);
    };
    holds::Entity::delete_by_id(thread).exec(tx).await?;
    let tenant = threads::Entity::find_by_id(thread).one(tx).await?.map(|row| row.tenant);
    append(tx, vec![Entry::new(tenant.as_deref(), by, AdminEvent::HoldReleased { thread })]).await?;
    Ok(Some(hold.into()))
}

impl From<holds::Model> for Hold {
    fn from(row: holds::Model) -> Self {
        Self { thread: row.thread_id, reason: row.reason, by: row.placed_by, at: row.placed_at }
    }
}
