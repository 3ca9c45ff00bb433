//! `turnfold batch`, as far as it needs no server: checking a file, and what is refused before anything is sent.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::Path,
    process::Output,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::Bytes,
    http::Uri,
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::spawn_blocking};

use crate::engine::{Process, log, turnfold};

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = turnfold(folder).arg("batch").args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn line(id: &str) -> String {
    json!({"custom_id": id, "method": "POST", "url": "/v1/turns", "body": {}}).to_string()
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    // As editors of some systems begin a text, and end its lines.
    at("good.jsonl", &format!("\u{feff}{}\r\n\n{}\n", line("a"), line("b")));
    let (code, out, _) = run(folder.path(), &["validate", "good.jsonl"]);
    assert_eq!((code, out.trim()), (0, "good.jsonl: nothing is wrong with its lines, 2 for /v1/turns"));

    at("empty.jsonl", " \n");
    let (code, out, _) = run(folder.path(), &["validate", "empty.jsonl"]);
    assert_eq!((code, out.trim()), (1, "empty.jsonl: the file holds no line"));

    at("bad.jsonl", &format!("{}\nnot json\n{}\n", line("a"), line("a")));
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("bad.jsonl:2: the line is no JSON")
            && out.contains("bad.jsonl:3: custom_id \"a\" stands on line 1"),
        "{out}"
    );
    assert!(out.contains("2 of 3 lines cannot be run"), "{out}");
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["faulty"], &report["faults"][0]["line"]),
        (1, &json!(2), &json!(2)),
        "{report}"
    );

    let many: String = (0..200).map(|n| format!("oops {n}\n")).collect();
    at("many.jsonl", &many);
    let (code, out, _) = run(folder.path(), &["validate", "many.jsonl"]);
    assert!(code == 1 && out.contains("… and 100 more") && out.contains("200 of 200"), "{out}");
    let long = line("a").replace("{}", &json!({"pad": "x".repeat(2000)}).to_string());
    at("long.jsonl", &long);
    let (code, out, _) = run(folder.path(), &["validate", "long.jsonl", "--set", "batch.line_kib=1"]);
    assert!(code == 1 && out.contains("longer than 1024 bytes"), "{out}");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.jsonl"), line("a")).unwrap();
    fs::write(folder.path().join("bad.jsonl"), "oops").unwrap();
    let nobody = ["--url", "http://127.0.0.1:1"];
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let told = run(folder.path(), &[args, &nobody].concat());
        assert_eq!(told.0, code, "{args:?}: {told:?}");
        for word in words {
            assert!(told.2.contains(word), "{word:?} in {told:?}");
        }
    };
    refused(&["validate", "none.jsonl"], 2, &["none.jsonl"]);
    refused(&["submit", "bad.jsonl"], 2, &["bad.jsonl:1: the line is no JSON", "nothing was submitted"]);
    refused(&["submit", "good.jsonl"], 4, &["nobody answers"]);
    refused(&["submit", "good.jsonl", "--reuse", "some"], 2, &["none"]);
    refused(&["submit", "good.jsonl", "--quote"], 2, &["nobody can be asked", "--yes", "batch quote FILE"]);
    refused(&["run", "good.jsonl", "--out", "o.jsonl", "--quote"], 2, &["nobody can be asked"]);
    refused(&["submit", "good.jsonl", "--quote", "--yes"], 4, &["nobody answers"]);
    refused(&["submit", "good.jsonl", "--yes"], 2, &["--quote"]);
    refused(&["run", "good.jsonl"], 2, &["--out"]);
    refused(&["run", "good.jsonl", "--out", "."], 2, &["is a folder"]);
    refused(&["run", "good.jsonl", "--out", "nowhere/o.jsonl"], 2, &["there is no folder nowhere"]);
    refused(&["run", "good.jsonl", "--out", "o.jsonl/"], 2, &["cannot be written"]);
    refused(&["run", "good.jsonl", "--out", "./good.jsonl"], 2, &["over the file that is run"]);
    symlink("good.jsonl", folder.path().join("link.jsonl")).unwrap();
    refused(&["run", "good.jsonl", "--out", "link.jsonl"], 2, &["over the file that is run"]);
    fs::rename(folder.path().join("good.jsonl"), folder.path().join("in.part")).unwrap();
    refused(&["run", "in.part", "--out", "in"], 2, &["over the file that is run"]);
    fs::rename(folder.path().join("in.part"), folder.path().join("good.jsonl")).unwrap();
    for usd in ["nan", "inf", "1e999", "0", "-1", "much"] {
        let usd = format!("--max-usd={usd}");
        refused(&["submit", "good.jsonl", &usd], 2, &["a number above 0"]);
        refused(&["resume", "batch_1", &usd], 2, &["a number above 0"]);
    }
    refused(&["submit", "good.jsonl", "--max-usd", "0.5"], 4, &["nobody answers"]);
    for time in ["7w", "31d", "0s", "soon"] {
        refused(&["submit", "good.jsonl", "--within", time], 2, &["--within", "from 1s to 30d"]);
    }
    refused(&["run", "bad.jsonl", "--out", "o.jsonl", "--local"], 2, &["bad.jsonl:1: the line is no JSON"]);
    assert!(!folder.path().join(".turnfold").exists(), "no engine was made for it");
    refused(&["get", ".."], 2, &["names nothing"]);
    refused(&["results", "batch_1", "--format", "parquet"], 2, &["--out FILE"]);
    refused(&["results", "batch_1"], 4, &["nobody answers"]);
    refused(&["resume", "batch_1", "--only", "all"], 2, &["failed", "expired"]);
    refused(&["submit", "good.jsonl", "--window", "0"], 2, &["--window"]);
    let other = ["results", "batch_1", "--out", "o.parquet", "--format", "csv"];
    refused(&other, 2, &["--format csv", ".parquet"]);
    refused(&["results", "batch_1", "-o", "json"], 2, &["--format", "-o"]);
    refused(&["results", "batch_1", "--format", "csv", "-o", "jsonl"], 2, &["--format", "-o"]);
    let local = [
        "run",
        "good.jsonl",
        "--out",
        "o.jsonl",
        "--local",
        "--set",
        "store.url=postgres://nobody@127.0.0.1:1/x",
    ];
    refused(&local, 2, &["--local", "store.url"]);
    assert!(!folder.path().join("o.jsonl").exists() && !folder.path().join("o.jsonl.part").exists());
}

