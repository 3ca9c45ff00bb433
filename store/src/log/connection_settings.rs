//! Settings of the connections to PostgreSQL. SQLite has none.

/// Default maximum of connections per process. A server allows 100 by default.
const CONNECTIONS: u32 = 16;

/// Additional connections for the statements of worker steps and batch items.
pub(crate) const HOT_CONNECTIONS: u32 = 4;

/// Settings of the connections to PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Maximum number of connections per process, without those of the frequent statements.
    pub max: u32,
    /// False for a pooler in transaction mode. Every statement is then sent without a name, in a transaction.
    pub prepared_statements: bool,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self { max: CONNECTIONS, prepared_statements: true }
    }
}
