//! Views of long threads: whatever folds are kept, a view shows the fold of the log from its first event.

use serde_json::{Value, json};
use store::ThreadId;

use crate::test_api::{Room, id_of, thread_of};

/// Creates a thread of this many turns.
async fn long_thread(room: &Room, turns: usize) -> ThreadId {
    let thread = thread_of(&room.probe("echo 0; echo zero").await);
    for n in 1..turns {
        let input = if n % 7 == 0 { format!("fail {n}") } else { format!("echo {n}; call 2; echo {n}") };
        let reply = room.post("/v1/turns", json!({"thread_id": thread, "input": input})).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        room.live(thread).await;
    }
    thread
}

/// The state after an event, folded from the first.
fn folded(log: &[shared::Event], at: usize) -> Value {
    let graph = strategies::all().into_iter().find(|it| it.name() == "probe").unwrap();
    let thread = graph.fold(&log[..=at]).unwrap();
    json!([thread.state().unwrap(), thread.messages().len(), thread.node()])
}

fn shown(state: &Value) -> Value {
    json!([state["state"], state["messages"].as_array().unwrap().len(), state["node"]])
}

#[tokio::test]
async fn a_state_is_that_of_the_log_whatever_was_read_before() {
    let room = Room::new().await;
    let thread = long_thread(&room, 60).await;
    let log = room.log_of(thread).await;
    assert!(500 < log.len(), "{} events are too few to keep folds along the log", log.len());
    let last = log.len() - 1;
    let scattered = (0..log.len()).step_by(37).map(|it| it * 101 % log.len());
    for at in [last, last, 0, last - 1, 1, 70, 71, 70, 600.min(last), 501, 499].into_iter().chain(scattered) {
        let state = room.get(&format!("/v1/threads/{thread}/state?at={at}")).await.json();
        assert_eq!(state["seq"], json!(at));
        assert_eq!(shown(&state), folded(&log, at), "event {at}");
    }
}

#[tokio::test]
async fn a_thread_that_grows_is_shown_as_it_is() {
    let room = Room::new().await;
    let thread = long_thread(&room, 12).await;
    for n in 0..3 {
        let log = room.log_of(thread).await;
        let seen = room.get(&format!("/v1/threads/{thread}")).await.json();
        assert_eq!(seen["events"], json!(log.len()));
        assert_eq!(seen["messages"].as_array().unwrap().len(), folded(&log, log.len() - 1)[1]);
        room.post("/v1/turns", json!({"thread_id": thread, "input": format!("echo more {n}")})).await;
        room.live(thread).await;
    }
}

#[tokio::test]
async fn turns_of_a_long_thread_have_their_own_results() {
    let room = Room::new().await;
    let thread = long_thread(&room, 30).await;
    let mut turns = Vec::new();
    // Single turns are read in another order than the list, so that each begins at another fold.
    let page = room.get(&format!("/v1/turns?thread_id={thread}&limit=100")).await.json();
    let listed = page["data"].as_array().unwrap();
    for turn in listed.iter().rev() {
        turns.insert(0, room.get(&format!("/v1/turns/{}", id_of(turn))).await.json());
    }
    assert_eq!(listed.len(), 30);
    assert_eq!(&turns, listed);
    for turn in listed.iter().filter(|it| it["status"] == "completed") {
        let said = turn["input"][0]["content"].as_str().unwrap().rsplit(' ').next().unwrap();
        assert!(turn["output"]["reply"].as_str().unwrap().contains(said), "{turn}");
        assert_eq!(turn["output"]["messages"].as_array().unwrap().len(), 1, "{turn}");
    }
}

#[tokio::test]
async fn a_conversation_is_shown_in_parts() {
    let room = Room::new().await;
    let thread = long_thread(&room, 10).await;
    let get = |query: &str| {
        let path = format!("/v1/threads/{thread}{query}");
        let room = &room;
        async move { room.get(&path).await.json() }
    };
    let whole = get("").await;
    let all = whole["messages"].as_array().unwrap().clone();
    assert_eq!(whole["first_message"], json!(0));
    let mut parts = Vec::new();
    let mut before = all.len();
    while before > 0 {
        let part = get(&format!("?messages=3&before={before}")).await;
        let first = usize::try_from(part["first_message"].as_u64().unwrap()).unwrap();
        let messages = part["messages"].as_array().unwrap();
        assert_eq!(first + messages.len(), before);
        parts.splice(0..0, messages.clone());
        before = first;
    }
    assert_eq!(parts, all);
    let state = get("/state?at=20&messages=1").await;
    assert_eq!(state["messages"].as_array().unwrap().len(), 1);
    let refused = room.get(&format!("/v1/threads/{thread}?messages=1001")).await;
    assert!(refused.problem(400, "malformed").contains("1000"));
}

#[tokio::test]
async fn a_thread_imported_under_the_id_of_a_deleted_one_is_folded_anew() {
    let room = Room::new().await;
    let (thread, other) = (long_thread(&room, 12).await, Room::new().await);
    let before = room.get(&format!("/v1/threads/{thread}")).await.json();
    let source = thread_of(&other.lived("echo other").await);
    for n in 0..12 {
        let input = format!("echo other {n}; call 2; echo {n}");
        other.post("/v1/turns", json!({"thread_id": source, "input": input})).await;
        other.live(source).await;
    }
    let stored = other.parts.store.stored(source, 0, 10_000).await.unwrap();
    let imported =
        |it: store::Stored| threads::ImportedEvent { at: it.at, kind: it.kind, payload: it.payload };
    let log = stored.into_iter().map(imported).collect();
    room.parts.store.delete_thread(thread, "a test").await.unwrap().unwrap();
    threads::import_thread(&room.parts.store, &room.strategies, thread, log, Vec::new()).await.unwrap();

    let (after, changed) =
        (room.get(&format!("/v1/threads/{thread}")).await.json(), room.log_of(thread).await);
    assert_eq!(after["events"], json!(changed.len()));
    assert_ne!(after["messages"], before["messages"]);
    let original = other.get(&format!("/v1/threads/{source}")).await.json();
    assert_eq!(after["messages"], original["messages"], "nothing is left of the deleted thread");
}
