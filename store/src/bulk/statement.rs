//! Statements of constant text over many rows: the rows travel as one JSON array.
//!
//! ## Why each row is looked up by itself
//!
//! Whoever plans a statement over a young table knows little of how many items a batch has by now, and keeps the plan. Left
//! the choice, it reads all items of the batch or the tenant for every page, and compares each with all rows of that. So
//! PostgreSQL's words leave it none: a row is looked up `LATERAL`, or the batch is said in terms of the rows, behind
//! `OFFSET 0`, past which it does not look. In SQLite's words that is `CROSS JOIN`, and `it.key`.

use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};
use uuid::Uuid;

/// One statement in the words of each engine.
pub(super) struct Words {
    pub(super) postgres: &'static str,
    pub(super) sqlite: &'static str,
}

impl Words {
    pub(super) fn with(
        &self,
        db: &impl ConnectionTrait,
        values: impl IntoIterator<Item = Value>,
    ) -> Statement {
        let backend = db.get_database_backend();
        let sql = if backend == DbBackend::Postgres { self.postgres } else { self.sqlite };
        Statement::from_sql_and_values(backend, sql, values)
    }
}

/// An identity as the rows hold it: SQLite keeps its bytes, and reads them from hexadecimal.
pub(super) fn name(db: &impl ConnectionTrait, id: Uuid) -> String {
    let postgres = db.get_database_backend() == DbBackend::Postgres;
    if postgres { id.to_string() } else { id.simple().to_string() }
}
