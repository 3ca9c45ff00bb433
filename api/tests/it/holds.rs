//! Deletion of threads, and holds that protect them.

use axum::{body::Body, http::Request};
use serde_json::json;

use crate::test_api::{TestApi, thread_of};

#[tokio::test]
async fn a_held_thread_stays_until_it_is_released() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let thread = thread_of(&turn);
    let send = async |tenant: Option<&str>, method: &str, tail: &str| {
        let request = Request::builder().method(method).uri(format!("/v1/threads/{thread}{tail}"));
        let request = request.header("content-type", "application/json").header("x-turnfold-user", "Ada");
        let request =
            tenant.into_iter().fold(request, |request, name| request.header("x-turnfold-tenant", name));
        api.send(request.body(Body::from(r#"{"reason": "a lawsuit"}"#)).unwrap()).await
    };
    for (method, tail) in [("PUT", "/hold"), ("DELETE", "/hold"), ("DELETE", "")] {
        send(Some("other"), method, tail).await.problem(404, "unknown-thread");
    }
    send(None, "DELETE", "/hold").await.problem(404, "not-held");

    let held = send(None, "PUT", "/hold").await.json();
    assert_eq!((&held["thread_id"], &held["by"]), (&json!(thread), &json!("Ada")));
    assert_eq!(api.get("/v1/holds").await.json()["data"], json!([held]));
    send(None, "DELETE", "").await.problem(409, "not-now");

    assert_eq!(send(None, "DELETE", "/hold").await.json(), held);
    assert_eq!(api.get("/v1/holds").await.json()["data"], json!([]));
    let deleted = send(None, "DELETE", "").await.json();
    assert_eq!((&deleted["id"], &deleted["turns"]), (&json!(thread), &json!(1)));
    send(None, "DELETE", "").await.problem(404, "unknown-thread");
}
