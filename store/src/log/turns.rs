//! What reads turns as rows, and takes queued ones out of the queue unheard.

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Select,
};
use serde_json::Value;
use shared::{Message, Policy};

use super::{
    Store, ThreadId, TurnId, TurnStatus, at_most,
    cause::cause,
    corrupt,
    matching::{all_of, in_status},
    plain,
    tables::turns,
    unsigned,
};
use crate::{Error, conditions::Conditions, queue::Priority, time};

/// A turn, as the read model has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its place in the queue: of turns that are equally urgent, the lower is heard first.
    pub position: i64,
    /// Which.
    pub id: TurnId,
    /// The thread that hears it.
    pub thread: ThreadId,
    /// How far it has come.
    pub status: TurnStatus,
    /// Whom its thread belongs to.
    pub tenant: String,
    /// How urgent it is.
    pub priority: Priority,
    /// How its words are to be taken.
    pub policy: Policy,
    /// Its words.
    pub messages: Vec<Message>,
    /// What the client wants to find again.
    pub metadata: Value,
    /// Who submitted it.
    pub author: String,
    /// The number of the event by which its thread heard it.
    pub heard_seq: Option<u64>,
    /// The number of the event that ended it, or that it waits on a person after.
    pub ended_seq: Option<u64>,
    /// Why it failed.
    pub error: Option<String>,
    /// The same without what differs from case to case, so that failures can be counted by it.
    pub cause: Option<String>,
    /// The end of its thread's log that it answers, as a number of events: it is not heard at any other.
    pub answers_seq: Option<u64>,
    /// Its thread does not hear it before this, in microseconds since the Unix epoch; at once, if nothing is said.
    pub due_at: Option<i64>,
    /// When it was submitted, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// When its row was last written, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// Which turns to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnFilter<'a> {
    /// Those of this tenant.
    pub tenant: Option<&'a str>,
    /// Those of this thread.
    pub thread: Option<ThreadId>,
    /// Those in this status.
    pub status: Option<TurnStatus>,
    /// Those that fulfil all of these.
    pub conditions: Option<&'a Conditions>,
    /// In which order.
    pub order: Order,
}

/// In which order turns are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The last one submitted comes first.
    #[default]
    NewestFirst,
    /// The first one submitted comes first.
    OldestFirst,
}

impl TurnFilter<'_> {
    /// The rows that it lets through.
    pub(super) fn rows(self, backend: DbBackend) -> Select<turns::Entity> {
        turns::Entity::find()
            .apply_if(self.tenant, |rows, it| rows.filter(turns::Column::Tenant.eq(it)))
            .apply_if(self.thread, |rows, it| rows.filter(turns::Column::ThreadId.eq(it)))
            .apply_if(self.status, |rows, it| rows.filter(in_status(it)))
            .apply_if(self.conditions, |rows, it| rows.filter(all_of(backend, it)))
    }
}

/// What became of the wish to take a turn out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// Its thread will never hear it.
    Withdrawn,
    /// It was not in the queue any more.
    TooLate(TurnStatus),
}

impl Store {
    /// A turn, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if its row is none that turnfold wrote.
    pub async fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        let rows = turns::Entity::find().filter(turns::Column::Id.eq(id));
        rows.one(&self.database.pool).await?.map(Turn::try_from).transpose()
    }

    /// Turns, newest first unless the filter says otherwise, at most `limit`; those that come after `after` in this order,
    /// and that the filter lets through.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if `after` is none.
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
                rows.apply_if(after, |rows, it| rows.filter(position.lt(it))).order_by_desc(position)
            }
            Order::OldestFirst => {
                rows.apply_if(after, |rows, it| rows.filter(position.gt(it))).order_by_asc(position)
            }
        };
        let rows = rows.limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Turn::try_from).collect()
    }

    /// Calls off a turn that is still queued.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if there is none.
    #[tracing::instrument(level = "debug", skip_all, fields(%turn))]
    pub async fn cancel_queued(&self, turn: TurnId) -> Result<Withdrawal, Error> {
        self.withdraw(turn, TurnStatus::Cancelled, None).await
    }

    /// Fails a turn that is still queued, because its thread cannot hear it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if there is none.
    #[tracing::instrument(level = "debug", skip_all, fields(%turn))]
    pub async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        self.withdraw(turn, TurnStatus::Failed, Some(plain(error))).await
    }

    async fn withdraw(
        &self,
        turn: TurnId,
        status: TurnStatus,
        error: Option<String>,
    ) -> Result<Withdrawal, Error> {
        let row = turns::ActiveModel {
            status: Set(status.to_string()),
            cause: Set(error.as_deref().map(cause)),
            error: Set(error),
            updated_at: Set(time::now()),
            ..Default::default()
        };
        let queued = turns::Column::Status.eq(TurnStatus::Queued.as_str());
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.eq(turn)).filter(queued);
        let rows =
            self.database.transact(|tx| async move { Ok(update.exec(tx).await?.rows_affected) }.boxed());
        if rows.await? == 1 {
            return Ok(Withdrawal::Withdrawn);
        }
        let found = self.turn(turn).await?.ok_or(Error::UnknownTurn(turn))?;
        Ok(Withdrawal::TooLate(found.status))
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
            priority: Priority::ranked(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            policy: policy_of(&row.policy).ok_or_else(|| unread("its policy is unknown", &row.policy))?,
            messages: serde_json::from_str(&row.input).map_err(|error| unread("its words", &error))?,
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
            author: row.author,
            heard_seq: row.heard_seq.map(unsigned).transpose()?,
            ended_seq: row.ended_seq.map(unsigned).transpose()?,
            error: row.error,
            cause: row.cause,
            answers_seq: row.answers_seq.map(unsigned).transpose()?,
            due_at: row.due_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// How the database spells a policy.
pub(super) fn policy_text(policy: Policy) -> &'static str {
    match policy {
        Policy::Auto => "auto",
        Policy::Answer => "answer",
        Policy::Replan => "replan",
    }
}

pub(super) fn policy_of(text: &str) -> Option<Policy> {
    [Policy::Auto, Policy::Answer, Policy::Replan].into_iter().find(|it| policy_text(*it) == text)
}
