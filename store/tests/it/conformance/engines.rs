//! Databases for the tests: a new one for each test on each engine.

use store::{ConnectionSettings, Error, Store, testing::migrate};
use test_servers::{PgBouncer, Postgres};

use super::shape::{Recorder, broken_rule};

/// Declares one test per check on SQLite and on PostgreSQL. The check receives a database with all tables and no rows.
///
/// With `distributed:`, the checks also run as on a server that distributes `events` and `attachments`.
macro_rules! on_databases {
    (distributed: $($check:ident),+ $(,)?) => {
        on_databases!(migrated $($check),+);

        mod real_distributed {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::conformance::engines::distributed(super::$check).await;
            })+
        }
    };
    ($($check:ident),+ $(,)?) => {
        on_databases!(migrated $($check),+);
    };
    ($tables:ident $($check:ident),+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::conformance::engines::sqlite(stringify!($tables), super::$check).await;
            })+
        }

        mod real_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::conformance::engines::postgres(stringify!($tables), super::$check).await;
            })+
        }
    };
}

pub(crate) async fn sqlite(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("created/on demand/log.db");
    run(&format!("sqlite:{}", file.display()), tables, check).await;
}

pub(crate) async fn sqlite_memory(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    run("sqlite::memory:", tables, check).await;
}

pub(crate) async fn postgres(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    run(&database(tables).url(), tables, check).await;
}

/// PostgreSQL through a pooler in transaction mode, which shares few connections.
pub(crate) async fn pooler(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let postgres = database(tables);
    let pooler = PgBouncer::before(&postgres.url(), 6);
    let settings = ConnectionSettings { prepared_statements: false, ..ConnectionSettings::default() };
    run_on(Store::connect_with(&pooler.url(), settings).await.unwrap(), tables, check).await;
}

/// PostgreSQL with the list of distributed tables that Citus keeps. turnfold then sends the statements of a distributed database, and
/// each must have the shape that Citus can plan.
pub(crate) async fn distributed(check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let postgres = database("migrated");
    for sql in [
        "CREATE TABLE pg_dist_partition (logicalrelid regclass NOT NULL, partmethod \"char\" NOT NULL)",
        "INSERT INTO pg_dist_partition VALUES ('events', 'h'), ('attachments', 'h')",
    ] {
        postgres.query(sql);
    }
    let recorder = Recorder::before(&postgres.url());
    run(recorder.url(), "migrated", check).await;
    for sql in recorder.statements() {
        assert_eq!(broken_rule(&sql), None, "{sql}");
    }
}

/// Creates a database in PostgreSQL, with the tables copied from one that is migrated once per run.
fn database(tables: &str) -> Postgres {
    if tables == "migrated" { Postgres::prepared("migrated", migrate) } else { Postgres::shared() }
}

async fn run(url: &str, tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    run_on(Store::connect(url).await.unwrap(), tables, check).await;
}

async fn run_on(store: Store, tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    if tables == "migrated" {
        store.migrate().await.unwrap();
    }
    check(&store).await.unwrap();
}
