//! Repeated submission of a file: which batch it continues, and when it creates a new one.

use std::{
    fs,
    path::Path,
    process::Output,
    sync::{Arc, Mutex},
};

use api_types::BatchStatus;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path as Named, State},
    http::{HeaderMap, StatusCode, Uri},
    routing::{delete, get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::spawn_blocking};

use crate::{
    batch,
    engine::{Process, log, turnfold},
    openai_clients::Dev,
};

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = turnfold(folder).arg("batch").args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn line(strategy: &str, input: &str) -> String {
    let body = json!({"strategy": strategy, "input": input});
    json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body}).to_string()
}

fn id(output: &(i32, String, String)) -> String {
    let batch: Value = serde_json::from_str(&output.1).unwrap_or_else(|_| panic!("{output:?}"));
    batch["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_with_an_abandoned_batch_is_submitted_again() {
    let dev = Dev::start();
    let folder = dev.folder();
    fs::write(folder.join("f.jsonl"), line("probe", "wait 30")).unwrap();
    fs::write(folder.join("bad.jsonl"), line("nobody", "hello")).unwrap();
    let batch = |args: &[&str]| run(folder, &[args, &["--url", &dev.url, "-o", "json"]].concat());
    let first = id(&batch(&["submit", "f.jsonl"]));
    assert_eq!(id(&batch(&["submit", "f.jsonl"])), first);
    let mut before = first;
    for _ in 0..2 {
        assert_eq!(batch(&["cancel", &before]).0, 0);
        let again = batch(&["submit", "f.jsonl"]);
        let printed = format!("{before} of the same file was cancelled; creating a new batch");
        assert!(again.0 == 0 && id(&again) != before && again.2.contains(&printed), "{again:?}");
        let same = batch(&["submit", "f.jsonl"]);
        let printed = format!("continuing {}, which was submitted before", id(&again));
        assert!(id(&same) == id(&again) && same.2.contains(&printed), "{same:?}");
        before = id(&again);
    }
    let refused = batch(&["submit", "bad.jsonl", "--wait"]);
    assert!(refused.0 == 2 && refused.2.contains("no line can be run"), "{refused:?}");
    // The configuration changed between the check and the creation.
    let shown: Value = serde_json::from_str(&batch(&["show", &before]).1).unwrap();
    assert_eq!(batch(&["cancel", &before]).0, 0);
    let failed = fail(&dev.url, &line("nobody", "hello"), &shown["metadata"]);
    let again = batch(&["submit", "f.jsonl"]);
    let printed = format!("{failed} of the same file failed; creating a new batch");
    assert!(again.0 == 0 && id(&again) != failed && again.2.contains(&printed), "{again:?}");
}

/// Creates a batch without a valid line, and waits until it has failed. Returns its id.
fn fail(url: &str, file: &str, metadata: &Value) -> String {
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{file}\r\n--x--\r\n"
    );
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    let read = async |request: reqwest::RequestBuilder| -> Value {
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let upload = http.post(format!("{url}/v1/files"));
        let uploaded = read(upload.header("content-type", "multipart/form-data; boundary=x").body(form)).await;
        let new = json!({
            "input_file_id": uploaded["id"], "endpoint": "/v1/turns", "completion_window": "24h", "metadata": metadata
        });
        let id = read(http.post(format!("{url}/v1/batches")).json(&new)).await["id"].as_str().unwrap().to_owned();
        while read(http.get(format!("{url}/v1/batches/{id}"))).await["status"] != "failed" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        id
    })
}

