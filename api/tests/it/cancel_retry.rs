//! Cancelling, retrying, answering and reconciling.

use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::Event;
use store::ThreadId;

use crate::test_api::{Room, id_of, thread_of};

async fn act(room: &Room, turn: &Value, what: &str) -> crate::test_api::Reply {
    let path = format!("/v1/turns/{}/{what}", id_of(turn));
    room.post_with(&path, &[("X-Turnfold-User", "Ada")], Value::Null).await
}

async fn last(room: &Room, thread: ThreadId) -> Event {
    room.parts.store.load(thread).await.unwrap().1.pop().unwrap().event
}

#[tokio::test]
async fn a_cancelled_queued_turn_never_starts() {
    let room = Room::new().await;
    let turn = room.probe("echo hi").await;
    let reply = act(&room, &turn, "cancel").await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.json()["status"], "cancelled");
    assert!(reply.json()["output"].is_null());
    assert!(!room.hear(thread_of(&turn)).await);
    let detail = act(&room, &turn, "cancel").await.problem(409, "already-ended");
    assert!(detail.contains("cancelled"), "{detail}");
}

#[tokio::test]
async fn a_waiting_request_returns_when_the_turn_is_cancelled() {
    let room = Room::new().await;
    let turn = room.probe("echo hi").await;
    let path = format!("/v1/turns/{}?wait=60", id_of(&turn));
    let both = async { tokio::join!(room.get(&path), act(&room, &turn, "cancel")) };
    let (waited, _) = tokio::time::timeout(std::time::Duration::from_secs(20), both).await.unwrap();
    assert_eq!(waited.json()["status"], "cancelled");
}

#[tokio::test]
async fn a_running_turn_is_cancelled_with_an_event() {
    let room = Room::new().await;
    let turn = room.probe("stream a b; echo c").await;
    let thread = thread_of(&turn);
    let next = room.post("/v1/turns", json!({"thread_id": thread, "input": "echo next"})).await.json();
    room.hear(thread).await;
    room.step(thread).await;
    room.silence().await;
    let cancelled = act(&room, &turn, "cancel").await.json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["output"]["messages"], json!([]));
    let Event::Cancelled(event) = last(&room, thread).await else { panic!("no cancellation") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(room.rung().await, [thread], "others wait for the thread");
    room.live(thread).await;
    assert_eq!(room.get(&format!("/v1/turns/{}", id_of(&next))).await.json()["status"], "completed");
    act(&room, &turn, "cancel").await.problem(409, "already-ended");
}

#[tokio::test]
async fn interrupted_and_failed_turns_can_be_cancelled() {
    let room = Room::new().await;
    for input in ["ask Well?", "fail now"] {
        let turn = room.lived(input).await;
        assert_eq!(act(&room, &turn, "cancel").await.json()["status"], "cancelled", "{input}");
        let thread = room.get(&format!("/v1/threads/{}", thread_of(&turn))).await.json();
        assert_eq!((&thread["status"], &thread["log_status"]), (&json!("idle"), &json!("idle")));
    }
}

#[tokio::test]
async fn a_turn_cannot_be_cancelled_after_its_thread_has_continued() {
    let room = Room::new().await;
    let asked = room.lived("ask Well?").await;
    let thread = thread_of(&asked);
    let answer = room.post(&format!("/v1/threads/{thread}/answer"), json!({"text": "yes"})).await.json();
    room.hear(thread).await;
    act(&room, &asked, "cancel").await.problem(409, "already-ended");
    let now = room.get(&format!("/v1/turns/{}", id_of(&answer))).await.json();
    assert_eq!(now["status"], "running", "the turn that is under way is another, and stays");
    room.live(thread).await;
    act(&room, &asked, "cancel").await.problem(409, "already-ended");
    let done = room.lived("echo hi").await;
    act(&room, &done, "cancel").await.problem(409, "already-ended");
    let nobody = json!({"id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"});
    act(&room, &nobody, "cancel").await.problem(404, "unknown-turn");
    act(&room, &nobody, "retry").await.problem(404, "unknown-turn");
}

