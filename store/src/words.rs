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
//! `OFFSET 0`, past which it does not look, and as the element of an array, for which `looked_up` says why. In SQLite's words
//! that is `CROSS JOIN`, and `it.key`.

use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};
use serde_json::{Map, Value as Json};
use uuid::Uuid;

/// One statement in the words of each engine. The rows come after all other values.
pub(crate) struct Words {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

/// A field of every row, in their order, and its name.
///
/// What is null comes to PostgreSQL, whose driver has no arrays with holes, as what is none: -1, an empty text, or the
/// identity of all zeros. To SQLite an identity comes in hexadecimal: it keeps its bytes.
pub(crate) struct Column(&'static str, Fields);

enum Fields {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Ids(Vec<Option<Uuid>>),
}

/// A whole number.
pub(crate) fn number<T, V: Into<Option<i64>>>(
    name: &'static str,
    rows: &[T],
    of: impl Fn(&T) -> V,
) -> Column {
    Column(name, Fields::Numbers(rows.iter().map(|row| of(row).into()).collect()))
}

/// Words.
pub(crate) fn text<T, V: Into<Option<String>>>(
    name: &'static str,
    rows: &[T],
    of: impl Fn(&T) -> V,
) -> Column {
    Column(name, Fields::Texts(rows.iter().map(|row| of(row).into()).collect()))
}

/// An identity.
pub(crate) fn id<T, V: Into<Option<Uuid>>>(name: &'static str, rows: &[T], of: impl Fn(&T) -> V) -> Column {
    Column(name, Fields::Ids(rows.iter().map(|row| of(row).into()).collect()))
}

impl Words {
    /// The statement over rows: their columns stand in the order in which PostgreSQL's words take them.
    pub(crate) fn with<const N: usize>(
        &self,
        db: &impl ConnectionTrait,
        values: impl IntoIterator<Item = Value>,
        columns: [Column; N],
    ) -> Statement {
        let backend = db.get_database_backend();
        let values = values.into_iter();
        if backend == DbBackend::Postgres {
            let values = values.chain(columns.into_iter().map(|Column(_, fields)| fields.array()));
            return Statement::from_sql_and_values(backend, self.postgres, values);
        }
        let rows = columns.iter().map(|Column(_, fields)| fields.len()).max().unwrap_or_default();
        let field = |nth, Column(name, fields): &Column| ((*name).to_owned(), fields.json(nth));
        let row = |nth| columns.iter().map(|it| field(nth, it)).collect::<Map<_, _>>();
        let rows: Json = (0..rows).map(row).collect();
        Statement::from_sql_and_values(backend, self.sqlite, values.chain([rows.to_string().into()]))
    }
}

impl Fields {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(it) => it.len(),
            Self::Texts(it) => it.len(),
            Self::Ids(it) => it.len(),
        }
    }

    fn array(self) -> Value {
        fn whole<T: Clone>(fields: Vec<Option<T>>, none: T) -> Vec<T> {
            fields.into_iter().map(|it| it.unwrap_or_else(|| none.clone())).collect()
        }
        match self {
            Self::Numbers(it) => whole(it, -1).into(),
            Self::Texts(it) => whole(it, String::new()).into(),
            Self::Ids(it) => whole(it, Uuid::nil()).into(),
        }
    }

    fn json(&self, nth: usize) -> Json {
        match self {
            Self::Numbers(it) => it[nth].into(),
            Self::Texts(it) => it[nth].as_deref().into(),
            Self::Ids(it) => it[nth].map(|it| it.simple().to_string()).into(),
        }
    }
}
