//! Submitting turns: each is queued once, however often the client sends it.

pub(crate) mod arrivals;
mod insert;
mod multitask;
mod new_turn;
mod turn_rows;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::{
    Error,
    log::{
        Store,
        ids::{TurnId, plain},
        submit::insert::{Following, Outcomes, converse, follow, insert_all},
        tables::turns,
        turns::Turn,
    },
};

pub use arrivals::MOST_SUBMITTED;
pub(crate) use insert::insert_one;
pub(crate) use new_turn::{BETWEEN, key_of};
pub use new_turn::{Idempotency, NewTurn, Opening, Submitted};

impl Store {
    /// Queues a turn and creates its thread if it is new, all or nothing. Of concurrent submissions with one key, one
    /// is new and the others are known.
    ///
    /// Concurrent submissions that create threads share a transaction.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request, [`Error::UnknownThread`] if the thread does not
    /// exist, [`Error::ThreadBusy`] if the turn is rejected because of another one, [`Error::ThreadExists`] if another turn has
    /// begun the conversation meanwhile.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn submit(&self, new: NewTurn) -> Result<Submitted, Error> {
        let write = match (new.conversation, &new.thread) {
            (Some(id), _) => self.database.transact(move |tx| converse(tx, new, id).boxed()).boxed(),
            (None, Opening::Existing(thread) | Opening::Asking(thread, _)) => {
                let thread = *thread;
                self.database.transact(move |tx| follow(tx, new, thread).boxed()).boxed()
            }
            (None, Opening::New(_)) => {
                let outcome = self.arrivals.submit(new).await;
                return outcome
                    .unwrap_or_else(|| Err(Error::Unavailable("this process is shutting down".to_owned())));
            }
        };
        let Following { submitted, withdrawn } = write.await?;
        for turn in withdrawn {
            self.count_cancelled(turn).await;
        }
        Ok(submitted)
    }

    /// Queues turns in one transaction, each as [`Store::submit`] does, and returns the outcomes in the same order. A
    /// turn that repeats another one is known, also within one call.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; then no turn is queued. An error of a single turn is
    /// its outcome.
    #[tracing::instrument(level = "debug", skip_all, fields(turns = new.len()))]
    pub async fn submit_many(&self, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        insert_all(&self.database, new).await
    }

    /// Returns the turn that was submitted with this key in this tenant, if any.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn submitted(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<Turn>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }

    /// Releases the key of a turn, so that it can be used for another one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn give_up_key(&self, turn: TurnId) -> Result<(), Error> {
        let row =
            turns::ActiveModel { idempotency_key: Set(None), request_hash: Set(None), ..Default::default() };
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.eq(turn));
        update.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Returns the turns that were submitted with these keys in this tenant, in the order of the keys.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn submitted_many(
        &self,
        tenant: &str,
        keys: &[Idempotency],
    ) -> Result<Vec<Option<Turn>>, Error> {
        let keys: Vec<String> = keys.iter().map(|key| key_of(tenant, &key.key)).collect();
        let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys.clone()));
        let rows = rows.all(&self.database.pool).await?.into_iter();
        let mut known: BTreeMap<_, _> = rows.map(|row| (row.idempotency_key.clone(), row)).collect();
        keys.into_iter().map(|key| known.remove(&Some(key)).map(Turn::try_from).transpose()).collect()
    }
}

/// Returns the turn with this key in this tenant.
async fn of_key(
    db: &impl ConnectionTrait,
    tenant: &str,
    idempotency: &Idempotency,
) -> Result<Option<Turn>, Error> {
    let Idempotency { key, request_hash } = idempotency;
    let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.eq(key_of(tenant, key)));
    let Some(row) = rows.one(db).await? else { return Ok(None) };
    if row.request_hash != Some(plain(request_hash)) {
        return Err(Error::KeyReused);
    }
    Ok(Some(row.try_into()?))
}
