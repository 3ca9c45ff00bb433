//! The pins: what tools each MCP server had when somebody last took them for good.
//!
//! They only keep texts. What a difference means is the hands' to know.

mod table;

use sea_orm::{EntityTrait as _, IntoActiveModel as _, QueryOrder as _, sea_query::OnConflict};
use sha2::{Digest as _, Sha256};

use self::table::Column;
use crate::{Error, Store, log::plain, time};

/// What tools one server had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The server.
    pub server: String,
    /// Its tools, as JSON.
    pub definitions: String,
    /// Names that text by its content.
    pub hash: String,
    /// Who took them for good.
    pub approved_by: String,
    /// When, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

impl Pin {
    /// One of these tools, taken for good now.
    pub fn new(server: &str, definitions: &str, approved_by: &str) -> Self {
        let definitions = plain(definitions);
        Self {
            server: plain(server),
            hash: Self::hash_of(&definitions),
            definitions,
            approved_by: plain(approved_by),
            updated_at: time::now(),
        }
    }

    /// The name of a text by its content: its SHA-256, in hexadecimal.
    pub fn hash_of(definitions: &str) -> String {
        hex::encode(Sha256::digest(definitions))
    }
}

impl Store {
    /// All pins, by server.
    ///
    /// # Errors
    ///
    /// [`Error`] if they cannot be read.
    pub async fn pins(&self) -> Result<Vec<Pin>, Error> {
        let rows = table::Entity::find().order_by_asc(Column::Server).all(&self.database.pool).await?;
        let mut pins: Vec<Pin> = rows.into_iter().map(pin).collect();
        // The engines order texts each in its own way.
        pins.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(pins)
    }

    /// The pin of a server, if it has one.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be read.
    pub async fn pin(&self, server: &str) -> Result<Option<Pin>, Error> {
        Ok(table::Entity::find_by_id(plain(server)).one(&self.database.pool).await?.map(pin))
    }

    /// Pins a server unless it is pinned, and says which pin stands.
    ///
    /// **Invariant:** of many who pin a server at the same moment one wins, and all hear of that one's.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written.
    pub async fn pin_if_absent(&self, new: Pin) -> Result<Pin, Error> {
        // Mostly there is one, and nobody needs to wait for whoever writes.
        if let Some(standing) = self.pin(&new.server).await? {
            return Ok(standing);
        }
        let unless = OnConflict::column(Column::Server).do_nothing().to_owned();
        self.write(&new, unless).await?;
        // Whoever takes the pin away at this very moment wants the next one who comes to pin anew.
        Ok(self.pin(&new.server).await?.unwrap_or(new))
    }

    /// Pins a server, over the pin that it may have.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written.
    pub async fn approve(&self, new: Pin) -> Result<(), Error> {
        let over = OnConflict::column(Column::Server)
            .update_columns([Column::Definitions, Column::Hash, Column::ApprovedBy, Column::UpdatedAt])
            .to_owned();
        self.write(&new, over).await
    }

    /// Takes the pin of a server away, so that its next use pins it anew, and says whether it had one.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written.
    pub async fn unpin(&self, server: &str) -> Result<bool, Error> {
        let gone = table::Entity::delete_by_id(plain(server)).exec(&self.database.writer).await?;
        Ok(gone.rows_affected > 0)
    }

    async fn write(&self, new: &Pin, on_conflict: OnConflict) -> Result<(), Error> {
        let row = [row(new.clone()).into_active_model()];
        table::Entity::insert_many(row)
            .on_conflict(on_conflict)
            .exec_without_returning(&self.database.writer)
            .await?;
        Ok(())
    }
}

fn row(pin: Pin) -> table::Model {
    let Pin { server, definitions, hash, approved_by, updated_at } = pin;
    table::Model { server, definitions, hash, approved_by, updated_at }
}

fn pin(row: table::Model) -> Pin {
    let table::Model { server, definitions, hash, approved_by, updated_at } = row;
    Pin { server, definitions, hash, approved_by, updated_at }
}
