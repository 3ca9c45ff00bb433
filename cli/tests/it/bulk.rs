//! Large batches on a deployment with the API and two workers as processes, PostgreSQL and Redis. OpenAI's own clients
//! submit them while the queue is wiped and the API is killed.
//!
//! `TURNFOLD_BULK_LINES=10000` sets the length of the batches; a run of all tests uses shorter ones.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Json, Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use serde_json::{Value, json};
use test_servers::{Postgres, Redis};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{
    engine::{Engine, Process, demo_config, is_long, turnfold},
    ledgers,
    openai_clients::{javascript, python},
};

const TIMEOUT: Duration = Duration::from_secs(240);

/// Default number of lines of a batch, and number of lines for each turn of the planner's batch.
const LINES: u64 = 1500;
const A_PLANNER: u64 = 20;

fn lines() -> u64 {
    std::env::var("TURNFOLD_BULK_LINES")
        .map_or(LINES, |value| value.parse().expect("TURNFOLD_BULK_LINES is a number"))
}

/// Runs a client and returns its output. Fails if the client does.
fn client(mut command: Command, engine: &Engine, args: &[&str]) -> JoinHandle<String> {
    command.arg(&engine.url).args(args);
    spawn_blocking(move || {
        let output = command.output().unwrap();
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && printed.contains("as expected"), "{printed}");
        printed
    })
}

fn workers(engine: &Engine) -> [Process; 2] {
    ["w1", "w2"].map(|name| engine.worker(name))
}

/// Waits until the newest batch satisfies a condition, also while the database restarts.
async fn until(engine: &Engine, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let page = engine.get_when_available("/v1/batches?limit=1").await;
        if page["data"].get(0).is_some_and(&is_so) {
            return page["data"][0].clone();
        }
        assert!(began.elapsed() < TIMEOUT, "{page:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn results(batch: &Value) -> u64 {
    batch["turnfold"]["results"].as_u64().unwrap()
}

/// One client runs many lines while the queue is wiped. The other client repeats them at no cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_clients_run_many_lines_through_a_wiped_queue() {
    let engine = Engine::start("").await;
    let _workers = workers(&engine);
    let count = lines();
    let many = ["bulk", "probe", &count.to_string()];
    let first = client(python(), &engine, &many);
    until(&engine, |batch| results(batch) >= count / 3).await;
    engine.redis.flush_all();
    assert!(first.await.unwrap().contains("reused 0"));
    let threads = engine.postgres.query("SELECT COUNT(*) FROM threads");
    let again = client(javascript(), &engine, &many).await.unwrap();
    assert!(again.contains(&format!("reused {count}")), "{again}");
    assert_eq!(engine.postgres.query("SELECT COUNT(*) FROM threads"), threads, "nothing was run again");
    assert_eq!(threads, [[count.to_string()]], "each line opened one thread");
}

/// Planner turns (500 for 10,000 lines) each write to a real server's ledger. The queue is wiped in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_clients_run_planner_turns_and_no_write_is_repeated() {
    let engine = Engine::start(&demo_config()).await;
    let _workers = workers(&engine);
    let count = lines() / A_PLANNER;
    let many = ["bulk", "planner", &count.to_string()];
    let first = client(javascript(), &engine, &many);
    until(&engine, |batch| results(batch) >= count / 3).await;
    engine.redis.flush_all();
    assert!(first.await.unwrap().contains("reused 0"));
    let applied = ledgers::applied(engine.folder());
    assert_eq!(applied.len() as u64, count, "each added one person");
    assert!(applied.values().all(|times| *times == 1), "a write was repeated: {applied:?}");
    let again = client(python(), &engine, &many).await.unwrap();
    assert!(again.contains(&format!("reused {count}")), "{again}");
    assert_eq!(ledgers::applied(engine.folder()), applied);
}

