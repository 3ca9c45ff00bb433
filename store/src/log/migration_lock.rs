//! Changes of the schema, one process at a time.

use sea_orm::{ConnectionTrait as _, DatabaseTransaction, DbErr};

/// Advisory lock that lets one process migrate at a time. An arbitrary number.
const MIGRATION_LOCK: i64 = 7_430_231_907_114_026_113;

/// Excludes other processes that change the schema, until the transaction ends, and lifts its time limits: another process may
/// take long, and so may this one.
pub(super) async fn alone(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    tx.execute_unprepared("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0").await?;
    tx.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await.map(drop)
}
