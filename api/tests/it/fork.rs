//! Forks: the copied events stay, and changes apply from there on.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{Budget, Event, RunStatus};
use store::{DryRun, ThreadId};
use threads::Log as _;

use crate::test_api::{TestApi, id_of, thread_of};

async fn fork(api: &TestApi, thread: ThreadId, body: Value) -> Value {
    let reply = api.post(&format!("/v1/threads/{thread}/fork"), body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn id(thread: &Value) -> ThreadId {
    thread["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_fork_can_give_another_answer() {
    let api = TestApi::new().await;
    let turn = api.run_turn("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    api.post(&format!("/v1/threads/{source}/answer"), json!({"text": "red"})).await;
    api.run_until_idle(source).await;
    let before = api.backends.store.stored(source, 0, 99).await.unwrap();

    let forked = fork(&api, source, json!({"at": asked, "answer": "green"})).await;
    let thread = id(&forked);
    let hash = hex::encode(before[usize::try_from(asked).unwrap()].hash);
    assert_eq!(forked["forked"], json!({"thread_id": source, "seq": asked, "hash": hash}));
    api.run_until_idle(thread).await;
    let messages = |thread: &Value| thread["messages"].to_string();
    let (in_source, in_fork) = (
        api.get(&format!("/v1/threads/{source}")).await.json(),
        api.get(&format!("/v1/threads/{thread}")).await.json(),
    );
    assert!(messages(&in_source).contains("red") && messages(&in_fork).contains("green"), "{in_fork}");
    assert_eq!(api.backends.store.stored(source, 0, 99).await.unwrap(), before, "the source is unchanged");
    for check in ["verify", "replay"] {
        let checked = api.get(&format!("/v1/threads/{thread}/{check}")).await.json();
        assert_eq!(checked["ok"], true, "{check}: {checked}");
    }
    // The turns of the fork have their own ids, and its rows follow from its log.
    let turns = api.get(&format!("/v1/turns?thread_id={thread}")).await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 2);
    assert!(turns["data"].as_array().unwrap().iter().all(|copy| copy["id"] != id_of(&turn)));
    let scan = store::ThreadScan::of(thread, 1);
    assert!(
        threads::rebuild(&api.backends.store, &api.strategies, &scan, DryRun::Yes)
            .await
            .unwrap()
            .found
            .is_empty()
    );
    // A fork of a fork names its direct source.
    let again = fork(&api, thread, json!({})).await;
    assert_eq!(again["forked"]["thread_id"], json!(thread));
}

#[tokio::test]
async fn changes_apply_from_the_fork_on() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo a; echo b").await;
    let source = thread_of(&turn);
    let decided =
        api.log_of(source).await.iter().position(|event| matches!(event, Event::Decided(_))).unwrap();
    let forked = fork(&api, source, json!({"at": decided, "config": {"padding": 3}})).await;
    assert_eq!(forked["log_status"], "busy", "the turn that was running in the source is running here");
    assert!(api.enqueued().await.contains(&id(&forked)));
    let state = |at: usize| format!("/v1/threads/{}/state?at={at}", id(&forked));
    let config = |at: usize| {
        let api = &api;
        async move { api.get(&state(at)).await.json()["config"]["padding"].clone() }
    };
    assert_eq!((config(decided).await, config(decided + 1).await), (json!(0), json!(3)));
    api.run_until_idle(id(&forked)).await;
    let end = api.get(&format!("/v1/threads/{}/state", id(&forked))).await.json();
    assert_eq!(end["state"]["done"], json!(["a", "b"]));
}

#[tokio::test]
async fn a_write_in_progress_is_in_doubt_and_not_repeated() {
    let api = TestApi::new().await;
    let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    let source = thread_of(&turn);
    api.run_until_idle(source).await;
    let log = api.log_of(source).await;
    let attempted = log.iter().rposition(|event| matches!(event, Event::Attempted(_))).unwrap();
    let forked = fork(&api, source, json!({"at": attempted})).await;
    let thread = id(&forked);
    let log = api.log_of(thread).await;
    let kinds: Vec<&str> = log[attempted + 1..].iter().map(Event::kind).collect();
    assert_eq!(kinds, ["forked", "in_doubt", "in_doubt"]);
    assert_eq!(forked["interrupt"]["kind"], "in_doubt");
    let body = json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}});
    let reported = api.post(&format!("/v1/threads/{thread}/reconcile"), body).await;
    assert_eq!(reported.status, 200, "{reported:?}");
}

