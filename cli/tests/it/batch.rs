//! `turnfold batch` without a server: validation, and arguments that are refused.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::Path,
    process::Output,
    time::{Duration, Instant},
};

use api_types::{
    Batch, BatchExtension, BatchStatus, File, OpenAiList, Quote, RequestCounts, Resumable, TokenUsage,
};
use axum::{
    Json, Router,
    body::Bytes,
    http::Uri,
    response::IntoResponse as _,
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
    json!({"custom_id": id, "method": "POST", "url": "/v1/turns", "body": {"strategy": "probe", "input": "hello"}}).to_string()
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    // The file starts with a byte order mark and has CRLF line ends.
    at("good.jsonl", &format!("\u{feff}{}\r\n\n{}\n", line("a"), line("b")));
    let (code, out, _) = run(folder.path(), &["validate", "good.jsonl"]);
    assert_eq!((code, out.trim()), (0, "good.jsonl: 2 lines for /v1/turns, no errors"));

    at("empty.jsonl", " \n");
    let (code, out, _) = run(folder.path(), &["validate", "empty.jsonl"]);
    assert_eq!((code, out.trim()), (1, "empty.jsonl: the file has no lines"));

    at("bad.jsonl", &format!("{}\nnot json\n{}\n", line("a"), line("a")));
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("bad.jsonl:2: the line is not JSON")
            && out.contains("bad.jsonl:3: custom_id \"a\" is also on line 1"),
        "{out}"
    );
    assert!(out.contains("2 of 3 lines cannot be run"), "{out}");
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["invalid"], &report["errors"][0]["line"]),
        (1, &json!(2), &json!(2)),
        "{report}"
    );

    let many: String = (0..200).map(|n| format!("oops {n}\n")).collect();
    at("many.jsonl", &many);
    let (code, out, _) = run(folder.path(), &["validate", "many.jsonl"]);
    assert!(code == 1 && out.contains("and 100 more") && out.contains("200 of 200"), "{out}");
    let long = line("a").replace("hello", &"x".repeat(2000));
    at("long.jsonl", &long);
    let (code, out, _) = run(folder.path(), &["validate", "long.jsonl", "--set", "batch.line_kib=1"]);
    assert!(code == 1 && out.contains("longer than 1024 bytes"), "{out}");
}

