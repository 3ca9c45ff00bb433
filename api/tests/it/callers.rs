//! Authors of what the log records: the key, its name and the claimed user are kept apart. An approval may need another key.

use std::time::{Duration, Instant};

use api::TenantRule;
use serde_json::{Value, json};
use shared::{CallerId, Event};
use uuid::Uuid;

use crate::{
    approval_strategy::Approval,
    batch_test::{BatchTest, form},
    keys::{ask, create, secret},
    test_api::{Reply, TestApi, id_of, key_ring, known_strategies, thread_of},
};

async fn api(strict: bool) -> TestApi {
    TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"])]);
        config.strategies = known_strategies().with(&Approval);
        config.tenant_rules.others.require_other_approver = strict;
    })
    .await
}

/// The author and the key of an event that has them.
fn caller(event: &Event) -> Option<(&str, Option<&CallerId>)> {
    let (actor, caller) = match event {
        Event::Opened(opened) => (&opened.actor, &opened.caller),
        Event::TurnStarted(started) => (&started.actor, &started.caller),
        Event::Reconciled(reconciled) => (&reconciled.actor, &reconciled.caller),
        Event::InputProvided(provided) => (&provided.actor, &provided.caller),
        Event::Retried(retried) => (&retried.actor, &retried.caller),
        Event::Cancelled(cancelled) => (&cancelled.actor, &cancelled.caller),
        Event::Forked(forked) => (&forked.actor, &forked.caller),
        Event::Rated(rated) => (&rated.actor, &rated.caller),
        Event::Asked(_)
        | Event::Attempted(_)
        | Event::Answered(_)
        | Event::AttemptFailed(_)
        | Event::Abandoned(_)
        | Event::InDoubt(_)
        | Event::TaskStarted(_)
        | Event::InputRequired(_)
        | Event::Summarised(_)
        | Event::Decided(_)
        | Event::WriteEnded(_)
        | Event::TakenOver(_)
        | Event::Failed(_) => return None,
    };
    Some((actor, caller.as_ref()))
}

#[tokio::test]
async fn the_log_keeps_the_key_its_name_and_the_claimed_user_apart() {
    let api = api(false).await;
    let key =
        create(&api, Some("acme"), json!({"name": "web shop", "scopes": ["submit", "read", "answer"]})).await;
    let id = CallerId { key: Some(id_of(&key)), subject: Some("web shop".to_owned()) };
    let bearer = format!("Bearer {}", secret(&key));
    let headers = [("authorization", bearer.as_str()), ("x-turnfold-user", "ada")];
    let post = async |path: &str, body: Value| {
        let reply = api.post_with(path, &headers, body).await;
        assert!(reply.status.is_success(), "{reply:?}");
        reply.json()
    };
    let callers_of = async |thread: Uuid| {
        let log = api.log_of(thread).await;
        log.iter()
            .filter_map(|event| Some((event.kind(), caller(event)?.0.to_owned(), caller(event)?.1.cloned())))
            .collect::<Vec<_>>()
    };
    let by = |kind: &'static str| (kind, "ada".to_owned(), Some(id.clone()));

    let turn = post("/v1/turns", json!({"strategy": "probe", "input": "ask Pay? | yes | no"})).await;
    let thread = thread_of(&turn);
    api.run_until_idle(thread).await;
    post(&format!("/v1/inbox/{thread}"), json!({"type": "respond", "args": "no"})).await;
    api.run_until_idle(thread).await;
    assert_eq!(callers_of(thread).await, [by("opened"), by("turn_started"), by("turn_started")]);
    post(&format!("/v1/turns/{}/rating", id_of(&turn)), json!({"rating": "good"})).await;
    assert_eq!(callers_of(thread).await.last(), Some(&by("rated")));

    let turn = post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await;
    api.run_until_idle(thread_of(&turn)).await;
    let verdict = json!({"slot": 0, "verdict": "skip"});
    let reconciled =
        api.post_with(&format!("/v1/threads/{}/reconcile", thread_of(&turn)), &headers, verdict).await;
    assert_eq!(reconciled.status, 200, "{reconciled:?}");
    post(&format!("/v1/turns/{}/cancel", id_of(&turn)), json!({})).await;
    let events = callers_of(thread_of(&turn)).await;
    assert_eq!(events[2..], [by("reconciled"), by("cancelled")]);

    let turn = post("/v1/turns", json!({"strategy": "probe", "input": "fail broken"})).await;
    api.run_until_idle(thread_of(&turn)).await;
    post(&format!("/v1/turns/{}/retry", id_of(&turn)), json!({})).await;
    assert_eq!(callers_of(thread_of(&turn)).await.last(), Some(&by("retried")));
    let fork = post(&format!("/v1/threads/{thread}/fork"), json!({"at": 1})).await;
    let fork = id_of(&fork).parse().unwrap();
    assert_eq!(callers_of(fork).await.last(), Some(&by("forked")));

    // A configured key has an id as well, which is not the key.
    let headers = [("authorization", "Bearer acme-key")];
    let turn =
        api.post_with("/v1/turns", &headers, json!({"strategy": "probe", "input": "echo hi"})).await.json();
    let events = callers_of(thread_of(&turn)).await;
    let key = events[0].2.as_ref().unwrap().key.as_deref().unwrap();
    assert!(key.starts_with("config-") && key.len() == 19 && events[0].1 == "api", "{events:?}");
    let open = TestApi::new().await;
    let turn = open.submit("echo hi").await;
    assert!(!open.log_of(thread_of(&turn)).await[0].payload().unwrap().contains("caller"));
}

