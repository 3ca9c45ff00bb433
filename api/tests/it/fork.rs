//! Forks: the copied events stay, and changes apply from there on.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{Budget, Event, RunStatus};
use store::{DryRun, ThreadId};
use threads::Log as _;

use crate::test_api::{Room, id_of, thread_of};

async fn fork(room: &Room, thread: ThreadId, body: Value) -> Value {
    let reply = room.post(&format!("/v1/threads/{thread}/fork"), body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn id(thread: &Value) -> ThreadId {
    thread["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_fork_can_give_another_answer() {
    let room = Room::new().await;
    let turn = room.lived("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    room.post(&format!("/v1/threads/{source}/answer"), json!({"text": "red"})).await;
    room.live(source).await;
    let before = room.parts.store.stored(source, 0, 99).await.unwrap();

    let forked = fork(&room, source, json!({"at": asked, "answer": "green"})).await;
    let thread = id(&forked);
    let hash = hex::encode(before[usize::try_from(asked).unwrap()].hash);
    assert_eq!(forked["forked"], json!({"thread_id": source, "seq": asked, "hash": hash}));
    room.live(thread).await;
    let messages = |it: &Value| it["messages"].to_string();
    let (there, here) = (
        room.get(&format!("/v1/threads/{source}")).await.json(),
        room.get(&format!("/v1/threads/{thread}")).await.json(),
    );
    assert!(messages(&there).contains("red") && messages(&here).contains("green"), "{here}");
    assert_eq!(room.parts.store.stored(source, 0, 99).await.unwrap(), before, "the source is as it was");
    for check in ["verify", "replay"] {
        let checked = room.get(&format!("/v1/threads/{thread}/{check}")).await.json();
        assert_eq!(checked["ok"], true, "{check}: {checked}");
    }
    // The turns of the fork have their own ids, and its rows follow from its log.
    let turns = room.get(&format!("/v1/turns?thread_id={thread}")).await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 2);
    assert!(turns["data"].as_array().unwrap().iter().all(|it| it["id"] != id_of(&turn)));
    let round = store::ThreadScan::of(store::Conditions::default(), 1).only(Some(thread));
    assert!(
        threads::rebuild(&room.parts.store, &room.strategies, &round, DryRun::Yes)
            .await
            .unwrap()
            .found
            .is_empty()
    );
    // A fork of a fork names its direct source.
    let again = fork(&room, thread, json!({})).await;
    assert_eq!(again["forked"]["thread_id"], json!(thread));
}

#[tokio::test]
async fn changes_apply_from_the_fork_on() {
    let room = Room::new().await;
    let turn = room.lived("echo a; echo b").await;
    let source = thread_of(&turn);
    let decided = room.log_of(source).await.iter().position(|it| matches!(it, Event::Decided(_))).unwrap();
    let forked = fork(&room, source, json!({"at": decided, "config": {"padding": 3}})).await;
    assert_eq!(forked["log_status"], "busy", "the turn that was under way there is under way here");
    assert!(room.rung().await.contains(&id(&forked)));
    let state = |at: usize| format!("/v1/threads/{}/state?at={at}", id(&forked));
    let config = |at: usize| {
        let room = &room;
        async move { room.get(&state(at)).await.json()["config"]["padding"].clone() }
    };
    assert_eq!((config(decided).await, config(decided + 1).await), (json!(0), json!(3)));
    room.live(id(&forked)).await;
    let end = room.get(&format!("/v1/threads/{}/state", id(&forked))).await.json();
    assert_eq!(end["state"]["done"], json!(["a", "b"]));
}

#[tokio::test]
async fn a_write_in_progress_is_in_doubt_and_not_repeated() {
    let room = Room::new().await;
    let turn = room.post("/v1/turns", json!({"strategy": "deed", "input": "go"})).await.json();
    let source = thread_of(&turn);
    room.live(source).await;
    let log = room.log_of(source).await;
    let attempted = log.iter().rposition(|it| matches!(it, Event::Attempted(_))).unwrap();
    let forked = fork(&room, source, json!({"at": attempted})).await;
    let thread = id(&forked);
    let log = room.log_of(thread).await;
    let kinds: Vec<&str> = log[attempted + 1..].iter().map(Event::kind).collect();
    assert_eq!(kinds, ["forked", "in_doubt", "in_doubt"]);
    assert_eq!(forked["interrupt"]["kind"], "in_doubt");
    let body = json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}});
    let told = room.post(&format!("/v1/threads/{thread}/reconcile"), body).await;
    assert_eq!(told.status, 200, "{told:?}");
}