#[test]
fn invalid_arguments_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.jsonl"), line("a")).unwrap();
    fs::write(folder.path().join("bad.jsonl"), "oops").unwrap();
    let unreachable = ["--url", "http://127.0.0.1:1"];
    let refused = |args: &[&str], code: i32, expected: &[&str]| {
        let output = run(folder.path(), &[args, &unreachable].concat());
        assert_eq!(output.0, code, "{args:?}: {output:?}");
        for text in expected {
            assert!(output.2.contains(text), "{text:?} in {output:?}");
        }
    };
    refused(&["validate", "none.jsonl"], 2, &["none.jsonl"]);
    refused(&["submit", "bad.jsonl"], 2, &["bad.jsonl:1: the line is not JSON", "nothing was submitted"]);
    refused(&["submit", "good.jsonl"], 4, &["cannot reach the API"]);
    refused(&["submit", "good.jsonl", "--reuse", "some"], 2, &["none"]);
    refused(
        &["submit", "good.jsonl", "--quote"],
        2,
        &["cannot ask for confirmation", "--yes", "batch quote FILE"],
    );
    refused(&["run", "good.jsonl", "--out", "o.jsonl", "--quote"], 2, &["cannot ask for confirmation"]);
    refused(&["submit", "good.jsonl", "--quote", "--yes"], 4, &["cannot reach the API"]);
    refused(&["submit", "good.jsonl", "--yes"], 2, &["--quote"]);
    refused(&["run", "good.jsonl"], 2, &["--out"]);
    for out in ["x.csv.gz", "x.TSV", "x.xlsx"] {
        let extension = out.rsplit('.').next().unwrap().to_lowercase();
        let named = format!("no file is written as .{extension}");
        refused(&["run", "good.jsonl", "--out", out], 2, &[&named, "hint: name it .jsonl, .csv or .parquet"]);
    }
    refused(&["run", "good.jsonl", "--out", "."], 2, &["is a folder"]);
    refused(&["run", "good.jsonl", "--out", "nowhere/o.jsonl"], 2, &["the folder nowhere does not exist"]);
    refused(&["run", "good.jsonl", "--out", "o.jsonl/"], 2, &["cannot be written"]);
    refused(&["run", "good.jsonl", "--out", "./good.jsonl"], 2, &["is the input file"]);
    symlink("good.jsonl", folder.path().join("link.jsonl")).unwrap();
    refused(&["run", "good.jsonl", "--out", "link.jsonl"], 2, &["is the input file"]);
    fs::rename(folder.path().join("good.jsonl"), folder.path().join("in.part")).unwrap();
    refused(&["run", "in.part", "--out", "in"], 2, &["is the input file"]);
    fs::rename(folder.path().join("in.part"), folder.path().join("good.jsonl")).unwrap();
    for usd in ["nan", "inf", "1e999", "0", "-1", "much"] {
        let usd = format!("--max-usd={usd}");
        refused(&["submit", "good.jsonl", &usd], 2, &["a number above 0"]);
        refused(&["resume", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", &usd], 2, &["a number above 0"]);
    }
    refused(&["submit", "good.jsonl", "--max-usd", "0.5"], 4, &["cannot reach the API"]);
    for time in ["7w", "31d", "0s", "soon"] {
        refused(&["submit", "good.jsonl", "--within", time], 2, &["--within", "from 1s to 30d"]);
    }
    refused(&["run", "bad.jsonl", "--out", "o.jsonl", "--local"], 2, &["bad.jsonl:1: the line is not JSON"]);
    assert!(!folder.path().join(".turnfold").exists(), "no engine was started");
    refused(&["show", ".."], 2, &["is not the id of a batch"]);
    refused(
        &["results", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "--format", "parquet"],
        2,
        &["--out FILE"],
    );
    refused(&["results", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"], 4, &["cannot reach the API"]);
    refused(
        &["resume", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "--only", "all"],
        2,
        &["failed", "expired"],
    );
    refused(&["submit", "good.jsonl", "--window", "0"], 2, &["--window"]);
    let other =
        ["results", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "--out", "o.parquet", "--format", "csv"];
    refused(&other, 2, &["--format csv", ".parquet"]);
    refused(&["results", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "-o", "json"], 2, &["--format", "-o"]);
    refused(
        &["results", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "--format", "csv", "-o", "jsonl"],
        2,
        &["--format", "-o"],
    );
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

/// The id of the batch of a fake API.
pub(crate) const BATCH: &str = "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d";

/// Returns a batch as the API does. All of its lines have succeeded.
pub(crate) fn batch(id: &str, status: BatchStatus, lines: u64, results: u64) -> Batch {
    Batch {
        id: id.to_owned(),
        object: "batch".to_owned(),
        endpoint: "/v1/turns".to_owned(),
        errors: None,
        input_file_id: "file-1".to_owned(),
        completion_window: "24h".to_owned(),
        status,
        output_file_id: None,
        error_file_id: None,
        created_at: 1_800_000_000,
        in_progress_at: None,
        expires_at: 1_800_086_400,
        finalizing_at: None,
        completed_at: None,
        failed_at: None,
        expired_at: None,
        cancelling_at: None,
        cancelled_at: None,
        request_counts: RequestCounts { total: lines, completed: lines, failed: 0 },
        model: None,
        usage: TokenUsage::default(),
        metadata: json!({}),
        turnfold: BatchExtension {
            awaiting_input: 0,
            submitted: 0,
            running: 0,
            queued: 0,
            reused: 0,
            partial: 0,
            declined: 0,
            expired: 0,
            cancelled: 0,
            invalid: 0,
            results,
            rate_per_s: None,
            eta_s: None,
            tokens: 0,
            usd: 0.0,
            max_usd: None,
            stopped: None,
            resumable: Resumable::default(),
            top_causes: None,
        },
    }
}

/// Returns a list of batches as the API does.
pub(crate) fn list(data: Vec<Batch>, has_more: bool) -> OpenAiList<Batch> {
    let id = |batch: Option<&Batch>| batch.map(|batch| batch.id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    OpenAiList { object: "list".to_owned(), data, first_id, last_id, has_more }
}

/// Returns an uploaded file as the API does.
pub(crate) fn file(id: &str) -> File {
    File {
        id: id.to_owned(),
        object: "file".to_owned(),
        bytes: 100,
        created_at: 1_800_000_000,
        expires_at: None,
        filename: "in.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        status: "processed".to_owned(),
    }
}

/// Returns a quote as the API does. The strategy has no past turns.
fn quote(items: u64) -> Quote {
    Quote {
        batch_id: None,
        object: "batch.quote".to_owned(),
        items,
        reused: 0,
        invalid: 0,
        usd: None,
        tokens: None,
        seconds_of_work: None,
        seconds: None,
        bottleneck: None,
        based_on: Vec::new(),
    }
}

/// Returns the batch of the fake API.
fn over() -> Batch {
    batch(BATCH, BatchStatus::Completed, 2, 2)
}

/// Returns the id that the fake API gives an uploaded file.
fn file_of(form: &[u8]) -> &'static str {
    let form = String::from_utf8_lossy(form);
    let has_field = |name: &str, value: &str| form.contains(&format!("name=\"{name}\"\r\n\r\n{value}\r\n--"));
    assert!(has_field("purpose", "batch"), "{form}");
    let [from, seconds] = ["anchor", "seconds"].map(|field| format!("expires_after[{field}]"));
    match (has_field(&from, "created_at"), has_field(&seconds, "3600"), form.contains("expires_after")) {
        (true, true, _) => "file-for-an-hour",
        (false, false, false) => "file-for-ever",
        _ => panic!("{form}"),
    }
}

/// Starts a fake API with one ended batch, whose two results are complete or never arrive. Returns its address.
async fn api(answers: bool) -> String {
    let results = move |uri: Uri| async move {
        if !answers {
            std::future::pending::<()>().await;
        }
        let first = uri.query().unwrap_or_default().contains("after=0");
        let line = |n: u64| {
            format!("{}\n", json!({"n": n, "id": n.to_string(), "custom_id": n.to_string(), "error": null}))
        };
        if first { line(1) + &line(2) } else { String::new() }
    };
    // The request is read in full; closing earlier would lose the response.
    let routes = Router::new()
        .route("/v1/files", post(async |form: Bytes| Json(file(file_of(&form)))))
        .route("/v1/files/{id}", axum::routing::delete(async || Json(json!({}))))
        .route(
            "/v1/batches",
            get(async || Json(list(Vec::new(), false))).post(async |uri: Uri, Json(body): Json<Value>| {
                if uri.query().is_some() {
                    let items = u64::from(body["input_file_id"] == "file-for-an-hour");
                    return Json(quote(items)).into_response();
                }
                assert_eq!(body["input_file_id"], "file-for-ever");
                Json(over()).into_response()
            }),
        )
        .route(&format!("/v1/batches/{BATCH}"), get(async || Json(over())))
        .route(&format!("/v1/batches/{BATCH}/results"), get(results))
        .fallback(async |uri: Uri, _: Bytes| (axum::http::StatusCode::NOT_FOUND, uri.path().to_owned()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn results_follow_links_and_pipes() {
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
        assert!(to("o.csv").0 == 0 && to("o.Parquet").0 == 0, "the name selects the format");
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
async fn a_signal_ends_the_command_while_results_are_written() {
    let (hanging, whole) = (api(false).await, api(true).await);
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("in.jsonl"), line("a")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        // One process waits for the API, the other for a reader of its pipe.
        for (signal, out, url) in
            [("INT", "o.jsonl", &hanging), ("TERM", "o.jsonl", &hanging), ("INT", "pipe", &whole)]
        {
            let name = format!("{signal}-{out}");
            let mut command = turnfold(folder);
            command.args(["batch", "run", "in.jsonl", "--out", out, "--url", url]);
            let mut process = Process::start(command.stderr(log(folder, &name)));
            let began = Instant::now();
            let in_time = |event: &str| assert!(began.elapsed() < Duration::from_secs(30), "{event}");
            while !fs::read_to_string(folder.join(format!("{name}.log"))).unwrap().contains("2/2 ended") {
                in_time("the batch is watched");
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(200));
            process.signal(signal);
            while process.lives() {
                in_time("it ends");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(process.wait().code(), Some(130), "{name}");
            assert!(!folder.join("o.jsonl").exists(), "an incomplete file is removed");
        }
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_escaped_in_paths() {
    let url = api(true).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let batch = |args: &[&str]| run(folder.path(), &[args, &["--url", &url]].concat());
        assert_eq!(batch(&["show", BATCH]).0, 0);
        assert_eq!(batch(&["show", &format!("x/../{BATCH}")]).0, 2, "the id cannot lead to another path");
        fs::write(folder.path().join(BATCH), line("a")).unwrap();
        let quoted = batch(&["quote", BATCH]);
        assert!(quoted.0 == 0 && quoted.1.contains("1 line to run"), "it is a file: {quoted:?}");
    });
    done.await.unwrap();
}