#[tokio::test]
async fn an_approval_may_need_another_key() {
    for strict in [true, false] {
        let api = api(strict).await;
        let scopes = json!({"scopes": ["submit", "read", "answer"]});
        let [one, other] =
            [create(&api, Some("acme"), scopes.clone()).await, create(&api, Some("acme"), scopes).await];
        let post = async |key: &Value, path: &str, body: Value| -> Reply {
            ask(&api, Some(secret(key)), "POST", path, &body).await
        };
        let new = json!({"strategy": "approval", "input": "Go? | yes | no"});
        let turn = post(&one, "/v1/turns", new).await.json();
        let thread = thread_of(&turn);
        api.run_until_idle(thread).await;
        let forms = [
            ("inbox", json!({"type": "accept"})),
            ("answer", json!({"text": "yes"})),
            ("fork", json!({"answer": "yes"})),
            ("turns", json!({"thread_id": thread, "input": "yes"})),
        ];
        let path = |form: &str| match form {
            "inbox" => format!("/v1/inbox/{thread}"),
            "turns" => "/v1/turns".to_owned(),
            form => format!("/v1/threads/{thread}/{form}"),
        };
        if !strict {
            assert_eq!(post(&one, &path("answer"), json!({"text": "yes"})).await.status, 202);
            continue;
        }
        for (form, body) in &forms {
            let detail = post(&one, &path(form), body.clone()).await.problem(403, "forbidden");
            assert!(detail.contains("another"), "{form}: {detail}");
        }
        // A fork of the same request needs another key as well.
        let fork = post(&one, &path("fork"), json!({})).await.json();
        let answer = format!("/v1/threads/{}/answer", id_of(&fork));
        post(&one, &answer, json!({"text": "yes"})).await.problem(403, "forbidden");
        let answer =
            ask(&api, Some("operator-key"), "POST", &path("inbox"), &json!({"type": "accept"})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let refused = post(&other, &path("fork"), json!({"answer": "yes"})).await;
        assert_eq!(refused.status, 200, "{refused:?}");
    }
}

/// Each tenant has its own rule.
#[tokio::test]
async fn the_approvals_of_one_tenant_may_need_another_key() {
    let api = TestApi::with(|config| {
        config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"]), ("bell", &["bell-key"])]);
        config.strategies = known_strategies().with(&Approval);
        let strict = TenantRule { require_other_approver: true, ..TenantRule::default() };
        config.tenant_rules.named = [("acme".to_owned(), strict)].into();
    })
    .await;
    let post = async |key: &str, path: &str, body: Value| ask(&api, Some(key), "POST", path, &body).await;
    let ask_for_approval = async |key: &str| {
        let turn = post(key, "/v1/turns", json!({"strategy": "approval", "input": "Go? | yes | no"})).await;
        let thread = thread_of(&turn.json());
        api.run_until_idle(thread).await;
        thread
    };
    let [acme, bell] = [ask_for_approval("acme-key").await, ask_for_approval("bell-key").await];
    let inbox = |thread: Uuid| format!("/v1/inbox/{thread}");
    let accept = json!({"type": "accept"});
    post("acme-key", &inbox(acme), accept.clone()).await.problem(403, "forbidden");
    let message = json!({"thread_id": acme, "input": "yes"});
    post("acme-key", "/v1/turns", message).await.problem(403, "forbidden");
    assert_eq!(post("operator-key", &inbox(acme), accept.clone()).await.status, 202);
    let message = json!({"thread_id": bell, "input": "yes"});
    assert_eq!(post("bell-key", "/v1/turns", message).await.status, 202);
    // An operator's key that acts for the tenant is bound by the rule of the tenant.
    let headers = [("authorization", "Bearer operator-key"), ("x-turnfold-tenant", "acme")];
    let new = json!({"strategy": "approval", "input": "Go? | yes | no"});
    let thread = thread_of(&api.post_with("/v1/turns", &headers, new).await.json());
    api.run_until_idle(thread).await;
    api.post_with(&inbox(thread), &headers, accept).await.problem(403, "forbidden");
}

/// The lines of a batch run later, by turnfold itself. Their logs name the key that created the batch.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_line_keeps_the_key_that_created_the_batch() {
    let mut test = BatchTest::idle(|config| {
        config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"])]);
        config.strategies = known_strategies().with(&Approval);
        config.tenant_rules.others.require_other_approver = true;
    })
    .await;
    let api = &test.api;
    let key =
        create(api, Some("acme"), json!({"name": "mill", "scopes": ["submit", "read", "answer"]})).await;
    let bearer = format!("Bearer {}", secret(&key));
    let headers = [("authorization", bearer.as_str()), ("x-turnfold-user", "ada")];
    for (endpoint, body) in [
        ("/v1/turns", json!({"strategy": "approval", "input": "Go? | yes | no"})),
        (
            "/v1/chat/completions",
            json!({"model": "approval", "messages": [{"role": "user", "content": "Go?"}]}),
        ),
    ] {
        let line = json!({"custom_id": "c-1", "method": "POST", "url": endpoint, "body": body}).to_string();
        let mut upload = form("batch", line.as_bytes());
        upload.headers_mut().insert("authorization", bearer.parse().unwrap());
        let file = test.api.send(upload).await.json()["id"].clone();
        let batch = json!({"input_file_id": file, "endpoint": endpoint, "completion_window": "24h"});
        let batch = test.api.post_with("/v1/batches", &headers, batch).await;
        assert_eq!(batch.status, 200, "{batch:?}");
    }
    test.start_coordinator();
    test.start_worker();
    let began = Instant::now();
    let threads = loop {
        let threads = ask(&test.api, Some("operator-key"), "GET", "/v1/threads", &json!({})).await.json();
        let threads = threads["data"].as_array().unwrap().clone();
        if threads.len() == 2 && threads.iter().all(|thread| thread["status"] == "interrupted") {
            break threads;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{threads:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let id = Some(CallerId { key: Some(id_of(&key)), subject: Some("mill".to_owned()) });
    for thread in threads {
        let thread: Uuid = id_of(&thread).parse().unwrap();
        let log = test.api.log_of(thread).await;
        let callers: Vec<_> = log.iter().filter_map(caller).collect();
        assert_eq!(callers, [("ada", id.as_ref()); 2], "opened and started: {log:?}");
        // An approval therefore needs another key than that of the batch.
        let (path, accept) = (format!("/v1/threads/{thread}/answer"), json!({"text": "yes"}));
        ask(&test.api, Some(secret(&key)), "POST", &path, &accept).await.problem(403, "forbidden");
        assert_eq!(ask(&test.api, Some("acme-key"), "POST", &path, &accept).await.status, 202);
    }
}
