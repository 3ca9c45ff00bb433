//! Results as they are read from an api: line by line, over one that breaks off, and while lines are run again.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{Json, Router, body::Body, extract::State, http::Uri, routing::get};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

use crate::engine::turnfold;

/// The api of one batch; its address.
async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    url
}

fn run(folder: &Path, url: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = turnfold(folder);
    let Output { status, stdout, stderr } =
        command.args(["batch", "results", "batch_1", "--url", url]).args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn batch(status: &str, lines: u64, results: u64) -> Json<Value> {
    let counts = json!({"total": lines, "completed": lines, "failed": 0});
    let ours = json!({"results": results, "running": 0, "queued": 0, "waiting_for_a_person": 0});
    Json(json!({"id": "batch_1", "status": status, "request_counts": counts, "turnfold": ours}))
}

fn line(n: u64, name: &str) -> String {
    format!("{}\n", json!({"n": n, "id": name, "custom_id": name, "error": null}))
}

fn after(uri: &Uri) -> u64 {
    let cursor = uri.query().unwrap_or_default().split('&').find_map(|it| it.strip_prefix("after="));
    cursor.map_or(0, |it| it.parse().unwrap())
}

/// The names in the lines of a file, each with the number of its result.
fn names(text: &str) -> Vec<(String, u64)> {
    let name = |it: &str| {
        let line: Value = serde_json::from_str(it).unwrap();
        (line["custom_id"].as_str().unwrap().to_owned(), line["n"].as_u64().unwrap())
    };
    text.lines().map(name).collect()
}

/// How an answer ends in the middle of a line.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The connection is cut.
    Cut,
    /// It ends as if that were all, as behind some proxies.
    Short,
}

/// Every answer has two results, and half of the next.
fn breaking_off(end: End, told: u64, there: u64) -> Router {
    let results = move |uri: Uri| async move {
        let first = after(&uri) + 1;
        let mut pieces: Vec<_> =
            (first..=there.min(first + 1)).map(|n| Ok(line(n, &n.to_string()))).collect();
        if first + 2 <= there {
            pieces.push(Ok(line(first + 2, "half")[..9].to_owned()));
            if let End::Cut = end {
                pieces.push(Err("the cable was pulled"));
            }
        }
        // What was said is on its way before the end is.
        let pieces = stream::iter(pieces).then(|it| async {
            yield_now().await;
            it
        });
        Body::from_stream(pieces)
    };
    Router::new()
        .route("/v1/batches/batch_1", get(move || async move { batch("completed", told, told) }))
        .route("/v1/batches/batch_1/results", get(results))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_breaks_off_is_gone_on_with() {
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
async fn fewer_results_than_there_are_is_an_error_and_no_file() {
    let url = serve(breaking_off(End::Cut, 7, 4)).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let done = run(folder.path(), &url, &["--out", "o.jsonl"]);
        assert!(done.0 == 4 && done.2.contains("4 of 7"), "{done:?}");
        assert!(!folder.path().join("o.jsonl").exists(), "what is not whole is not there");
    });
    done.await.unwrap();
}

/// A line that failed is run again while the batch is watched, and once more while its results are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_each_line_once_though_some_are_run_again_meanwhile() {
    let looks = Arc::new(AtomicU64::new(0));
    let look = async |State(looks): State<Arc<AtomicU64>>| match looks.fetch_add(1, Ordering::Relaxed) {
        0..3 => batch("in_progress", 2, 2),
        _ => batch("completed", 2, 3),
    };
    let results = async |State(looks): State<Arc<AtomicU64>>, uri: Uri| {
        let there = if looks.load(Ordering::Relaxed) <= 3 { 2 } else { 4 };
        let all = [line(1, "again"), line(2, "well"), line(3, "again"), line(4, "again")];
        all.into_iter().take(there).skip(usize::try_from(after(&uri)).unwrap()).collect::<String>()
    };
    let routes = Router::new()
        .route("/v1/batches/batch_1", get(look))
        .route("/v1/batches/batch_1/results", get(results))
        .with_state(looks);
    let url = serve(routes).await;
    let done = spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let done = run(folder.path(), &url, &["--follow", "--out", "o.jsonl"]);
        assert_eq!(done.0, 0, "{done:?}");
        let there = names(&fs::read_to_string(folder.path().join("o.jsonl")).unwrap());
        assert_eq!(there, [("well".to_owned(), 2), ("again".to_owned(), 3)], "the last of each line");
        let done = run(folder.path(), &url, &["--follow"]);
        assert_eq!(names(&done.1).len(), 4, "what streams tells all of it: {done:?}");
    });
    done.await.unwrap();
}

/// How much memory the process has taken at most, in MiB.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_read_one_at_a_time() {
    const LINES: u64 = 1_000;
    let (all_but_one, told) = oneshot::channel();
    let (go_on, wait) = oneshot::channel::<()>();
    let long = json!({"pad": "x".repeat(256 * 1024)});
    let line = move |n: u64| {
        let line = json!({"n": n, "id": n, "custom_id": n.to_string(), "response": {"body": long}});
        Ok::<_, std::convert::Infallible>(format!("{line}\n"))
    };
    let last = async move {
        all_but_one.send(()).unwrap();
        wait.await.unwrap();
        Ok(format!("{}\n", json!({"n": LINES, "custom_id": "last"})))
    };
    let body = stream::iter(1..LINES).map(line).chain(stream::once(last));
    let mut body = Some(Body::from_stream(body));
    let body = Arc::new(std::sync::Mutex::new(move || body.take()));
    let results = async move || body.lock().unwrap()().unwrap_or_default();
    let url = serve(Router::new().route("/v1/batches/batch_1/results", get(results))).await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = turnfold(folder.path());
    let mut process = command
        .args(["batch", "results", "batch_1", "--format", "csv", "--url", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    told.await.unwrap();
    let took = peak(process.id());
    go_on.send(()).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stdout.take().unwrap(), &mut said).unwrap();
    assert!(process.wait().unwrap().success() && said.lines().count() == 1_001, "all are written");
    assert!(took < 128, "{took} MiB of memory for lines of a quarter of one");
}
