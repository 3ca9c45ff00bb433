//! Values of another type than their column.
//!
//! SQLite keeps the type of each value, whatever its column declares. The statements of turnfold find no row by an id of 3
//! bytes, and cannot read a time that is a text; these rows are therefore searched by the types of their values. PostgreSQL
//! stores no value of another type.

use std::{collections::BTreeMap, fmt};

use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    Error, Store,
    log::{ids::ThreadId, statement, types::is_uuid},
};

/// Maximum values listed for each table; all are counted.
const KEPT: usize = 100;

/// Maximum characters of a row's key in a finding.
const KEY_MAX: usize = 100;

/// A value of another type than its column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistyped {
    /// Name of the table.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// Row: its id, or the values of its key.
    pub row: String,
    /// Type of the value, and the one of the column.
    pub what: String,
}

impl fmt::Display for Mistyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, column, row, what } = self;
        write!(f, "table {table}, row {row}: {column} {what}")
    }
}

/// Columns of a table.
#[derive(Default)]
struct Table {
    /// Each with the condition that its value has another type.
    columns: Vec<(String, String)>,
    /// Columns that identify a row.
    key: Vec<String>,
}

#[derive(FromQueryResult)]
struct Declared {
    table: String,
    column: String,
    declared: String,
    key: i64,
}

#[derive(FromQueryResult)]
struct Found {
    key: String,
    columns: String,
    found: i64,
}

impl Store {
    /// Finds the values of another type than their column, in all tables, or in the rows of one thread. Returns their number, and
    /// the first of each table. Of events, only the keys are read: the walk through a log checks its other columns.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn mistyped(&self, thread: Option<ThreadId>) -> Result<(u64, Vec<Mistyped>), Error> {
        let db = &self.database.pool;
        let (mut count, mut listed) = (0, Vec::new());
        if db.get_database_backend() != DbBackend::Sqlite {
            return Ok((count, listed));
        }
        for (name, table) in self.tables().await? {
            let Some((sql, of_thread)) = table.statement(&name, thread) else { continue };
            let rows =
                Found::find_by_statement(statement(db, &sql, of_thread.map(Into::into))).all(db).await?;
            count += rows.first().map_or(0, |row| u64::try_from(row.found).unwrap_or_default());
            for row in rows {
                let key = readable(&row.key);
                listed.extend(row.columns.split_terminator('\n').filter_map(|found| {
                    let (column, what) = found.split_once(' ')?;
                    let (table, column) = (name.clone(), column.to_owned());
                    Some(Mistyped { table, column, row: key.clone(), what: what.to_owned() })
                }));
            }
        }
        Ok((count, listed))
    }

    /// Returns the tables of a SQLite database, from its own schema.
    async fn tables(&self) -> Result<BTreeMap<String, Table>, Error> {
        let db = &self.database.pool;
        let sql = "SELECT schema.name AS \"table\", info.name AS \"column\", upper(info.type) AS declared, info.pk AS key \
                   FROM sqlite_schema AS schema JOIN pragma_table_xinfo(schema.name) AS info \
                   WHERE schema.type = 'table' AND schema.name NOT LIKE 'sqlite^_%' ESCAPE '^' \
                   AND schema.name NOT LIKE 'search^_words%' ESCAPE '^' AND info.hidden = 0 \
                   ORDER BY schema.name, info.cid";
        let mut tables = BTreeMap::<String, Table>::new();
        for row in Declared::find_by_statement(statement(db, sql, [])).all(db).await? {
            let table = tables.entry(row.table).or_default();
            if 0 < row.key {
                table.key.push(row.column.clone());
            }
            if let Some(condition) = is_of_another_type(&row.column, &row.declared) {
                table.columns.push((row.column, condition));
            }
        }
        if let Some(events) = tables.get_mut("events") {
            events.key = ["thread_id", "seq"].map(str::to_owned).into();
            events.columns.retain(|(column, _)| events.key.contains(column));
        }
        Ok(tables)
    }
}

impl Table {
    fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|(name, _)| name == column)
    }

    /// Returns the statement that finds rows, and the thread that it selects; `None` if no row belongs to the thread.
    fn statement(&self, name: &str, thread: Option<ThreadId>) -> Option<(String, Option<ThreadId>)> {
        if self.columns.is_empty() {
            return None;
        }
        let of_thread = match thread {
            None => "",
            Some(_) if name == "threads" => "id = $1 AND ",
            Some(_) if self.has("thread_id") => "thread_id = $1 AND ",
            Some(_) => return None,
        };
        let key = match self.has("id") {
            true => vec!["id".to_owned()],
            false => self.key.clone(),
        };
        let key: Vec<String> = key.iter().map(|column| format!("quote(\"{column}\")")).collect();
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(column, bad)| format!("CASE WHEN {bad} THEN '{column} is of type ' || typeof(\"{column}\") || char(10) ELSE '' END"))
            .collect();
        let any: Vec<&str> = self.columns.iter().map(|(_, bad)| bad.as_str()).collect();
        let sql = format!(
            "SELECT {} AS key, {} AS columns, count(*) OVER () AS found FROM \"{name}\" WHERE {of_thread}({}) LIMIT {KEPT}",
            key.join(" || ', ' || "),
            columns.join(" || "),
            any.join(" OR "),
        );
        Some((sql, thread))
    }
}

/// Returns the condition that a value of a column has another type than the column declares, by SQLite's rules for types;
/// `None` if the column takes numbers of every type.
fn is_of_another_type(column: &str, declared: &str) -> Option<String> {
    let quoted = format!("\"{column}\"");
    let of = match declared {
        "UUID_TEXT" => {
            let uuid = is_uuid(DbBackend::Sqlite, &quoted);
            return Some(format!("({quoted} IS NOT NULL AND NOT ({uuid}))"));
        }
        _ if declared.contains("INT") || declared == "BOOLEAN" => "integer",
        _ if declared.contains("CHAR") || declared.contains("TEXT") => "text",
        _ if declared.contains("BLOB") => "blob",
        _ if declared.contains("DOUB") => "real",
        _ => return None,
    };
    Some(format!("typeof({quoted}) NOT IN ('{of}', 'null')"))
}

/// Writes an id as people know it, and shortens a long key.
fn readable(key: &str) -> String {
    let id = key.strip_prefix("X'").and_then(|hex| Uuid::try_parse(hex.strip_suffix('\'')?).ok());
    id.map_or_else(|| key.chars().take(KEY_MAX).collect(), |id| id.to_string())
}
