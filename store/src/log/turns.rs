//! Turns as rows: lookups, lists, and cancelling queued turns.

pub(crate) mod reader;
pub(crate) mod row;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect,
    QueryTrait, Select,
};
use shared::TurnStatus;
use tracing::{debug, warn};

use crate::{
    Counted, Error,
    filter::{
        conditions::Conditions,
        sql::{all_of, in_status},
    },
    log::{
        Store,
        error_fingerprint::error_fingerprint,
        ids::{ThreadId, TurnId, at_most, plain},
        order::Order,
        pool::Transaction,
        read_model_update::TurnUpdate,
        replanned::Replanned,
        tables::turns,
    },
    webhooks,
};

pub use row::Turn;

/// Filter for lists of turns; empty fields match all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnFilter<'a> {
    /// Turns of this tenant.
    pub tenant: Option<&'a str>,
    /// Turns of this thread.
    pub thread: Option<ThreadId>,
    /// Turns in this status.
    pub status: Option<TurnStatus>,
    /// Turns that match these conditions.
    pub conditions: Option<&'a Conditions>,
    /// Order of the list.
    pub order: Order,
}

impl TurnFilter<'_> {
    /// Selects the matching rows.
    pub(crate) fn rows(self, backend: DbBackend) -> Select<turns::Entity> {
        turns::Entity::find()
            .apply_if(self.tenant, |rows, tenant| rows.filter(turns::Column::Tenant.eq(tenant)))
            .apply_if(self.thread, |rows, thread| rows.filter(turns::Column::ThreadId.eq(thread)))
            .apply_if(self.status, |rows, status| rows.filter(in_status(status)))
            .apply_if(self.conditions, |rows, conditions| {
                rows.filter(all_of(backend, conditions, self.tenant))
            })
    }
}

/// Outcome of cancelling a queued turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The turn will never start.
    Withdrawn,
    /// The turn was no longer queued.
    TooLate(TurnStatus),
}

impl Store {
    /// Returns the turn with this id. Concurrent calls are batched into one query.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written its row.
    pub async fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        let rows = self.turn_reader.submit(id).await.ok_or_else(Error::gone)??;
        rows.get(&id).cloned().map(Turn::try_from).transpose()
    }

    /// Lists at most `limit` turns that match the filter and follow `after` in its order.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if `after` does not exist.
    pub async fn turns(
        &self,
        filter: TurnFilter<'_>,
        after: Option<TurnId>,
        limit: u64,
    ) -> Result<Vec<Turn>, Error> {
        let after = match after {
            Some(id) => Some(self.turn(id).await?.ok_or(Error::UnknownTurn(id))?.position),
            None => None,
        };
        let rows = filter.rows(self.database.pool.get_database_backend());
        let rows = filter.order.page(rows, turns::Column::Position, after).limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(Turn::try_from).collect()
    }

    /// Cancels a queued turn.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if the turn does not exist.
    #[tracing::instrument(level = "debug", skip_all, fields(%turn))]
    pub async fn cancel_queued(&self, turn: TurnId) -> Result<Withdrawal, Error> {
        self.withdraw(turn, TurnStatus::Cancelled, None).await
    }

    /// Fails a queued turn that its thread cannot start.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if the turn does not exist.
    pub async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        let withdrawal = self.withdraw(turn, TurnStatus::Failed, Some(plain(error))).await?;
        if withdrawal == Withdrawal::Withdrawn {
            warn!(%turn, node = "", cause = error, "turn failed");
        }
        Ok(withdrawal)
    }

    async fn withdraw(
        &self,
        turn: TurnId,
        status: TurnStatus,
        error: Option<String>,
    ) -> Result<Withdrawal, Error> {
        let row = turns::ActiveModel {
            status: Set(status.to_string()),
            cause: Set(error.as_deref().map(error_fingerprint)),
            error: Set(error.clone()),
            updated_at: Set(clock::now()),
            ..Default::default()
        };
        let queued = turns::Column::Status.eq(TurnStatus::Queued.as_str());
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.eq(turn)).filter(queued);
        let ended = TurnUpdate { turn, status, error, outcome: None };
        let announced = ended.clone();
        let rows = self.database.transact(|tx| {
            async move {
                let rows = update.exec(tx).await?.rows_affected;
                if rows == 1 {
                    announce_withdrawn(tx, &announced).await?;
                }
                Ok(rows)
            }
            .boxed()
        });
        if rows.await? == 1 {
            self.count_withdrawn(ended).await;
            return Ok(Withdrawal::Withdrawn);
        }
        let found = self.turn(turn).await?.ok_or(Error::UnknownTurn(turn))?;
        Ok(Withdrawal::TooLate(found.status))
    }

    /// Counts a turn that was cancelled before it started.
    pub(crate) async fn count_cancelled(&self, turn: TurnId) {
        let status = TurnStatus::Cancelled;
        self.count_withdrawn(TurnUpdate { turn, status, error: None, outcome: None }).await;
    }

    async fn count_withdrawn(&self, ended: TurnUpdate) {
        let turn = ended.turn;
        if let Err(problem) = self.try_count_withdrawn(ended).await {
            debug!(%turn, error = %problem, "cannot count a turn that never started");
        }
    }

    async fn try_count_withdrawn(&self, ended: TurnUpdate) -> Result<(), Error> {
        let Some(turn) = self.turn(ended.turn).await? else { return Ok(()) };
        let Some(thread) = self.thread(turn.thread).await? else { return Ok(()) };
        self.count_recorded(&Counted {
            at: turn.updated_at,
            thread: turn.thread,
            tenant: &turn.tenant,
            strategy: &thread.strategy,
            ended: Some(&ended),
            in_doubt: false,
            responses: Vec::new(),
            asked: Vec::new(),
            ratings: Vec::new(),
        });
        Ok(())
    }
}

/// Tells webhooks about a turn that failed before it started.
async fn announce_withdrawn(tx: &Transaction, ended: &TurnUpdate) -> Result<(), Error> {
    let notices = webhooks::notices(&[], Some(ended));
    if notices.is_empty() {
        return Ok(());
    }
    let turn = turns::Entity::find().filter(turns::Column::Id.eq(ended.turn)).one(tx).await?;
    match turn {
        Some(turn) => webhooks::announce_turn(tx, turn.thread_id, ended, &notices).await,
        None => Ok(()),
    }
}
