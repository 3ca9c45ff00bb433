//! Pauses: strategies, models and tenants for which an operator, or the tenant itself, has stopped new work.
//!
//! This module only stores pauses. Workers and the sweeper enforce them.

pub(crate) mod table;

use std::fmt;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{EntityTrait as _, IntoActiveModel as _, sea_query::OnConflict};
use shared::{CallerId, PauseKind, UnknownStatus};

use self::table::Column;
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, plain},
};

/// A pause in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Kind of the pause.
    pub kind: PauseKind,
    /// Name of the paused strategy, model or tenant.
    pub name: String,
    /// Reason in a person's words; may be empty.
    pub reason: String,
    /// Author of the pause.
    pub by: String,
    /// Start of the pause, in microseconds since the Unix epoch.
    pub at: i64,
}

impl Pause {
    /// Creates a pause that starts now.
    pub fn new(kind: PauseKind, name: &str, reason: &str, by: &str) -> Self {
        Self { kind, name: plain(name), reason: plain(reason), by: plain(by), at: clock::now() }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pause { kind, name, reason, by, at: _ } = self;
        match kind {
            PauseKind::OwnTenant => write!(f, "tenant {name} has paused itself, by {by}")?,
            PauseKind::Strategy | PauseKind::Model | PauseKind::Tenant => {
                write!(f, "{kind} {name} is paused by {by}")?;
            }
        }
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

impl Store {
    /// Returns all pauses, ordered by kind and name.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if a newer version of turnfold has stored an unknown kind of pause.
    pub async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        let rows = table::Entity::find().all(&self.database.pool).await?;
        let mut pauses = rows.into_iter().map(pause).collect::<Result<Vec<_>, _>>()?;
        // Sorted here, because the engines' collations differ.
        pauses.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Ok(pauses)
    }

    /// Stores a pause; an existing pause of the same kind and name is replaced. `caller` is its author, as the key proves it.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn pause(&self, new: &Pause, caller: Option<CallerId>) -> Result<(), Error> {
        let new = new.clone();
        self.database.transact(move |tx| put(tx, new, caller).boxed()).await
    }

    /// Removes a pause. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn resume(&self, kind: PauseKind, name: &str, by: impl Into<By>) -> Result<bool, Error> {
        let (name, by) = (plain(name), by.into());
        self.database.transact(move |tx| end(tx, kind, name, by).boxed()).await
    }
}

async fn put(tx: &Transaction, new: Pause, caller: Option<CallerId>) -> Result<(), Error> {
    let Pause { kind: of, name, reason, by, at } = new;
    let author = By { caller, reason: Some(reason.clone()), ..By::from(&by) };
    let row = table::Model { kind: of.as_str().to_owned(), name: name.clone(), reason, by, at };
    let over = OnConflict::columns([Column::Kind, Column::Name])
        .update_columns([Column::Reason, Column::By, Column::At])
        .to_owned();
    let insert = table::Entity::insert_many([row.into_active_model()]).on_conflict(over);
    insert.exec_without_returning(tx).await?;
    let tenant = concerned(of, &name);
    append(tx, vec![Entry::new(tenant.as_deref(), author, AdminEvent::Paused { of, name, at })]).await
}

async fn end(tx: &Transaction, of: PauseKind, name: String, by: By) -> Result<bool, Error> {
    let key = (of.as_str().to_owned(), name.clone());
    if table::Entity::delete_by_id(key).exec(tx).await?.rows_affected == 0 {
        return Ok(false);
    }
    let tenant = concerned(of, &name);
    append(tx, vec![Entry::new(tenant.as_deref(), by, AdminEvent::Resumed { of, name })]).await?;
    Ok(true)
}

/// Returns the tenant whose log has the pause; `None` if it concerns more than one.
pub(crate) fn concerned(kind: PauseKind, name: &str) -> Option<String> {
    match kind {
        PauseKind::Tenant | PauseKind::OwnTenant => Some(name.to_owned()),
        PauseKind::Strategy | PauseKind::Model => None,
    }
}

fn pause(row: table::Model) -> Result<Pause, Error> {
    let table::Model { kind, name, reason, by, at } = row;
    let kind = kind.parse().map_err(|unknown: UnknownStatus| Error::TooNew {
        what: format!("the pause of {} {name:?}", unknown.text),
    })?;
    Ok(Pause { kind, name, reason, by, at })
}
