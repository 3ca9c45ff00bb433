//! A batch file of OpenAI, one prompt a line, runs with its bytes unchanged against a provider that has the model it names.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

use crate::{engine::turnfold, openai_clients::Dev};

const LINES: usize = 1_000;
const MODEL: &str = "gpt-4o-mini";
const READ: u64 = 11;
const WRITTEN: u64 = 7;
const CACHED: u64 = 5;
const REASONING: u64 = 3;

/// Starts a provider that repeats each prompt. Returns the configuration that uses it.
async fn provider() -> String {
    let app = Router::new().route("/v1/chat/completions", post(complete));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = json!(format!("http://{}/v1", listener.local_addr().unwrap()));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    format!("[providers.gateway]\nbase_url = {url}\n[strategies.chat]\nmodel = \"gateway/gpt-4.1\"\n")
}

async fn complete(Json(request): Json<Value>) -> Response {
    let messages = request["messages"].as_array().unwrap();
    let (first, last) = (messages.first().unwrap(), messages.last().unwrap());
    assert!(first["role"] == "system" && first["content"] == "Be brief.", "{request}");
    assert_eq!((&request["model"], &request["temperature"]), (&json!(MODEL), &json!(0.5)), "{request}");
    let answer = format!("You said: {}", last["content"].as_str().unwrap());
    let choice = json!({"index": 0, "delta": {"content": answer}, "finish_reason": "stop"});
    let usage = json!({
        "prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN,
        "prompt_tokens_details": {"cached_tokens": CACHED},
        "completion_tokens_details": {"reasoning_tokens": REASONING},
    });
    let chunk = json!({"model": MODEL, "choices": [choice], "usage": usage});
    ([("content-type", "text/event-stream")], format!("data: {chunk}\n\ndata: [DONE]\n\n")).into_response()
}

/// Returns a batch file for an endpoint, in the form of OpenAI's guide.
fn file(url: &str) -> String {
    let line = |n: usize| {
        let mut body = json!({"model": MODEL, "temperature": 0.5});
        let prompt = format!("prompt {n}");
        if url == "/v1/responses" {
            (body["instructions"], body["input"]) = (json!("Be brief."), json!(prompt));
            body["max_output_tokens"] = json!(100);
        } else {
            body["messages"] =
                json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]);
            body["max_tokens"] = json!(100);
        }
        format!(
            "{}\n",
            json!({"custom_id": format!("request-{n}"), "method": "POST", "url": url, "body": body})
        )
    };
    (1..=LINES).map(line).collect()
}

/// Runs a file as OpenAI's clients do. Returns the batch and the file of its results.
async fn run(dev: &Dev, url: &str, file: &str) -> (Value, String) {
    let http = reqwest::Client::new();
    let at = |path: &str| format!("{}{path}", dev.url);
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"batchinput.jsonl\"\r\n\r\n{file}\r\n--x--\r\n"
    );
    let upload = http.post(at("/v1/files")).header("content-type", "multipart/form-data; boundary=x");
    let uploaded: Value = upload.body(form).send().await.unwrap().json().await.unwrap();
    let content = async |id: &Value| {
        let path = format!("/v1/files/{}/content", id.as_str().unwrap_or_else(|| panic!("{id}")));
        http.get(at(&path)).send().await.unwrap().text().await.unwrap()
    };
    assert_eq!(content(&uploaded["id"]).await, file, "the bytes are unchanged");
    let new = json!({"input_file_id": uploaded["id"], "endpoint": url, "completion_window": "24h"});
    let created = http.post(at("/v1/batches")).json(&new).send().await.unwrap();
    let mut batch: Value = created.json().await.unwrap();
    let began = Instant::now();
    while !["completed", "failed", "expired", "cancelled"]
        .contains(&batch["status"].as_str().unwrap_or("failed"))
    {
        assert!(began.elapsed() < Duration::from_secs(120), "{batch}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let id = batch["id"].as_str().unwrap();
        batch = http.get(at(&format!("/v1/batches/{id}"))).send().await.unwrap().json().await.unwrap();
    }
    assert_eq!(batch["status"], "completed", "{batch}");
    let results = content(&batch["output_file_id"]).await;
    (batch, results)
}

