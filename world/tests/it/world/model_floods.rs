//! Model endpoints that send without end.
//!
//! `TURNFOLD_FLOOD_SECONDS=60 cargo nextest run -p worker --no-capture -E 'test(floods)'` floods for a minute.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shared::{Message, Safety};
use tokio::time::timeout_at;
use world::LiveWorld;

use super::{
    Stage, child, due, endpoint,
    floods::{Log, seconds},
    live,
    mcp_misbehaviour::calling,
    perform, servers,
};

/// Name, status, media type and the repeated bytes.
type Flood = (&'static str, u16, &'static str, &'static [u8]);

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

const FLOODS: [Flood; 9] = [
    ("event", 200, EVENTS, b"data: x"),
    ("lines", 200, EVENTS, b"data: x\n"),
    ("comments", 200, EVENTS, b": still here\n\n"),
    ("empty", 200, EVENTS, b"data: {\"choices\":[]}\n\n"),
    ("words", 200, EVENTS, b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"la la la\"}}]}\n\n"),
    ("reasoning", 200, EVENTS, b"data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"),
    (
        "arguments",
        200,
        EVENTS,
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"[[\"}}]}}]}\n\n",
    ),
    ("body", 200, JSON, b"{\"choices\":"),
    ("refusal", 500, JSON, b"no, "),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures are what the test is for")]
async fn floods_of_endpoints_cost_their_own_turn_and_nobody_else() {
    let log = Log::start();
    let mut providers = Vec::new();
    for (name, status, media_type, bytes) in FLOODS {
        let url = endpoint::endless_as(status, media_type, bytes).await;
        providers.push((name, endpoint::provider(&url, Duration::from_secs(120))));
    }
    let world = Arc::new(live(providers, servers([("neighbour", child::server([]))])));
    let began = Instant::now();
    let lasts = Duration::from_secs(seconds());
    // Each in a task of its own, as in a worker.
    let asking = FLOODS.map(|(name, ..)| tokio::spawn(ask_again(Arc::clone(&world), name, began + lasts)));
    let slowest = call_neighbour(&world, began, lasts).await;
    let asked = futures::future::try_join_all(asking).await.unwrap();
    for ((name, ..), (failed, error)) in FLOODS.iter().zip(asked) {
        println!("{name:<10} {failed:>5} replies refused: {error:.100}");
    }
    println!("{:?}: slowest neighbour {slowest:?}", began.elapsed());
    log.check(lasts.as_secs());
    assert!(slowest < Duration::from_secs(5), "the neighbour took {slowest:?}");
    world.close().await;
}

/// Sends requests to a model until the time is over. Returns how many failed, and the last error.
async fn ask_again(world: Arc<LiveWorld>, provider: &str, end: Instant) -> (usize, String) {
    let asked = due(super::chat(&format!("{provider}/gpt"), 0..1));
    let stage = Stage::hearing([Message::user("Hello")]);
    let (mut failed, mut error) = (0, "the first reply is still being read".to_owned());
    while let Ok((outcome, ..)) = timeout_at(end.into(), perform(&*world, &stage, &asked)).await {
        error = outcome.expect_err("a reply without an end is no reply").error;
        failed += 1;
    }
    (failed, error)
}

/// Calls a healthy server until the time is over. Returns the longest duration of a call.
async fn call_neighbour(world: &LiveWorld, began: Instant, lasts: Duration) -> Duration {
    let mut slowest = Duration::ZERO;
    while began.elapsed() < lasts {
        let call = Instant::now();
        let outcome = perform(world, &Stage::default(), &calling("neighbour", "echo", Safety::Write)).await.0;
        assert!(outcome.is_ok(), "the neighbour is harmed: {outcome:?}");
        slowest = slowest.max(call.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    slowest
}
