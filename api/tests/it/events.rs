//! Logs as pages and as streams.

use std::time::Duration;

use queue::{Delta, Notification};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::test_api::{EventStream, Frame, TestApi, id_of, thread_of};

/// Waits for an event of a stream, with a timeout.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(8), what).await.expect("the stream continues in time")
}

async fn frames(stream: &mut EventStream, count: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    for _ in 0..count {
        frames.push(in_time(stream.next()).await.expect("the stream goes on"));
    }
    frames
}

#[tokio::test]
async fn events_are_paged_from_the_first() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let path = format!("/v1/threads/{}/events", thread_of(&turn));
    let all = api.get(&path).await.json();
    let lines = all["data"].as_array().unwrap();
    assert_eq!(lines.len() as u64, turn["ended_seq"].as_u64().unwrap() + 1);
    assert_eq!(
        (&lines[0]["kind"], &lines[1]["kind"], &lines[1]["seq"]),
        (&json!("opened"), &json!("turn_started"), &json!(1))
    );
    assert_eq!(lines[1]["event"]["messages"][0]["content"], "echo hi");
    assert!(lines[1]["at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(lines[1]["event"]["event"], "turn_started");
    assert_eq!(lines[1]["event"]["turn"], turn["id"]);
    let page = api.get(&format!("{path}?after=0&limit=2")).await.json();
    assert_eq!((&page["data"][0], &page["has_more"]), (&lines[1], &json!(true)));
    let page = api.get(&format!("{path}?after={}", turn["ended_seq"])).await.json();
    assert_eq!(page, json!({"data": [], "has_more": false}));
    assert!(api.get(&format!("{path}?until=dawn")).await.problem(400, "malformed").contains("dawn"));
}

#[tokio::test]
async fn a_stream_has_past_and_new_events_and_ends_at_rest() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    let thread = thread_of(&turn);
    let mut stream = api.stream(&format!("/v1/threads/{thread}/events?until=rest"), &[]).await;
    let first = in_time(stream.next()).await.unwrap();
    assert_eq!((first.id, first.kind.as_str()), (Some(0), "opened"));
    let both = async { tokio::join!(stream.rest(), api.run_until_idle(thread)) };
    let (rest, ()) = in_time(both).await;
    let page = api.get(&format!("/v1/threads/{thread}/events")).await.json();
    let events: Vec<&Value> = std::iter::once(&first).chain(&rest).map(|frame| &frame.data).collect();
    assert_eq!(
        events,
        page["data"].as_array().unwrap().iter().collect::<Vec<_>>(),
        "a stream has the same events as a page"
    );
    let ids: Vec<Option<u64>> = rest.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=rest.len() as u64).map(Some).collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap().kind, "decided");
}

#[tokio::test]
async fn a_thread_with_a_queued_turn_is_not_at_rest() {
    let api = TestApi::new().await;
    let first = api.run_turn("echo a").await;
    let thread = thread_of(&first);
    let next = api.post("/v1/turns", json!({"thread_id": thread, "input": "echo b"})).await.json();
    let seen = first["ended_seq"].as_u64().unwrap();
    let stream = api.stream(&format!("/v1/threads/{thread}/events?until=rest&after={seen}"), &[]).await;
    let path = format!("/v1/turns/{}/cancel", id_of(&next));
    let both = async { tokio::join!(stream.rest(), api.post(&path, json!(null))) };
    let (events, _) = in_time(both).await;
    assert_eq!(
        events,
        [],
        "a cancellation of a queued turn is no event, and it ends the stream all the same"
    );
    let stream = api.stream(&format!("/v1/threads/{thread}/events?until=rest&after={seen}"), &[]).await;
    assert_eq!(in_time(stream.rest()).await, [], "a stream of a thread at rest ends at once");
}

#[tokio::test]
async fn a_disconnected_client_continues_after_its_last_event() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo a; echo b").await;
    let path = format!("/v1/threads/{}/events?until=rest", thread_of(&turn));
    let all = in_time(api.stream(&path, &[]).await.rest()).await;
    let resumed = in_time(api.stream(&path, &[("Last-Event-ID", "2")]).await.rest()).await;
    assert_eq!(resumed, all[3..]);
    let after = in_time(api.stream(&format!("{path}&after=2"), &[]).await.rest()).await;
    assert_eq!(after, resumed);
    let both = in_time(api.stream(&format!("{path}&after=0"), &[("Last-Event-ID", "2")]).await.rest()).await;
    assert_eq!(both, resumed, "`Last-Event-ID` takes precedence over `after`");
    let request =
        axum::http::Request::get(&path).header("accept", "text/event-stream").header("last-event-id", "x");
    let reply = api.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert!(reply.problem(400, "malformed").contains("Last-Event-ID"));
}

