//! A stored event that is read whatever the types of its values, so that one damaged value hides no other.

use sea_orm::{DbBackend, DbErr, FromQueryResult as _, QueryResult};

use crate::{
    Error,
    log::{
        ids::corrupt,
        rows::{Recorded, recorded},
        tables::events,
        types::is_uuid,
    },
};

/// Columns other than the key, each with its type in SQLite.
const COLUMNS: [(&str, &str); 5] =
    [("at", "integer"), ("kind", "text"), ("payload", "text"), ("codec", "text"), ("hash", "blob")];

/// A stored event.
pub(crate) struct EventRow {
    /// Its columns. A value of another type is converted.
    pub(crate) columns: events::Model,
    /// Description of a value that has not the type of its column: `payload is a blob`.
    pub(crate) mistyped: Option<String>,
}

impl EventRow {
    /// Returns the list of columns to select.
    pub(crate) fn columns(backend: DbBackend) -> String {
        if backend != DbBackend::Sqlite {
            return "thread_id, seq, at, kind, payload, codec, hash, NULL::text AS mistyped".to_owned();
        }
        let converted: String =
            COLUMNS.iter().map(|(column, of)| format!("CAST({column} AS {of}) AS {column}, ")).collect();
        let mistyped: String = COLUMNS
            .iter()
            .map(|(column, of)| {
                format!("WHEN typeof({column}) <> '{of}' THEN '{column} is of type ' || typeof({column}) ")
            })
            .collect();
        format!("thread_id, seq, {converted}CASE {mistyped}END AS mistyped")
    }

    /// Returns the condition that the key has its types. Rows without it belong to no thread, and have no place in a log.
    pub(crate) fn has_key(backend: DbBackend) -> String {
        if backend != DbBackend::Sqlite {
            return "TRUE".to_owned();
        }
        format!("{} AND typeof(seq) = 'integer'", is_uuid(backend, "thread_id"))
    }

    /// Reads a row with the selected columns.
    pub(crate) fn read(row: &QueryResult) -> Result<Self, DbErr> {
        let mistyped = row.try_get("", "mistyped")?;
        match events::Model::from_query_result(row, "") {
            Ok(columns) => Ok(Self { columns, mistyped }),
            Err(error) => Self::read_damaged(row, mistyped, &error),
        }
    }

    /// Reads a row with a text that is not UTF-8.
    fn read_damaged(row: &QueryResult, mistyped: Option<String>, error: &DbErr) -> Result<Self, DbErr> {
        let text = |column| {
            let bytes: Vec<u8> = row.try_get("", column)?;
            Ok::<String, DbErr>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let columns = events::Model {
            thread_id: row.try_get("", "thread_id")?,
            seq: row.try_get("", "seq")?,
            at: row.try_get("", "at").unwrap_or_default(),
            kind: text("kind")?,
            payload: text("payload")?,
            codec: text("codec")?,
            hash: row.try_get("", "hash")?,
        };
        Ok(Self { columns, mistyped: mistyped.or_else(|| Some(format!("a value cannot be read: {error}"))) })
    }

    /// Decodes the event.
    pub(crate) fn recorded(&self) -> Result<Recorded, Error> {
        match &self.mistyped {
            None => recorded(&self.columns),
            Some(what) => {
                let what = format_args!("event {}: {what}", self.columns.seq);
                Err(corrupt(self.columns.thread_id, what))
            }
        }
    }
}
