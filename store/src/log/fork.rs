//! Forks: new threads that start with a copy of another thread's log. Repeating the request creates no second fork.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, TryInsertResult};

use crate::{
    Error,
    log::{
        Store, attachments,
        ids::{ThreadId, plain},
        import::NewThread,
        pool::Transaction,
        submit::{self, Idempotency, NewTurn, key_of},
        tables::forks,
    },
    search::scan_imported,
};

/// Outcome of a fork request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// A new thread, which the caller must enqueue.
    New(ThreadId),
    /// Thread of an earlier request with the same key.
    Known(ThreadId),
}

impl Fork {
    /// Returns the thread, for both outcomes.
    pub fn thread(self) -> ThreadId {
        match self {
            Fork::New(thread) | Fork::Known(thread) => thread,
        }
    }
}

impl Store {
    /// Inserts a fork with the attachments of its source, and submits its first turn, all or nothing. A key creates one fork
    /// only.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another fork; [`Error::Unavailable`] if the database does not answer.
    pub async fn insert_fork(
        &self,
        source: ThreadId,
        fork: NewThread,
        turn: Option<NewTurn>,
        idempotency: Option<Idempotency>,
    ) -> Result<Fork, Error> {
        let unattended = self.search.is_unattended();
        let forked = self.database.transact(move |tx| {
            async move {
                let forked = insert(tx, source, fork, turn, idempotency).await?;
                if unattended {
                    scan_imported(tx).await?;
                }
                Ok(forked)
            }
            .boxed()
        });
        let forked = forked.await?;
        self.search.appended(forked.thread(), clock::now());
        Ok(forked)
    }

    /// Returns the thread that was forked with this key in this tenant, if any.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another fork.
    pub async fn forked(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<ThreadId>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }
}

async fn insert(
    tx: &Transaction,
    source: ThreadId,
    fork: NewThread,
    turn: Option<NewTurn>,
    idempotency: Option<Idempotency>,
) -> Result<Fork, Error> {
    let thread = fork.id();
    // The row that may already exist is written first, before anything else.
    if let Some(idempotency) = idempotency {
        let tenant = fork.tenant();
        let row = forks::ActiveModel {
            idempotency_key: Set(key_of(tenant, &idempotency.key)),
            request_hash: Set(plain(&idempotency.request_hash)),
            thread_id: Set(thread),
        };
        let insert = forks::Entity::insert(row).on_conflict_do_nothing_on([forks::Column::IdempotencyKey]);
        match insert.exec_without_returning(tx).await? {
            TryInsertResult::Inserted(1..) => {}
            TryInsertResult::Inserted(0) | TryInsertResult::Conflicted | TryInsertResult::Empty => {
                let vanished =
                    || Error::Database("a fork was rejected as known but cannot be found".to_owned());
                return of_key(tx, tenant, &idempotency).await?.map(Fork::Known).ok_or_else(vanished);
            }
        }
    }
    fork.write(tx).await?;
    attachments::rows::copy(tx, source, thread).await?;
    if let Some(turn) = turn {
        submit::insert_one(tx, turn).await?;
    }
    Ok(Fork::New(thread))
}

/// Returns the thread that was forked with this key in this tenant.
async fn of_key(
    db: &impl ConnectionTrait,
    tenant: &str,
    Idempotency { key, request_hash }: &Idempotency,
) -> Result<Option<ThreadId>, Error> {
    let rows = forks::Entity::find().filter(forks::Column::IdempotencyKey.eq(key_of(tenant, key)));
    match rows.one(db).await? {
        Some(row) if row.request_hash == plain(request_hash) => Ok(Some(row.thread_id)),
        Some(_) => Err(Error::KeyReused),
        None => Ok(None),
    }
}