#[tokio::test]
async fn a_fork_of_a_failed_thread_is_failed() {
    let room = Room::new().await;
    let turn = room.lived("fail the disk is full").await;
    let source = thread_of(&turn);
    assert!(matches!(room.log(source).await.thread().status(), RunStatus::Failed { .. }));
    let forked = fork(&room, source, json!({})).await;
    assert_eq!((&forked["log_status"], &forked["node"]), (&json!("busy"), &json!("fail")));
    // The rows agree: a worker ignores a thread whose turn has ended according to them.
    assert!(room.parts.store.running(id(&forked)).await.unwrap().is_some());
}

#[tokio::test]
async fn invalid_changes_are_named() {
    let room = Room::new().await;
    let turn = room.lived("echo hi").await;
    let path = format!("/v1/threads/{}/fork", thread_of(&turn));
    let wrong = BTreeMap::from([
        ("config: ", json!({"config": {"model": "x"}})),
        ("facts: not a fact of strategy probe", json!({"facts": ["nonsense"]})),
        ("prompts: nodes: there is no node \"plan\"", json!({"prompts": {"plan": "hi"}})),
        ("event 99 does not exist yet", json!({"at": 99})),
    ]);
    for (words, body) in wrong {
        let detail = room.post(&path, body).await.problem(422, "invalid");
        assert!(detail.contains(words), "{detail}");
    }
    let busy = json!({"at": 1, "answer": "hi"});
    room.post(&path, busy).await.problem(409, "nothing-asked");
    let nowhere = format!("/v1/threads/{}/fork", uuid::Uuid::nil());
    room.post(&nowhere, json!({})).await.problem(404, "unknown-thread");
    assert_eq!(room.get("/v1/threads").await.json()["data"].as_array().unwrap().len(), 1, "nothing was made");
}

