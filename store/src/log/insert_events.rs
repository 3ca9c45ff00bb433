//! The insertion of events.

use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};

use crate::{
    Error,
    error::is_taken_row,
    log::{
        batch::{Batch, Row},
        head::Head,
        ids::signed,
        postgres,
    },
};

/// Inserts the events of several threads, at most one batch per thread. More than one statement needs a
/// transaction.
pub(crate) async fn insert_events(db: &impl ConnectionTrait, batches: &[&Batch]) -> Result<(), Error> {
    // The database does not say which of several threads caused the rejection.
    let Some(Head { thread, seq, .. }) = batches.first().map(|batch| batch.from) else { return Ok(()) };
    let rows: Vec<_> = batches.iter().flat_map(|batch| batch.numbered()).collect();
    let statements: Vec<_> = if db.get_database_backend() == DbBackend::Postgres {
        rows.chunks(ROWS_MAX).map(for_postgres).collect()
    } else {
        rows.chunks(SQLITE_ROWS_MAX).map(for_sqlite).collect()
    };
    for statement in statements {
        let inserted = db.execute_raw(statement).await;
        inserted.map_err(
            |error| if is_taken_row(&error) { Error::Stale { thread, seq } } else { error.into() },
        )?;
    }
    Ok(())
}

/// Executes the insert of PostgreSQL with no rows.
pub(crate) async fn insert_nothing(db: &impl ConnectionTrait) -> Result<(), Error> {
    db.execute_raw(for_postgres(&[])).await?;
    Ok(())
}

/// Maximum events per insert statement in PostgreSQL.
pub(crate) const ROWS_MAX: usize = 5_000;

/// Maximum events per insert statement in SQLite, where the SQL text depends on the number of rows. Most statements
/// have this size and are prepared once per connection; none exceeds SQLite's limit of bound values.
const SQLITE_ROWS_MAX: usize = 250;

fn for_postgres(rows: &[(&Batch, u64, &Row)]) -> Statement {
    let (mut threads, mut ats, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut payloads, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for (batch, seq, row) in rows {
        threads.push(batch.from.thread);
        ats.push(batch.at);
        seqs.push(signed(*seq));
        kinds.push(row.kind.to_owned());
        payloads.push(row.payload.clone());
        hashes.push(row.hash.to_vec());
    }
    let values = [threads.into(), ats.into(), seqs.into(), kinds.into(), payloads.into(), hashes.into()];
    Statement::from_sql_and_values(DbBackend::Postgres, postgres::INSERT, values)
}

/// SQLite has no arrays. Passing rows as JSON, whose payloads are JSON already, costs more than preparing a new text.
fn for_sqlite(rows: &[(&Batch, u64, &Row)]) -> Statement {
    const ROW: &str = ", (?, ?, 'json', ?, ?, ?, ?)";
    let mut values: Vec<Value> = Vec::with_capacity(rows.len() * 6);
    for (batch, seq, row) in rows {
        values.extend([batch.from.thread.into(), batch.at.into(), signed(*seq).into(), row.kind.into()]);
        values.extend([row.payload.as_str().into(), row.hash.to_vec().into()]);
    }
    let rows = ROW.repeat(rows.len());
    let rows = rows.trim_start_matches(", ");
    let sql = format!("INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) VALUES {rows}");
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
}
