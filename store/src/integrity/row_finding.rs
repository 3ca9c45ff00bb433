//! Findings in rows that belong to no single log, and the rows that such findings are about.

use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult as _, QueryResult};
use uuid::Uuid;

use crate::{
    Error, Pin, Store,
    integrity::coverage::{Coverage, Scope},
    log::{ids::ThreadId, statement, types::is_of_another_type},
};

/// Maximum number of rows that are in memory at once, of a table whose rows may be large.
const PAGE: usize = 200;

/// A row that contradicts a log, or another row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFinding {
    /// Name of the table.
    pub table: &'static str,
    /// Columns that may be the ones that were changed.
    pub columns: &'static [&'static str],
    /// Description for people, with the key of the row.
    pub what: String,
}

#[derive(sea_orm::FromQueryResult)]
struct Fork {
    idempotency_key: String,
    thread_id: ThreadId,
}

#[derive(sea_orm::FromQueryResult)]
struct PinRow {
    server: String,
    definitions: String,
    hash: String,
}

impl Store {
    /// Returns the columns that a verification of this extent compares, and those that it does not.
    pub fn coverage(&self, scope: Scope) -> Coverage {
        Coverage::of(scope, self.database.pool.get_database_backend() == DbBackend::Postgres)
    }

    /// Compares the pins of MCP servers with their hashes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn pin_findings(&self) -> Result<Vec<RowFinding>, Error> {
        let rows =
            self.readable_rows("SELECT server, definitions, hash FROM mcp_pins", PinRow::from_query_result);
        let wrong = rows.await?.into_iter().filter(|row| Pin::hash_of(&row.definitions) != row.hash);
        let finding = |PinRow { server, .. }: PinRow| RowFinding {
            table: "mcp_pins",
            columns: &["definitions", "hash"],
            what: format!("the pin of {server:?} has another hash than its definitions"),
        };
        Ok(wrong.map(finding).collect())
    }

    /// Returns the forks that were requested with a key: the key and the thread of each.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn forks_with_key(&self) -> Result<Vec<(String, ThreadId)>, Error> {
        let rows =
            self.readable_rows("SELECT idempotency_key, thread_id FROM forks", Fork::from_query_result);
        Ok(rows.await?.into_iter().map(|row| (row.idempotency_key, row.thread_id)).collect())
    }

    /// Reads rows, without those that have a value of another type: [`Store::mistyped`] finds them.
    pub(crate) async fn readable_rows<T>(
        &self,
        sql: &str,
        read: impl Fn(&QueryResult, &str) -> Result<T, sea_orm::DbErr>,
    ) -> Result<Vec<T>, Error> {
        let db = &self.database.pool;
        readable(&db.query_all_raw(statement(db, sql, [])).await?, read)
    }

    /// Reads all rows of a table with a UUID as its key, a page at a time, as [`Store::readable_rows`] does.
    pub(crate) async fn each_readable<T>(
        &self,
        table: &str,
        read: impl Fn(&QueryResult, &str) -> Result<T, sea_orm::DbErr>,
        mut each: impl FnMut(T),
    ) -> Result<(), Error> {
        let db = &self.database.pool;
        let (mut beyond, mut id) = (">=", Uuid::nil());
        loop {
            let sql = format!("SELECT * FROM {table} WHERE id {beyond} $1 ORDER BY id LIMIT {PAGE}");
            let rows = db.query_all_raw(statement(db, &sql, [id.into()])).await?;
            readable(&rows, &read)?.into_iter().for_each(&mut each);
            // The id of a row may be of another type too.
            let last: Option<Uuid> = rows.iter().rev().find_map(|row| row.try_get("", "id").ok());
            match last {
                Some(last) if rows.len() == PAGE => (beyond, id) = (">", last),
                Some(_) | None => return Ok(()),
            }
        }
    }
}

/// Decodes rows, without those that have a value of another type: [`Store::mistyped`] finds them.
pub(crate) fn readable<T>(
    rows: &[QueryResult],
    read: impl Fn(&QueryResult, &str) -> Result<T, sea_orm::DbErr>,
) -> Result<Vec<T>, Error> {
    let read = |row: &QueryResult| match read(row, "") {
        Err(error) if is_of_another_type(&error) => None,
        read => Some(read.map_err(Error::from)),
    };
    rows.iter().filter_map(read).collect()
}
