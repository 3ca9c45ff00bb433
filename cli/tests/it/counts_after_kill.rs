//! Statistics after `kill -9`: what a killed process had counted and not written is counted again, without a rebuild.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use store::{Store, testing::tamper};
use test_servers::free_port;

use crate::engine::{Engine, Process, log, turnfold};

const TIMEOUT: Duration = Duration::from_secs(90);

const TURNS: usize = 40;

/// Statements that let everything so far have happened an hour ago.
const AN_HOUR_AGO: [&str; 6] = [
    "UPDATE events SET at = at - 3600000000",
    "UPDATE threads SET updated_at = updated_at - 3600000000",
    "UPDATE turns SET updated_at = updated_at - 3600000000",
    "UPDATE ended_turn_counts SET start = start - 3600000000",
    "UPDATE model_response_counts SET start = start - 3600000000",
    "UPDATE count_writers SET written_at = written_at - 3600000000",
];

async fn get(url: &str, path: &str) -> Value {
    reqwest::get(format!("{url}{path}")).await.unwrap().json().await.unwrap()
}

/// Submits turns, and returns once some have ended and others have not.
async fn many_turns(url: &str) {
    let client = reqwest::Client::new();
    for _ in 0..TURNS {
        let turn = json!({"strategy": "probe", "input": "steps 30; echo done"});
        let answer = client.post(format!("{url}/v1/turns")).json(&turn).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
    let began = Instant::now();
    while get(url, "/v1/turns?status=completed&limit=1").await["data"].as_array().unwrap().is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no turn ends");
    }
}

/// Waits until the statistics show that every turn has ended once.
async fn counts_every_turn(url: &str) {
    let began = Instant::now();
    loop {
        let [day, week] = [
            get(url, "/v1/stats?range=day").await["ended"].clone(),
            get(url, "/v1/stats?range=week").await["ended"].clone(),
        ];
        if day["answered"] == TURNS && week["answered"] == TURNS {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{day} {week}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_counts_what_a_killed_worker_counted() {
    let mut engine = Engine::start("").await;
    let worker = engine.worker("w1");
    many_turns(&engine.url).await;
    worker.kill();
    engine.end_api();
    for sql in AN_HOUR_AGO {
        engine.postgres.query(sql);
    }
    engine.kill_api().await;
    let _next = engine.worker("w2");
    counts_every_turn(&engine.url).await;
    let counted = "SELECT seconds, ended, sum(turns) FROM ended_turn_counts GROUP BY 1, 2 ORDER BY 1, 2";
    let expected = ["60", "900", "3600"]
        .map(|seconds| vec![seconds.to_owned(), "answered".to_owned(), TURNS.to_string()]);
    assert_eq!(engine.postgres.query(counted), expected);
    let killed = "SELECT count(*) FROM count_writers WHERE written_at < (SELECT max(written_at) FROM count_writers) - 1800000000";
    assert_eq!(engine.postgres.query(killed), [["0"]], "only those that run have a row");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_counts_what_a_killed_engine_counted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (dev, url) = start(folder.path()).await;
    many_turns(&url).await;
    dev.kill();
    let store = Store::connect(&format!("sqlite:{}", folder.path().join("t.db").display())).await.unwrap();
    for sql in AN_HOUR_AGO {
        tamper::execute_with(&store, sql, []).await.unwrap();
    }
    drop(store);
    let (_dev, url) = start(folder.path()).await;
    counts_every_turn(&url).await;
}

/// Starts an engine over the file `t.db` in this folder.
pub(crate) async fn start(folder: &Path) -> (Process, String) {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder);
    let args = ["dev", "--listen", &listen, "--set", "store.url=sqlite:t.db"];
    let mut dev = Process::start(command.args(args).stderr(log(folder, "dev")));
    let (url, began) = (format!("http://{listen}"), Instant::now());
    while reqwest::get(format!("{url}/readyz")).await.is_ok_and(|answer| !answer.status().is_success())
        || reqwest::get(format!("{url}/readyz")).await.is_err()
    {
        let printed = std::fs::read_to_string(folder.join("dev.log")).unwrap();
        assert!(began.elapsed() < TIMEOUT && dev.lives(), "{printed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (dev, url)
}