#[tokio::test]
async fn a_stream_longer_than_one_read_is_complete() {
    let api = TestApi::new().await;
    let turn = api.run_turn("steps 250").await;
    let path = format!("/v1/threads/{}/events?until=rest", thread_of(&turn));
    let ids: Vec<u64> =
        in_time(api.stream(&path, &[]).await.rest()).await.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(ids, (0..=turn["ended_seq"].as_u64().unwrap()).collect::<Vec<_>>());
    assert!(250 < ids.len());
}

fn delta(attempt: u64, offset: usize, text: &str) -> Notification {
    let (turn, node, text) = (Uuid::nil(), "stream".to_owned(), text.to_owned());
    Notification::Delta(Delta { turn, node, seq: 2, attempt, offset, text })
}

#[tokio::test]
async fn deltas_are_sent_on_request_and_have_no_id() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo a").await;
    let thread = thread_of(&turn);
    let count = usize::try_from(turn["ended_seq"].as_u64().unwrap()).unwrap() + 1;
    let mut with = api.stream(&format!("/v1/threads/{thread}/events?deltas=true"), &[]).await;
    let mut without = api.stream(&format!("/v1/threads/{thread}/events"), &[]).await;
    frames(&mut with, count).await;
    frames(&mut without, count).await;
    api.backends.notifications.publish(thread, delta(1, 0, "hel")).await;
    let received = in_time(with.next()).await.unwrap();
    assert_eq!((received.id, received.kind.as_str()), (None, "delta"));
    assert_eq!(received.data, json!({"turn_id": Uuid::nil(), "node": "stream", "seq": 2, "text": "hel"}));
    let body = json!({"thread_id": thread, "input": "echo b"});
    api.post("/v1/turns", body).await;
    api.start_turn(thread).await;
    assert_eq!(frames(&mut without, 1).await[0].kind, "turn_started", "no deltas were requested here");
}

#[tokio::test]
async fn deltas_older_than_a_sent_event_are_dropped() {
    let api = TestApi::new().await;
    let turn = api.submit("stream hello; echo b").await;
    let thread = thread_of(&turn);
    let mut stream = api.stream(&format!("/v1/threads/{thread}/events?deltas=true"), &[]).await;
    frames(&mut stream, 1).await;
    // The client does not read while the thread starts the turn, emits deltas and then records the whole text.
    api.start_turn(thread).await;
    api.backends.notifications.publish(thread, delta(1, 0, "hel")).await;
    api.step(thread).await;
    let events = frames(&mut stream, 2).await;
    let kinds: Vec<&str> = events.iter().map(|frame| frame.kind.as_str()).collect();
    assert_eq!(kinds, ["turn_started", "decided"], "the delta is older than the decision and is dropped");
    api.backends.notifications.publish(thread, delta(2, 0, "lo")).await;
    assert_eq!(
        frames(&mut stream, 1).await[0].data["text"],
        "lo",
        "a newer delta is sent, and the older one is not"
    );
}

#[tokio::test]
async fn a_slow_client_delays_no_other_and_misses_nothing() {
    let api = TestApi::new().await;
    let turn = api.submit("steps 400").await;
    let thread = thread_of(&turn);
    let mut slow = api.stream(&format!("/v1/threads/{thread}/events?until=rest"), &[]).await;
    frames(&mut slow, 1).await;
    api.run_until_idle(thread).await;
    assert_eq!(api.get(&format!("/v1/turns/{}", id_of(&turn))).await.json()["status"], "completed");
    let events = tokio::time::timeout(Duration::from_secs(20), slow.rest()).await.unwrap();
    assert!(400 < events.len(), "more than the notifications keep for a subscriber");
    assert!(events.windows(2).all(|pair| pair[0].id.unwrap() + 1 == pair[1].id.unwrap()));
}
