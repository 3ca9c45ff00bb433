//! The pauses: what an operator wants no more begun, until it is resumed.
//!
//! They only say what is paused. What that keeps from beginning is the hands' to know, and the sweep's.

pub(crate) mod table;

use std::{fmt, str::FromStr};

use sea_orm::{EntityTrait as _, IntoActiveModel as _, sea_query::OnConflict};

use self::table::Column;
use crate::{Error, Store, log::plain, time};

/// What can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PauseKind {
    /// All threads of a strategy.
    Strategy,
    /// All requests to a model, `provider/model`.
    Model,
    /// All threads of a tenant.
    Tenant,
}

/// There is no such kind of pause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be paused: a strategy, a model or a tenant can")]
pub struct UnknownKind {
    /// What was read.
    pub text: String,
}

impl PauseKind {
    /// Its name in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            PauseKind::Strategy => "strategy",
            PauseKind::Model => "model",
            PauseKind::Tenant => "tenant",
        }
    }
}

impl fmt::Display for PauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PauseKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        match text {
            "strategy" => Ok(Self::Strategy),
            "model" => Ok(Self::Model),
            "tenant" => Ok(Self::Tenant),
            _ => Err(UnknownKind { text: text.to_owned() }),
        }
    }
}

/// Something that is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// What.
    pub kind: PauseKind,
    /// Which.
    pub name: String,
    /// Why, in a person's words; empty if they gave none.
    pub reason: String,
    /// Who said so.
    pub by: String,
    /// Since when, in microseconds since the Unix epoch.
    pub at: i64,
}

impl Pause {
    /// A pause that begins now.
    pub fn new(kind: PauseKind, name: &str, reason: &str, by: &str) -> Self {
        Self { kind, name: plain(name), reason: plain(reason), by: plain(by), at: time::now() }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pause { kind, name, reason, by, at: _ } = self;
        write!(f, "{kind} {name} is paused by {by}")?;
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

impl Store {
    /// All that is paused, by kind and name.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if a newer turnfold has paused what this one knows nothing of.
    pub async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        let rows = table::Entity::find().all(&self.database.pool).await?;
        let mut pauses = rows.into_iter().map(pause).collect::<Result<Vec<_>, _>>()?;
        // The engines order texts each in its own way.
        pauses.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Ok(pauses)
    }

    /// Pauses something; what is paused already is so for this reason from now on.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written.
    pub async fn pause(&self, new: &Pause) -> Result<(), Error> {
        let Pause { kind, name, reason, by, at } = new.clone();
        let row = table::Model { kind: kind.as_str().to_owned(), name, reason, by, at };
        let over = OnConflict::columns([Column::Kind, Column::Name])
            .update_columns([Column::Reason, Column::By, Column::At])
            .to_owned();
        table::Entity::insert_many([row.into_active_model()])
            .on_conflict(over)
            .exec_without_returning(&self.database.writer)
            .await?;
        Ok(())
    }

    /// Ends a pause, and says whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written.
    pub async fn resume(&self, kind: PauseKind, name: &str) -> Result<bool, Error> {
        let key = (kind.as_str().to_owned(), plain(name));
        let gone = table::Entity::delete_by_id(key).exec(&self.database.writer).await?;
        Ok(gone.rows_affected > 0)
    }
}

fn pause(row: table::Model) -> Result<Pause, Error> {
    let table::Model { kind, name, reason, by, at } = row;
    let kind = kind.parse().map_err(|unknown: UnknownKind| Error::TooNew {
        what: format!("the pause of {} {name:?}", unknown.text),
    })?;
    Ok(Pause { kind, name, reason, by, at })
}