#[tokio::test]
async fn many_concurrent_cancellations_are_one() {
    let room = Room::new().await;
    let turn = room.probe("stream a b").await;
    room.hear(thread_of(&turn)).await;
    let replies = futures::future::join_all((0..8).map(|_| act(&room, &turn, "cancel"))).await;
    let is_cancelled = |it: &&crate::test_api::Reply| it.status == StatusCode::OK;
    assert!(replies.iter().any(|it| is_cancelled(&it)));
    let log = room.log_of(thread_of(&turn)).await;
    assert_eq!(log.iter().filter(|it| matches!(it, Event::Cancelled(_))).count(), 1);
    replies
        .iter()
        .filter(|it| it.status != StatusCode::OK)
        .for_each(|it| drop(it.problem(409, "already-ended")));
}

#[tokio::test]
async fn a_failed_turn_is_retried() {
    let room = Room::new().await;
    let turn = room.lived("fail no paper left").await;
    room.silence().await;
    let retried = act(&room, &turn, "retry").await.json();
    assert_eq!((&retried["status"], &retried["error"]), (&json!("running"), &Value::Null));
    let Event::Retried(event) = last(&room, thread_of(&turn)).await else { panic!("no retry") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(room.rung().await, [thread_of(&turn)]);
    act(&room, &turn, "retry").await.problem(409, "not-failed");
}

#[tokio::test]
async fn only_the_last_failed_turn_is_retried() {
    let room = Room::new().await;
    act(&room, &room.lived("echo hi").await, "retry").await.problem(409, "not-failed");
    let first = room.lived("fail once").await;
    let second =
        room.post("/v1/turns", json!({"thread_id": first["thread_id"], "input": "fail twice"})).await.json();
    room.live(thread_of(&second)).await;
    let detail = act(&room, &first, "retry").await.problem(409, "not-failed");
    assert!(detail.contains("has continued"), "{detail}");
    let refused = room.probe("echo hi").await;
    room.parts.store.refuse_queued(id_of(&refused).parse().unwrap(), "nothing was asked").await.unwrap();
    let detail = act(&room, &refused, "retry").await.problem(409, "not-failed");
    assert!(detail.contains("never started"), "{detail}");
}

#[tokio::test]
async fn an_answer_is_a_turn() {
    let room = Room::new().await;
    let thread = thread_of(&room.lived("ask Which? | red | green").await);
    let path = format!("/v1/threads/{thread}/answer");
    let detail = room.post(&path, json!({"text": "blue"})).await.problem(422, "not-an-option");
    assert!(detail.contains("red, green"), "{detail}");
    for empty in ["", " "] {
        room.post(&path, json!({"text": empty})).await.problem(422, "invalid");
    }
    room.silence().await;
    let key = [("Idempotency-Key", "a"), ("X-Turnfold-User", "Ada")];
    let reply = room.post_with(&path, &key, json!({"text": "2"})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    assert_eq!(reply.json()["author"], "Ada");
    assert_eq!(room.rung().await, [thread]);
    let again = room.post_with(&path, &key, json!({"text": "2"})).await;
    assert_eq!(
        (&again.json()["id"], &again.headers["idempotency-replayed"]),
        (&reply.json()["id"], &"true".parse().unwrap())
    );
    room.post_with(&path, &key, json!({"text": "1"})).await.problem(409, "key-reused");
    room.live(thread).await;
    let turn = room.get(&format!("/v1/turns/{}", id_of(&reply.json()))).await.json();
    assert_eq!(turn["output"]["reply"], "Done: answered \"green\".");
}

#[tokio::test]
async fn an_answer_requires_an_open_question() {
    let room = Room::new().await;
    let idle = thread_of(&room.lived("echo hi").await);
    let failed = thread_of(&room.lived("fail now").await);
    let busy = thread_of(&room.probe("stream a").await);
    room.hear(busy).await;
    for thread in [idle, failed, busy] {
        room.post(&format!("/v1/threads/{thread}/answer"), json!({"text": "yes"}))
            .await
            .problem(409, "nothing-asked");
    }
    let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    room.post(&format!("/v1/threads/{nowhere}/answer"), json!({"text": "yes"}))
        .await
        .problem(404, "unknown-thread");
    assert_eq!(room.get("/v1/turns").await.json()["data"].as_array().unwrap().len(), 3, "no answer was kept");
}

async fn in_doubt(room: &Room) -> ThreadId {
    let turn = room.post("/v1/turns", json!({"strategy": "deed", "input": "go"})).await.json();
    room.live(thread_of(&turn)).await;
    room.silence().await;
    thread_of(&turn)
}

#[tokio::test]
async fn calls_in_doubt_are_settled_by_verdicts() {
    let room = Room::new().await;
    let thread = in_doubt(&room).await;
    let path = format!("/v1/threads/{thread}");
    let shown = room.get(&path).await.json();
    assert_eq!((&shown["status"], &shown["interrupt"]["kind"]), (&json!("interrupted"), &json!("in_doubt")));
    assert_eq!((&shown["interrupt"]["slot"], &shown["node"]), (&json!(0), &json!("act")));
    let detail = room.post(&format!("{path}/answer"), json!({"text": "skip"})).await.problem(409, "in-doubt");
    assert!(detail.contains("not for a message"), "{detail}");

    let settle = async |room: &Room, body: Value| {
        room.post_with(&format!("{path}/reconcile"), &[("X-Turnfold-User", "Ada")], body).await
    };
    assert!(
        settle(&room, json!({"slot": 5, "verdict": "skip"}))
            .await
            .problem(409, "not-in-doubt")
            .contains("0, 1")
    );
    let reply = settle(&room, json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}})).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.json()["interrupt"]["slot"], 1, "the other is still in doubt");
    let detail = settle(&room, json!({"slot": 0, "verdict": "skip"})).await.problem(409, "not-in-doubt");
    assert!(detail.contains("in doubt: 1"), "{detail}");
    assert_eq!(settle(&room, json!({"slot": 1, "verdict": "skip"})).await.json()["log_status"], "busy");
    let Event::Reconciled(event) = last(&room, thread).await else { panic!("no verdict") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(room.rung().await, [thread]);
    room.live(thread).await;
    let turn = room.get(&format!("/v1/turns?thread_id={thread}")).await.json()["data"][0].clone();
    assert_eq!(turn["status"], "completed");
    assert!(turn["output"]["reply"].as_str().unwrap().starts_with("sent / "), "{turn}");
    settle(&room, json!({"slot": 0, "verdict": "skip"})).await.problem(409, "not-in-doubt");
}

#[tokio::test]
async fn a_call_that_did_not_take_effect_is_attempted_again() {
    let room = Room::new().await;
    let thread = in_doubt(&room).await;
    let path = format!("/v1/threads/{thread}/reconcile");
    let reply = room.post(&path, json!({"slot": 1, "verdict": "did_not_happen"})).await;
    assert_eq!(reply.json()["log_status"], "busy");
    assert!(room.step(thread).await, "it is attempted, and lost again");
    assert_eq!(room.get(&format!("/v1/threads/{thread}")).await.json()["log_status"], "waiting");
    for nonsense in
        [json!({"slot": 1, "verdict": "maybe"}), json!({"slot": 1}), json!({"slot": -1, "verdict": "skip"})]
    {
        room.post(&path, nonsense).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn concurrent_verdicts_are_all_recorded() {
    let room = Room::new().await;
    let thread = in_doubt(&room).await;
    let path = format!("/v1/threads/{thread}/reconcile");
    let (one, two) = tokio::join!(
        room.post(&path, json!({"slot": 0, "verdict": "skip"})),
        room.post(&path, json!({"slot": 1, "verdict": "skip"}))
    );
    assert_eq!((one.status, two.status), (StatusCode::OK, StatusCode::OK), "who is not first looks again");
}
