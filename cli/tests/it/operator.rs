//! The operator's view of a deployment.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Engine, demo_config, turnfold};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command against the API of the engine. Returns stdout.
fn run(engine: &Engine, args: &[&str]) -> String {
    let output = turnfold(engine.folder()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn workers(engine: &Engine) -> Vec<Value> {
    serde_json::from_str(&run(engine, &["worker", "ls", "-o", "json"])).unwrap()
}

fn wait_for_workers(engine: &Engine, number: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let listed = workers(engine);
        if listed.len() == number {
            return listed;
        }
        assert!(began.elapsed() < TIMEOUT, "{listed:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_workers_are_listed_until_they_stop_and_marked_when_they_are_killed() {
    let engine = Engine::start("").await;
    assert!(run(&engine, &["worker", "list"]).contains("no worker runs"));
    let killed = engine.worker("w1");
    let mut drained = engine.worker("w2");
    let listed = wait_for_workers(&engine, 2);
    let names: Vec<&Value> = listed.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, [&json!("w1"), &json!("w2")], "{listed:?}");
    assert_eq!(listed[0]["pid"], json!(killed.id()));
    assert_eq!(listed[0]["version"], json!(env!("CARGO_PKG_VERSION")));
    assert!(listed[0]["strategies"]["planner"].is_number(), "{listed:?}");

    killed.kill();
    engine.postgres.query("UPDATE workers SET seen_at = seen_at - 31000000 WHERE name = 'w1'");
    let text = run(&engine, &["worker", "ls"]);
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(line("w1").contains("MISSING") && line("w2").contains("active"), "{text}");

    drained.signal("TERM");
    assert!(drained.wait().success());
    let left = wait_for_workers(&engine, 1);
    assert_eq!(left[0]["status"], json!("missing"), "{left:?}");
}

/// Reads the series of a process.
async fn scrape(engine: &Engine, address: &str) -> String {
    let response = engine.http.get(format!("{address}/metrics")).send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    response.text().await.unwrap()
}

/// Returns the sum of the series with this name whose labels contain a text.
pub(crate) fn sum(text: &str, name: &str, labels: &str) -> f64 {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, of) = series.split_once('{').unwrap_or((series, ""));
        (found == name && of.contains(labels)).then(|| value.parse::<f64>().unwrap())
    };
    text.lines().filter_map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_metrics_of_a_worker_equal_the_log() {
    let engine = Engine::start(&demo_config()).await;
    let listen = format!("127.0.0.1:{}", free_port());
    let _worker =
        engine.worker_with("w1", &["worker.slots=3".into(), format!("worker.metrics_listen={listen}")]);
    let mut ends = Vec::new();
    for body in [
        json!({"strategy": "probe", "input": "echo hi"}),
        json!({"strategy": "probe", "input": "fail"}),
        json!({"strategy": "planner", "input": "Note under tide tables: high water is listed at https://tides.example.org/tables"}),
    ] {
        let turn = engine.post("/v1/turns", &body).await;
        ends.push(engine.get(&format!("/v1/turns/{}?wait=60", turn["id"].as_str().unwrap())).await);
    }
    let text = scrape(&engine, &format!("http://{listen}")).await;
    let ended = sum(&text, "turnfold_turns_total", "");
    assert_eq!(ended, 3.0, "{ends:#?} {text}");
    assert_eq!(sum(&text, "turnfold_tenant_turns_total", "tenant=\"default\""), 3.0, "{text}");
    let (mut decided, mut tokens, mut answers) = (0.0, 0.0, 0.0);
    for end in &ends {
        for event in engine.events(end["thread_id"].as_str().unwrap()).await {
            decided += f64::from(u8::from(event["kind"] == "decided" || event["kind"] == "failed"));
            let usage = &event["event"]["usage"];
            tokens += usage["input_tokens"].as_f64().unwrap_or(0.0)
                + usage["output_tokens"].as_f64().unwrap_or(0.0);
            answers += f64::from(u8::from(usage["model"].is_string()));
        }
    }
    assert!(decided <= sum(&text, "turnfold_steps_total", ""), "{decided} decisions: {text}");
    assert_eq!(sum(&text, "turnfold_model_request_duration_seconds_count", ""), answers, "{text}");
    assert_eq!(sum(&text, "turnfold_model_tokens_total", ""), tokens, "{text}");
    assert!(0.0 < answers, "the planner asked a model: {ends:#?}");
    assert_eq!(sum(&text, "turnfold_slots", ""), 3.0);
    assert!(0.0 < sum(&text, "turnfold_commit_steps_count", ""), "{text}");
    assert!(0.0 < sum(&text, "turnfold_queue_operations_total", "claimed"), "{text}");
    let api = scrape(&engine, &engine.url).await;
    assert_eq!(sum(&api, "turnfold_http_requests_total", "route=\"/v1/turns\",status=\"202\""), 3.0, "{api}");
    assert_eq!(sum(&api, "turnfold_workers", "active"), 1.0, "{api}");
}

/// Answers every request with this status.
fn endpoint(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        }
    });
    format!("http://{address}/v1")
}

