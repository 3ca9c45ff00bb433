//! Cancelling, retrying, answering and reconciling.

use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::{Event, TurnKind, TurnStarted};
use store::ThreadId;

use crate::test_api::{TestApi, id_of, thread_of};

async fn act(api: &TestApi, turn: &Value, action: &str) -> crate::test_api::Reply {
    let path = format!("/v1/turns/{}/{action}", id_of(turn));
    api.post_with(&path, &[("X-Turnfold-User", "Ada")], Value::Null).await
}

async fn last(api: &TestApi, thread: ThreadId) -> Event {
    api.backends.store.load(thread).await.unwrap().1.pop().unwrap().event
}

#[tokio::test]
async fn a_cancelled_queued_turn_never_starts() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    let reply = act(&api, &turn, "cancel").await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.json()["status"], "cancelled");
    assert!(reply.json()["output"].is_null());
    assert!(!api.start_turn(thread_of(&turn)).await);
    let detail = act(&api, &turn, "cancel").await.problem(409, "already-ended");
    assert!(detail.contains("cancelled"), "{detail}");
}

#[tokio::test]
async fn a_waiting_request_returns_when_the_turn_is_cancelled() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    let path = format!("/v1/turns/{}?wait=60", id_of(&turn));
    let both = async { tokio::join!(api.get(&path), act(&api, &turn, "cancel")) };
    let (waited, _) = tokio::time::timeout(std::time::Duration::from_secs(20), both).await.unwrap();
    assert_eq!(waited.json()["status"], "cancelled");
}

#[tokio::test]
async fn a_running_turn_is_cancelled_with_an_event() {
    let api = TestApi::new().await;
    let turn = api.submit("stream a b; echo c").await;
    let thread = thread_of(&turn);
    let next = api.post("/v1/turns", json!({"thread_id": thread, "input": "echo next"})).await.json();
    api.start_turn(thread).await;
    api.step(thread).await;
    api.ack_all_jobs().await;
    let cancelled = act(&api, &turn, "cancel").await.json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["output"]["messages"], json!([]));
    let Event::Cancelled(event) = last(&api, thread).await else { panic!("no cancellation") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(api.enqueued().await, [thread], "another turn waits for the thread");
    api.run_until_idle(thread).await;
    assert_eq!(api.get(&format!("/v1/turns/{}", id_of(&next))).await.json()["status"], "completed");
    act(&api, &turn, "cancel").await.problem(409, "already-ended");
}

#[tokio::test]
async fn interrupted_and_failed_turns_can_be_cancelled() {
    let api = TestApi::new().await;
    for input in ["ask Well?", "fail now"] {
        let turn = api.run_turn(input).await;
        assert_eq!(act(&api, &turn, "cancel").await.json()["status"], "cancelled", "{input}");
        let thread = api.get(&format!("/v1/threads/{}", thread_of(&turn))).await.json();
        assert_eq!((&thread["status"], &thread["log_status"]), (&json!("idle"), &json!("idle")));
    }
}

#[tokio::test]
async fn a_turn_cannot_be_cancelled_after_its_thread_has_continued() {
    let api = TestApi::new().await;
    let asked = api.run_turn("ask Well?").await;
    let thread = thread_of(&asked);
    let answer = api.post(&format!("/v1/threads/{thread}/answer"), json!({"text": "yes"})).await.json();
    api.start_turn(thread).await;
    act(&api, &asked, "cancel").await.problem(409, "already-ended");
    let now = api.get(&format!("/v1/turns/{}", id_of(&answer))).await.json();
    assert_eq!(now["status"], "running", "the running turn is another one and is not cancelled");
    api.run_until_idle(thread).await;
    act(&api, &asked, "cancel").await.problem(409, "already-ended");
    let done = api.run_turn("echo hi").await;
    act(&api, &done, "cancel").await.problem(409, "already-ended");
    let unknown = json!({"id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"});
    act(&api, &unknown, "cancel").await.problem(404, "unknown-turn");
    act(&api, &unknown, "retry").await.problem(404, "unknown-turn");
}

