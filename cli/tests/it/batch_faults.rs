//! One file with every fault of a line: all checks list the same lines with the same messages.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Engine, Process, log, turnfold};

/// A valid line with a change.
fn line(id: &str, change: impl FnOnce(&mut Value)) -> String {
    let body = json!({"strategy": "probe", "input": "echo hi"});
    let mut line = json!({"custom_id": id, "method": "POST", "url": "/v1/turns", "body": body});
    change(&mut line);
    line.to_string()
}

/// Two valid lines and 17 invalid ones, each with the code of its error.
fn lines() -> Vec<(String, Option<&'static str>)> {
    let named = |field: &'static str, value: Value| move |line: &mut Value| line[field] = value;
    let body = |field: &'static str, value: Value| move |line: &mut Value| line["body"][field] = value;
    let without = |field: &'static str| {
        move |line: &mut Value| {
            line.as_object_mut().unwrap().remove(field);
        }
    };
    let nul = "i\u{0}";
    vec![
        (line("a", |_| ()), None),
        ("{oops".to_owned(), Some("invalid_json")),
        ("[]".to_owned(), Some("invalid_json")),
        (line("b", without("custom_id")), Some("missing_custom_id")),
        (line("", |_| ()), Some("invalid_custom_id")),
        (line(nul, |_| ()), Some("invalid_custom_id")),
        (line("c", named("method", json!("GET"))), Some("invalid_method")),
        (line("d", named("url", json!("/v1/embeddings"))), Some("invalid_url")),
        (line("e", named("url", json!("/v1/chat/completions"))), Some("invalid_url")),
        (line("f", without("body")), Some("invalid_body")),
        (line("g", body("strategy", json!("prob"))), Some("unknown_model")),
        (line("h", body("inputs", json!("twice"))), Some("invalid_body")),
        (line("i", body("priority", json!("urgent"))), Some("invalid_body")),
        (line("j", body("input", json!(""))), Some("invalid_body")),
        (line("k", body("config", json!({"nothing": 1}))), Some("invalid_body")),
        (line("l", body("budget", json!({"usd": -1}))), Some("invalid_body")),
        (line("m", body("delay_seconds", json!(5))), Some("invalid_body")),
        // An earlier line has the name, also if that line is invalid.
        (line("c", |_| ()), Some("duplicate_custom_id")),
        (line("n", body("input", json!("x".repeat(3000)))), Some("line_too_long")),
        (line("o", |_| ()), None),
    ]
}

fn validate(folder: &Path, args: &[&str]) -> Value {
    let mut command = turnfold(folder);
    let output =
        command.args(["batch", "validate", "faults.jsonl", "-o", "json"]).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
    found.as_object_mut().unwrap().remove("sha256");
    found
}

/// Asks the API at `url` for all of its checks, and compares them with `expected`.
async fn all_agree(http: &reqwest::Client, url: &str, file: &str, expected: &Value) {
    let post = async |path: &str, body: Value| -> Value {
        let response = http.post(format!("{url}{path}")).json(&body).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    };
    let found = http.post(format!("{url}/v1/batches/validate")).body(file.to_owned()).send().await.unwrap();
    let found: Value = serde_json::from_str(&found.text().await.unwrap()).unwrap();
    assert_eq!(found, *expected, "the route of the console");

    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{file}\r\n--x--\r\n"
    );
    let upload =
        http.post(format!("{url}/v1/files")).header("content-type", "multipart/form-data; boundary=x");
    let uploaded = upload.body(form).send().await.unwrap().text().await.unwrap();
    let uploaded: Value = serde_json::from_str(&uploaded).unwrap();
    let new = json!({"input_file_id": uploaded["id"], "endpoint": "/v1/turns", "completion_window": "24h"});
    let quote = post("/v1/batches?quote=true", new.clone()).await;
    assert_eq!(quote["invalid"], expected["invalid"], "{quote}");
    let batch = post("/v1/batches", new).await["id"].as_str().unwrap().to_owned();
    loop {
        let shown = http.get(format!("{url}/v1/batches/{batch}")).send().await.unwrap().text().await.unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        if shown["status"] != "validating" {
            assert_eq!(shown["errors"]["data"], expected["errors"], "the batch");
            assert_eq!(shown["turnfold"]["invalid"], expected["invalid"], "{shown}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn every_check_of_a_file_finds_the_same_lines() {
    let engine = Engine::start("[batch]\nline_kib = 2\n").await;
    let lines = lines();
    let file = lines.iter().map(|(line, _)| format!("{line}\n")).collect::<String>();
    fs::write(engine.folder().join("faults.jsonl"), &file).unwrap();

    let expected = validate(engine.folder(), &[]);
    let codes = (1..).zip(&lines).filter_map(|(nth, (_, code))| Some((nth, (*code)?)));
    let listed = expected["errors"].as_array().unwrap();
    let listed =
        listed.iter().map(|error| (error["line"].as_u64().unwrap(), error["code"].as_str().unwrap()));
    assert_eq!(listed.collect::<Vec<_>>(), codes.collect::<Vec<_>>(), "{expected:#}");
    assert_eq!(
        (&expected["lines"], &expected["invalid"], &expected["endpoint"]),
        (&json!(20), &json!(18), &json!("/v1/turns"))
    );
    let again = expected["errors"].as_array().unwrap().iter().find(|it| it["code"] == "duplicate_custom_id");
    assert_eq!(again.unwrap()["message"], "custom_id \"c\" is also on line 7");

    // PostgreSQL, from a folder without the configuration.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("faults.jsonl"), &file).unwrap();
    assert_eq!(validate(elsewhere.path(), &["--url", &engine.url]), expected);
    all_agree(&engine.http, &engine.url, &file, &expected).await;

    // SQLite.
    let listen = format!("127.0.0.1:{}", free_port());
    let mut dev = turnfold(elsewhere.path());
    dev.args(["dev", "--set", "batch.line_kib=2", "--listen", &listen]);
    let _dev = Process::start(dev.stderr(log(elsewhere.path(), "dev")));
    let url = format!("http://{listen}");
    while engine.http.get(format!("{url}/readyz")).send().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    all_agree(&engine.http, &url, &file, &expected).await;
}
