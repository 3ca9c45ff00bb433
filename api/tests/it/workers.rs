//! The list of workers.

use axum::{body::Body, http::Request};
use queue::clock;
use serde_json::json;
use store::{LearnedModel, WorkerRecord};
use uuid::Uuid;

use crate::test_api::TestApi;

fn worker(name: &str, seconds_ago: i64) -> WorkerRecord {
    let now = clock::now();
    WorkerRecord {
        id: Uuid::now_v7(),
        name: name.to_owned(),
        host: "host".to_owned(),
        pid: 7,
        version: "0.1.0".to_owned(),
        strategies: [("probe".to_owned(), 1)].into(),
        slots: 4,
        in_flight: 2,
        steps_per_second: (seconds_ago < 30).then_some(7.5),
        learned_models: Vec::new(),
        started_at: now,
        seen_at: now - seconds_ago * 1_000_000,
    }
}

#[tokio::test]
async fn a_worker_is_missing_after_30_seconds_without_a_report() {
    let api = TestApi::new().await;
    assert_eq!(api.get("/v1/workers").await.json(), json!({"data": [], "has_more": false}));
    api.backends.store.record_worker(&worker("alive", 25)).await.unwrap();
    api.backends.store.record_worker(&worker("dead", 31)).await.unwrap();
    let listed = api.get("/v1/workers").await.json();
    let rows = listed["data"].as_array().unwrap();
    let status = |worker: &serde_json::Value| (worker["name"].clone(), worker["status"].clone());
    let expected = [(json!("alive"), json!("active")), (json!("dead"), json!("missing"))];
    assert_eq!(rows.iter().map(status).collect::<Vec<_>>(), expected);
    assert_eq!((&rows[0]["slots"], &rows[0]["in_flight"]), (&json!(4), &json!(2)));
    assert_eq!((&rows[0]["steps_per_second"], &rows[1]["steps_per_second"]), (&json!(7.5), &json!(null)));
    assert_eq!(rows[0]["strategies"], json!({"probe": 1}));
}

#[tokio::test]
async fn what_workers_learned_about_models_is_listed_by_model() {
    let api = TestApi::new().await;
    let learned = |model: &str, context_tokens, refused: &[&str]| LearnedModel {
        model: model.to_owned(),
        context_tokens,
        refused: refused.iter().map(|part| (*part).to_owned()).collect(),
        ..LearnedModel::default()
    };
    for (name, seconds_ago, models) in [
        ("w1", 1, vec![learned("a/x", Some(9_000), &["stream_options"])]),
        ("w2", 1, vec![learned("a/x", Some(8_192), &["strict"]), learned("a/b/c", None, &["strict"])]),
        ("dead", 31, vec![learned("a/x", Some(1), &[]), learned("a/y", Some(1), &[])]),
    ] {
        let worker = WorkerRecord { learned_models: models, ..worker(name, seconds_ago) };
        api.backends.store.record_worker(&worker).await.unwrap();
    }
    let both = json!({
        "model": "a/x", "context_tokens": 8_192, "attachments_max": null, "structured_output": null,
        "refused": ["stream_options", "strict"], "simplified_tools": [], "omitted_tools": [],
        "workers": ["w1", "w2"],
    });
    let listed = api.get("/v1/learned_models").await.json();
    assert_eq!(listed["data"][0]["model"], "a/b/c");
    assert_eq!(listed["data"][1], both);
    assert_eq!(listed["data"].as_array().unwrap().len(), 2, "the dead worker counts no more");
    assert_eq!(api.get("/v1/learned_models/a%2Fx").await.json(), both);
    assert_eq!(api.get("/v1/learned_models/a%2Fb%2Fc").await.json(), listed["data"][0]);
    let detail = api.get("/v1/learned_models/a%2Fy").await.problem(404, "model-not-found");
    assert!(detail.contains("has learned anything about model \"a/y\""), "{detail}");
}

#[tokio::test]
async fn only_an_operator_lists_workers() {
    let api = TestApi::new().await;
    let as_acme = Request::get("/v1/workers").header("x-turnfold-tenant", "acme");
    api.send(as_acme.body(Body::empty()).unwrap()).await.problem(403, "forbidden");
}
