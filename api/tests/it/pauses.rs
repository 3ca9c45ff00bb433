//! Pauses of strategies, models and tenants.

use std::time::Duration;

use axum::{body::Body, http::Request};
use futures::StreamExt as _;
use queue::{ALL_WORKERS, BlockedBy, Notification, Schedule};
use serde_json::{Value, json};

use crate::test_api::{Reply, TestApi};

async fn send(api: &TestApi, method: &str, path: &str, body: Value) -> Reply {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json").header("x-turnfold-user", "Ada");
    api.send(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn a_pause_is_listed_until_it_ends_and_workers_are_notified_of_both() {
    let api = TestApi::new().await;
    let mut received = api.backends.notifications.subscribe(ALL_WORKERS).await.unwrap();
    assert_eq!(api.get("/v1/pauses").await.json(), json!({"data": [], "has_more": false}));

    let path = "/v1/pauses/model/openai%2Fgpt-4o";
    let paused = send(&api, "PUT", path, json!({"reason": "too dear"})).await.json();
    assert_eq!((&paused["kind"], &paused["name"]), (&json!("model"), &json!("openai/gpt-4o")));
    assert_eq!((&paused["reason"], &paused["by"]), (&json!("too dear"), &json!("Ada")));
    assert_eq!(received.next().await, Some(Notification::PausesChanged));
    let strategy = send(&api, "PUT", "/v1/pauses/strategy/probe", json!({})).await.json();
    assert_eq!(received.next().await, Some(Notification::PausesChanged));
    assert_eq!(api.get("/v1/pauses").await.json()["data"], json!([strategy, paused]));
    assert_eq!(api.get(path).await.json(), paused);

    assert_eq!(send(&api, "DELETE", path, json!({})).await.json(), paused);
    assert_eq!(received.next().await, Some(Notification::PausesChanged));
    assert_eq!(api.get("/v1/pauses").await.json()["data"], json!([strategy]));
    let detail = send(&api, "DELETE", path, json!({})).await.problem(404, "unknown-pause");
    assert_eq!(detail, r#"model "openai/gpt-4o" is not paused"#);
    api.get(path).await.problem(404, "unknown-pause");
}

#[tokio::test]
async fn the_wait_for_the_provider_of_a_model_is_ended_like_a_pause() {
    let api = TestApi::new().await;
    let mut received = api.backends.notifications.subscribe(ALL_WORKERS).await.unwrap();
    let (thread, lane) = (uuid::Uuid::now_v7(), queue::Lane::default());
    api.backends.queue.enqueue(thread, &lane, Schedule::Now).await.unwrap();
    let [job] = &api.backends.queue.claim(1.into()).await.unwrap()[..] else { panic!("it has one job") };
    let reason = BlockedBy::Provider.because("model openai/gpt-4o limits its requests: slow down");
    let later = Schedule::Blocked { after: Duration::from_secs(600), reason: reason.clone() };
    assert!(api.backends.queue.ack(job, Some(later)).await.unwrap());

    send(&api, "DELETE", "/v1/pauses/model/openai%2Fgpt-4", json!({})).await.problem(404, "unknown-pause");
    let ended = send(&api, "DELETE", "/v1/pauses/model/openai%2Fgpt-4o", json!({})).await.json();
    assert_eq!((&ended["reason"], &ended["by"]), (&json!(reason.detail), &json!("openai")));
    let model = "openai/gpt-4o".to_owned();
    assert_eq!(received.next().await, Some(Notification::ModelResumed { model }));
}

#[tokio::test]
async fn an_invalid_pause_is_rejected_with_its_cause() {
    let api = TestApi::new().await;
    let detail = send(&api, "PUT", "/v1/pauses/mood/sombre", json!({})).await.problem(422, "invalid");
    assert_eq!(detail, r#""mood" cannot be paused; hint: pause a strategy, a model or a tenant"#);
    let gone = send(&api, "PUT", "/v1/pauses/strategy/gone", json!({})).await;
    let detail = gone.problem(422, "names-no-strategy");
    assert!(detail.contains("known strategies: ") && detail.contains("probe"), "{detail}");
    let detail = send(&api, "PUT", "/v1/pauses/model/gpt-4o", json!({})).await.problem(422, "invalid");
    assert!(detail.contains("does not name a provider"), "{detail}");
    send(&api, "PUT", "/v1/pauses/strategy/probe", json!({"why": "x"})).await.problem(422, "invalid");
    assert_eq!(api.get("/v1/pauses").await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_tenant_pauses_itself_and_nothing_else() {
    let api = TestApi::new().await;
    let as_acme = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("x-turnfold-tenant", "acme");
        let request = request.header("content-type", "application/json").header("x-turnfold-user", "Ann");
        api.send(request.body(Body::from(r#"{"reason": "holidays"}"#)).unwrap()).await
    };
    let path = "/v1/pauses/tenant/acme";
    let own = as_acme("PUT", path).await.json();
    assert_eq!((&own["kind"], &own["by"]), (&json!("own_tenant"), &json!("Ann")));
    assert_eq!(as_acme("GET", path).await.json(), own);
    for other in ["tenant/other", "own_tenant/other", "strategy/probe", "model/openai%2Fgpt-4o"] {
        for method in ["GET", "PUT", "DELETE"] {
            let detail = as_acme(method, &format!("/v1/pauses/{other}")).await.problem(403, "forbidden");
            assert!(detail.contains("only itself: tenant acme"), "{detail}");
        }
    }

    // An operator's pause is another one, which the tenant sees and cannot end.
    let operators = send(&api, "PUT", path, json!({"reason": "unpaid"})).await.json();
    assert_eq!((&operators["kind"], &operators["reason"]), (&json!("tenant"), &json!("unpaid")));
    send(&api, "PUT", "/v1/pauses/strategy/probe", json!({})).await.json();
    send(&api, "PUT", "/v1/pauses/tenant/other", json!({})).await.json();
    assert_eq!(as_acme("GET", "/v1/pauses").await.json()["data"], json!([operators, own]));
    assert_eq!(as_acme("DELETE", path).await.json(), own);
    assert_eq!(as_acme("GET", path).await.json(), operators);
    as_acme("DELETE", path).await.problem(404, "unknown-pause");
    assert_eq!(as_acme("GET", "/v1/pauses").await.json()["data"], json!([operators]));
    assert_eq!(send(&api, "DELETE", path, json!({})).await.json(), operators);
    send(&api, "PUT", "/v1/pauses/tenant/Acme%20Inc", json!({})).await.problem(422, "invalid");
}

#[tokio::test]
async fn a_model_is_forgotten_and_workers_are_notified() {
    let api = TestApi::new().await;
    let mut received = api.backends.notifications.subscribe(ALL_WORKERS).await.unwrap();
    let forgotten = send(&api, "PUT", "/v1/forgotten_models/openai%2Fgpt-4o", json!({})).await.json();
    assert_eq!((&forgotten["model"], &forgotten["by"]), (&json!("openai/gpt-4o"), &json!("Ada")));
    assert_eq!(received.next().await, Some(Notification::PausesChanged));
    assert_eq!(api.get("/v1/forgotten_models").await.json()["data"], json!([forgotten]));
    let detail = send(&api, "PUT", "/v1/forgotten_models/gpt-4o", json!({})).await.problem(422, "invalid");
    assert!(detail.contains("does not name a provider"), "{detail}");
}
