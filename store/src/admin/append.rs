//! Appends entries to administrative logs.

use std::collections::BTreeMap;

use queue::clock;
use sea_orm::{ConnectionTrait, FromQueryResult};
use uuid::Uuid;

use super::{
    entry::{By, admin_log, encode},
    event::AdminEvent,
};
use crate::{
    Error,
    integrity::hash_chain,
    log::{Transaction, one_at_a_time, signed, statement, unsigned},
};

/// An entry to append.
pub(crate) struct Entry {
    tenant: Option<String>,
    by: By,
    is_adopted: bool,
    event: AdminEvent,
}

impl Entry {
    /// Creates an entry of a tenant's log, or of the log of what concerns no tenant.
    pub(crate) fn new(tenant: Option<&str>, by: By, event: AdminEvent) -> Self {
        Self { tenant: tenant.map(str::to_owned), by, is_adopted: false, event }
    }

    /// Marks the entry as one of a row that existed before the log.
    pub(super) fn adopted(self) -> Self {
        Self { is_adopted: true, ..self }
    }
}

#[derive(FromQueryResult)]
struct Last {
    seq: i64,
    hash: Vec<u8>,
}

/// Appends entries, as the last statements of the transaction.
///
/// Other transactions that append to the same logs wait until this one ends: at most as long as the timeouts of the connection.
/// The key `(log, number)` alone decides the number.
pub(crate) async fn append(tx: &Transaction, entries: Vec<Entry>) -> Result<(), Error> {
    let mut logs: BTreeMap<Uuid, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        logs.entry(admin_log(entry.tenant.as_deref())).or_default().push(entry);
    }
    for (log, entries) in logs {
        one_at_a_time(tx, "admin_events", &log.to_string()).await?;
        insert(tx, log, entries).await?;
    }
    Ok(())
}

/// Appends entries to one log, whose other writers wait.
pub(super) async fn insert(db: &impl ConnectionTrait, log: Uuid, entries: Vec<Entry>) -> Result<(), Error> {
    let sql = "SELECT seq, hash FROM admin_events WHERE log_id = $1 ORDER BY seq DESC LIMIT 1";
    let last = Last::find_by_statement(statement(db, sql, [log.into()])).one(db).await?;
    let (mut seq, mut hash) = (0, hash_chain::START);
    if let Some(last) = last {
        seq = unsigned(last.seq)? + 1;
        hash = last.hash.try_into().map_err(|_| {
            Error::Database(format!(
                "the hash of the last entry of the administrative log {log} has not 32 bytes"
            ))
        })?;
    }
    let sql = "INSERT INTO admin_events (log_id, seq, at, kind, payload, codec, hash) \
               VALUES ($1, $2, $3, $4, $5, 'json', $6)";
    let at = clock::now();
    for Entry { tenant, by, is_adopted, event } in entries {
        let payload = encode(tenant.as_deref(), &by, is_adopted, &event)?;
        hash = hash_chain::link(&hash, seq, at, event.kind(), &payload);
        let values = [
            log.into(),
            signed(seq).into(),
            at.into(),
            event.kind().into(),
            payload.into(),
            hash.to_vec().into(),
        ];
        db.execute_raw(statement(db, sql, values)).await?;
        seq += 1;
    }
    Ok(())
}
