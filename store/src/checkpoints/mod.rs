//! Checkpoints, as they were last made.
//!
//! ## Why they prove nothing
//!
//! A user who can change logs can change these rows too. They say when the last checkpoint was made; only the signed note,
//! which is kept elsewhere, attests a log.

mod table;

use sea_orm::{
    ConnectionTrait as _, EntityTrait as _, IntoActiveModel as _, QueryOrder as _, QuerySelect as _,
    sea_query::OnConflict,
};

use uuid::Uuid;

use self::table::Column;
use crate::{
    Error, Store,
    log::{plain, signed, statement, unsigned},
};

/// Maximum checkpoints that are listed.
const LISTED_MAX: u64 = 100;

/// The last checkpoint of one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Name of the key that signed it.
    pub origin: String,
    /// File of the note.
    pub file: String,
    /// Number of heads that it attests.
    pub heads: u64,
    /// Number of threads that were read.
    pub threads: u64,
    /// Number of threads that were not attested again.
    pub findings: u64,
    /// Time at which it was made, in microseconds since the Unix epoch.
    pub made_at: i64,
}

impl Store {
    /// Records that a checkpoint was made. It replaces the last one of its origin.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn record_checkpoint(&self, checkpoint: &CheckpointRecord) -> Result<(), Error> {
        let CheckpointRecord { origin, file, heads, threads, findings, made_at } = checkpoint;
        let row = table::Model {
            origin: plain(origin),
            file: plain(file),
            heads: signed(*heads),
            threads: signed(*threads),
            findings: signed(*findings),
            made_at: *made_at,
        };
        let columns = [Column::File, Column::Heads, Column::Threads, Column::Findings, Column::MadeAt];
        let replaced = OnConflict::column(Column::Origin).update_columns(columns).to_owned();
        table::Entity::insert_many([row.into_active_model()])
            .on_conflict(replaced)
            .exec_without_returning(&self.database.writer)
            .await?;
        Ok(())
    }

    /// Returns the identity of the store, which its checkpoints name. It was made with the database, and a copy of the database has
    /// the same.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] if the database has none.
    pub async fn store_id(&self) -> Result<Uuid, Error> {
        let pool = &self.database.pool;
        let row = pool.query_one_raw(statement(pool, "SELECT id FROM store_identity", [])).await?;
        let row = row.ok_or_else(|| Error::Database("the table store_identity has no row".to_owned()))?;
        Ok(row.try_get("", "id")?)
    }

    /// Returns the last checkpoint of each origin, newest first, at most 100.
    ///
    /// # Errors
    ///
    /// [`Error`] if a row cannot be read.
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointRecord>, Error> {
        let rows = table::Entity::find().order_by_desc(Column::MadeAt).limit(LISTED_MAX);
        rows.all(&self.database.pool).await?.into_iter().map(record).collect()
    }
}

fn record(row: table::Model) -> Result<CheckpointRecord, Error> {
    let table::Model { origin, file, heads, threads, findings, made_at } = row;
    let (heads, threads, findings) = (unsigned(heads)?, unsigned(threads)?, unsigned(findings)?);
    Ok(CheckpointRecord { origin, file, heads, threads, findings, made_at })
}