#[tokio::test]
async fn many_concurrent_cancellations_are_one() {
    let api = TestApi::new().await;
    let turn = api.submit("stream a b").await;
    api.start_turn(thread_of(&turn)).await;
    let replies = futures::future::join_all((0..8).map(|_| act(&api, &turn, "cancel"))).await;
    let is_cancelled = |reply: &&crate::test_api::Reply| reply.status == StatusCode::OK;
    assert!(replies.iter().any(|reply| is_cancelled(&reply)));
    let log = api.log_of(thread_of(&turn)).await;
    assert_eq!(log.iter().filter(|event| matches!(event, Event::Cancelled(_))).count(), 1);
    replies
        .iter()
        .filter(|reply| reply.status != StatusCode::OK)
        .for_each(|reply| drop(reply.problem(409, "already-ended")));
}

#[tokio::test]
async fn a_failed_turn_is_retried() {
    let api = TestApi::new().await;
    let turn = api.run_turn("fail no paper left").await;
    api.ack_all_jobs().await;
    let retried = act(&api, &turn, "retry").await.json();
    assert_eq!((&retried["status"], &retried["error"]), (&json!("running"), &Value::Null));
    let Event::Retried(event) = last(&api, thread_of(&turn)).await else { panic!("no retry") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(api.enqueued().await, [thread_of(&turn)]);
    act(&api, &turn, "retry").await.problem(409, "not-failed");
}

#[tokio::test]
async fn only_the_last_failed_turn_is_retried() {
    let api = TestApi::new().await;
    act(&api, &api.run_turn("echo hi").await, "retry").await.problem(409, "not-failed");
    let first = api.run_turn("fail once").await;
    let second =
        api.post("/v1/turns", json!({"thread_id": first["thread_id"], "input": "fail twice"})).await.json();
    api.run_until_idle(thread_of(&second)).await;
    let detail = act(&api, &first, "retry").await.problem(409, "not-failed");
    assert!(detail.contains("has continued"), "{detail}");
    let refused = api.submit("echo hi").await;
    api.backends.store.refuse_queued(id_of(&refused).parse().unwrap(), "nothing was asked").await.unwrap();
    let detail = act(&api, &refused, "retry").await.problem(409, "not-failed");
    assert!(detail.contains("never started"), "{detail}");
}

#[tokio::test]
async fn an_answer_is_a_turn() {
    let api = TestApi::new().await;
    let thread = thread_of(&api.run_turn("ask Which? | red | green").await);
    let path = format!("/v1/threads/{thread}/answer");
    let detail = api.post(&path, json!({"text": "blue"})).await.problem(422, "not-an-option");
    assert!(detail.contains("red, green"), "{detail}");
    for empty in ["", " "] {
        api.post(&path, json!({"text": empty})).await.problem(422, "invalid");
    }
    api.ack_all_jobs().await;
    let key = [("Idempotency-Key", "a"), ("X-Turnfold-User", "Ada")];
    let reply = api.post_with(&path, &key, json!({"text": "2"})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    assert_eq!(reply.json()["author"], "Ada");
    assert_eq!(api.enqueued().await, [thread]);
    let again = api.post_with(&path, &key, json!({"text": "2"})).await;
    assert_eq!(
        (&again.json()["id"], &again.headers["idempotency-replayed"]),
        (&reply.json()["id"], &"true".parse().unwrap())
    );
    api.post_with(&path, &key, json!({"text": "1"})).await.problem(409, "key-reused");
    api.run_until_idle(thread).await;
    let turn = api.get(&format!("/v1/turns/{}", id_of(&reply.json()))).await.json();
    assert_eq!(turn["output"]["reply"], "Done: answered \"green\".");
}

#[tokio::test]
async fn an_answer_requires_an_open_question() {
    let api = TestApi::new().await;
    let idle = thread_of(&api.run_turn("echo hi").await);
    let failed = thread_of(&api.run_turn("fail now").await);
    let busy = thread_of(&api.submit("stream a").await);
    api.start_turn(busy).await;
    for thread in [idle, failed, busy] {
        api.post(&format!("/v1/threads/{thread}/answer"), json!({"text": "yes"}))
            .await
            .problem(409, "nothing-asked");
    }
    let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    api.post(&format!("/v1/threads/{nowhere}/answer"), json!({"text": "yes"}))
        .await
        .problem(404, "unknown-thread");
    assert_eq!(api.get("/v1/turns").await.json()["data"].as_array().unwrap().len(), 3, "no answer was kept");
}

async fn in_doubt(api: &TestApi) -> ThreadId {
    let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    api.run_until_idle(thread_of(&turn)).await;
    api.ack_all_jobs().await;
    thread_of(&turn)
}

#[tokio::test]
async fn calls_in_doubt_are_settled_by_verdicts() {
    let api = TestApi::new().await;
    let thread = in_doubt(&api).await;
    let path = format!("/v1/threads/{thread}");
    let shown = api.get(&path).await.json();
    assert_eq!((&shown["status"], &shown["interrupt"]["kind"]), (&json!("interrupted"), &json!("in_doubt")));
    assert_eq!((&shown["interrupt"]["slot"], &shown["node"]), (&json!(0), &json!("act")));
    let detail = api.post(&format!("{path}/answer"), json!({"text": "skip"})).await.problem(409, "in-doubt");
    assert!(detail.contains("not for a message"), "{detail}");

    let settle = async |api: &TestApi, body: Value| {
        api.post_with(&format!("{path}/reconcile"), &[("X-Turnfold-User", "Ada")], body).await
    };
    assert!(
        settle(&api, json!({"slot": 5, "verdict": "skip"}))
            .await
            .problem(409, "not-in-doubt")
            .contains("0, 1")
    );
    let reply = settle(&api, json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}})).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.json()["interrupt"]["slot"], 1, "the other is still in doubt");
    let detail = settle(&api, json!({"slot": 0, "verdict": "skip"})).await.problem(409, "not-in-doubt");
    assert!(detail.contains("in doubt: 1"), "{detail}");
    assert_eq!(settle(&api, json!({"slot": 1, "verdict": "skip"})).await.json()["log_status"], "busy");
    let Event::Reconciled(event) = last(&api, thread).await else { panic!("no verdict") };
    assert_eq!(event.actor, "Ada");
    assert_eq!(api.enqueued().await, [thread]);
    api.run_until_idle(thread).await;
    let turn = api.get(&format!("/v1/turns?thread_id={thread}")).await.json()["data"][0].clone();
    assert_eq!(turn["status"], "completed");
    assert!(turn["output"]["reply"].as_str().unwrap().starts_with("sent / "), "{turn}");
    settle(&api, json!({"slot": 0, "verdict": "skip"})).await.problem(409, "not-in-doubt");
}

