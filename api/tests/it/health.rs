//! Liveness and readiness.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use store::Store;

use crate::test_api::{TestApi, UnavailableQueue};

#[tokio::test]
async fn an_api_with_store_and_queue_is_ready() {
    let api = TestApi::new().await;
    let reply = api.get("/livez").await;
    assert_eq!((reply.status, reply.text()), (StatusCode::OK, "ok"));
    let reply = api.get("/readyz").await;
    assert_eq!((reply.status, reply.text()), (StatusCode::OK, "ready"));
}

#[tokio::test]
async fn an_unready_api_names_the_unavailable_backend() {
    let bare = Store::connect("sqlite::memory:").await.unwrap();
    let api = TestApi::with(|config| config.parts.store = bare.clone()).await;
    let reply = api.get("/readyz").await;
    let detail = reply.problem(503, "unavailable");
    assert!(detail.contains("the store") && detail.contains("turnfold migrate"), "{detail}");
    assert!(!detail.contains("the queue"), "{detail}");
    assert_eq!(reply.headers[header::RETRY_AFTER], "1");
    assert_eq!(api.get("/livez").await.status, StatusCode::OK, "it is alive all the same");

    let api = TestApi::with(|config| config.parts.queue = Arc::new(UnavailableQueue)).await;
    let detail = api.get("/readyz").await.problem(503, "unavailable");
    assert!(detail.contains("the queue") && !detail.contains("the store"), "{detail}");

    let api = TestApi::with(|config| {
        config.parts.store = bare;
        config.parts.queue = Arc::new(UnavailableQueue);
    })
    .await;
    let detail = api.get("/readyz").await.problem(503, "unavailable");
    assert!(detail.contains("the queue") && detail.contains("the store"), "{detail}");
}

/// A standby answers every read. An API that cannot accept turns is not ready.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_whose_store_only_reads_is_not_ready() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let api = TestApi::with(|config| config.parts.store = store).await;
    assert_eq!(api.get("/readyz").await.status, StatusCode::OK);

    let name = postgres.url().rsplit('/').next().unwrap().to_owned();
    postgres.query(&format!("ALTER DATABASE \"{name}\" SET default_transaction_read_only = on"));
    let store = Store::connect(&postgres.url()).await.unwrap();
    let api = TestApi::with(|config| config.parts.store = store).await;
    let detail = api.get("/readyz").await.problem(503, "unavailable");
    assert!(detail.contains("the store") && detail.contains("read-only"), "{detail}");
}

#[tokio::test]
async fn database_errors_are_not_exposed() {
    let bare = Store::connect("sqlite::memory:").await.unwrap();
    let api = TestApi::with(|config| config.parts.store = bare).await;
    let detail = api.get("/v1/turns").await.problem(500, "internal");
    assert!(!detail.contains("table"), "{detail}");
}
