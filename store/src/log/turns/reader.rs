//! Lookups of turns, batched.

use std::{collections::BTreeMap, sync::Arc};

use queue::{Batcher, WhenAlone};
use sea_orm::{ConnectionTrait, DbBackend, EntityTrait, Statement};
use serde_json::Value;

use crate::{
    Error,
    error::share_outcome,
    log::{database::Database, ids::TurnId, tables::turns},
};

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
