//! Schedules: requests that are submitted at the times of a cron expression.
//!
//! ```text
//!   due_at   null (paused or stopped) ──▶ time ──▶ submission with the key schedule-ID-TIME ──▶ the next time
//! ```
//!
//! **Invariant:** a schedule moves to its next firing after the submission of the current one, and only from that one. A
//! process that is killed in between submits the same firing again, under the same key, which changes nothing.

mod changes;
mod firings;
pub(crate) mod table;

use futures::FutureExt as _;
use sea_orm::{
    ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _, sea_query::Expr,
};
use shared::{MissedFirings, ScheduleStatus, ScheduleTarget};
use uuid::Uuid;

use self::changes::{remove, resume, stop};
pub(crate) use self::table::Column;
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, at_most, one_at_a_time, plain},
};

pub use firings::Firing;

/// Id of a schedule: a UUIDv7.
pub type ScheduleId = Uuid;

/// Maximum number of schedules per tenant.
pub const MOST_SCHEDULES: u64 = 100;

/// A request, and the times at which it is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Id of the schedule.
    pub id: ScheduleId,
    /// Tenant that owns it.
    pub tenant: String,
    /// Holder of the rights with which it submits.
    pub holder: Holder,
    /// Name of the user who created it.
    pub author: String,
    /// Name for people; may be empty.
    pub name: String,
    /// Cron expression of five fields.
    pub cron: String,
    /// IANA name of its time zone.
    pub zone: String,
    /// Treatment of missed firings.
    pub missed: MissedFirings,
    /// Kind of request.
    pub target: ScheduleTarget,
    /// Body of the request, byte for byte.
    pub body: String,
    /// Creation time, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the next firing, in microseconds since the Unix epoch.
    pub next_at: i64,
    /// Reason why it does not fire; `None` if it does.
    pub stopped: Option<Stopped>,
    /// The last firing.
    pub last: Option<Firing>,
}

/// Holder of the rights with which a schedule submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Id of the key; `None` if the API required none.
    pub key: Option<String>,
    /// True if it acts as an operator who names no tenant.
    pub is_operator: bool,
}

/// Reason why a schedule does not fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A person paused it.
    Paused,
    /// It may no longer submit anything, for this reason.
    Because(String),
}

impl Schedule {
    /// Returns its status.
    pub fn status(&self) -> ScheduleStatus {
        match self.stopped {
            None => ScheduleStatus::Active,
            Some(Stopped::Paused) => ScheduleStatus::Paused,
            Some(Stopped::Because(_)) => ScheduleStatus::Stopped,
        }
    }
}

impl Store {
    /// Stores a schedule unless its tenant has reached [`MOST_SCHEDULES`]. Returns true if it was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_schedule(&self, new: &Schedule, by: impl Into<By>) -> Result<bool, Error> {
        let (new, by) = (new.clone(), by.into());
        self.database.transact(move |tx| add(tx, new, by).boxed()).await
    }

    /// Returns a schedule, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>, Error> {
        let row = table::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Schedule::try_from).transpose()
    }

    /// Returns at most `limit` schedules of one tenant or of all, oldest first, that were created after `after`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn schedules(
        &self,
        tenant: Option<&str>,
        after: Option<ScheduleId>,
        limit: u64,
    ) -> Result<Vec<Schedule>, Error> {
        let rows = table::Entity::find()
            .apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)))
            .apply_if(after, |rows, after| rows.filter(Column::Id.gt(after)))
            .order_by_asc(Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Schedule::try_from).collect()
    }

    /// Deletes a schedule. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn remove_schedule(&self, id: ScheduleId, by: impl Into<By>) -> Result<bool, Error> {
        let by = by.into();
        self.database.transact(move |tx| remove(tx, id, by).boxed()).await
    }

    /// Pauses an active schedule. One that does not fire keeps its reason.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn pause_schedule(&self, id: ScheduleId, by: impl Into<By>) -> Result<(), Error> {
        let by = by.into();
        self.database.transact(move |tx| stop(tx, id, Stopped::Paused, by).boxed()).await
    }

    /// Stops an active schedule that may no longer submit anything. One that does not fire keeps its reason.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn stop_schedule(&self, id: ScheduleId, reason: &str) -> Result<(), Error> {
        let reason = plain(reason);
        let by = By::turnfold(Some(reason.clone()));
        self.database.transact(move |tx| stop(tx, id, Stopped::Because(reason), by).boxed()).await
    }

    /// Makes a schedule that does not fire continue with the firing at `next_at`, with the rights of `holder`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn resume_schedule(
        &self,
        id: ScheduleId,
        holder: &Holder,
        next_at: i64,
        by: impl Into<By>,
    ) -> Result<(), Error> {
        let (holder, by) = (holder.clone(), by.into());
        self.database.transact(move |tx| resume(tx, id, holder, next_at, by).boxed()).await
    }
}

async fn add(tx: &Transaction, new: Schedule, by: By) -> Result<bool, Error> {
    one_at_a_time(tx, "schedules", &new.tenant).await?;
    let own = table::Entity::find().filter(Column::Tenant.eq(new.tenant.as_str()));
    if MOST_SCHEDULES <= own.count(tx).await? {
        return Ok(false);
    }
    let row = table::Model {
        id: new.id,
        tenant: plain(&new.tenant),
        by_operator: new.holder.is_operator,
        key_id: new.holder.key,
        author: plain(&new.author),
        name: plain(&new.name),
        cron: plain(&new.cron),
        zone: plain(&new.zone),
        missed: new.missed.to_string(),
        target: new.target.to_string(),
        body: new.body,
        created_at: new.created_at,
        next_at: new.next_at,
        due_at: Some(new.next_at),
        stopped_at: None,
        stopped_reason: None,
        last_at: None,
        last_id: None,
        last_error: None,
    };
    let (tenant, created) = (row.tenant.clone(), AdminEvent::ScheduleCreated { schedule: row.details() });
    table::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    append(tx, vec![Entry::new(Some(&tenant), by, created)]).await?;
    Ok(true)
}

/// Gives the schedules of a key to its successor.
pub(crate) async fn inherit(tx: &Transaction, old: &str, new: &str) -> Result<(), Error> {
    let update = table::Entity::update_many().col_expr(Column::KeyId, Expr::value(new));
    update.filter(Column::KeyId.eq(old)).exec(tx).await?;
    Ok(())
}

impl TryFrom<table::Model> for Schedule {
    type Error = Error;

    fn try_from(row: table::Model) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Database(format!("schedule {}: its {what} is unknown", row.id));
        let stopped = row.stopped_at.map(|_| row.stopped_reason.map_or(Stopped::Paused, Stopped::Because));
        Ok(Self {
            missed: row.missed.parse().map_err(|_| wrong("treatment of missed firings"))?,
            target: row.target.parse().map_err(|_| wrong("target"))?,
            id: row.id,
            tenant: row.tenant,
            holder: Holder { key: row.key_id, is_operator: row.by_operator },
            author: row.author,
            name: row.name,
            cron: row.cron,
            zone: row.zone,
            body: row.body,
            created_at: row.created_at,
            next_at: row.next_at,
            stopped,
            last: row.last_at.map(|at| Firing {
                at,
                outcome: row.last_id.ok_or_else(|| row.last_error.unwrap_or_default()),
            }),
        })
    }
}
