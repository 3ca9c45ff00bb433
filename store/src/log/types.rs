//! Types of stored values. SQLite stores a value of any type in any column, so a value that turnfold did not write can have
//! another type than its column.

use sea_orm::{DbBackend, DbErr, RuntimeErr, sqlx};

/// Returns the condition that a column holds a UUID.
pub(crate) fn is_uuid(backend: DbBackend, column: &str) -> String {
    if backend != DbBackend::Sqlite {
        return "TRUE".to_owned();
    }
    format!("typeof({column}) = 'blob' AND length({column}) = 16")
}

/// Returns true if a value could not be decoded: the database answered, and the row has a value of another type.
pub(crate) fn is_of_another_type(error: &DbErr) -> bool {
    if let DbErr::Query(RuntimeErr::SqlxError(error)) = error {
        return matches!(&**error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_));
    }
    matches!(error, DbErr::Type(_) | DbErr::TryIntoErr { .. })
}
