//! Turns as rows: lookups, lists, and cancelling queued turns.

use std::{collections::BTreeMap, sync::Arc};

use futures::FutureExt as _;
use queue::{Batcher, Priority, WhenAlone, clock};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait, Select, Statement,
};
use serde_json::Value;
use shared::{CallerId, Message, OutcomeKind, Policy};
use tracing::{debug, warn};

use crate::{
    Counted, Error, TurnUpdate,
    error::share_outcome,
    filter::{
        conditions::Conditions,
        sql::{all_of, in_status},
    },
    log::{
        Store,
        database::Database,
        error_fingerprint::error_fingerprint,
        ids::{ThreadId, TurnId, at_most, corrupt, plain, unsigned},
        status::TurnStatus,
        tables::turns,
    },
};

/// A turn in the read model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Position in the queue; among equal priorities, the lowest starts first.
    pub position: i64,
    /// Id of the turn.
    pub id: TurnId,
    /// Id of the thread.
    pub thread: ThreadId,
    /// Status in the read model.
    pub status: TurnStatus,
    /// Tenant of the thread.
    pub tenant: String,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Treatment of the messages.
    pub policy: Policy,
    /// Messages as submitted.
    pub messages: Vec<Message>,
    /// JSON object of the client.
    pub metadata: Value,
    /// Name of the submitter.
    pub author: String,
    /// Authenticated submitter; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Number of the event that started the turn.
    pub started_seq: Option<u64>,
    /// Number of the event that ended the turn or left it waiting for a person.
    pub ended_seq: Option<u64>,
    /// Error of a failed turn.
    pub error: Option<String>,
    /// Outcome of a completed turn.
    pub outcome: Option<OutcomeKind>,
    /// Reason that the turn failed or was not answered, by which turns are counted: the error without the parts that
    /// differ between occurrences, or the causes of the outcome.
    pub cause: Option<String>,
    /// Length of the log that ends with the question which this turn answers; it starts at no other length.
    pub answers_seq: Option<u64>,
    /// Earliest start in microseconds since the Unix epoch; `None` starts at once.
    pub due_at: Option<i64>,
    /// Time of submission, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last change, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

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

/// Order of a list of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Latest submission first.
    #[default]
    NewestFirst,
    /// Earliest submission first.
    OldestFirst,
}

impl TurnFilter<'_> {
    /// Selects the matching rows.
    pub(crate) fn rows(self, backend: DbBackend) -> Select<turns::Entity> {
        turns::Entity::find()
            .apply_if(self.tenant, |rows, tenant| rows.filter(turns::Column::Tenant.eq(tenant)))
            .apply_if(self.thread, |rows, thread| rows.filter(turns::Column::ThreadId.eq(thread)))
            .apply_if(self.status, |rows, status| rows.filter(in_status(status)))
            .apply_if(self.conditions, |rows, conditions| rows.filter(all_of(backend, conditions)))
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

/// Batches lookups of turns.
pub(crate) type TurnReader = Batcher<TurnId, Result<Arc<BTreeMap<TurnId, turns::Model>>, Error>>;

/// Maximum turns per query.
const LOOKED_UP: usize = 64;

/// Maximum queries in flight.
const LOOKUPS: usize = 2;

pub(crate) fn turn_reader(database: &Database) -> TurnReader {
    let pool = database.hot.clone();
    Batcher::new(LOOKUPS, LOOKED_UP, WhenAlone::SendNow, move |ids: Vec<TurnId>| {
        let pool = pool.clone();
        async move { share_outcome(read_turns(&pool, &ids).await, ids.len()) }
    })
}

async fn read_turns(
    db: &impl ConnectionTrait,
    ids: &[TurnId],
) -> Result<BTreeMap<TurnId, turns::Model>, Error> {
    let backend = db.get_database_backend();
    let statement = if backend == DbBackend::Postgres {
        let sql = "SELECT * FROM turns WHERE id = ANY ($1::uuid[])";
        Statement::from_sql_and_values(backend, sql, [ids.to_vec().into()])
    } else {
        let sql = "SELECT * FROM turns WHERE id IN (SELECT unhex(value) FROM json_each(?1))";
        let ids: Value = ids.iter().map(|id| id.simple().to_string()).collect();
        Statement::from_sql_and_values(backend, sql, [ids.to_string().into()])
    };
    let rows = turns::Entity::find().from_raw_sql(statement).all(db).await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
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
        let position = turns::Column::Position;
        let rows = filter.rows(self.database.pool.get_database_backend());
        let rows = match filter.order {
            Order::NewestFirst => {
                rows.apply_if(after, |rows, turn| rows.filter(position.lt(turn))).order_by_desc(position)
            }
            Order::OldestFirst => {
                rows.apply_if(after, |rows, turn| rows.filter(position.gt(turn))).order_by_asc(position)
            }
        };
        let rows = rows.limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Turn::try_from).collect()
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
        let rows =
            self.database.transact(|tx| async move { Ok(update.exec(tx).await?.rows_affected) }.boxed());
        if rows.await? == 1 {
            if let Err(problem) =
                self.count_withdrawn(TurnUpdate { turn, status, error, outcome: None }).await
            {
                debug!(%turn, error = %problem, "cannot count a turn that never started");
            }
            return Ok(Withdrawal::Withdrawn);
        }
        let found = self.turn(turn).await?.ok_or(Error::UnknownTurn(turn))?;
        Ok(Withdrawal::TooLate(found.status))
    }

    async fn count_withdrawn(&self, ended: TurnUpdate) -> Result<(), Error> {
        let Some(turn) = self.turn(ended.turn).await? else { return Ok(()) };
        let Some(thread) = self.thread(turn.thread).await? else { return Ok(()) };
        self.count_recorded(&Counted {
            at: turn.updated_at,
            tenant: &turn.tenant,
            strategy: &thread.strategy,
            ended: Some(&ended),
            responses: Vec::new(),
        });
        Ok(())
    }
}