#[tokio::test]
async fn threads_are_compared_and_decisions_explained() {
    let room = Room::new().await;
    let turn = room.lived("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    let why = room.get(&format!("/v1/threads/{source}/why")).await.json();
    assert_eq!(
        (&why["decision"]["seq"], &why["decision"]["to"]),
        (&json!(asked), &json!("a person")),
        "{why}"
    );
    assert_eq!((&why["status"], &why["question"]), (&json!("waiting"), &json!("Which colour?")));
    room.get(&format!("/v1/threads/{source}/why?at=99")).await.problem(422, "invalid");

    room.post(&format!("/v1/threads/{source}/answer"), json!({"text": "red"})).await;
    room.live(source).await;
    let forked = fork(&room, source, json!({"at": asked, "answer": "green"})).await;
    room.live(id(&forked)).await;
    let diff = room.get(&format!("/v1/threads/{source}/diff?with={}", id(&forked))).await.json();
    let differ = |it: &Value| it["left"].as_u64().is_none_or(|it| asked < it);
    assert!(diff["rows"].as_array().unwrap().iter().all(differ), "what was copied is the same: {diff}");
    assert_eq!((&diff["split"]["left"], &diff["split"]["right"]), (&json!(asked + 1), &json!(asked + 2)));
    let heard = diff["rows"].as_array().unwrap().iter().find(|it| it["text"] == "turn_started").unwrap();
    assert!(heard["differs"][0]["left"].as_str().unwrap().contains("red"), "{heard}");
    let same = room.get(&format!("/v1/threads/{source}/diff?with={source}")).await.json();
    assert_eq!((&same["split"], &same["rows"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn a_repeated_fork_request_returns_the_same_fork() {
    let room = Room::new().await;
    let turn = room.lived("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    let path = format!("/v1/threads/{source}/fork");
    let body = json!({"at": asked, "answer": "green"});
    let key = [("idempotency-key", "what if green")];
    let first = room.post_with(&path, &key, body.clone()).await;
    assert_eq!((first.status.as_u16(), first.headers.get("idempotency-replayed")), (200, None), "{first:?}");
    let thread = id(&first.json());
    assert!(room.rung().await.contains(&thread));
    room.silence().await;
    let again = room.post_with(&path, &key, body.clone()).await;
    assert_eq!((again.headers["idempotency-replayed"].as_bytes(), id(&again.json())), (&b"true"[..], thread));
    assert!(room.rung().await.is_empty(), "it was rung for when it was new");
    room.live(thread).await;
    let again = room.post_with(&path, &key, body.clone()).await.json();
    assert_eq!(
        (id(&again), &again["log_status"]),
        (thread, &json!("idle")),
        "it tells how far that one has come"
    );
    let turns = room.get(&format!("/v1/turns?thread_id={thread}")).await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 2, "the answer is heard once: {turns}");

    room.post_with(&path, &key, json!({"at": asked, "answer": "red"})).await.problem(409, "key-reused");
    let of_fork = format!("/v1/threads/{thread}/fork");
    room.post_with(&of_fork, &key, body.clone()).await.problem(409, "key-reused");
    room.post_with(&path, &[("idempotency-key", "")], body.clone()).await.problem(400, "malformed");
    assert_ne!(id(&room.post(&path, body).await.json()), thread, "without a key it is another");
    assert_eq!(room.get("/v1/threads").await.json()["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_known_fork_is_returned_even_if_too_many_turns_are_queued() {
    let room = Room::with(|door| door.waiting_max = 2).await;
    let source = thread_of(&room.lived("echo hi").await);
    let path = format!("/v1/threads/{source}/fork");
    let key = [("idempotency-key", "once")];
    let thread = id(&room.post_with(&path, &key, json!({})).await.json());
    room.post(&path, json!({})).await.problem(429, "too-many-wait");
    assert_eq!(id(&room.post_with(&path, &key, json!({})).await.json()), thread);
}

#[tokio::test]
async fn a_changed_budget_is_completed_by_that_of_the_operator() {
    let budget = |it: Value| serde_json::from_value::<Budget>(it).unwrap();
    let most = budget(json!({"turn": {"tokens": 1000}, "thread": {"usd": 2.0}}));
    let room = Room::with(|door| door.budget = most.clone()).await;
    let body = json!({"strategy": "probe", "input": "echo a", "budget": {"turn": {"tokens": 10}}});
    let source = thread_of(&room.post("/v1/turns", body).await.json());
    room.live(source).await;
    let forked = |body: Value| {
        let room = &room;
        async move {
            let thread = id(&fork(room, source, body).await);
            let log = room.log_of(thread).await;
            log.into_iter().find_map(|it| if let Event::Forked(it) = it { Some(it.budget) } else { None })
        }
    };
    let wider = forked(json!({"budget": {"turn": {"tokens": 5000, "usd": 1.0}}})).await.unwrap();
    assert_eq!(wider, Some(budget(json!({"turn": {"tokens": 5000, "usd": 1.0}, "thread": {"usd": 2.0}}))));
    assert_eq!(forked(json!({"budget": {}})).await.unwrap(), Some(most.clone()), "as much as is allowed");
    assert_eq!(forked(json!({})).await.unwrap(), None, "as it was");
    let path = format!("/v1/threads/{source}/fork");
    room.post(&path, json!({"budget": {"turn": {"token": 5}}})).await.problem(422, "invalid");
}