#[tokio::test]
async fn a_fork_of_a_failed_thread_is_failed() {
    let api = TestApi::new().await;
    let turn = api.run_turn("fail the disk is full").await;
    let source = thread_of(&turn);
    assert!(matches!(api.log(source).await.thread().status(), RunStatus::Failed { .. }));
    let forked = fork(&api, source, json!({})).await;
    assert_eq!((&forked["log_status"], &forked["node"]), (&json!("busy"), &json!("fail")));
    // The rows agree: a worker ignores a thread whose turn has ended according to them.
    assert!(api.backends.store.running(id(&forked)).await.unwrap().is_some());
}

#[tokio::test]
async fn invalid_changes_are_named() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let path = format!("/v1/threads/{}/fork", thread_of(&turn));
    let wrong = BTreeMap::from([
        ("config: ", json!({"config": {"model": "x"}})),
        ("facts: not a fact of strategy probe", json!({"facts": ["nonsense"]})),
        ("prompts: nodes: there is no node \"plan\"", json!({"prompts": {"plan": "hi"}})),
        ("event 99 does not exist yet", json!({"at": 99})),
    ]);
    for (message, body) in wrong {
        let detail = api.post(&path, body).await.problem(422, "invalid");
        assert!(detail.contains(message), "{detail}");
    }
    let busy = json!({"at": 1, "answer": "hi"});
    api.post(&path, busy).await.problem(409, "nothing-asked");
    let nowhere = format!("/v1/threads/{}/fork", uuid::Uuid::nil());
    api.post(&nowhere, json!({})).await.problem(404, "unknown-thread");
    assert_eq!(
        api.get("/v1/threads").await.json()["data"].as_array().unwrap().len(),
        1,
        "nothing was created"
    );
}

