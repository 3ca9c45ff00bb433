//! The first ten minutes of a new user: the demo, an engine, a turn, and its log.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use audit::time::{TimeKind, Timekeeper};
use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::IntoResponse as _,
    routing::post,
};
use serde_json::{Value, json};
use store::{Store, ThreadFilter};
use test_servers::{Redis, free_port};

use crate::engine::{Process, fixtures, log, turnfold};

#[test]
fn the_demo_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let output = turnfold(folder.path()).args(["demo", "-o", "json"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"], json!([]));
    assert!(report["turns"]["completed"].as_u64().unwrap() >= 200, "{report}");
    assert_eq!(report["unanswered"], json!([]));
    let strategies = report["strategies"].as_object().unwrap();
    let all: Vec<&str> = strategies::all().iter().map(|strategy| strategy.name()).collect();
    for name in all {
        let result = &strategies[name];
        assert!(
            result["turns"].as_u64() > Some(0) && result["turns"] == result["ended_well"],
            "{name}: {report}"
        );
    }
    assert!(report["running_at_kill"].as_u64().unwrap() > 0, "no turn was running at the kill: {report}");
    assert!(
        report["writes"].as_u64().unwrap() > 150 && report["writes"] == report["writes_once"],
        "{report}"
    );
    assert!(printed.contains("scripted model"), "the scripted model must be announced: {printed}");
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(times_add_up(&folder.path().join(".turnfold/demo/turnfold.db")));
}

/// Checks that the uses of the time of every turn of a store add up to it, and that some turns were without a worker.
async fn times_add_up(file: &Path) {
    let store = Store::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    let (mut turns, mut without) = (0, 0);
    for thread in store.threads(ThreadFilter::default(), None, 1_000).await.unwrap() {
        let (_, log) = store.load(thread.id).await.unwrap();
        for time in Timekeeper::of_log(&log, i64::MAX) {
            let parts: i64 = time.segments.iter().map(|part| part.to - part.from).sum();
            assert!(time.is_over && parts == time.to - time.from, "{time:#?}");
            turns += 1;
            without += usize::from(0 < time.total(TimeKind::NoWorker));
        }
    }
    assert!(200 < turns && 0 < without, "{turns} turns, {without} of them without a worker for some time");
}

/// Turns of the demo that include tool calls, few enough to run quickly.
fn some_turns(folder: &Path) -> PathBuf {
    let all = fs::read_to_string(fixtures().join("demo/turns.jsonl")).unwrap();
    let file = folder.join("turns.jsonl");
    fs::write(&file, all.lines().take(30).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    file
}

#[test]
fn the_demo_fits_on_one_screen() {
    let folder = tempfile::tempdir().unwrap();
    let file = some_turns(folder.path());
    let output = turnfold(folder.path()).args(["demo", "--file"]).arg(file).output().unwrap();
    let screen = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    assert!(output.status.success(), "{screen}");
    assert!(screen.lines().count() <= 40, "{screen}");
    assert!(!screen.contains("{\""), "raw JSON is printed: {screen}");
    for expected in
        ["SIGKILL: the engine died here", "calls ", "Proof: every log (30)", "Look at it:", "/#/threads/"]
    {
        assert!(screen.contains(expected), "{expected:?} is missing: {screen}");
    }
}

#[test]
fn a_write_that_finds_all_as_it_should_be_is_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twice.jsonl");
    let body = json!({"strategy": "planner", "input": "Add Rosa Abel with the address rosa.abel@example.org to my contacts"});
    let line =
        |id: &str| json!({"custom_id": id, "method": "POST", "url": "/v1/turns", "body": body}).to_string();
    fs::write(&file, [line("one"), line("two")].join("\n")).unwrap();
    let output = turnfold(folder.path()).args(["demo", "-o", "json", "--file"]).arg(file).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let writes = [&report["writes"], &report["writes_once"], &report["writes_unchanged"]];
    assert_eq!(writes, [2, 1, 1], "{report}");
    assert_eq!((&report["findings"], output.status.code()), (&json!([]), Some(0)), "{report}");
}

/// An endpoint without authentication: it refuses requests that carry a key, or all requests.
async fn endpoint(refuses_all: bool) -> String {
    let complete = async move |headers: HeaderMap, Json(request): Json<Value>| {
        if refuses_all || headers.contains_key("authorization") {
            let error = json!({"error": {"message": "invalid API key", "type": "invalid_request_error"}});
            return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
        }
        let content = match request["response_format"].is_object() {
            true => r#"{"decision":"replace","plan":[],"next_task":0,"clarification":null}"#,
            false => "Hello.",
        };
        let piece = |delta: Value, reason: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"model": "gpt-4o-mini", "choices": [choice]}))
        };
        let body = piece(json!({"content": content}), Value::Null) + &piece(json!({}), json!("stop"));
        ([("content-type", "text/event-stream")], body + "data: [DONE]\n\n").into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/chat/completions", post(complete));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    url
}

