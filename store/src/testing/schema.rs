//! The columns of a database, from its own schema: a test that goes through them meets each new one.

use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult};

use crate::{Error, Store, log::statement};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, FromQueryResult)]
pub struct Column {
    /// Name of the table.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// Declared type, in capitals.
    pub declared: String,
}

/// Returns the first column of a query as texts; a null is an empty one.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer; [`Error::Database`] if a value is no text.
pub async fn texts(store: &Store, sql: &str) -> Result<Vec<String>, Error> {
    let db = &store.database.pool;
    let rows = db.query_all_raw(statement(db, sql, [])).await?;
    rows.iter().map(|row| Ok(row.try_get_by_index::<Option<String>>(0)?.unwrap_or_default())).collect()
}

/// Returns the columns of all tables, in the order of the tables, without those that the database computes. The partitions of a table are
/// part of it.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn columns(store: &Store) -> Result<Vec<Column>, Error> {
    let db = &store.database.pool;
    let is_sqlite = db.get_database_backend() == DbBackend::Sqlite;
    let sql = match is_sqlite {
        true => {
            "SELECT schema.name AS \"table\", info.name AS \"column\", upper(info.type) AS declared \
             FROM sqlite_schema AS schema JOIN pragma_table_xinfo(schema.name) AS info \
             WHERE schema.type = 'table' AND schema.name NOT LIKE 'sqlite^_%' ESCAPE '^' \
             AND schema.name NOT LIKE 'search^_words%' ESCAPE '^' AND info.hidden = 0 \
             ORDER BY schema.name, info.cid"
        }
        false => {
            "SELECT class.relname::text AS \"table\", attribute.attname::text AS \"column\", \
             upper(format_type(attribute.atttypid, NULL)) AS declared \
             FROM pg_class AS class JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid \
             WHERE class.relkind IN ('r', 'p') AND NOT class.relispartition \
             AND class.relnamespace = current_schema()::regnamespace \
             AND 0 < attribute.attnum AND NOT attribute.attisdropped AND attribute.attgenerated = '' \
             ORDER BY class.relname, attribute.attnum"
        }
    };
    Ok(Column::find_by_statement(statement(db, sql, [])).all(db).await?)
}
