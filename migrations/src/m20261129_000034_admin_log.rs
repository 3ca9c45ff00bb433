//! Administrative logs: one for each tenant, and one for what concerns no tenant. Views of all logs, for audits in SQL.
//!
//! ## Why the columns are those of events
//!
//! The same code hashes, reads and verifies both. `log_id` takes the place of the thread: it is computed from the name of the tenant.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "
    CREATE TABLE admin_events (
        log_id  UUID NOT NULL,
        seq     BIGINT NOT NULL,
        at      BIGINT NOT NULL,
        kind    TEXT NOT NULL,
        payload TEXT NOT NULL,
        codec   TEXT NOT NULL,
        hash    BYTEA NOT NULL,
        PRIMARY KEY (log_id, seq)
    )";

const BY_TIME: &str = "CREATE INDEX admin_events_by_time ON admin_events (at, log_id, seq)";

/// Expressions that differ between the databases; `?` is the column, or the path in the payload.
struct Dialect {
    uuid: &'static str,
    time: &'static str,
    hex: &'static str,
    /// A text of the payload.
    text: fn(&str) -> String,
}

/// The payload with another character in the place of NUL, on which PostgreSQL would fail: one event must not make a view fail.
const WITHOUT_NUL: &str = r"replace(e.payload, '\u0000', '\ufffd')";

const POSTGRES: Dialect = Dialect {
    uuid: "?::text",
    time: "to_char(to_timestamp(? / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
    hex: "encode(?, 'hex')",
    text: |path| format!("({WITHOUT_NUL}::json #>> '{{{}}}')", path.replace('.', ",")),
};

const SQLITE: Dialect = Dialect {
    uuid: "lower(substr(hex(?), 1, 8) || '-' || substr(hex(?), 9, 4) || '-' || substr(hex(?), 13, 4) || '-' || \
           substr(hex(?), 17, 4) || '-' || substr(hex(?), 21))",
    time: "strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000000.0, 'unixepoch')",
    hex: "lower(hex(?))",
    text: |path| format!("({WITHOUT_NUL} ->> '$.{path}')"),
};

/// The views, which are a contract: columns are added, and never renamed or removed.
fn views(dialect: &Dialect) -> String {
    let of = |expression: &str, column: &str| expression.replace('?', column);
    let text = dialect.text;
    let rest = format!(
        "e.seq, e.at, {} AS time, e.kind, {} AS hash, e.payload",
        of(dialect.time, "e.at"),
        of(dialect.hex, "e.hash")
    );
    let who = |name: &str, key: &str| format!("{} AS actor, {} AS key_id", text(name), text(key));
    let answer = "SELECT min(a.seq) FROM events AS a WHERE a.thread_id = e.thread_id AND a.seq > e.seq \
                  AND a.kind = 'turn_started'";
    format!(
        "CREATE VIEW audit_events AS \
         SELECT {thread} AS log_id, 'thread' AS log, t.tenant, {of_thread}, {rest} \
         FROM events AS e LEFT JOIN threads AS t ON t.id = e.thread_id UNION ALL \
         SELECT {log}, 'admin', {tenant}, {of_admin}, {rest} FROM admin_events AS e; \
         CREATE VIEW audit_approvals AS \
         SELECT q.thread_id, q.tenant, q.asked_seq, q.asked_time, q.question, q.answered_seq, {answered} AS answered_time, \
         {person}, {kind} AS answer_kind, {words} AS answer FROM (\
         SELECT e.thread_id AS id, {thread} AS thread_id, t.tenant, e.seq AS asked_seq, {asked} AS asked_time, \
         {question} AS question, ({answer}) AS answered_seq \
         FROM events AS e LEFT JOIN threads AS t ON t.id = e.thread_id \
         WHERE e.kind = 'decided' AND {interrupt} = 'approval') AS q \
         LEFT JOIN events AS e ON e.thread_id = q.id AND e.seq = q.answered_seq",
        thread = of(dialect.uuid, "e.thread_id"),
        log = of(dialect.uuid, "e.log_id"),
        of_thread = who("actor", "caller.key"),
        of_admin = who("by.name", "by.key"),
        tenant = text("tenant"),
        answered = of(dialect.time, "e.at"),
        asked = of(dialect.time, "e.at"),
        person = who("actor", "caller.key"),
        kind = text("kind"),
        words = text("messages"),
        question = text("to.interrupt.question"),
        interrupt = text("to.interrupt.kind"),
    )
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLE).await?;
        apply(manager, BY_TIME).await?;
        apply_to_postgres(manager, &views(&POSTGRES)).await?;
        apply_to_sqlite(manager, &views(&SQLITE)).await
    }
}