impl TryFrom<turns::Model> for Turn {
    type Error = Error;

    fn try_from(row: turns::Model) -> Result<Self, Error> {
        let id = row.id;
        let unread = |what: &str, error: &dyn std::fmt::Display| {
            corrupt(row.thread_id, format_args!("turn {id}: {what}: {error}"))
        };
        Ok(Self {
            position: row.position,
            id,
            thread: row.thread_id,
            status: row.status.parse().map_err(|error| unread("its status", &error))?,
            tenant: row.tenant,
            priority: Priority::from_rank(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            policy: policy_of(&row.policy).ok_or_else(|| unread("its policy is unknown", &row.policy))?,
            messages: serde_json::from_str(&row.input).map_err(|error| unread("its words", &error))?,
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
            author: row.author,
            caller: caller_of(row.caller.as_deref()).map_err(|error| unread("its caller", &error))?,
            started_seq: row.started_seq.map(unsigned).transpose()?,
            ended_seq: row.ended_seq.map(unsigned).transpose()?,
            error: row.error,
            outcome: row
                .outcome
                .map(|text| outcome_of(&text))
                .transpose()
                .map_err(|error| unread("its outcome is unknown", &error))?,
            cause: row.cause,
            answers_seq: row.answers_seq.map(unsigned).transpose()?,
            due_at: row.due_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Returns the outcome of this name.
///
/// # Errors
///
/// The name, if it is unknown.
pub(crate) fn outcome_of(text: &str) -> Result<OutcomeKind, String> {
    OutcomeKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| text.to_owned())
}

/// Parses the stored caller of a turn.
pub(crate) fn caller_of(text: Option<&str>) -> Result<Option<CallerId>, serde_json::Error> {
    text.map(serde_json::from_str).transpose()
}

/// Returns the caller of a turn as it is stored.
pub(crate) fn caller_text(caller: &CallerId) -> String {
    // Serializing two texts cannot fail.
    plain(&serde_json::to_string(caller).unwrap_or_default())
}

/// Returns the name of a policy in the database.
pub(crate) fn policy_text(policy: Policy) -> &'static str {
    match policy {
        Policy::Auto => "auto",
        Policy::Answer => "answer",
        Policy::Replan => "replan",
    }
}

pub(crate) fn policy_of(text: &str) -> Option<Policy> {
    [Policy::Auto, Policy::Answer, Policy::Replan].into_iter().find(|policy| policy_text(*policy) == text)
}