#[test]
fn another_tenants_batch_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("f.jsonl"), line("probe", "hello")).unwrap();
    fs::write(folder.join("ops"), "sesame").unwrap();
    fs::write(folder.join("acme"), "acme's").unwrap();
    let config = "api.keys = ['file:ops']\ntenants.acme.keys = ['file:acme']\n";
    fs::write(folder.join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", test_servers::free_port());
    let _dev = Process::start(turnfold(folder).args(["dev", "--listen", &listen]).stderr(log(folder, "dev")));
    while std::net::TcpStream::connect(&listen).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let submit = |key: &str, more: &[&str]| {
        let url = format!("http://{listen}");
        let args = [&["batch", "submit", "f.jsonl", "-o", "json", "--url", &url], more].concat();
        let output = turnfold(folder).args(args).env("TURNFOLD_KEY", key).output().unwrap();
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let [out, err] = printed;
        id(&(output.status.code().unwrap(), out, err))
    };
    let acme = submit("acme's", &[]);
    assert_eq!(submit("acme's", &[]), acme);
    assert_eq!(submit("sesame", &["--tenant", "acme"]), acme);
    let ours = submit("sesame", &[]);
    assert_ne!(ours, acme, "that is acme's");
    assert_eq!(submit("sesame", &["--tenant", "default"]), ours);
    assert_eq!(submit("acme's", &[]), acme);
}

/// Requests of a fake API: names of submissions, uploaded files and deleted files.
#[derive(Default)]
struct Seen {
    name: Option<String>,
    uploads: u64,
    deleted: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

/// Starts a fake API with 250 batches. The oldest belongs to the first requested submission; it creates no batch.
async fn api(seen: Shared, refused: StatusCode) -> String {
    let list = async |State(seen): State<Shared>, uri: Uri| {
        let query = uri.query().unwrap_or_default();
        let after = query.split('&').find_map(|part| part.strip_prefix("after=batch_"));
        let from: u64 = after.map_or(0, |number| number.parse::<u64>().unwrap() + 1);
        let name = seen.lock().unwrap().name.clone();
        let of = |n: u64| json!({"turnfold_submission": if n == 249 { name.clone() } else { None }});
        let nth = |n: u64| {
            let mut batch = batch::batch(&format!("batch_{n}"), BatchStatus::Completed, 1, 1);
            batch.metadata = of(n);
            batch
        };
        Json(batch::list((from..250).take(100).map(nth).collect(), from + 100 < 250))
    };
    let make = move |State(seen): State<Shared>, headers: HeaderMap, _: Bytes| async move {
        seen.lock().unwrap().name = Some(headers["idempotency-key"].to_str().unwrap().to_owned());
        (refused, Json(json!({"error": {"message": "not so"}})))
    };
    let upload = async |State(seen): State<Shared>, _: Bytes| {
        let mut seen = seen.lock().unwrap();
        seen.uploads += 1;
        Json(batch::file(&format!("file-{}", seen.uploads)))
    };
    let forget = async |State(seen): State<Shared>, Named(id): Named<String>| {
        seen.lock().unwrap().deleted.push(id);
        Json(json!({}))
    };
    let one = async |Named(id): Named<String>| Json(batch::batch(&id, BatchStatus::Completed, 1, 1));
    let routes = Router::new()
        .route("/v1/files", post(upload))
        .route("/v1/files/{id}", delete(forget))
        .route("/v1/batches", get(list).post(make))
        .route("/v1/batches/{id}", get(one))
        // It checks no lines, and reads them: a client that is still sending them might find the connection closed.
        .route("/v1/batches/validate", post(async |_: Bytes| StatusCode::NOT_FOUND))
        .with_state(seen);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_found_among_many_and_a_refusal_leaves_no_file() {
    for (status, code) in [
        (StatusCode::UNPROCESSABLE_ENTITY, 2),
        (StatusCode::INTERNAL_SERVER_ERROR, 1),
        (StatusCode::CONFLICT, 0),
    ] {
        let seen = Shared::default();
        let url = api(seen.clone(), status).await;
        let done = spawn_blocking(move || {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("f.jsonl"), line("probe", "hello")).unwrap();
            let submit = || run(folder.path(), &["submit", "f.jsonl", "-o", "json", "--url", &url]);
            // With a conflict, the batch was created in the meantime.
            let first = submit();
            assert_eq!(first.0, code, "{status}: {first:?}");
            let again = submit();
            assert!(again.0 == 0 && id(&again) == "batch_249", "{status}: {again:?}");
        });
        done.await.unwrap();
        let seen = seen.lock().unwrap();
        // After a broken connection, the batch may have been created.
        let deleted: &[&str] = if status.is_client_error() { &["file-1"] } else { &[] };
        assert_eq!(
            (seen.uploads, &seen.deleted[..]),
            (1, &deleted.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}