/// Uploads lines for a tenant and creates a batch.
async fn submit(engine: &Engine, tenant: &str, lines: &str, besides: Value) -> String {
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"l.jsonl\"\r\n\r\n{lines}\r\n--x--\r\n"
    );
    let request = engine.http.post(format!("{}/v1/files", engine.url)).header("x-turnfold-tenant", tenant);
    let request = request.header("content-type", "multipart/form-data; boundary=x").body(form);
    let file: Value = request.send().await.unwrap().json().await.unwrap();
    let mut body = json!({"input_file_id": file["id"], "endpoint": "/v1/turns", "completion_window": "24h"});
    body.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
    let request = engine.http.post(format!("{}/v1/batches", engine.url)).header("x-turnfold-tenant", tenant);
    let batch: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    batch["id"].as_str().unwrap_or_else(|| panic!("{batch}")).to_owned()
}

fn line(name: &str, body: &Value) -> String {
    format!("{}\n", json!({"custom_id": name, "method": "POST", "url": "/v1/turns", "body": body}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_long_batch_does_not_delay_other_tenants() {
    const FLOOD: u64 = 10_000;
    let engine = Engine::start("[worker]\nslots = 1\n").await;
    let lines: String = (0..FLOOD)
        .map(|n| line(&format!("f-{n}"), &json!({"strategy": "probe", "input": "steps 20"})))
        .collect();
    submit(&engine, "flood", &lines, json!({"priority": "high"})).await;
    let _worker = engine.worker("w1");
    until(&engine, |batch| batch["turnfold"]["running"].as_u64().unwrap() >= 100).await;
    let body = json!({"strategy": "probe", "input": "echo hi", "priority": "low"});
    let request = engine.http.post(format!("{}/v1/turns", engine.url));
    let request = request.header("x-turnfold-tenant", "lone").json(&body);
    let lone: Value = request.send().await.unwrap().json().await.unwrap();
    // The turn is timed from its enqueuing, which excludes the time of its transaction.
    let enqueued = queue::clock::now();
    let path = format!("{}/v1/turns/{}?wait=60", engine.url, lone["id"].as_str().unwrap());
    let lone: Value = engine.http.get(path).send().await.unwrap().json().await.unwrap();
    assert_eq!(lone["status"], "completed", "{lone}");
    let batch = until(&engine, |_| true).await;
    assert!(results(&batch) < FLOOD / 2, "the flood is still under way: {batch:#}");

    let events = engine.events(lone["thread_id"].as_str().unwrap()).await;
    let started = events.iter().find(|event| event["kind"] == "turn_started").unwrap()["at"]
        .as_str()
        .unwrap()
        .to_owned();
    let between = format!(
        "SELECT COUNT(*) FROM events JOIN threads ON threads.id = events.thread_id WHERE threads.tenant = 'flood' \
         AND events.kind = 'decided' AND events.at > {enqueued} AND events.at < {}",
        micros(&started)
    );
    let between: usize = engine.postgres.query(&between)[0][0].parse().unwrap();
    assert!(between <= 2, "{between} nodes of the flood came first");
}

/// PostgreSQL stops because its disk is full. API and workers wait, and then complete everything exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_batch_continues_after_the_disk_of_postgres_was_full() {
    let mut engine = Engine::over(Postgres::start(), Redis::start(), "").await;
    let mut workers = workers(&engine);
    let count = lines();
    let lines: String = (0..count)
        .map(|n| {
            line(&format!("l-{n}"), &json!({"strategy": "probe", "input": format!("steps 3; echo {n}")}))
        })
        .collect();
    submit(&engine, "default", &lines, json!({})).await;
    let before = until(&engine, |batch| results(batch) >= count / 4).await;
    assert!(results(&before) < count, "the batch is running: {before:#}");
    engine.postgres.fill_disk();
    let began = Instant::now();
    while engine.http.get(format!("{}/readyz", engine.url)).send().await.unwrap().status() == StatusCode::OK {
        assert!(began.elapsed() < TIMEOUT, "the database does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A connection that was idle for 5 s is tested before it is used.
    tokio::time::sleep(Duration::from_secs(if is_long() { 6 } else { 1 })).await;
    assert!(
        engine.api_lives() && workers.iter_mut().all(Process::lives),
        "no process ends with the database"
    );
    engine.postgres.restart();
    let over = until(&engine, |batch| batch["status"] == "completed").await;
    assert_eq!(over["request_counts"], json!({"total": count, "completed": count, "failed": 0}), "{over:#}");
    let file = over["output_file_id"].as_str().unwrap();
    let output = engine.http.get(format!("{}/v1/files/{file}/content", engine.url)).send().await.unwrap();
    let output = output.text().await.unwrap();
    let names =
        output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["custom_id"].to_string());
    let names = names.fold(BTreeMap::<String, u64>::new(), |mut names, name| {
        *names.entry(name).or_default() += 1;
        names
    });
    assert!(names.len() as u64 == count && names.values().all(|times| *times == 1), "each line once");
    assert_eq!(
        engine.postgres.query("SELECT COUNT(*) FROM threads"),
        [[count.to_string()]],
        "no line was started twice"
    );
    let verified = run(engine.folder(), &["store", "verify"]);
    assert_eq!(verified.0, 0, "{verified:?}");
}

fn micros(rfc3339: &str) -> i64 {
    queue::clock::parse_rfc3339(rfc3339).unwrap()
}

/// Starts a model endpoint that rejects its key after a number of requests.
async fn revoking(after: usize) -> String {
    let asked = Arc::new(Mutex::new(0));
    let answer = move |State(asked): State<Arc<Mutex<usize>>>| async move {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        let error = json!({"error": {"message": "Incorrect API key provided: it was revoked", "code": "invalid_api_key"}});
        let message = json!({"role": "assistant", "content": "{\"decision\": \"replace\", \"plan\": [], \"next_task\": null, \"clarification\": null}"});
        let reply = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
        if *asked <= after { (StatusCode::OK, Json(reply)) } else { (StatusCode::UNAUTHORIZED, Json(error)) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/v1/chat/completions", post(answer)).with_state(asked);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/v1")
}

/// A key is revoked, a model is unknown, a line is invalid and a line waits forever. Each is reported, and the others complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_failing_line_is_reported_and_the_others_complete() {
    let url = revoking(0).await;
    let config = format!(
        "{}[providers.revoked]\nbase_url = {}\n[tenants.default]\nmodels = [\"revoked/*\"]\n",
        demo_config(),
        json!(url)
    );
    let engine = Engine::start(&config).await;
    let _workers = workers(&engine);
    let turn = |messages: &str| json!({"strategy": "probe", "input": messages});
    let planner = json!({"strategy": "planner", "input": "Plan something", "config": {"model": "revoked/m"}});
    let mut lines: String = (0..100).map(|n| line(&format!("well-{n}"), &turn("echo hi"))).collect();
    for n in 0..10 {
        lines += &line(&format!("revoked-{n}"), &planner);
    }
    lines += &line("unknown", &json!({"strategy": "nobody", "input": "x"}));
    lines += &line("well-3", &turn("echo again"));
    lines += &line("late", &turn("ask Who? | a | b"));
    lines += "no json\n";
    lines += &line("long", &turn(&"x".repeat(2 << 20)));
    let batch = submit(&engine, "default", &lines, json!({"expires_after": 6})).await;
    let over = until(&engine, |batch| batch["status"] == "completed").await;
    assert_eq!(over["id"], json!(batch));
    assert_eq!(over["request_counts"], json!({"total": 115, "completed": 100, "failed": 15}), "{over:#}");
    let bad = over["errors"]["data"].as_array().unwrap().iter();
    let bad: Vec<(u64, &str)> =
        bad.map(|error| (error["line"].as_u64().unwrap(), error["code"].as_str().unwrap())).collect();
    let wanted =
        [(111, "unknown_model"), (112, "duplicate_custom_id"), (114, "invalid_json"), (115, "line_too_long")];
    assert_eq!(bad, wanted);
    let file = over["error_file_id"].as_str().unwrap();
    let errors = engine.http.get(format!("{}/v1/files/{file}/content", engine.url)).send().await.unwrap();
    let errors = errors.text().await.unwrap();
    let errors: Vec<Value> = errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes = errors.iter().fold(BTreeMap::<&str, usize>::new(), |mut codes, error| {
        *codes.entry(error["error"]["code"].as_str().unwrap()).or_default() += 1;
        codes
    });
    assert_eq!((codes["turn_failed"], codes["expired_waiting_for_a_person"]), (10, 1), "{codes:?}");
    let revoked = errors
        .iter()
        .filter(|error| error["custom_id"].as_str().is_some_and(|id| id.starts_with("revoked-")));
    let messages: Vec<&str> = revoked.map(|error| error["error"]["message"].as_str().unwrap()).collect();
    assert!(
        messages.len() == 10 && messages.iter().all(|message| message.contains("revoked")),
        "{messages:?}"
    );
}

/// Requests that a receiver got.
type Sent = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

fn listen(port: u16) -> (Sent, JoinHandle<()>) {
    let sent = Sent::default();
    let receive = async |State(sent): State<Sent>, headers: HeaderMap, body: Bytes| {
        sent.lock().unwrap().push((headers, body));
        StatusCode::NO_CONTENT
    };
    let router = Router::new().route("/hook", post(receive)).with_state(sent.clone());
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    (sent, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

fn run(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = turnfold(folder).args(args).output().unwrap();
    let printed =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code().unwrap(), printed)
}

/// The receiver is unavailable when the batch ends, and the API is killed once the receiver is back. The next API
/// process delivers the event. The Python reference library and OpenAI's own client accept its signature.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_webhook_is_delivered_after_outages_of_both_sides() {
    let mut engine = Engine::start("").await;
    let _workers = workers(&engine);
    let (folder, port) = (engine.folder().to_owned(), test_servers::free_port());
    let at = |args: &[&str]| run(&folder, args);
    let (code, added) = at(&["webhook", "add", &format!("http://127.0.0.1:{port}/hook"), "-o", "json"]);
    assert_eq!(code, 0, "{added}");
    let webhook: Value = serde_json::from_str(&added).unwrap();
    let secret = webhook["secret"].as_str().unwrap().to_owned();
    fs::write(folder.join("secret"), &secret).unwrap();
    let (code, listed) = at(&["webhook", "list"]);
    assert!(code == 0 && listed.contains("/hook") && !listed.contains("whsec_"), "{listed}");

    submit(&engine, "default", &line("a", &json!({"strategy": "probe", "input": "echo hi"})), json!({}))
        .await;
    until(&engine, |batch| batch["status"] == "completed").await;
    let began = Instant::now();
    while !at(&["webhook", "deliveries"]).1.contains("refused") {
        assert!(began.elapsed() < TIMEOUT, "{}", at(&["webhook", "deliveries"]).1);
    }
    let (sent, _listener) = listen(port);
    engine.kill_api().await;
    let began = Instant::now();
    while sent.lock().unwrap().is_empty() {
        assert!(began.elapsed() < TIMEOUT, "{}", at(&["webhook", "deliveries"]).1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (headers, body) = sent.lock().unwrap()[0].clone();
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let sent = json!({"headers": names.map(|name| (name, header(name))).into_iter().collect::<BTreeMap<_, _>>(), "body": body});
    let mut client = python();
    client
        .args([&engine.url, "hook", &secret])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    client.stdin.take().unwrap().write_all(sent.to_string().as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    let printed =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && printed.contains("as expected"), "{printed}");

    let (id, timestamp, signature) = (header(names[0]), header(names[1]), header(names[2]));
    let verify = |body: &str| {
        let mut command = turnfold(&folder);
        command.args(["webhook", "verify", "--secret", "file:secret", "--id", &id]);
        command.args(["--timestamp", &timestamp, "--signature", &signature]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(verify(&body).0, Some(0), "{:?}", verify(&body));
    let forged = verify(&body.replace("completed", "cancelled"));
    assert!(forged.0 == Some(1) && forged.1.contains("not verified"), "{forged:?}");
    let (code, all) = at(&["webhook", "deliveries", "--state", "delivered", "-o", "json"]);
    let all: Value = serde_json::from_str(&all).unwrap_or_else(|_| panic!("{code} {all}"));
    let (code, again) = at(&["webhook", "redeliver", all[0]["id"].as_str().unwrap()]);
    assert!(code == 0 && again.contains(&id), "{again}");
    let stderr = engine.stderr_of("api");
    assert!(!stderr.contains("whsec_") && !stderr.contains(&secret), "a secret is in the traces: {stderr}");
    assert_eq!(at(&["webhook", "remove", webhook["id"].as_str().unwrap()]).0, 0);
    assert_eq!(at(&["webhook", "redeliver", all[0]["id"].as_str().unwrap()]).0, 7);
}
