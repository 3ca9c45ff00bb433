//! Statements of constant text over many rows.
//!
//! PostgreSQL is given an array a column: to take rows apart that come as JSON costs it as much as a third of an insert.
//! SQLite has no arrays, and is given the rows as one JSON array.
//!
//! ## Why each row is looked up by itself
//!
//! Whoever plans a statement over a young table knows little of how many items a batch has by now, and keeps the plan. Left
//! the choice, it reads all items of the batch or the tenant for every page, and compares each with all rows of that. So
//! PostgreSQL's words leave it none: a row is looked up `LATERAL`, or the batch is said in terms of the rows, behind
//! `OFFSET 0`, past which it does not look. In SQLite's words that is `CROSS JOIN`, and `it.key`.

use sea_orm::{ConnectionTrait, DbBackend, Statement, Value, sea_query::ArrayType};
use serde_json::Value as Json;
use uuid::Uuid;

/// One statement in the words of each engine. The rows come after all other values.
pub(crate) struct Words {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
    /// What a row has, in the order in which PostgreSQL's words take it.
    pub(crate) columns: &'static [Column],
}

/// A field of every row. What is null comes to PostgreSQL, whose driver has no arrays with holes, as what is none: -1, or
/// an empty text.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Number(&'static str),
    Text(&'static str),
}

impl Words {
    /// The statement over rows, each a JSON object.
    pub(crate) fn with(
        &self,
        db: &impl ConnectionTrait,
        values: impl IntoIterator<Item = Value>,
        mut rows: Vec<Json>,
    ) -> Statement {
        let backend = db.get_database_backend();
        let mut values: Vec<Value> = values.into_iter().collect();
        if backend == DbBackend::Postgres {
            values.extend(self.columns.iter().map(|it| it.of(&mut rows)));
            return Statement::from_sql_and_values(backend, self.postgres, values);
        }
        values.push(Json::Array(rows).to_string().into());
        Statement::from_sql_and_values(backend, self.sqlite, values)
    }
}

impl Column {
    /// This field of all rows, which are without it then.
    fn of(self, rows: &mut [Json]) -> Value {
        let (kind, values) = match self {
            Self::Number(name) => {
                let number = |row: &mut Json| row[name].as_i64().unwrap_or(-1).into();
                (ArrayType::BigInt, rows.iter_mut().map(number).collect::<Vec<Value>>())
            }
            Self::Text(name) => {
                let text = |row: &mut Json| {
                    if let Json::String(it) = row[name].take() { it.into() } else { String::new().into() }
                };
                (ArrayType::String, rows.iter_mut().map(text).collect())
            }
        };
        Value::Array(kind, Some(Box::new(values)))
    }
}

/// An identity as the rows hold it: SQLite keeps its bytes, and reads them from hexadecimal.
pub(crate) fn name(db: &impl ConnectionTrait, id: Uuid) -> String {
    let postgres = db.get_database_backend() == DbBackend::Postgres;
    if postgres { id.to_string() } else { id.simple().to_string() }
}
