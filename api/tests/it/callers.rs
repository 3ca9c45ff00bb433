//! Authors of what the log records: the key, its name and the claimed user are kept apart. An approval may need another key.

use serde_json::{Value, json};
use shared::{CallerId, Event};
use uuid::Uuid;

use crate::{
    approval::Leave,
    keys::{ask, create, secret},
    test_api::{Reply, Room, id_of, key_ring, known, thread_of},
};

async fn room(strict: bool) -> Room {
    Room::with(|door| {
        door.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"])]);
        door.strategies = known().with(&Leave);
        door.require_other_approver = strict;
    })
    .await
}

fn caller(event: &Event) -> Option<(&str, Option<&CallerId>)> {
    let it = match event {
        Event::Opened(it) => (&it.actor, &it.caller),
        Event::TurnStarted(it) => (&it.actor, &it.caller),
        Event::Reconciled(it) => (&it.actor, &it.caller),
        Event::InputProvided(it) => (&it.actor, &it.caller),
        Event::Retried(it) => (&it.actor, &it.caller),
        Event::Cancelled(it) => (&it.actor, &it.caller),
        Event::Forked(it) => (&it.actor, &it.caller),
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
        | Event::Failed(_) => return None,
    };
    Some((it.0, it.1.as_ref()))
}

#[tokio::test]
async fn the_log_keeps_the_key_its_name_and_the_claimed_user_apart() {
    let room = room(false).await;
    let key =
        create(&room, Some("acme"), json!({"name": "web shop", "scopes": ["submit", "read", "answer"]}))
            .await;
    let id = CallerId { key: Some(id_of(&key)), subject: Some("web shop".to_owned()) };
    let bearer = format!("Bearer {}", secret(&key));
    let headers = [("authorization", bearer.as_str()), ("x-turnfold-user", "ada")];
    let post = async |path: &str, body: Value| {
        let reply = room.post_with(path, &headers, body).await;
        assert!(reply.status.is_success(), "{reply:?}");
        reply.json()
    };
    let of = async |thread: Uuid| {
        let log = room.log_of(thread).await;
        log.iter()
            .filter_map(|it| Some((it.kind(), caller(it)?.0.to_owned(), caller(it)?.1.cloned())))
            .collect::<Vec<_>>()
    };
    let by = |kind: &'static str| (kind, "ada".to_owned(), Some(id.clone()));

    let turn = post("/v1/turns", json!({"strategy": "probe", "input": "ask Pay? | yes | no"})).await;
    let thread = thread_of(&turn);
    room.live(thread).await;
    post(&format!("/v1/inbox/{thread}"), json!({"type": "respond", "args": "no"})).await;
    room.live(thread).await;
    assert_eq!(of(thread).await, [by("opened"), by("turn_started"), by("turn_started")]);

    let turn = post("/v1/turns", json!({"strategy": "deed", "input": "go"})).await;
    room.live(thread_of(&turn)).await;
    let verdict = json!({"slot": 0, "verdict": "skip"});
    let reconciled =
        room.post_with(&format!("/v1/threads/{}/reconcile", thread_of(&turn)), &headers, verdict).await;
    assert_eq!(reconciled.status, 200, "{reconciled:?}");
    post(&format!("/v1/turns/{}/cancel", id_of(&turn)), json!({})).await;
    let events = of(thread_of(&turn)).await;
    assert_eq!(events[2..], [by("reconciled"), by("cancelled")]);

    let turn = post("/v1/turns", json!({"strategy": "probe", "input": "fail broken"})).await;
    room.live(thread_of(&turn)).await;
    post(&format!("/v1/turns/{}/retry", id_of(&turn)), json!({})).await;
    assert_eq!(of(thread_of(&turn)).await.last(), Some(&by("retried")));
    let fork = post(&format!("/v1/threads/{thread}/fork"), json!({"at": 1})).await;
    let fork = id_of(&fork).parse().unwrap();
    assert_eq!(of(fork).await.last(), Some(&by("forked")));

    // A configured key has an id as well, which is not the key.
    let headers = [("authorization", "Bearer acme-key")];
    let turn =
        room.post_with("/v1/turns", &headers, json!({"strategy": "probe", "input": "echo hi"})).await.json();
    let events = of(thread_of(&turn)).await;
    let key = events[0].2.as_ref().unwrap().key.as_deref().unwrap();
    assert!(key.starts_with("config-") && key.len() == 19 && events[0].1 == "api", "{events:?}");
    let open = Room::new().await;
    let turn = open.probe("echo hi").await;
    assert!(!open.log_of(thread_of(&turn)).await[0].payload().unwrap().contains("caller"));
}

#[tokio::test]
async fn an_approval_may_need_another_key() {
    for strict in [true, false] {
        let room = room(strict).await;
        let scopes = json!({"scopes": ["submit", "read", "answer"]});
        let [one, other] =
            [create(&room, Some("acme"), scopes.clone()).await, create(&room, Some("acme"), scopes).await];
        let post = async |key: &Value, path: &str, body: Value| -> Reply {
            ask(&room, Some(secret(key)), "POST", path, &body).await
        };
        let new = json!({"strategy": "leave", "input": "Go? | yes | no"});
        let turn = post(&one, "/v1/turns", new).await.json();
        let thread = thread_of(&turn);
        room.live(thread).await;
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
            ask(&room, Some("operator-key"), "POST", &path("inbox"), &json!({"type": "accept"})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let refused = post(&other, &path("fork"), json!({"answer": "yes"})).await;
        assert_eq!(refused.status, 200, "{refused:?}");
    }
}
