//! Pins: the tool definitions of each MCP server that were approved last.
//!
//! This module only stores pins. Workers compare them with the servers' current definitions.

pub(crate) mod table;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{EntityTrait as _, IntoActiveModel as _, QueryOrder as _, sea_query::OnConflict};
use sha2::{Digest as _, Sha256};

use self::table::Column;
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, plain},
};

/// Approved tool definitions of one MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Name of the server.
    pub server: String,
    /// Tool definitions, as JSON.
    pub definitions: String,
    /// Hash of the definitions.
    pub hash: String,
    /// Author of the approval.
    pub approved_by: String,
    /// Time of the approval, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

impl Pin {
    /// Creates a pin of these definitions, approved now.
    pub fn new(server: &str, definitions: &str, approved_by: &str) -> Self {
        let definitions = plain(definitions);
        Self {
            server: plain(server),
            hash: Self::hash_of(&definitions),
            definitions,
            approved_by: plain(approved_by),
            updated_at: clock::now(),
        }
    }

    /// Returns the hash of a text: its SHA-256, in hexadecimal.
    pub fn hash_of(definitions: &str) -> String {
        hex::encode(Sha256::digest(definitions))
    }
}

impl Store {
    /// Returns all pins, ordered by server.
    ///
    /// # Errors
    ///
    /// [`Error`] if the read fails.
    pub async fn pins(&self) -> Result<Vec<Pin>, Error> {
        let rows = table::Entity::find().order_by_asc(Column::Server).all(&self.database.pool).await?;
        let mut pins: Vec<Pin> = rows.into_iter().map(pin).collect();
        // Sorted here, because the engines' collations differ.
        pins.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(pins)
    }

    /// Returns the pin of a server, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`Error`] if the read fails.
    pub async fn pin(&self, server: &str) -> Result<Option<Pin>, Error> {
        Ok(table::Entity::find_by_id(plain(server)).one(&self.database.pool).await?.map(pin))
    }

    /// Pins a server unless it has a pin. Returns the pin in effect.
    ///
    /// **Invariant:** of several concurrent callers one succeeds, and all of them get the same pin.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn pin_if_absent(&self, new: Pin) -> Result<Pin, Error> {
        // A pin exists in most cases, and reading it does not wait for a writer.
        if let Some(standing) = self.pin(&new.server).await? {
            return Ok(standing);
        }
        let row = new.clone();
        self.database.transact(move |tx| insert_first(tx, row).boxed()).await?;
        // If the pin has been removed in the meantime, the new definitions apply until the next caller pins them.
        Ok(self.pin(&new.server).await?.unwrap_or(new))
    }

    /// Pins a server for `by`, replacing an existing pin.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn approve(&self, new: Pin, by: impl Into<By>) -> Result<(), Error> {
        let by = by.into();
        let new = Pin { approved_by: plain(&by.name), ..new };
        self.database.transact(move |tx| replace(tx, new, by).boxed()).await
    }

    /// Removes the pin of a server, so that the next use creates a new one. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn unpin(&self, server: &str, by: impl Into<By>) -> Result<bool, Error> {
        let (server, by) = (plain(server), by.into());
        self.database.transact(move |tx| remove(tx, server, by).boxed()).await
    }
}

fn approval(pin: &Pin) -> AdminEvent {
    AdminEvent::ToolsApproved { server: plain(&pin.server), hash: plain(&pin.hash), at: pin.updated_at }
}

async fn insert_first(tx: &Transaction, pin: Pin) -> Result<(), Error> {
    let (by, approved) = (By::from(&pin.approved_by), approval(&pin));
    let unless = OnConflict::column(Column::Server).do_nothing().to_owned();
    let insert = table::Entity::insert_many([row(pin).into_active_model()]).on_conflict(unless);
    match insert.exec_without_returning(tx).await? {
        0 => Ok(()),
        _ => append(tx, vec![Entry::new(None, by, approved)]).await,
    }
}

async fn replace(tx: &Transaction, pin: Pin, by: By) -> Result<(), Error> {
    let approved = approval(&pin);
    let over = OnConflict::column(Column::Server)
        .update_columns([Column::Definitions, Column::Hash, Column::ApprovedBy, Column::UpdatedAt])
        .to_owned();
    let insert = table::Entity::insert_many([row(pin).into_active_model()]).on_conflict(over);
    insert.exec_without_returning(tx).await?;
    append(tx, vec![Entry::new(None, by, approved)]).await
}

async fn remove(tx: &Transaction, server: String, by: By) -> Result<bool, Error> {
    if table::Entity::delete_by_id(server.clone()).exec(tx).await?.rows_affected == 0 {
        return Ok(false);
    }
    append(tx, vec![Entry::new(None, by, AdminEvent::ToolsReset { server })]).await?;
    Ok(true)
}

fn row(pin: Pin) -> table::Model {
    let Pin { server, definitions, hash, approved_by, updated_at } = pin;
    table::Model { server, definitions, hash, approved_by, updated_at }
}

fn pin(row: table::Model) -> Pin {
    let table::Model { server, definitions, hash, approved_by, updated_at } = row;
    Pin { server, definitions, hash, approved_by, updated_at }
}