/// Runs `turnfold doctor`. Returns the exit code and the status of each check.
fn doctor(folder: &Path, config: &[String]) -> (i32, BTreeMap<String, Value>) {
    let mut command = turnfold(folder);
    command.args(["doctor", "-o", "json"]).args(config.iter().flat_map(|value| ["--set", value]));
    let output = command.env("OPENAI_API_KEY", "a-key-of-a-test").env("WEAK", "secret").output().unwrap();
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let by_check =
        findings.into_iter().map(|finding| (finding["check"].as_str().unwrap().to_owned(), finding));
    (output.status.code().unwrap(), by_check.collect())
}

/// A fresh installation without a model is in order. A key that was configured and is missing is not.
#[test]
fn doctor_is_green_without_a_key_that_nobody_configured() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(turnfold(folder.path()).args(["migrate"]).output().unwrap().status.code(), Some(0));
    let doctor = |config: &[&str]| {
        let mut command = turnfold(folder.path());
        let output = command.arg("doctor").args(config).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (exit, found) = doctor(&[]);
    assert!(
        exit == Some(0) && !found.contains("FAIL") && !found.contains("OPENAI_API_KEY; hint: set it"),
        "{found}"
    );
    assert!(
        found.contains("ok    provider openai: not configured") && found.contains("OPENAI_API_KEY"),
        "{found}"
    );
    let (exit, found) = doctor(&["--set", "providers.openai.api_key=env:MY_KEY"]);
    assert!(exit == Some(1) && found.contains("MY_KEY"), "{found}");
}

#[test]
fn doctor_names_what_is_wrong_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let url = |status| format!("providers.openai.base_url={}", endpoint(status));
    let (exit, found) = doctor(folder, &[url("200 OK")]);
    assert_eq!((exit, &found["database"]["status"]), (1, &json!("fail")), "{found:#?}");
    assert!(found["database"]["hint"].as_str().unwrap().contains("turnfold migrate"), "{found:#?}");

    assert!(turnfold(folder).arg("migrate").output().unwrap().status.success());
    let (exit, found) = doctor(folder, &[url("200 OK")]);
    assert_eq!(exit, 0, "{found:#?}");
    for check in
        ["version", "keys", "database", "migrations", "writes", "workers", "queue", "provider openai"]
    {
        assert_eq!(found[check]["status"], json!("ok"), "{check}: {found:#?}");
    }

    let broken = [
        url("401 Unauthorized"),
        "mcp.gone.command=/nowhere/server".to_owned(),
        "mcp.gone.description=x".to_owned(),
        r#"api.keys=["env:WEAK", "env:UNSET"]"#.to_owned(),
        "queue.url=redis://127.0.0.1:1".to_owned(),
    ];
    let (exit, found) = doctor(folder, &broken);
    assert_eq!(exit, 1, "{found:#?}");
    for (check, status, part) in [
        ("provider openai", "fail", "refuses the key"),
        ("MCP server gone", "fail", "/nowhere/server"),
        ("keys", "warn", "can be guessed"),
        ("queue", "fail", "Redis"),
        ("secrets", "warn", "UNSET"),
    ] {
        assert_eq!(found[check]["status"], json!(status), "{check}: {found:#?}");
        assert!(found[check].to_string().contains(part), "{check}: {found:#?}");
    }
    assert!(!format!("{found:?}").contains("a-key-of-a-test"), "{found:#?}");
}