/// Checks that the results have each line once, with an object of OpenAI's.
fn check(results: &str, url: &str) {
    let lines: Vec<Value> = results.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by_id: BTreeMap<&str, &Value> =
        lines.iter().map(|line| (line["custom_id"].as_str().unwrap(), line)).collect();
    assert_eq!((lines.len(), by_id.len()), (LINES, LINES), "each line once");
    for n in 1..=LINES {
        let line = by_id[format!("request-{n}").as_str()];
        let (response, answer) = (&line["response"], json!(format!("You said: prompt {n}")));
        assert!(response["status_code"] == 200 && line["error"].is_null(), "{line}");
        let body = &response["body"];
        assert_eq!(body["model"], MODEL, "{body}");
        if url == "/v1/responses" {
            assert_eq!(
                (&body["object"], &body["status"]),
                (&json!("response"), &json!("completed")),
                "{body}"
            );
            assert!(body["id"].as_str().unwrap().starts_with("resp_"), "{body}");
            let text = &body["output"][0]["content"][0];
            assert_eq!((&text["type"], &text["text"]), (&json!("output_text"), &answer), "{body}");
            let usage = json!([READ, WRITTEN, READ + WRITTEN]);
            let used = &body["usage"];
            assert_eq!(json!([used["input_tokens"], used["output_tokens"], used["total_tokens"]]), usage);
            assert_eq!(used["input_tokens_details"]["cached_tokens"], CACHED);
            assert_eq!(used["output_tokens_details"]["reasoning_tokens"], REASONING);
            let asked = json!([body["temperature"], body["max_output_tokens"], body["instructions"]]);
            assert_eq!(asked, json!([0.5, 100, "Be brief."]));
        } else {
            assert_eq!(body["object"], "chat.completion", "{body}");
            assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"), "{body}");
            let choice = &body["choices"][0];
            assert_eq!(choice["message"]["content"], answer, "{body}");
            assert_eq!(
                (&choice["message"]["role"], &choice["finish_reason"]),
                (&json!("assistant"), &json!("stop"))
            );
            let used = &body["usage"];
            let usage = json!([READ, WRITTEN, READ + WRITTEN]);
            assert_eq!(
                json!([used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]]),
                usage
            );
            assert_eq!(used["prompt_tokens_details"]["cached_tokens"], CACHED);
            assert_eq!(used["completion_tokens_details"]["reasoning_tokens"], REASONING);
        }
    }
}

/// Runs a file for an endpoint through the API, and through the command line.
async fn runs_unchanged(url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dev = Dev::with(&provider().await);
    let file = file(url);
    let (batch, results) = run(&dev, url, &file).await;
    let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
    assert_eq!((&batch["request_counts"], &batch["model"]), (&counts, &json!(MODEL)), "{batch}");
    let lines = LINES as u64;
    let used = &batch["usage"];
    assert_eq!(json!([used["input_tokens"], used["output_tokens"]]), json!([READ * lines, WRITTEN * lines]));
    assert!(batch["error_file_id"].is_null(), "{batch}");
    check(&results, url);

    fs::write(dev.folder().join("batchinput.jsonl"), &file).unwrap();
    let mut command = turnfold(dev.folder());
    command.args([
        "batch",
        "run",
        "batchinput.jsonl",
        "--out",
        "r.jsonl",
        "--reuse",
        "none",
        "--url",
        &dev.url,
    ]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(dev.folder().join("batchinput.jsonl")).unwrap(), file);
    check(&fs::read_to_string(dev.folder().join("r.jsonl")).unwrap(), url);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_file_of_openai_runs_unchanged() {
    runs_unchanged("/v1/chat/completions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_file_of_openai_for_responses_runs_unchanged() {
    runs_unchanged("/v1/responses").await;
}
