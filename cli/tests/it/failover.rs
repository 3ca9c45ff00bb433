//! A failover of PostgreSQL under a running engine: the old primary keeps its connections and refuses writes.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_servers::{Postgres, Proxy, Redis};

use crate::engine::{Engine, turnfold};

/// Longest time from the moment at which the new primary can be reached to the first accepted turn.
const RECOVERED_WITHIN: Duration = Duration::from_secs(5);

/// Longest wait for everything else.
const TIMEOUT: Duration = Duration::from_secs(120);

const LINES: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_continues_on_the_new_primary() {
    let primary = Postgres::start();
    let name = Proxy::before(&primary.url());
    let config = "[webhooks]\nprivate_addresses = true\n";
    let engine = Engine::over_url(&name.url(), primary, Redis::start(), config).await;
    let standby = engine.postgres.standby();
    let workers = ["w0", "w1"].map(|name| engine.worker(name));
    let (hook, delivered) = webhook();
    engine.post("/v1/webhooks", &json!({"url": hook, "types": ["batch.completed"]})).await;
    let waiting = engine.post("/v1/turns", &json!({"strategy": "probe", "input": "wait 3; echo over"})).await;
    let follower = turnfold(engine.folder())
        .args(["--url", &engine.url, "turn", "show", waiting["id"].as_str().unwrap(), "--wait"])
        .spawn()
        .unwrap();
    submit_batch(&engine);
    // The sweeper has to find every runnable thread again.
    engine.redis.flush_all();

    tokio::task::block_in_place(|| engine.postgres.hand_over_to(&standby));
    name.lead_to(&standby.url());
    let began = Instant::now();
    let turn = json!({"strategy": "probe", "input": "echo hi"});
    loop {
        let reply = engine.http.post(format!("{}/v1/turns", engine.url)).json(&turn).send().await.unwrap();
        if reply.status().is_success() {
            break;
        }
        assert!(began.elapsed() < RECOVERED_WITHIN, "{}", reply.text().await.unwrap());
    }

    let began = Instant::now();
    loop {
        let (batch, all) = (engine.get("/v1/batches").await, engine.get("/v1/turns?limit=100").await);
        let turns = all["data"].as_array().unwrap();
        let is_over = |item: &Value| item["status"] == "completed";
        if is_over(&batch["data"][0])
            && turns.len() == LINES + 2
            && turns.iter().all(is_over)
            && 0 < delivered.load(Ordering::Relaxed)
        {
            assert_eq!(batch["data"][0]["request_counts"]["completed"], LINES, "{batch}");
            break;
        }
        assert!(
            began.elapsed() < TIMEOUT,
            "{}\n{}\n{}",
            batch["data"][0],
            engine.stderr_of("api"),
            engine.stderr_of("w0")
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let followed = follower.wait_with_output().unwrap();
    assert!(followed.status.success(), "a client that waited sees the end of its turn");
    assert_eq!(standby.query("SELECT count(*) FROM threads"), [[(LINES + 2).to_string()]]);
    drop(workers);
}

fn submit_batch(engine: &Engine) {
    let line = |nth: usize| {
        let body = json!({"strategy": "probe", "input": "wait 0.2; echo hi"});
        json!({"custom_id": nth.to_string(), "method": "POST", "url": "/v1/turns", "body": body}).to_string()
    };
    let lines: Vec<String> = (0..LINES).map(line).collect();
    fs::write(engine.folder().join("lines.jsonl"), lines.join("\n")).unwrap();
    let submit = turnfold(engine.folder())
        .args(["--url", &engine.url, "batch", "submit", "lines.jsonl"])
        .output()
        .unwrap();
    assert!(submit.status.success(), "{}", String::from_utf8_lossy(&submit.stderr));
}

/// Starts an endpoint that accepts every delivery; returns its URL and the number of deliveries.
fn webhook() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let delivered = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&delivered);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // One read contains the small request.
            let _ = stream.read(&mut [0; 65_536]);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (url, delivered)
}
