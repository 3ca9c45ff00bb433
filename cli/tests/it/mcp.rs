//! Tasks of turnfold's MCP server: all processes are killed and started again, and the same task ends well.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Engine, Process, log, turnfold};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request of the newest protocol version; none if the server is not there.
async fn send(
    http: &reqwest::Client,
    url: &str,
    method: &str,
    name: &str,
    mut params: Value,
) -> Option<Value> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    });
    let request = http
        .post(format!("{url}/mcp"))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", name)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    let response = request.send().await.ok()?;
    let answer: Value = response.json().await.ok()?;
    assert_eq!(answer.get("error"), None, "{answer}");
    Some(answer["result"].clone())
}

/// Starts a task that lasts for a while, and returns its id.
async fn started(http: &reqwest::Client, url: &str) -> String {
    let params = json!({"name": "probe", "arguments": {"input": "wait 1; steps 3; wait 1; echo survived"}});
    let task = send(http, url, "tools/call", "probe", params).await.unwrap();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

async fn task(http: &reqwest::Client, url: &str, id: &str) -> Option<Value> {
    send(http, url, "tasks/get", id, json!({"taskId": id})).await
}

/// Waits until the task has ended, and checks its result.
async fn ends_well(http: &reqwest::Client, url: &str, id: &str) {
    let began = Instant::now();
    loop {
        let task = task(http, url, id).await;
        if let Some(task) = task.filter(|task| task["status"] != "working") {
            assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!("completed")), "{task}");
            let text = task["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("survived"), "{task}");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "task {id} does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the turn of the task is running.
async fn runs(http: &reqwest::Client, url: &str, id: &str) {
    let began = Instant::now();
    loop {
        let turn: Value =
            http.get(format!("{url}/v1/turns/{id}")).send().await.unwrap().json().await.unwrap();
        if turn["status"] == "running" {
            return;
        }
        assert!(turn["status"] == "queued" && began.elapsed() < PATIENCE, "{turn}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_the_death_of_dev() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let dev = || {
        let mut command = turnfold(folder.path());
        let command = command.args(["dev", "--listen", &listen, "--set", "store.url=sqlite:t.db"]);
        Process::start(command.stderr(log(folder.path(), "dev")))
    };
    let first = dev();
    let began = Instant::now();
    while !fs::read_to_string(folder.path().join("dev.log")).unwrap().contains("turnfold is ready") {
        assert!(began.elapsed() < PATIENCE, "dev does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let id = started(&http, &url).await;
    runs(&http, &url, &id).await;
    first.kill();
    assert_eq!(task(&http, &url, &id).await, None, "nothing runs");
    let _second = dev();
    ends_well(&http, &url, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_the_death_of_the_api_and_all_workers() {
    let mut engine = Engine::start("").await;
    let worker = engine.worker("first");
    let id = started(&engine.http, &engine.url).await;
    runs(&engine.http, &engine.url, &id).await;
    worker.kill();
    engine.kill_api().await;
    let task = task(&engine.http, &engine.url, &id).await.unwrap();
    assert_eq!(task["status"], "working", "the API knows it, and nobody works on it: {task}");
    let _second = engine.worker("second");
    ends_well(&engine.http, &engine.url, &id).await;
}
