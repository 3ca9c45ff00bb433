//! The index under its suite on each engine, and what only a database can show.

use store::{Entry, MemoryIndex, Store, VectorIndex, testing::index_conformance};

#[tokio::test]
async fn memory_conforms() {
    index_conformance(&MemoryIndex::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("log.db").display());
    let store = Store::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    index_conformance(&store).await;

    store.upsert(vec![entry("mail")]).await.unwrap();
    let another = Store::connect(&url).await.unwrap();
    assert_eq!(another.all().await.unwrap(), [entry("mail")], "it outlives its process");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_conforms() {
    let postgres = testing::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    index_conformance(&store).await;

    // PostgreSQL has no NUL, and words from the world may.
    store.upsert(vec![Entry { text: "a\0b".to_owned(), ..entry("mail") }]).await.unwrap();
    assert_eq!(store.all().await.unwrap()[0].text, "a\u{fffd}b");
}

fn entry(server: &str) -> Entry {
    let (server, hash, text) = (server.to_owned(), "h".to_owned(), "does things".to_owned());
    Entry { server, hash, text, embedded: None, updated_at: 7 }
}
