//! The pauses under their suite on each engine.

use store::{Store, testing::pauses_conformance};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_conforms() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    pauses_conformance(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_conforms() {
    let postgres = testing::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    pauses_conformance(&store).await;
}