/// Runs the demo with one turn and with nothing but `OPENAI_BASE_URL` in the environment.
async fn demo_at(url: String) -> (i32, String) {
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.jsonl");
        let body = json!({"strategy": "planner", "input": "Hello"});
        let line = json!({"custom_id": "one", "method": "POST", "url": "/v1/turns", "body": body});
        fs::write(&file, line.to_string()).unwrap();
        let mut demo = turnfold(folder.path());
        demo.env_remove("OPENAI_API_KEY").env("OPENAI_BASE_URL", url);
        let output = demo.args(["demo", "--file"]).arg(file).output().unwrap();
        let text = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_uses_an_endpoint_that_needs_no_key() {
    let url = endpoint(false).await;
    let (exit, text) = demo_at(url.clone()).await;
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains(&format!("gpt-4o-mini at {url}")) && text.contains("1 completed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_exits_with_5_when_the_endpoint_refuses() {
    let (exit, text) = demo_at(endpoint(true).await).await;
    assert_eq!(exit, 5, "{text}");
    assert!(
        text.contains("FAILED turns, by cause:\n  1 turn: ")
            && text.contains("rejected the key (http status 401)"),
        "{text}"
    );
}

/// Waits until a process has written a line that contains `text`, and returns that line.
pub(crate) fn line_of(log: &Path, text: &str) -> String {
    for _ in 0..400 {
        let log = fs::read_to_string(log).unwrap();
        if let Some(line) = log.lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{text:?} is not in the log: {}", fs::read_to_string(log).unwrap());
}

fn is_reached(folder: &Path, url: &str) -> bool {
    turnfold(folder).args(["--url", url, "turn", "ls"]).output().unwrap().status.success()
}

#[test]
fn dev_prints_the_address_it_listens_on_and_the_keys_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut command = turnfold(folder);
    command.args(["dev", "--listen", "127.0.0.1:0"]).env_remove("OPENAI_API_KEY").env_remove("TURNFOLD_URL");
    let _dev = Process::start(command.stderr(log(folder, "dev")));
    let ready = line_of(&folder.join("dev.log"), "turnfold is ready at ");
    let url = ready.split("ready at ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0"), "{ready}");
    line_of(&folder.join("dev.log"), &format!("turnfold --url {url} turn send -g probe"));
    line_of(&folder.join("dev.log"), "No key for providers.openai.api_key: ");
    let failing = line_of(&folder.join("dev.log"), "turns of these strategies will fail: ");
    assert!(failing.contains("planner") && !failing.contains("probe"), "{failing}");
    assert!(is_reached(folder, &url), "{url}");
}

#[test]
fn api_prints_the_address_it_listens_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let redis = Redis::start();
    let config = format!("[api]\nlisten = \"127.0.0.1:0\"\n[queue]\nurl = \"{}\"\n", redis.url());
    fs::write(folder.join("turnfold.toml"), config).unwrap();
    assert!(turnfold(folder).arg("migrate").output().unwrap().status.success());
    let _api = Process::start(turnfold(folder).arg("api").stderr(log(folder, "api")));
    let ready = line_of(&folder.join("api.log"), "turnfold api is ready at ");
    let url = ready.split("ready at ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(is_reached(folder, url), "{ready}");
}

#[test]
fn a_new_user_runs_an_engine_and_reads_the_log_of_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let mut command = turnfold(folder.path());
    let mut dev =
        Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let run = |args: &[&str]| {
        let output = turnfold(folder.path()).args(["--url", &url]).args(args).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    let mut sent = run(&["turn", "send", "-g", "probe", "stream hello there; echo bye", "--follow"]);
    for _ in 0..200 {
        if sent.0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        sent = run(&["turn", "send", "-g", "probe", "stream hello there; echo bye", "--follow"]);
    }
    assert_eq!(sent.0, 0, "{sent:?}");
    let (_, events, _) = run(&["thread", "events", "last"]);
    assert_eq!(sent.1, events, "the followed events are those of the log");
    assert!(
        events.contains("opened            probe v1") && events.contains("message assistant: “hello there”"),
        "{events}"
    );

    let asked = run(&["turn", "send", "-g", "probe", "ask Which colour? | red | green", "--wait"]);
    assert_eq!(asked.0, 3, "the turn waits for a person: {asked:?}");
    assert!(asked.1.contains("2. green") && asked.1.contains("--thread"), "{}", asked.1);
    let thread = asked.1.split("--thread ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let answered = run(&["turn", "send", "--thread", &thread, "green", "--wait"]);
    assert_eq!((answered.0, answered.1.trim()), (0, "Done: answered \"green\"."), "{answered:?}");
    assert_eq!(run(&["thread", "verify", &thread]).0, 0);
    assert_eq!(run(&["thread", "replay", &thread]).0, 0);
    let (_, state, _) = run(&["thread", "state", &thread, "--at", "4", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&state).unwrap()["seq"], 4);

    let failed = run(&["turn", "send", "-g", "probe", "fail out of paper; echo printed", "--wait"]);
    assert_eq!(failed.0, 1, "{failed:?}");
    let turn = failed.1.split("turn retry ").nth(1).unwrap().trim_end_matches([')', '\n']).to_owned();
    assert_eq!(run(&["turn", "retry", &turn]).0, 0);
    let unknown = run(&["turn", "send", "-g", "plannner", "hello"]);
    assert_eq!(unknown.0, 2, "{unknown:?}");
    assert!(unknown.2.contains("did you mean \"planner\""), "{}", unknown.2);

    // No MCP server is configured: the model alone is asked, and a planner that is named says what it lacks.
    let hinted = run(&["turn", "send", "-g", "planner", "hello", "-o", "json"]);
    assert!(hinted.2.contains("none is configured") && hinted.2.contains("-g chat"), "{}", hinted.2);
    let chosen = run(&["turn", "send", "hello", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&chosen.1).unwrap()["strategy"], "chat", "{chosen:?}");
    let keyless = run(&["turn", "send", "hello", "--wait"]);
    assert_eq!(keyless.0, 1, "{keyless:?}");
    assert!(keyless.1.contains("OPENAI_API_KEY"), "{}", keyless.1);

    let id = dev.id().to_string();
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &format!("kill -TERM {id}")])
            .status()
            .unwrap()
            .success()
    );
    assert!(dev.wait().success(), "{}", fs::read_to_string(folder.path().join("dev.log")).unwrap());
}
