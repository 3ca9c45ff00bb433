//! Statements and errors of sea-orm as those of the driver below it.

use sea_orm::{
    DbErr, RuntimeErr, Statement,
    sea_query::Values,
    sqlx::{self, AssertSqlSafe, Postgres, query::Query},
};
use sea_query_sqlx::SqlxValues;

/// Builds a query of the driver from a statement of sea-orm.
pub(super) fn query(statement: &Statement) -> Query<'_, Postgres, SqlxValues> {
    let values = statement.values.clone().unwrap_or(Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql.as_str()), SqlxValues(values))
}

pub(super) fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(error.into()))
}
