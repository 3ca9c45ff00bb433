//! Fairness between tenants of one deployment, and isolation of their data.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::{Engine, turnfold};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of threads that one tenant opens, and the work of each: much more than the test waits for.
const FLOOD: usize = 40;
const INPUT: &str = "steps 50";

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// Counts the decisions of a tenant's threads between two times.
async fn nodes_between(engine: &Engine, tenant: &str, after: &str, before: &str) -> usize {
    let page: Value = send(engine, tenant, "/v1/threads?limit=1000", None).await;
    let mut nodes = 0;
    for thread in page["data"].as_array().unwrap() {
        for event in engine.events(&text(thread, "id")).await {
            let at = text(&event, "at");
            nodes += usize::from(event["kind"] == "decided" && *after < *at && *at < *before);
        }
    }
    nodes
}

async fn send(engine: &Engine, tenant: &str, path: &str, body: Option<&Value>) -> Value {
    let request = match body {
        Some(body) => engine.http.post(format!("{}{path}", engine.url)).json(body),
        None => engine.http.get(format!("{}{path}", engine.url)),
    };
    let response = request.header("X-Turnfold-Tenant", tenant).send().await.unwrap();
    assert!(response.status().is_success(), "{path}: {response:?}");
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_flood_of_one_tenant_does_not_delay_others() {
    let engine = Engine::start("[worker]\nslots = 1\n[tenants.flood]\nweight = 1\n").await;
    for _ in 0..FLOOD {
        let body = json!({"strategy": "probe", "input": INPUT, "priority": "high"});
        send(&engine, "flood", "/v1/turns", Some(&body)).await;
    }
    let _worker = engine.worker("w1");
    let began = Instant::now();
    let running = async || {
        let page = send(&engine, "flood", "/v1/turns?status=running&limit=1000", None).await;
        page["data"].as_array().unwrap().len()
    };
    while running().await < FLOOD / 2 {
        assert!(began.elapsed() < TIMEOUT, "{}", engine.stderr_of("w1"));
    }
    let folder = engine.folder().to_owned();
    let lone = tokio::task::spawn_blocking(move || {
        let mut command = turnfold(&folder);
        command.args([
            "--tenant",
            "lone",
            "-o",
            "json",
            "turn",
            "send",
            "-g",
            "probe",
            "--priority",
            "low",
            "echo hi",
        ]);
        command.output().unwrap()
    });
    let lone = lone.await.unwrap();
    assert!(lone.status.success(), "{}", String::from_utf8_lossy(&lone.stderr));
    let lone: Value = serde_json::from_slice(&lone.stdout).unwrap();
    assert_eq!((&lone["tenant"], &lone["priority"]), (&json!("lone"), &json!("low")));
    let ended = send(&engine, "lone", &format!("/v1/turns/{}?wait=30", text(&lone, "id")), None).await;
    assert_eq!(ended["status"], "completed");
    assert!(running().await > 0, "the flood is still under way");

    let events = engine.events(&text(&lone, "thread_id")).await;
    let started = events.iter().find(|event| event["kind"] == "turn_started").unwrap();
    let between = nodes_between(&engine, "flood", &text(&lone, "created_at"), &text(started, "at")).await;
    let all: Vec<Value> =
        send(&engine, "flood", "/v1/threads?limit=1000", None).await["data"].as_array().unwrap().clone();
    assert_eq!(all.len(), FLOOD);
    assert!(between <= 2 + COMMITTING, "{between} nodes of the flood came first");

    let seen = send(&engine, "lone", "/v1/threads", None).await;
    assert_eq!(seen["data"].as_array().unwrap().len(), 1, "each tenant sees its own threads");
}

/// Number of nodes that may end between the timestamp of the turn and its enqueuing, while its transaction commits.
const COMMITTING: usize = 8;
