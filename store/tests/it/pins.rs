//! The pins under their suite on each engine.

use store::{Pin, Store, testing::pins_conformance};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("log.db").display());
    let store = Store::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    pins_conformance(&store).await;

    let pin = store.pin_if_absent(Pin::new("mail", "[]", "first use")).await.unwrap();
    let another = Store::connect(&url).await.unwrap();
    assert_eq!(another.pins().await.unwrap(), [pin], "it outlives its process");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_conforms() {
    let postgres = testing::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    pins_conformance(&store).await;
}
