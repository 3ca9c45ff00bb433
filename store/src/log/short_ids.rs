//! Ids by a part of them.

use std::fmt;

use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult as _, Value};
use uuid::Uuid;

use crate::{
    Error,
    log::{Store, database::statement},
};

/// Characters of the short form of an id: its last ones, which are random.
pub const SHORT_ID: usize = 8;

/// Fewest characters of a beginning.
const BEGINNING_MIN: usize = 4;

/// Most rows that are read of ids with one beginning.
const READ_MAX: u64 = 500;

/// Tables whose ids are found by a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOf {
    /// Threads.
    Thread,
    /// Turns.
    Turn,
    /// Batches.
    Batch,
}

impl IdOf {
    fn table(self) -> &'static str {
        match self {
            Self::Thread => "threads",
            Self::Turn => "turns",
            Self::Batch => "batches",
        }
    }
}

/// A part of an id: its first characters, at least 4, or its last ones, at least [`SHORT_ID`]; without hyphens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOfId(String);

impl PartOfId {
    /// Reads a part, or a whole id. Returns `None` for a text that no id contains.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.replace('-', "").to_ascii_lowercase();
        let is_part = (BEGINNING_MIN..=32).contains(&digits.len());
        (is_part && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(Self(digits))
    }

    /// Returns the first and the last id with this beginning.
    pub(crate) fn range(&self) -> [Uuid; 2] {
        let bound = |digit: &str| {
            let text = format!("{}{}", self.0, digit.repeat(32_usize.saturating_sub(self.0.len())));
            Uuid::try_parse(&text).unwrap_or_default()
        };
        [bound("0"), bound("f")]
    }

    /// Returns the last eight characters as [`end_of_id`] has them, if the part may be the end of an id.
    pub(crate) fn end(&self, backend: DbBackend) -> Option<String> {
        let end = self.0.get(self.0.len().checked_sub(SHORT_ID)?..)?;
        Some(if backend == DbBackend::Postgres { end.to_owned() } else { end.to_ascii_uppercase() })
    }

    /// Returns true if an id ends with the part.
    fn is_end_of(&self, id: Uuid) -> bool {
        id.simple().to_string().ends_with(&self.0)
    }
}

impl fmt::Display for PartOfId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SQL of the last eight characters of an id, as it is indexed. SQLite has the bytes of an id, and upper-case digits.
pub(crate) fn end_of_id(backend: DbBackend) -> &'static str {
    if backend == DbBackend::Postgres { "right(id::text, 8)" } else { "hex(substr(id, -4))" }
}

#[derive(sea_orm::FromQueryResult)]
struct Found {
    id: Uuid,
    tenant: String,
}

impl Store {
    /// Returns the ids that begin or end with a part, oldest first, and true if there may be more. Those of other tenants are left
    /// out.
    ///
    /// # Errors
    ///
    /// [`Error`] if the rows cannot be read.
    pub async fn ids_with(
        &self,
        of: IdOf,
        part: &PartOfId,
        tenant: Option<&str>,
    ) -> Result<(Vec<Uuid>, bool), Error> {
        let table = of.table();
        let [first, last] = part.range();
        let beginning =
            format!("SELECT id, tenant FROM {table} WHERE id <= $1 ORDER BY id DESC LIMIT {READ_MAX}");
        // Not with both bounds: PostgreSQL then reads and sorts the whole range while it has no statistics.
        let mut found = self.found(&beginning, [last.into()]).await?;
        let is_cut = READ_MAX <= found.len() as u64 && found.iter().all(|row| first <= row.id);
        found.retain(|row| first <= row.id);
        let backend = self.database.pool.get_database_backend();
        if let Some(end) = part.end(backend) {
            let column = end_of_id(backend);
            let ending = format!("SELECT id, tenant FROM {table} WHERE {column} = $1");
            let ending = self.found(&ending, [end.into()]).await?;
            found.extend(ending.into_iter().filter(|row| part.is_end_of(row.id)));
        }
        let seen = found.into_iter().filter(|row| tenant.is_none_or(|tenant| row.tenant == tenant));
        let mut ids: Vec<Uuid> = seen.map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok((ids, is_cut))
    }

    async fn found(&self, sql: &str, values: impl IntoIterator<Item = Value>) -> Result<Vec<Found>, Error> {
        let pool = &self.database.pool;
        let rows = pool.query_all_raw(statement(pool, sql, values)).await?;
        Ok(rows.iter().map(|row| Found::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }
}

#[test]
fn parts_of_ids_are_read() {
    let id: Uuid = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d".parse().unwrap_or_default();
    for text in ["019a", "019aa7f0-7d5e", "019AA7F0", "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"] {
        let [first, last] = PartOfId::parse(text).unwrap().range();
        assert!(first <= id && id <= last, "{text}");
    }
    for text in ["1a2b4c5d", "3f6c1a2b4c5d", "9D0B-3f6c1a2b4c5d"] {
        let part = PartOfId::parse(text).unwrap();
        assert!(part.is_end_of(id) && part.end(DbBackend::Postgres).unwrap() == "1a2b4c5d", "{text}");
    }
    assert_eq!(PartOfId::parse("a2b4c5d").unwrap().end(DbBackend::Sqlite), None, "too short for an end");
    for text in ["", "01", "last", "zzzzzzzz", "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d0"] {
        assert_eq!(PartOfId::parse(text), None, "{text}");
    }
}
