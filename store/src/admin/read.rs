//! Reads administrative logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sea_orm::{ConnectionTrait as _, Value};
use uuid::Uuid;

use super::{
    entry::{AdminEntry, admin_log, decode},
    event::AdminEvent,
};
use crate::{
    Error, Store, Stored, ThreadId,
    log::{
        at_most, event_row::EventRow, ids::corrupt, rows::digest, signed, statement, tables::events, unsigned,
    },
};

/// Maximum entries read at a time.
pub(super) const PAGE: usize = 500;

/// Selection of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminFilter {
    /// Only entries about this tenant; without it, of all logs.
    pub tenant: Option<String>,
    /// Only entries of this kind.
    pub kind: Option<String>,
    /// Only entries from this time on, in microseconds since the Unix epoch.
    pub since: Option<i64>,
    /// Only entries that are older than this one, by its log and number.
    pub before: Option<(Uuid, u64)>,
}

/// Columns of an entry, under the names of those of an event.
const ENTRY: &str = "SELECT log_id AS thread_id, seq, at, kind, payload, codec, hash FROM admin_events";

impl Store {
    /// Returns at most `limit` entries, newest first.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if this build cannot read an entry; [`Error::Unavailable`] if the database does not answer.
    pub async fn admin_entries(&self, filter: &AdminFilter, limit: u64) -> Result<Vec<AdminEntry>, Error> {
        let db = &self.database.pool;
        let mut values: Vec<Value> = Vec::new();
        let mut conditions = String::new();
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            conditions += &format!(" AND {}", condition.replace('?', &format!("${}", values.len())));
        };
        if let Some(tenant) = &filter.tenant {
            add("log_id = ?", admin_log(Some(tenant)).into());
        }
        if let Some(kind) = &filter.kind {
            add("kind = ?", kind.as_str().into());
        }
        if let Some(since) = filter.since {
            add("at >= ?", since.into());
        }
        match filter.before {
            Some((log, _))
                if filter.tenant.as_deref().is_some_and(|tenant| admin_log(Some(tenant)) != log) =>
            {
                return Ok(Vec::new());
            }
            Some((_, seq)) if filter.tenant.is_some() => add("seq < ?", signed(seq).into()),
            Some((log, seq)) => {
                add(
                    "(at, log_id, seq) < (SELECT at, log_id, seq FROM admin_events WHERE log_id = ?",
                    log.into(),
                );
                add("seq = ?)", signed(seq).into());
            }
            None => {}
        }
        // Each order is that of an index.
        let order = match filter.tenant {
            Some(_) => "seq DESC",
            None => "at DESC, log_id DESC, seq DESC",
        };
        let columns = EventRow::columns(db.get_database_backend());
        let limit = at_most(limit);
        let sql = format!(
            "SELECT {columns} FROM ({ENTRY} WHERE TRUE{conditions} ORDER BY {order} LIMIT {limit}) AS page \
             ORDER BY page.at DESC, page.thread_id DESC, page.seq DESC"
        );
        let rows = db.query_all_raw(statement(db, &sql, values)).await?;
        rows.iter().map(|row| decode(&EventRow::read(row)?)).collect()
    }

    /// Returns at most `limit` entries of a log from number `from`, byte for byte.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a hash has not 32 bytes; [`Error::Unavailable`] if the database does not answer.
    pub async fn admin_stored(&self, log: Uuid, from: u64, limit: u64) -> Result<Vec<Stored>, Error> {
        let db = &self.database.pool;
        let (columns, limit) = (EventRow::columns(db.get_database_backend()), at_most(limit));
        let sql = format!(
            "SELECT {columns} FROM ({ENTRY} WHERE log_id = $1 AND seq >= $2 ORDER BY seq LIMIT {limit}) AS page ORDER BY page.seq"
        );
        let rows = db.query_all_raw(statement(db, &sql, [log.into(), signed(from).into()])).await?;
        let stored = |row: &sea_orm::QueryResult| {
            let columns = EventRow::read(row)?.columns;
            let hash = digest(&columns)?;
            let events::Model { seq, at, kind, codec, payload, .. } = columns;
            Ok(Stored { seq: unsigned(seq)?, at, kind, codec, payload, hash })
        };
        rows.iter().map(stored).collect()
    }

    /// Returns the last entry about the deletion of each of these threads.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn deletions(
        &self,
        threads: &BTreeSet<ThreadId>,
    ) -> Result<BTreeMap<ThreadId, AdminEntry>, Error> {
        let mut found = BTreeMap::new();
        for log in self.admin_logs().await? {
            self.along_admin_log(log, |row| {
                // The verification names an entry that cannot be read.
                let Ok(entry) = decode(row) else { return ControlFlow::Continue(()) };
                let deleted: &[ThreadId] = match &entry.event {
                    AdminEvent::ThreadDeleted { thread, .. } => std::slice::from_ref(thread),
                    AdminEvent::ThreadsPruned { threads, .. } => threads,
                    AdminEvent::HoldPlaced { .. }
                    | AdminEvent::HoldReleased { .. }
                    | AdminEvent::BatchPruned { .. }
                    | AdminEvent::FileDeleted { .. }
                    | AdminEvent::FilesPruned { .. }
                    | AdminEvent::KeyCreated { .. }
                    | AdminEvent::KeyRotated { .. }
                    | AdminEvent::KeyRevoked { .. }
                    | AdminEvent::KeysForgotten { .. }
                    | AdminEvent::ToolsApproved { .. }
                    | AdminEvent::ToolsReset { .. }
                    | AdminEvent::Paused { .. }
                    | AdminEvent::Resumed { .. }
                    | AdminEvent::ModelForgotten { .. }
                    | AdminEvent::BatchCancelled { .. }
                    | AdminEvent::BatchPaused { .. }
                    | AdminEvent::BatchResumed { .. }
                    | AdminEvent::BatchRerun { .. }
                    | AdminEvent::ScheduleCreated { .. }
                    | AdminEvent::SchedulePaused { .. }
                    | AdminEvent::ScheduleStopped { .. }
                    | AdminEvent::ScheduleResumed { .. }
                    | AdminEvent::ScheduleDeleted { .. }
                    | AdminEvent::WebhookCreated { .. }
                    | AdminEvent::WebhookDisabled { .. }
                    | AdminEvent::WebhookDeleted { .. }
                    | AdminEvent::ConfigurationChanged { .. } => &[],
                };
                found.extend(
                    deleted.iter().filter(|it| threads.contains(it)).map(|thread| (*thread, entry.clone())),
                );
                ControlFlow::Continue(())
            })
            .await?;
        }
        Ok(found)
    }

    /// Returns the ids of all administrative logs, in order.
    pub(crate) async fn admin_logs(&self) -> Result<Vec<Uuid>, Error> {
        let db = &self.database.pool;
        let has_key = EventRow::has_key(db.get_database_backend()).replace("thread_id", "log_id");
        let sql = format!("SELECT DISTINCT log_id FROM admin_events WHERE {has_key} ORDER BY log_id");
        let rows = db.query_all_raw(statement(db, &sql, [])).await?;
        rows.iter().map(|row| Ok(row.try_get_by_index(0)?)).collect()
    }

    /// Passes the rows of a log to `each`, in the order of their numbers, until it breaks off. Holds one page in memory.
    pub(super) async fn along_admin_log(
        &self,
        log: Uuid,
        mut each: impl FnMut(&EventRow) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let db = &self.database.pool;
        let (columns, has_key) =
            (EventRow::columns(db.get_database_backend()), EventRow::has_key(db.get_database_backend()));
        let sql = format!(
            "SELECT {columns} FROM ({ENTRY} WHERE log_id = $1 AND seq > $2 ORDER BY seq LIMIT {PAGE}) AS page \
             WHERE {has_key} ORDER BY page.seq"
        );
        let mut after = i64::MIN;
        loop {
            let rows = db.query_all_raw(statement(db, &sql, [log.into(), after.into()])).await?;
            for row in &rows {
                let row = EventRow::read(row)
                    .map_err(|error| corrupt(log, format_args!("an entry cannot be read: {error}")))?;
                after = row.columns.seq;
                if each(&row).is_break() {
                    return Ok(());
                }
            }
            if rows.is_empty() {
                return Ok(());
            }
        }
    }
}
