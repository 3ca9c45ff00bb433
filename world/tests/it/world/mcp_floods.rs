//! MCP servers that send messages without end.
//!
//! `TURNFOLD_FLOOD_SECONDS=60 cargo nextest run -p worker --no-capture -E 'test(floods)'` floods for a minute.

use std::{
    io::{BufRead as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shared::{Response, Safety, ToolOutput};
use world::{LiveWorld, Server};

use super::{
    Stage, child,
    floods::{Log, seconds},
    live,
    mcp_misbehaviour::calling,
    perform, servers,
};

/// Environment variable that makes this program run as the server.
const AS_SERVER: &str = "TURNFOLD_TEST_FLOODING";

const KINDS: [&str; 9] =
    ["sampling", "elicitation", "roots", "ping", "logging", "progress", "list_changed", "noise", "stderr"];

/// Messages that the server has written, and replies that it has read.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static REPLIES: AtomicU64 = AtomicU64::new(0);

/// The server that the test starts. It returns at once unless [`AS_SERVER`] is set.
#[test]
fn floods() {
    let Ok(kind) = std::env::var(AS_SERVER) else { return };
    child::say_raw("");
    let is_flooding = Arc::new(AtomicBool::new(false));
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if request.get("method").is_none() {
            REPLIES.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let Some(id) = request.get("id") else { continue };
        let answer = match request["method"].as_str().unwrap() {
            "initialize" => child::initialized(&request["params"]),
            "tools/list" => Ok(json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] })),
            "tools/call" => {
                if !is_flooding.swap(true, Ordering::SeqCst) {
                    let kind = kind.clone();
                    std::thread::spawn(move || flood(&kind));
                }
                let counts = json!([WRITTEN.load(Ordering::Relaxed), REPLIES.load(Ordering::Relaxed)]);
                Ok(json!({ "content": [{ "type": "text", "text": counts.to_string() }] }))
            }
            method => Err(json!({ "code": -32601, "message": format!("no method {method}") })),
        };
        let (field, value) = match answer {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        child::say_raw(&json!({ "jsonrpc": "2.0", "id": id, field: value }).to_string());
    }
}

fn flood(kind: &str) {
    let text = "x".repeat(2_000);
    let request = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": "f", "method": method, "params": params });
    let notification =
        |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let message = match kind {
        "sampling" => request(
            "sampling/createMessage",
            json!({ "maxTokens": 1, "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }),
        ),
        "elicitation" => request(
            "elicitation/create",
            json!({ "message": text, "requestedSchema": { "type": "object", "properties": {} } }),
        ),
        "roots" => request("roots/list", json!({})),
        "ping" => request("ping", json!({})),
        "logging" => notification("notifications/message", json!({ "level": "error", "data": text })),
        "progress" => notification("notifications/progress", json!({ "progressToken": 0, "progress": 1 })),
        "list_changed" => notification("notifications/tools/list_changed", json!({})),
        _ => json!(text),
    };
    let line = format!("{message}\n");
    loop {
        let written = match kind {
            "stderr" => std::io::stderr().write_all(line.as_bytes()),
            _ => std::io::stdout().lock().write_all(line.as_bytes()),
        };
        if written.is_err() {
            return;
        }
        WRITTEN.fetch_add(1, Ordering::Relaxed);
    }
}

fn server(kind: &'static str) -> Server {
    let mut server = child::started("world::mcp_floods::floods", [(AS_SERVER, kind)]);
    (server.connect_timeout, server.call_timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    server
}

/// Calls the server, and returns the numbers of messages and replies.
async fn counts(world: &LiveWorld, server: &str) -> (u64, u64) {
    let outcome = perform(world, &Stage::default(), &calling(server, "look", Safety::Write)).await.0;
    let Ok((Response::Output(ToolOutput::Ok(text)), _)) = outcome else { panic!("{server}: {outcome:?}") };
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn a_flood_costs_its_own_server_and_nobody_else() {
    let log = Log::start();
    let all = KINDS.into_iter().map(|kind| (kind, server(kind))).chain([("neighbour", child::server([]))]);
    let world = live([], servers(all));
    futures::future::join_all(KINDS.into_iter().map(|kind| counts(&world, kind))).await;

    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(seconds()) {
        let call = Instant::now();
        let outcome =
            perform(&world, &Stage::default(), &calling("neighbour", "echo", Safety::Write)).await.0;
        assert!(outcome.is_ok(), "the neighbour is harmed: {outcome:?}");
        slowest = slowest.max(call.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let elapsed = began.elapsed().as_secs();
    for kind in KINDS {
        let (written, replies) = counts(&world, kind).await;
        let took = began.elapsed().as_secs_f64();
        println!("{kind:<14} {written:>9} messages, {replies:>7} replies in {took:.0} s");
        if kind != "stderr" {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
            let read_at_most = 2_000 + 1_000 * (took.ceil() as u64 + 1);
            // A pipe holds 64 KiB of messages that were not read yet.
            assert!(written < read_at_most + 3_000, "{kind}: {written} messages were read in {took} s");
        }
        assert!(replies <= written, "{kind}: each message is replied to at most once");
    }
    println!("{elapsed} s: slowest neighbour {slowest:?}");
    log.check(elapsed);
    assert!(slowest < Duration::from_secs(5), "the neighbour took {slowest:?}");
    world.close().await;
}
