//! The vector index in the store's own database.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::FutureExt as _;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, sea_query::OnConflict,
};

use super::{
    Embedded, Entry, VectorIndex,
    table::{self, Column},
};
use crate::{Error, Store, log::plain};

/// Maximum number of rows per statement; engines limit the number of parameters.
const ROWS: usize = 100;

#[async_trait]
impl VectorIndex for Store {
    async fn upsert(&self, entries: Vec<Entry>) -> Result<(), Error> {
        self.database.transact(|tx| upsert(tx, entries).boxed()).await
    }

    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error> {
        let servers = servers.to_vec();
        self.database.transact(|tx| async move { remove(tx, &servers).await }.boxed()).await
    }

    async fn all(&self) -> Result<Vec<Entry>, Error> {
        let rows = table::Entity::find().order_by_asc(Column::Server).all(&self.database.pool).await?;
        let mut entries = rows.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        // Sorted here, because the engines' collations differ.
        entries.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(entries)
    }

    async fn models(&self) -> Result<BTreeSet<Option<String>>, Error> {
        let models = table::Entity::find().select_only().column(Column::Model).distinct();
        Ok(models.into_tuple::<Option<String>>().all(&self.database.pool).await?.into_iter().collect())
    }
}

async fn upsert(db: &impl ConnectionTrait, entries: Vec<Entry>) -> Result<(), Error> {
    let mut rows = entries.into_iter().map(|entry| row(entry).into_active_model()).peekable();
    while rows.peek().is_some() {
        let over = OnConflict::column(Column::Server)
            .update_columns([Column::Hash, Column::Text, Column::Vector, Column::Model, Column::UpdatedAt])
            .to_owned();
        let some: Vec<_> = rows.by_ref().take(ROWS).collect();
        table::Entity::insert_many(some).on_conflict(over).exec_without_returning(db).await?;
    }
    Ok(())
}

async fn remove(db: &impl ConnectionTrait, servers: &[String]) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    for server in servers {
        let of_server = table::Entity::delete_many().filter(Column::Server.eq(plain(server)));
        if of_server.exec(db).await?.rows_affected > 0 {
            removed.push(server.clone());
        }
    }
    removed.sort();
    Ok(removed)
}

fn row(entry: Entry) -> table::Model {
    let Entry { server, hash, text, embedded, updated_at } = entry;
    let (model, vector) = embedded.map(|it| (it.model, it.vector)).unzip();
    let vector =
        vector.map(|numbers: Vec<f32>| numbers.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
    table::Model { server: plain(&server), hash: plain(&hash), text: plain(&text), vector, model, updated_at }
}

fn entry(row: table::Model) -> Result<Entry, Error> {
    let table::Model { server, hash, text, vector, model, updated_at } = row;
    let numbers = |bytes: Vec<u8>| {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let whole = rest.is_empty().then_some(numbers);
        whole.ok_or_else(|| {
            Error::Database(format!(
                "the index has an invalid vector of server {server}; hint: build the index again"
            ))
        })
    };
    let embedded = match (model, vector.map(numbers).transpose()?) {
        (Some(model), Some(vector)) => Some(Embedded { model, vector }),
        (Some(_) | None, Some(_) | None) => None,
    };
    Ok(Entry { server, hash, text, embedded, updated_at })
}
