//! Statements of constant text over many rows.
//!
//! PostgreSQL receives one array per column; parsing rows from JSON would cost it up to a third of an insert. SQLite
//! has no arrays and receives the rows as one JSON array.
//!
//! ## Why each row is looked up separately
//!
//! The planner has poor statistics for a young table: it underestimates the number of items in a batch, and it caches
//! the plan. Given a choice, it reads all items of the batch or the tenant for every page and compares each of them
//! with every row. The PostgreSQL statements therefore leave it no choice. They look up each row with `LATERAL`, or
//! select the batch from the rows behind `OFFSET 0`, which is an optimization barrier, and as an array element, for the
//! reason given at `looked_up`. The SQLite statements use `CROSS JOIN` and `it.key` for the same purpose.

use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};
use serde_json::{Map, Value as Json};
use uuid::Uuid;

/// One statement in the dialect of each engine. The parameters for the rows come after all other parameters.
pub(crate) struct StatementText {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

/// Name and values of one column, with one value per row, in row order.
///
/// The PostgreSQL driver cannot send arrays with nulls, so a null is sent as -1, an empty text or the nil UUID. SQLite
/// stores ids as bytes and receives them in hexadecimal.
pub(crate) struct Column(&'static str, Fields);

enum Fields {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Ids(Vec<Option<Uuid>>),
}

/// Builds a column of integers.
pub(crate) fn number<T, V: Into<Option<i64>>>(
    name: &'static str,
    rows: &[T],
    of: impl Fn(&T) -> V,
) -> Column {
    Column(name, Fields::Numbers(rows.iter().map(|row| of(row).into()).collect()))
}

/// Builds a column of texts.
pub(crate) fn text<T, V: Into<Option<String>>>(
    name: &'static str,
    rows: &[T],
    of: impl Fn(&T) -> V,
) -> Column {
    Column(name, Fields::Texts(rows.iter().map(|row| of(row).into()).collect()))
}

/// Builds a column of ids.
pub(crate) fn id<T, V: Into<Option<Uuid>>>(name: &'static str, rows: &[T], of: impl Fn(&T) -> V) -> Column {
    Column(name, Fields::Ids(rows.iter().map(|row| of(row).into()).collect()))
}

impl StatementText {
    /// Builds the statement for these rows. The columns must be in the order of the PostgreSQL parameters.
    pub(crate) fn with<const N: usize>(
        &self,
        db: &impl ConnectionTrait,
        values: impl IntoIterator<Item = Value>,
        columns: [Column; N],
    ) -> Statement {
        let backend = db.get_database_backend();
        let values = values.into_iter();
        if backend == DbBackend::Postgres {
            let values = values.chain(columns.into_iter().map(Column::array));
            return Statement::from_sql_and_values(backend, self.postgres, values);
        }
        let rows = columns.iter().map(|Column(_, fields)| fields.len()).max().unwrap_or_default();
        let field = |nth, Column(name, fields): &Column| ((*name).to_owned(), fields.json(nth));
        let row = |nth| columns.iter().map(|column| field(nth, column)).collect::<Map<_, _>>();
        let rows: Json = (0..rows).map(row).collect();
        Statement::from_sql_and_values(backend, self.sqlite, values.chain([rows.to_string().into()]))
    }
}

impl Column {
    /// Returns the values as an array of PostgreSQL.
    pub(crate) fn array(self) -> Value {
        self.1.array()
    }
}

impl Fields {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    fn array(self) -> Value {
        fn whole<T: Clone>(fields: Vec<Option<T>>, none: T) -> Vec<T> {
            fields.into_iter().map(|field| field.unwrap_or_else(|| none.clone())).collect()
        }
        match self {
            Self::Numbers(numbers) => whole(numbers, -1).into(),
            Self::Texts(texts) => whole(texts, String::new()).into(),
            Self::Ids(ids) => whole(ids, Uuid::nil()).into(),
        }
    }

    fn json(&self, nth: usize) -> Json {
        match self {
            Self::Numbers(numbers) => numbers[nth].into(),
            Self::Texts(texts) => texts[nth].as_deref().into(),
            Self::Ids(ids) => ids[nth].map(|id| id.simple().to_string()).into(),
        }
    }
}