#[tokio::test]
async fn threads_are_compared_and_decisions_explained() {
    let api = TestApi::new().await;
    let turn = api.run_turn("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    let why = api.get(&format!("/v1/threads/{source}/why")).await.json();
    assert_eq!(
        (&why["decision"]["seq"], &why["decision"]["to"]),
        (&json!(asked), &json!("a person")),
        "{why}"
    );
    assert_eq!((&why["status"], &why["question"]), (&json!("waiting"), &json!("Which colour?")));
    api.get(&format!("/v1/threads/{source}/why?at=99")).await.problem(422, "invalid");

    api.post(&format!("/v1/threads/{source}/answer"), json!({"text": "red"})).await;
    api.run_until_idle(source).await;
    let forked = fork(&api, source, json!({"at": asked, "answer": "green"})).await;
    api.run_until_idle(id(&forked)).await;
    let diff = api.get(&format!("/v1/threads/{source}/diff?with={}", id(&forked))).await.json();
    let differ = |row: &Value| row["left"].as_u64().is_none_or(|left| asked < left);
    assert!(diff["rows"].as_array().unwrap().iter().all(differ), "copied events are the same: {diff}");
    assert_eq!((&diff["split"]["left"], &diff["split"]["right"]), (&json!(asked + 1), &json!(asked + 2)));
    let started = diff["rows"].as_array().unwrap().iter().find(|row| row["text"] == "turn_started").unwrap();
    assert!(started["differs"][0]["left"].as_str().unwrap().contains("red"), "{started}");
    let same = api.get(&format!("/v1/threads/{source}/diff?with={source}")).await.json();
    assert_eq!((&same["split"], &same["rows"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn a_repeated_fork_request_returns_the_same_fork() {
    let api = TestApi::new().await;
    let turn = api.run_turn("ask Which colour? | red | green").await;
    let source = thread_of(&turn);
    let asked = turn["ended_seq"].as_u64().unwrap();
    let path = format!("/v1/threads/{source}/fork");
    let body = json!({"at": asked, "answer": "green"});
    let key = [("idempotency-key", "what if green")];
    let first = api.post_with(&path, &key, body.clone()).await;
    assert_eq!((first.status.as_u16(), first.headers.get("idempotency-replayed")), (200, None), "{first:?}");
    let thread = id(&first.json());
    assert!(api.enqueued().await.contains(&thread));
    api.ack_all_jobs().await;
    let again = api.post_with(&path, &key, body.clone()).await;
    assert_eq!((again.headers["idempotency-replayed"].as_bytes(), id(&again.json())), (&b"true"[..], thread));
    assert!(api.enqueued().await.is_empty(), "it was enqueued when it was created");
    api.run_until_idle(thread).await;
    let again = api.post_with(&path, &key, body.clone()).await.json();
    assert_eq!(
        (id(&again), &again["log_status"]),
        (thread, &json!("idle")),
        "the response shows the present state"
    );
    let turns = api.get(&format!("/v1/turns?thread_id={thread}")).await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 2, "the answer is given once: {turns}");

    api.post_with(&path, &key, json!({"at": asked, "answer": "red"})).await.problem(409, "key-reused");
    let of_fork = format!("/v1/threads/{thread}/fork");
    api.post_with(&of_fork, &key, body.clone()).await.problem(409, "key-reused");
    api.post_with(&path, &[("idempotency-key", "")], body.clone()).await.problem(400, "malformed");
    assert_ne!(id(&api.post(&path, body).await.json()), thread, "without a key it is another fork");
    assert_eq!(api.get("/v1/threads").await.json()["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_known_fork_is_returned_even_if_too_many_turns_are_queued() {
    let api = TestApi::with(|config| config.waiting_max = 2).await;
    let source = thread_of(&api.run_turn("echo hi").await);
    let path = format!("/v1/threads/{source}/fork");
    let key = [("idempotency-key", "once")];
    let thread = id(&api.post_with(&path, &key, json!({})).await.json());
    api.post(&path, json!({})).await.problem(429, "too-many-wait");
    assert_eq!(id(&api.post_with(&path, &key, json!({})).await.json()), thread);
}

#[tokio::test]
async fn a_changed_budget_is_completed_by_that_of_the_operator() {
    let budget = |limits: Value| serde_json::from_value::<Budget>(limits).unwrap();
    let most = budget(json!({"turn": {"tokens": 1000}, "thread": {"usd": 2.0}}));
    let api = TestApi::with(|config| config.budget = most.clone()).await;
    let body = json!({"strategy": "probe", "input": "echo a", "budget": {"turn": {"tokens": 10}}});
    let source = thread_of(&api.post("/v1/turns", body).await.json());
    api.run_until_idle(source).await;
    let forked = |body: Value| {
        let api = &api;
        async move {
            let thread = id(&fork(api, source, body).await);
            let log = api.log_of(thread).await;
            log.into_iter()
                .find_map(|event| if let Event::Forked(forked) = event { Some(forked.budget) } else { None })
        }
    };
    let wider = forked(json!({"budget": {"turn": {"tokens": 5000, "usd": 1.0}}})).await.unwrap();
    assert_eq!(wider, Some(budget(json!({"turn": {"tokens": 5000, "usd": 1.0}, "thread": {"usd": 2.0}}))));
    assert_eq!(forked(json!({"budget": {}})).await.unwrap(), Some(most.clone()), "the operator's budget");
    assert_eq!(forked(json!({})).await.unwrap(), None, "unchanged");
    let path = format!("/v1/threads/{source}/fork");
    api.post(&path, json!({"budget": {"turn": {"token": 5}}})).await.problem(422, "invalid");
}

/// The cost of a model without a price is unknown, so a budget in dollars could not hold.
#[tokio::test]
async fn a_budget_in_dollars_needs_the_prices_of_all_models() {
    let api = TestApi::with(|config| {
        config.priced_models = Some(vec!["x/m".to_owned(), "script/*".to_owned()]);
    })
    .await;
    let turn = |model: &str, budget: Value| json!({"strategy": "planner", "input": "hi", "config": {"model": model}, "budget": budget});
    for scope in ["turn", "thread"] {
        let refused = api.post("/v1/turns", turn("x/n", json!({scope: {"usd": 1.0}}))).await;
        let hint = refused.json()["hint"].as_str().unwrap_or_default().to_owned();
        assert!(hint.contains("providers.x.prices.\"n\""), "{hint}");
        assert_eq!(
            refused.problem(422, "invalid"),
            format!("budget.{scope}.usd: the model \"x/n\" of model has no price, so its cost is not known")
        );
    }
    for (model, budget) in [
        ("x/n", json!({"turn": {"tokens": 5}})),
        ("x/m", json!({"turn": {"usd": 1.0}})),
        ("script/any", json!({"thread": {"usd": 1.0}})),
    ] {
        let reply = api.post("/v1/turns", turn(model, budget)).await;
        assert!(reply.status.is_success(), "{reply:?}");
    }
    let source = thread_of(&api.post("/v1/turns", turn("x/n", json!({}))).await.json());
    let path = format!("/v1/threads/{source}/fork");
    api.post(&path, json!({"budget": {"turn": {"usd": 1.0}}})).await.problem(422, "invalid");
    let reply = api.post(&path, json!({"budget": {"turn": {"usd": 1.0}}, "config": {"model": "x/m"}})).await;
    assert!(reply.status.is_success(), "{reply:?}");
}
