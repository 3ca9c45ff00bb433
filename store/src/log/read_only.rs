//! Connections to a PostgreSQL server that has become read-only: a standby, or a demoted primary.
//!
//! A server that is demoted keeps its connections, and a pool would go on using them after another server has taken over.
//! After a write was refused as read-only, every connection is asked before its next use, and closed if it still only
//! reads. A process that never writes, such as an audit of a standby, is not affected.

use std::{
    sync::{LazyLock, Mutex},
    time::{Duration, Instant},
};

use sea_orm::sqlx::{self, PgConnection, Row as _};

/// Time after a refused write during which connections are asked. A refusal starts it again.
const SUSPECT_FOR: Duration = Duration::from_secs(60);

/// Last refused write of this process, on any connection.
static LAST_SEEN: LazyLock<Mutex<Option<Instant>>> = LazyLock::new(Mutex::default);

/// Records that a server refused a write because it only reads.
pub(crate) fn seen() {
    if let Ok(mut at) = LAST_SEEN.lock() {
        *at = Some(Instant::now());
    }
}

/// Returns true if the connection may be used: no write was refused lately, or its server accepts writes.
pub(super) async fn may_be_used(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let suspect = LAST_SEEN.lock().is_ok_and(|at| at.is_some_and(|seen| seen.elapsed() < SUSPECT_FOR));
    if !suspect {
        return Ok(true);
    }
    let sql = "SELECT NOT current_setting('transaction_read_only')::bool";
    sqlx::raw_sql(sql).fetch_one(connection).await?.try_get(0)
}