/// A collector that keeps every span by its id, after it was away for a while.
async fn collector() -> (String, Arc<Mutex<BTreeMap<String, Value>>>) {
    let spans: Arc<Mutex<BTreeMap<String, Value>>> = Arc::default();
    let (kept, requests) = (spans.clone(), Arc::new(AtomicUsize::new(0)));
    let receive = move |headers: HeaderMap, Json(request): Json<Value>| async move {
        assert_eq!(headers["authorization"], "Bearer collector");
        if requests.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        for span in spans_of(&request) {
            kept.lock().unwrap().insert(span["spanId"].as_str().unwrap().to_owned(), span);
        }
        Ok(Json(json!({})))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(receive));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, spans)
}

/// A collector that takes the binary form only, as some do, and keeps the names of spans.
async fn binary_collector() -> (String, Arc<Mutex<Vec<String>>>) {
    let names: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = names.clone();
    let receive = move |headers: HeaderMap, body: Bytes| async move {
        if headers["content-type"] != "application/x-protobuf" {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        assert_eq!(headers["authorization"], "Bearer collector");
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let spans = request.resource_spans.into_iter().flat_map(|part| part.scope_spans);
        kept.lock().unwrap().extend(spans.flat_map(|part| part.spans).map(|span| span.name));
        Ok(())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(receive));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, names)
}

fn spans_of(request: &Value) -> Vec<Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_engine_a_live_export_equals_the_export_from_the_log() {
    let (address, live) = collector().await;
    let config = format!(
        "{}[telemetry]\notlp_endpoint = {}\notlp_protocol = \"http/json\"\n\
         headers = {{ authorization = \"Bearer collector\" }}\n",
        demo_config(),
        json!(address)
    );
    let engine = Engine::start(&config).await;
    let _worker = engine.worker("w1");
    let input = "Note under tide tables: high water is listed at https://tides.example.org/tables";
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let request = engine.http.post(format!("{}/v1/turns", engine.url));
    let request = request.header("traceparent", format!("00-{trace}-{span}-01"));
    let turn = request.json(&json!({"strategy": "planner", "input": input})).send().await.unwrap();
    let turn: Value = turn.json().await.unwrap();
    let ended = engine.get(&format!("/v1/turns/{}?wait=60", turn["id"].as_str().unwrap())).await;
    assert_eq!(ended["status"], "completed", "{ended:#}");

    let export = |more: &[&str]| {
        let text = run(&engine, &[&["otel", "export", "--since", "1h", "--out", "-"], more].concat());
        let spans = text.lines().flat_map(|line| spans_of(&serde_json::from_str(line).unwrap()));
        spans.map(|span| (span["spanId"].as_str().unwrap().to_owned(), span)).collect::<BTreeMap<_, _>>()
    };
    let exported = export(&[]);
    let names: Vec<&str> = exported.values().filter_map(|span| span["name"].as_str()).collect();
    assert!(
        names.contains(&"invoke_agent planner") && names.iter().any(|name| name.starts_with("chat ")),
        "{names:?}"
    );
    let root = exported.values().find(|span| span["name"] == "invoke_agent planner").unwrap();
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&json!(trace), &json!(span)), "{root}");
    assert!(!format!("{exported:?}").contains("high water"), "content is left out");
    assert!(format!("{:?}", export(&["--content"])).contains("high water"));
    assert_eq!(exported, export(&[]), "a repeated export is the same");
    let began = Instant::now();
    while *live.lock().unwrap() != exported {
        assert!(began.elapsed() < TIMEOUT, "{:#?}\n{exported:#?}", live.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sent = run(&engine, &["otel", "export", "-o", "json"]);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!((&sent["turns"], &sent["spans"]), (&json!(1), &json!(exported.len())), "{sent}");
    assert_eq!(*live.lock().unwrap(), exported, "sending it again adds nothing");
    let binary = binary_collector().await;
    let sent = run(&engine, &["otel", "export", "--endpoint", &binary.0, "--protocol", "http/protobuf"]);
    assert!(sent.contains(&format!("exported {} spans", exported.len())), "{sent}");
    assert_eq!(binary.1.lock().unwrap().len(), exported.len());
    let away = turnfold(engine.folder())
        .args(["otel", "export", "--endpoint", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(away.status.code(), Some(4), "{}", String::from_utf8_lossy(&away.stderr));
}
