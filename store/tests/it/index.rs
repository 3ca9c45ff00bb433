//! Runs the vector index test suite on each database engine, and tests what only a database can do.

use crate::conformance::index_conformance;
use store::{Entry, MemoryIndex, Store, VectorIndex};

#[tokio::test]
async fn memory_conforms() {
    index_conformance(&MemoryIndex::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_keeps_entries_after_its_process_ended() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("log.db").display());
    let store = Store::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    store.upsert(vec![entry("mail")]).await.unwrap();
    let another = Store::connect(&url).await.unwrap();
    assert_eq!(another.all().await.unwrap(), [entry("mail")], "another process reads it");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_replaces_nul_in_text() {
    let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    // PostgreSQL cannot store NUL, but a server's description may contain it.
    store.upsert(vec![Entry { text: "a\0b".to_owned(), ..entry("mail") }]).await.unwrap();
    assert_eq!(store.all().await.unwrap()[0].text, "a\u{fffd}b");
}

fn entry(server: &str) -> Entry {
    let (server, hash, text) = (server.to_owned(), "h".to_owned(), "does things".to_owned());
    Entry { server, hash, text, embedded: None, updated_at: 7 }
}
