//! Webhooks under their suite on each engine.

use store::{Store, testing::webhooks_conformance};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::connect(&format!("sqlite:{}", folder.path().join("log.db").display())).await.unwrap();
    store.migrate().await.unwrap();
    webhooks_conformance(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_conforms() {
    let postgres = testing::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    webhooks_conformance(&store).await;
}
