//! Databases for the tests: a new one for each test on each engine.

use store::{Error, Store};
use test_servers::Postgres;

/// Declares one test per check and engine. The check receives a database with all tables and no rows.
macro_rules! on_databases {
    ($($check:ident),+ $(,)?) => {
        on_databases!(migrated $($check),+);
    };
    ($tables:ident $($check:ident),+) => {
        mod sqlite_file {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::conformance::engines::sqlite_file(stringify!($tables), super::$check).await;
            })+
        }

        mod sqlite_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::conformance::engines::sqlite_memory(stringify!($tables), super::$check).await;
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

pub(crate) async fn sqlite_file(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("created/on demand/log.db");
    run(&format!("sqlite:{}", file.display()), tables, check).await;
}

pub(crate) async fn sqlite_memory(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    run("sqlite::memory:", tables, check).await;
}

pub(crate) async fn postgres(tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let postgres = Postgres::shared();
    run(&postgres.url(), tables, check).await;
}

async fn run(url: &str, tables: &str, check: impl AsyncFnOnce(&Store) -> Result<(), Error>) {
    let store = Store::connect(url).await.unwrap();
    if tables == "migrated" {
        store.migrate().await.unwrap();
    }
    check(&store).await.unwrap();
}