#[tokio::test]
async fn a_call_that_did_not_take_effect_is_attempted_again() {
    let api = TestApi::new().await;
    let thread = in_doubt(&api).await;
    let path = format!("/v1/threads/{thread}/reconcile");
    let reply = api.post(&path, json!({"slot": 1, "verdict": "did_not_happen"})).await;
    assert_eq!(reply.json()["log_status"], "busy");
    assert!(api.step(thread).await, "it is attempted, and its answer is lost again");
    assert_eq!(api.get(&format!("/v1/threads/{thread}")).await.json()["log_status"], "waiting");
    for nonsense in
        [json!({"slot": 1, "verdict": "maybe"}), json!({"slot": 1}), json!({"slot": -1, "verdict": "skip"})]
    {
        api.post(&path, nonsense).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn concurrent_verdicts_are_all_recorded() {
    let api = TestApi::new().await;
    let thread = in_doubt(&api).await;
    let path = format!("/v1/threads/{thread}/reconcile");
    let (one, two) = tokio::join!(
        api.post(&path, json!({"slot": 0, "verdict": "skip"})),
        api.post(&path, json!({"slot": 1, "verdict": "skip"}))
    );
    assert_eq!((one.status, two.status), (StatusCode::OK, StatusCode::OK), "the second one tries again");
}

/// Returns the kinds of a log's turns, and the reply of its last one.
fn stops(log: &[Event]) -> (Vec<TurnKind>, String) {
    let started = log
        .iter()
        .filter_map(|event| if let Event::TurnStarted(started) = event { Some(started) } else { None });
    let started: Vec<_> = started.collect();
    let reply = |stop: &&&TurnStarted| stop.kind == TurnKind::Stop;
    let reply = started.iter().find(reply).and_then(|stop| stop.messages.last()).map(|it| it.content.clone());
    (started.iter().map(|turn| turn.kind).collect(), reply.unwrap_or_default())
}

#[tokio::test]
async fn a_message_that_says_stop_cancels_the_turn_under_way_and_comes_next() {
    for (text, policy, report) in [
        ("Stop, please!", "auto", "Stopped. Nothing more is carried out. Nothing was changed."),
        ("vergiss es", "replan", "Angehalten. Es wird nichts mehr ausgeführt. Es wurde nichts geändert."),
        ("arrête", "answer", "Arrêté. Plus rien ne sera exécuté. Rien n'a été modifié."),
    ] {
        let api = TestApi::new().await;
        let turn = api.submit("stream a b; echo c").await;
        let thread = thread_of(&turn);
        api.start_turn(thread).await;
        let send = async |text: &str, policy: &str| {
            api.post("/v1/turns", json!({"thread_id": thread, "input": text, "policy": policy})).await.json()
        };
        send("echo later", "auto").await;
        send("do not stop", "auto").await;
        let status = async |turn: &Value| api.get(&format!("/v1/turns/{}", id_of(turn))).await.json();
        assert_eq!(status(&turn).await["status"], "running");
        let stop = send(text, policy).await;
        assert_eq!(status(&turn).await["status"], "cancelled", "{text}");
        api.run_until_idle(thread).await;
        let stop = status(&stop).await;
        assert_eq!(stop["output"]["reply"], report);
        assert_eq!((&stop["status"], &stop["outcome"]), (&json!("completed"), &json!("answered")));
        let (kinds, _) = stops(&api.log_of(thread).await);
        assert_eq!(kinds, [TurnKind::New, TurnKind::Stop, TurnKind::New, TurnKind::New]);
    }
}

#[tokio::test]
async fn stop_during_a_doubt_ends_the_turn_and_names_the_call() {
    let api = TestApi::new().await;
    let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    let thread = thread_of(&turn);
    api.run_until_idle(thread).await;
    assert!(matches!(api.log(thread).await.thread().status(), shared::RunStatus::Waiting(_)));
    let stop = api.post("/v1/turns", json!({"thread_id": thread, "input": "forget that"})).await.json();
    api.run_until_idle(thread).await;
    let stop = api.get(&format!("/v1/turns/{}", id_of(&stop))).await.json();
    let reply = stop["output"]["reply"].as_str().unwrap();
    assert!(reply.contains("Not known whether it happened, or still happens:\n- post.send"), "{reply}");
}

struct NoWorld;

#[async_trait::async_trait]
impl world::World for NoWorld {
    async fn perform(
        &self,
        _: &dyn shared::DynThread,
        context: &world::RequestContext<'_>,
    ) -> world::Outcome {
        panic!("{} is sent after the stop", context.due.request)
    }
}

/// The API stored the message and died before it cancelled the turn.
#[tokio::test]
async fn no_write_is_sent_after_a_stop_was_stored() {
    let api = TestApi::new().await;
    let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    let thread = thread_of(&turn);
    api.start_turn(thread).await;
    let messages = vec![shared::Message::user("stop")];
    let stop = store::NewTurn::of(store::Opening::Existing(thread), messages, "Ada".to_owned());
    api.backends.store.submit(stop).await.unwrap();
    let worker = worker::StepRunner {
        parts: api.backends.clone(),
        strategies: crate::test_api::known_strategies(),
        world: std::sync::Arc::new(NoWorld),
        backoff: worker::Backoff::default(),
        admission: worker::RequestAdmission::default(),
        name: "w".to_owned(),
    };
    for _ in 0..3 {
        worker.run_job(thread, &tokio::sync::Notify::new()).await.unwrap();
    }
    let log = api.log_of(thread).await;
    let (kinds, reply) = stops(&log);
    assert_eq!(kinds, [TurnKind::New, TurnKind::Stop]);
    assert_eq!(reply, "Stopped. Nothing more is carried out. Nothing was changed.");
    assert!(!log.iter().any(|event| matches!(event, Event::Attempted(_))), "{log:?}");
}
