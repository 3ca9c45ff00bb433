//! The tables, in the order they came: one file a migration.
//!
//! Migrations are a promise: one that was released is never edited, only followed by another.
//!
//! ## Why no foreign keys
//!
//! A thread and its first event are written in one transaction, and a thread is deleted, if ever, with all that is
//! its own in one (`store/src/log/prune.rs`): so there is nothing for a foreign key to find.
//! What a batch or a file keeps goes after its row, in pages: a sweep or the next prune takes up what a crash left.

mod m20261121_000001_threads;
mod m20261121_000002_turns;
mod m20261121_000003_events;
mod m20261122_000004_index;
mod m20261122_000005_pins;
mod m20261122_000006_tenants;
mod m20261122_000007_holds;
mod m20261122_000008_pauses;
mod m20261122_000009_partitions;
mod m20261122_000010_bulk;
mod m20261122_000012_due;
mod m20261122_000013_batch_threads;
mod m20261122_000015_counts;
mod m20261122_000016_webhooks;
mod m20261122_000017_outcomes;
mod m20261122_000018_forks;
mod m20261122_000019_items;
mod m20261122_000020_open;
mod m20261123_000021_lz4;
mod m20261123_000022_batch_of;
mod m20261123_000023_answers;
mod m20261123_000024_asked;
mod m20261125_000025_open_turns;

use sea_orm_migration::{
    IntoSchemaManagerConnection, MigrationTrait, MigratorTrait, SchemaManager,
    sea_orm::{DatabaseTransaction, DbErr, EntityTrait},
    seaql_migrations,
};

/// How the tables of a database compare to those that this build knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Migrations that the database lacks, oldest first.
    pub pending: Vec<String>,
    /// Migrations that the database has and this build has never heard of: a newer one was here.
    pub unknown: Vec<String>,
}

/// Looks, and changes nothing: it needs no right to create tables.
///
/// # Errors
///
/// [`DbErr`] if the database does not answer.
pub async fn survey<'c>(db: impl IntoSchemaManagerConnection<'c>) -> Result<Survey, DbErr> {
    let manager = SchemaManager::new(db);
    let applied: Vec<String> = if manager.has_table("seaql_migrations").await? {
        let rows = seaql_migrations::Entity::find().all(manager.get_connection()).await?;
        rows.into_iter().map(|it| it.version).collect()
    } else {
        Vec::new()
    };
    let known: Vec<String> = Migrator::migrations().iter().map(|it| it.name().to_owned()).collect();
    Ok(Survey {
        pending: known.iter().filter(|it| !applied.contains(it)).cloned().collect(),
        unknown: applied.into_iter().filter(|it| !known.contains(it)).collect(),
    })
}

/// Applies what is pending, all of it or nothing, and says what that was.
///
/// # Errors
///
/// [`DbErr`] if the database refuses, or holds migrations that this build does not know.
pub async fn migrate(tx: &DatabaseTransaction) -> Result<Vec<String>, DbErr> {
    let pending = survey(tx).await?.pending;
    Migrator::up(tx, None).await?;
    Ok(pending)
}

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_000001_threads::Migration),
            Box::new(m20261121_000002_turns::Migration),
            Box::new(m20261121_000003_events::Migration),
            Box::new(m20261122_000004_index::Migration),
            Box::new(m20261122_000005_pins::Migration),
            Box::new(m20261122_000006_tenants::Migration),
            Box::new(m20261122_000007_holds::Migration),
            Box::new(m20261122_000008_pauses::Migration),
            Box::new(m20261122_000009_partitions::Migration),
            Box::new(m20261122_000010_bulk::Migration),
            Box::new(m20261122_000012_due::Migration),
            Box::new(m20261122_000013_batch_threads::Migration),
            Box::new(m20261122_000015_counts::Migration),
            Box::new(m20261122_000016_webhooks::Migration),
            Box::new(m20261122_000017_outcomes::Migration),
            Box::new(m20261122_000018_forks::Migration),
            Box::new(m20261122_000019_items::Migration),
            Box::new(m20261122_000020_open::Migration),
            Box::new(m20261123_000021_lz4::Migration),
            Box::new(m20261123_000022_batch_of::Migration),
            Box::new(m20261123_000023_answers::Migration),
            Box::new(m20261123_000024_asked::Migration),
            Box::new(m20261125_000025_open_turns::Migration),
        ]
    }
}
