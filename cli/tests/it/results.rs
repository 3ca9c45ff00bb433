//! Reading results: over connections that break off, and while lines run again.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use api_types::{Batch, BatchStatus};
use axum::{Json, Router, body::Body, extract::State, http::Uri, routing::get};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

use crate::{
    batch::{self, BATCH},
    engine::turnfold,
};

/// Starts a fake API and returns its address.
async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    url
}

fn run(folder: &Path, url: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = turnfold(folder);
    let Output { status, stdout, stderr } =
        command.args(["batch", "results", BATCH, "--url", url]).args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn batch(status: BatchStatus, lines: u64, results: u64) -> Json<Batch> {
    Json(batch::batch(BATCH, status, lines, results))
}

fn line(n: u64, name: &str) -> String {
    format!("{}\n", json!({"n": n, "id": name, "custom_id": name, "error": null}))
}

fn after(uri: &Uri) -> u64 {
    let cursor = uri.query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("after="));
    cursor.map_or(0, |number| number.parse().unwrap())
}

/// Returns the custom_id and the number of each result in a file.
fn names(text: &str) -> Vec<(String, u64)> {
    let name = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["custom_id"].as_str().unwrap().to_owned(), line["n"].as_u64().unwrap())
    };
    text.lines().map(name).collect()
}

/// Ways in which a response ends within a line.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The connection is cut.
    Cut,
    /// It ends regularly, as behind some proxies.
    Short,
}

/// Every response has two results and half of the next one.
fn breaking_off(end: End, printed: u64, ended: u64) -> Router {
    let results = move |uri: Uri| async move {
        let first = after(&uri) + 1;
        let mut pieces: Vec<_> =
            (first..=ended.min(first + 1)).map(|n| Ok(line(n, &n.to_string()))).collect();
        if first + 2 <= ended {
            pieces.push(Ok(line(first + 2, "half")[..9].to_owned()));
            if let End::Cut = end {
                pieces.push(Err("the cable was pulled"));
            }
        }
        // The data is sent before the end.
        let pieces = stream::iter(pieces).then(|piece| async {
            yield_now().await;
            piece
        });
        Body::from_stream(pieces)
    };
    Router::new()
        .route(
            &format!("/v1/batches/{BATCH}"),
            get(move || async move { batch(BatchStatus::Completed, printed, printed) }),
        )
        .route(&format!("/v1/batches/{BATCH}/results"), get(results))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_breaks_off_is_continued() {
    for end in [End::Cut, End::Short] {
        let url = serve(breaking_off(end, 7, 7)).await;
        let done = spawn_blocking(move || {
            let folder = tempfile::tempdir().unwrap();
            let wanted: Vec<_> = (1..=7).map(|n| (n.to_string(), n)).collect();
            let done = run(folder.path(), &url, &["--out", "o.jsonl"]);
            assert_eq!(done.0, 0, "{end:?}: {done:?}");
            assert_eq!(names(&fs::read_to_string(folder.path().join("o.jsonl")).unwrap()), wanted);
            let done = run(folder.path(), &url, &[]);
            assert_eq!((done.0, names(&done.1)), (0, wanted), "{end:?}: {done:?}");
        });
        done.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_results_are_an_error_and_leave_no_file() {
    let url = serve(breaking_off(End::Cut, 7, 4)).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let done = run(folder.path(), &url, &["--out", "o.jsonl"]);
        assert!(done.0 == 4 && done.2.contains("4 of 7"), "{done:?}");
        assert!(!folder.path().join("o.jsonl").exists(), "an incomplete file is removed");
    });
    done.await.unwrap();
}

/// A failed line runs again while the batch is watched, and again while its results are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_each_line_once_while_lines_run_again() {
    let reads = Arc::new(AtomicU64::new(0));
    let read = async |State(reads): State<Arc<AtomicU64>>| match reads.fetch_add(1, Ordering::Relaxed) {
        0..3 => batch(BatchStatus::InProgress, 2, 2),
        _ => batch(BatchStatus::Completed, 2, 3),
    };
    let results = async |State(reads): State<Arc<AtomicU64>>, uri: Uri| {
        let ended = if reads.load(Ordering::Relaxed) <= 3 { 2 } else { 4 };
        let all = [line(1, "again"), line(2, "well"), line(3, "again"), line(4, "again")];
        all.into_iter().take(ended).skip(usize::try_from(after(&uri)).unwrap()).collect::<String>()
    };
    let routes = Router::new()
        .route(&format!("/v1/batches/{BATCH}"), get(read))
        .route(&format!("/v1/batches/{BATCH}/results"), get(results))
        .with_state(reads);
    let url = serve(routes).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let done = run(folder.path(), &url, &["--follow", "--out", "o.jsonl"]);
        assert_eq!(done.0, 0, "{done:?}");
        let ended = names(&fs::read_to_string(folder.path().join("o.jsonl")).unwrap());
        assert_eq!(ended, [("well".to_owned(), 2), ("again".to_owned(), 3)], "the last of each line");
        let done = run(folder.path(), &url, &["--follow"]);
        assert_eq!(names(&done.1).len(), 4, "a stream contains all results: {done:?}");
    });
    done.await.unwrap();
}

/// Returns the peak memory of a process, in MiB.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_read_one_at_a_time() {
    const LINES: u64 = 1_000;
    let (all_but_one, printed) = oneshot::channel();
    let (go_on, wait) = oneshot::channel::<()>();
    let long = json!({"pad": "x".repeat(256 * 1024)});
    let line = move |n: u64| {
        let line = json!({"n": n, "id": n.to_string(), "custom_id": n.to_string(), "response": {"body": long, "request_id": uuid::Uuid::nil(), "status_code": 200}});
        Ok::<_, std::convert::Infallible>(format!("{line}\n"))
    };
    let last = async move {
        all_but_one.send(()).unwrap();
        wait.await.unwrap();
        Ok(format!("{}\n", json!({"n": LINES, "id": "last", "custom_id": "last"})))
    };
    let body = stream::iter(1..LINES).map(line).chain(stream::once(last));
    let mut body = Some(Body::from_stream(body));
    let body = Arc::new(std::sync::Mutex::new(move || body.take()));
    let results = async move || body.lock().unwrap()().unwrap_or_default();
    let url = serve(Router::new().route(&format!("/v1/batches/{BATCH}/results"), get(results))).await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = turnfold(folder.path());
    let mut process = command
        .args(["batch", "results", BATCH, "--format", "csv", "--url", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    printed.await.unwrap();
    let peak_mib = peak(process.id());
    go_on.send(()).unwrap();
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut process.stdout.take().unwrap(), &mut stderr).unwrap();
    assert!(process.wait().unwrap().success() && stderr.lines().count() == 1_001, "all are written");
    assert!(peak_mib < 128, "{peak_mib} MiB of memory for lines of a quarter of one");
}