async fn over() -> Json<Value> {
    let counts = json!({"total": 2, "completed": 2, "failed": 0});
    Json(
        json!({"id": "batch_1", "status": "completed", "request_counts": counts, "turnfold": {"results": 2}}),
    )
}

/// What a file is called here that goes up in this form.
fn file_of(form: &[u8]) -> &'static str {
    let form = String::from_utf8_lossy(form);
    let says = |name: &str, value: &str| form.contains(&format!("name=\"{name}\"\r\n\r\n{value}\r\n--"));
    assert!(says("purpose", "batch"), "{form}");
    let [from, seconds] = ["anchor", "seconds"].map(|it| format!("expires_after[{it}]"));
    match (says(&from, "created_at"), says(&seconds, "3600"), form.contains("expires_after")) {
        (true, true, _) => "file-for-an-hour",
        (false, false, false) => "file-for-ever",
        _ => panic!("{form}"),
    }
}

/// An api whose one batch is over, with two results or with some that never come; its address.
async fn api(answers: bool) -> String {
    let results = move |uri: Uri| async move {
        if !answers {
            std::future::pending::<()>().await;
        }
        let first = uri.query().unwrap_or_default().contains("after=0");
        let line = |n: u64| format!("{}\n", json!({"n": n, "custom_id": n.to_string(), "error": null}));
        if first { line(1) + &line(2) } else { String::new() }
    };
    // What is sent is read: whoever closes before loses the answer too.
    let routes = Router::new()
        .route("/v1/files", post(async |form: Bytes| Json(json!({"id": file_of(&form)}))))
        .route("/v1/files/{id}", axum::routing::delete(async || Json(json!({}))))
        .route(
            "/v1/batches",
            get(async || Json(json!({"data": []}))).post(async |uri: Uri, Json(body): Json<Value>| match uri
                .query()
            {
                Some(_) => Json(json!({"items": u8::from(body["input_file_id"] == "file-for-an-hour")})),
                None => {
                    assert_eq!(body["input_file_id"], "file-for-ever");
                    over().await
                }
            }),
        )
        .route("/v1/batches/batch_1", get(over))
        .route("/v1/batches/batch_1/results", get(results))
        .fallback(async |uri: Uri| (axum::http::StatusCode::NOT_FOUND, uri.path().to_owned()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn results_go_where_a_link_or_a_pipe_leads() {
    let url = api(true).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("in.jsonl"), line("a")).unwrap();
        let to = |out: &str| run(folder, &["run", "in.jsonl", "--out", out, "--url", &url]);
        fs::create_dir(folder.join("far")).unwrap();
        symlink("far/o.jsonl", folder.join("link")).unwrap();
        for _ in 0..2 {
            let done = to("link");
            assert_eq!(done.0, 0, "{done:?}");
            assert!(folder.join("link").is_symlink(), "it is still a link");
            assert_eq!(fs::read_to_string(folder.join("far/o.jsonl")).unwrap().lines().count(), 2);
        }
        assert!(to("o.csv").0 == 0 && to("o.Parquet").0 == 0, "the name says the form");
        assert!(fs::read_to_string(folder.join("o.csv")).unwrap().starts_with("line,custom_id,status"));
        assert!(fs::read(folder.join("o.Parquet")).unwrap().starts_with(b"PAR1"));
        let done = to("/dev/stdout");
        assert!(done.0 == 0 && done.1.contains("\"custom_id\":\"2\""), "{done:?}");
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        let pipe = folder.join("pipe");
        let read = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
        assert_eq!(to("pipe").0, 0);
        assert_eq!(read.join().unwrap().lines().count(), 2);
        assert!(fs::metadata(folder.join("pipe")).unwrap().file_type().is_fifo(), "it is still a pipe");
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_also_while_results_are_written() {
    let (hanging, whole) = (api(false).await, api(true).await);
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("in.jsonl"), line("a")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        // One waits for the api, the other for somebody who reads what it writes.
        for (signal, out, url) in
            [("INT", "o.jsonl", &hanging), ("TERM", "o.jsonl", &hanging), ("INT", "pipe", &whole)]
        {
            let name = format!("{signal}-{out}");
            let mut command = turnfold(folder);
            command.args(["batch", "run", "in.jsonl", "--out", out, "--url", url]);
            let mut process = Process::start(command.stderr(log(folder, &name)));
            let began = Instant::now();
            let soon = |what: &str| assert!(began.elapsed() < Duration::from_secs(30), "{what}");
            while !fs::read_to_string(folder.join(format!("{name}.log"))).unwrap().contains("2/2 ended") {
                soon("it is watched");
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(200));
            process.signal(signal);
            while process.lives() {
                soon("it ends");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(process.wait().code(), Some(5), "{name}");
            assert!(!folder.join("o.jsonl").exists(), "what is not whole is not there");
        }
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_is_what_is_asked_for() {
    let url = api(true).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let batch = |args: &[&str]| run(folder.path(), &[args, &["--url", &url]].concat());
        assert_eq!(batch(&["get", "batch_1"]).0, 0);
        assert_eq!(batch(&["get", "x/../batch_1"]).0, 2, "it is no way to another place");
        fs::write(folder.path().join("batch_1"), line("a")).unwrap();
        let quoted = batch(&["quote", "batch_1"]);
        assert!(quoted.0 == 0 && quoted.1.contains("1 line to run"), "it is a file: {quoted:?}");
    });
    done.await.unwrap();
}
