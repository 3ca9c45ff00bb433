//! Failures of models and servers end in a clear reply or error, and the thread stays usable. Everything but the model is real.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::free_port;

use crate::engine::{Process, TURNFOLD, log, turnfold};

struct Dev {
    folder: TempDir,
    url: String,
    http: reqwest::Client,
    _dev: Process,
}

/// Starts `turnfold dev` with a scripted model.
async fn dev(script: &[Value]) -> Dev {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("model.jsonl"), lines.join("\n")).unwrap();
    let config = format!(
        "[providers.scripted]\nscript = \"model.jsonl\"\n[strategies.planner]\nmodel = \"scripted/test\"\nrounds = 2\n\
         [mcp.notes]\ndescription = \"notes\"\ncommand = {0}\nargs = [\"expert\", \"notes\", \"--data\", \"notes.json\"]\n\
         [mcp.dead]\ndescription = \"never there\"\ncommand = \"/nonexistent/server\"\nconnect_timeout_seconds = 1\n",
        json!(TURNFOLD)
    );
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder.path());
    let dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let this = Dev { folder, url: format!("http://{listen}"), http: reqwest::Client::new(), _dev: dev };
    for _ in 0..500 {
        if this.http.get(format!("{}/readyz", this.url)).send().await.is_ok() {
            return this;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not ready: {}", fs::read_to_string(this.folder.path().join("dev.log")).unwrap());
}

impl Dev {
    /// Returns the lines of the engine's log with this message.
    fn logged(&self, message: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("dev.log")).unwrap();
        text.lines().filter(|line| line.contains(message)).map(str::to_owned).collect()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let response = self.http.post(format!("{}{path}", self.url)).json(&body).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// Sends a message and waits until the turn ends.
    async fn send(&self, thread: Option<&Value>, expected: &str) -> Value {
        let mut body = json!({"input": expected});
        match thread {
            Some(turn) => body["thread_id"] = turn["thread_id"].clone(),
            None => body["strategy"] = json!("planner"),
        }
        self.post("/v1/turns?wait=60", body).await
    }

    /// Checks that another turn on the thread completes.
    async fn check_next_turn(&self, turn: &Value) {
        let next = self.send(Some(turn), "hello").await;
        assert_eq!(next["status"], "completed", "{next}");
        assert_eq!(next["output"]["reply"], "Hello!", "{next}");
    }
}

fn plan(expert: &str) -> Value {
    json!({"decision": "replace", "plan": [{"expert": expert, "task": "do it"}], "next_task": 0, "clarification": null})
}

/// Returns a script that completes `hello`, followed by the lines of the test.
fn script(lines: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let hello = json!({"shape": "PlanReply", "hears": "^hello$",
        "says": {"decision": "replace", "plan": [], "next_task": 0, "clarification": null}});
    let respond = json!({"system": "You tell the person", "hears": "^hello$", "says": "Hello!"});
    [hello, respond].into_iter().chain(lines).collect()
}

#[tokio::test]
async fn malformed_json_four_times_fails_the_turn() {
    let dev = dev(&script([json!({"shape": "PlanReply", "says": "Sure, I'll plan that!"})])).await;
    let turn = dev.send(None, "plan it").await;
    assert_eq!(turn["status"], "failed", "{turn}");
    let error = turn["error"].as_str().unwrap();
    for expected in ["plan", "does not fit its schema", "tried 4 times", "retry the turn"] {
        assert!(error.contains(expected), "{expected:?} in {error}");
    }
    let warnings = dev.logged("turn failed");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for expected in ["WARN", "node=plan", "does not fit its schema", turn["id"].as_str().unwrap()] {
        assert!(warnings[0].contains(expected), "{expected:?} in {warnings:?}");
    }
    dev.check_next_turn(&turn).await;
}

#[tokio::test]
async fn an_unreachable_server_gives_a_partial_answer() {
    let dev = dev(&script([
        json!({"shape": "PlanReply", "says": plan("dead")}),
        json!({"system": "The work stopped before its end: (?<why>.+)\\.", "says": "Not done: {why}"}),
    ]))
    .await;
    let turn = dev.send(None, "plan it").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let reply = turn["output"]["reply"].as_str().unwrap();
    for expected in ["Not done", "dead", "[mcp.dead]", "does not exist"] {
        assert!(reply.contains(expected), "{expected:?} in {reply}");
    }
    assert_eq!(
        (&turn["outcome"], &turn["cause"]),
        (&json!("partial"), &json!("mcp unreachable: dead")),
        "{turn}"
    );
    let warnings = dev.logged("turn ended without a full answer");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for expected in [
        "WARN",
        "node=respond",
        "outcome=partial",
        "mcp unreachable: dead",
        turn["thread_id"].as_str().unwrap(),
    ] {
        assert!(warnings[0].contains(expected), "{expected:?} in {warnings:?}");
    }
    dev.check_next_turn(&turn).await;
}

#[tokio::test]
async fn an_error_of_a_tool_reaches_the_model() {
    let dev = dev(&script([
        json!({"shape": "PlanReply", "says": plan("notes")}),
        json!({"shape": "Assessment", "says": {"is_completed": false, "explanation": "no such note", "confidence": 1.0}}),
        json!({"system": "at work on one task", "calls": [{"name": "read", "arguments": {"title": "nowhere"}}]}),
        json!({"system": "The work stopped before its end: (?<why>.+)\\.", "says": "Not done: {why}"}),
    ]))
    .await;
    let turn = dev.send(None, "read nowhere").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let messages = turn["output"]["messages"].to_string();
    assert!(
        messages.contains("error: ") && messages.contains("nowhere"),
        "the tool's own message is passed on: {messages}"
    );
    assert!(turn["output"]["reply"].as_str().unwrap().contains("2 rounds"), "{turn}");
    dev.check_next_turn(&turn).await;
}

#[tokio::test]
async fn an_invalid_plan_of_the_model_gives_a_clear_reply() {
    let out_of_range = json!({"decision": "replace", "plan": [{"expert": "notes", "task": "do it"}], "next_task": 9, "clarification": null});
    let none = json!({"decision": "replace", "plan": [], "next_task": 0, "clarification": null});
    let dev = dev(&script([
        json!({"shape": "PlanReply", "hears": "nobody", "says": plan("nobody")}),
        json!({"shape": "PlanReply", "hears": "far", "says": out_of_range}),
        json!({"shape": "PlanReply", "says": none}),
        json!({"shape": "Assessment", "says": {"is_completed": true, "explanation": "said", "confidence": 1.0}}),
        json!({"system": "at work on one task", "says": "It is done."}),
        json!({"system": "no expert is suited", "says": "Nobody can."}),
        json!({"system": "The work stopped before its end: (?<why>.+)\\.", "says": "Not done: {why}"}),
        json!({"system": "Every task is done", "says": "All done."}),
    ]))
    .await;
    let turn = dev.send(None, "ask nobody").await;
    let reply = turn["output"]["reply"].as_str().unwrap();
    assert!(reply.contains("no expert called \"nobody\"") && reply.contains("dead, notes"), "{reply}");
    dev.check_next_turn(&turn).await;
    let turn = dev.send(None, "anything").await;
    assert_eq!(turn["output"]["reply"], "Nobody can.", "{turn}");
    dev.check_next_turn(&turn).await;
    let turn = dev.send(None, "far").await;
    assert_eq!(turn["output"]["reply"], "All done.", "{turn}");
    dev.check_next_turn(&turn).await;
}
