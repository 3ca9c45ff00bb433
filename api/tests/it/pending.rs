//! Reasons why turns are not running, and the limit of queued turns.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use queue::{
    BlockReason, BlockedBy, Lane, MAX_LISTED, MemoryQueue, Priority, Queue as _, Schedule, clock,
    rate_limits::MAX_PAUSE,
};
use serde_json::{Value, json};
use shared::PauseKind;
use store::{Pause, ThreadId};

use crate::test_api::{TestApi, id_of, thread_of};

async fn groups(api: &TestApi) -> BTreeMap<String, (u64, Value)> {
    let page = api.get("/v1/queue").await.json();
    let groups = page["groups"].as_array().unwrap_or_else(|| panic!("{page}"));
    let group = |group: &Value| {
        (
            group["cause"].as_str().unwrap().to_owned(),
            (group["turns"].as_u64().unwrap(), group["detail"].clone()),
        )
    };
    let all: BTreeMap<_, _> = groups.iter().map(group).collect();
    assert_eq!(all.len(), groups.len(), "one group for each cause: {page}");
    all
}

/// Claims all jobs and blocks one thread for the given reason.
async fn block_thread(api: &TestApi, thread: ThreadId, why: BlockReason) {
    loop {
        let jobs = api.backends.queue.claim(1.into()).await.unwrap();
        let job = jobs.first().unwrap_or_else(|| panic!("{thread} has no job"));
        if job.thread == thread {
            let next = Schedule::Blocked { after: MAX_PAUSE, reason: why.clone() };
            assert!(api.backends.queue.ack(job, Some(next)).await.unwrap());
            return;
        }
        api.backends.queue.ack(job, Some(Schedule::Now)).await.unwrap();
    }
}

#[tokio::test]
async fn every_pending_turn_has_a_reason() {
    let api = TestApi::new().await;
    assert_eq!(api.get("/v1/queue").await.json()["groups"], json!([]));
    api.run_turn("echo over").await;
    api.run_turn("ask Well?").await;
    api.ack_all_jobs().await;
    let runs = api.submit("echo runs").await;
    let taken = api.backends.queue.claim(1.into()).await.unwrap();
    assert_eq!(taken[0].thread, thread_of(&runs));
    api.post("/v1/turns", json!({"thread_id": runs["thread_id"], "input": "echo behind"})).await;
    let second = api.backends.queue.claim(1.into()).await.unwrap().remove(0);
    api.backends.queue.ack(&second, None).await.unwrap();
    api.post("/v1/turns", json!({"strategy": "probe", "input": "echo", "delay_seconds": 3_600})).await;
    for why in [
        BlockedBy::Limit.because("model openai/gpt-4o is at its 20 requests at once"),
        BlockedBy::Provider.because("model a/b limits its requests: slow down"),
        BlockedBy::Retry.because("the endpoint is overloaded"),
        BlockedBy::Pause.because("model a/b is paused by Ada: dear"),
        BlockedBy::Worker.because("a worker whose token was lost has its job"),
    ] {
        let turn = api.submit("echo held").await;
        block_thread(&api, thread_of(&turn), why).await;
    }
    let lost = api.submit("echo lost").await;
    let job = api.backends.queue.claim(1.into()).await.unwrap().remove(0);
    assert_eq!(job.thread, thread_of(&lost));
    api.backends.queue.ack(&job, None).await.unwrap();
    let waits = [api.submit("echo waits").await, api.submit("echo waits too").await];

    let all = groups(&api).await;
    assert_eq!(all["worker"].1, "tenant default, normal");
    let reported: Vec<_> = all.iter().map(|(cause, (turns, _))| (cause.as_str(), *turns)).collect();
    assert_eq!(
        reported,
        [
            ("behind", 1),
            ("limit", 1),
            ("not_due", 1),
            ("not_enqueued", 1),
            ("paused", 1),
            ("person", 1),
            ("provider", 1),
            ("retry", 1),
            ("worker", 2)
        ]
    );
    assert_eq!(all["retry"].1, "the endpoint is overloaded");
    let page = api.get("/v1/queue?limit=2").await.json();
    assert_eq!((&page["has_more"], &page["not_inspected"]), (&json!(true), &json!(0)));
    let [first, second] = [0, 1].map(|nth| page["data"][nth].clone());
    assert_eq!((&first["turn_id"], &first["place"]), (&json!(id_of(&waits[0])), &json!(1)));
    assert_eq!((&second["turn_id"], &second["place"]), (&json!(id_of(&waits[1])), &json!(2)));

    let pause = Pause::new(PauseKind::Strategy, "probe", "spring", "Ada");
    api.backends.store.pause(&pause, None).await.unwrap();
    let all = groups(&api).await;
    assert_eq!(all["behind"].0 + all["not_due"].0 + all["person"].0, 3);
    assert!(all["paused"].1.as_str().unwrap().contains("by Ada: spring"), "{all:?}");
    assert!(!all.contains_key("worker"), "{all:?}");
}

#[tokio::test]
async fn a_tenant_sees_only_its_own_turns() {
    let api = TestApi::new().await;
    let queue_of = async |tenant: &str| {
        let headers = [("X-Turnfold-Tenant", tenant)];
        api.post_with("/v1/turns", &headers, json!({"strategy": "probe", "input": "echo"})).await;
        let request = axum::http::Request::get("/v1/queue").header("X-Turnfold-Tenant", tenant);
        let page = api.send(request.body(axum::body::Body::empty()).unwrap()).await.json();
        (page["groups"][0]["turns"].as_u64().unwrap(), page["data"][0]["tenant"].as_str().unwrap().to_owned())
    };
    assert_eq!(queue_of("acme").await, (1, "acme".to_owned()));
    assert_eq!(queue_of("bell").await, (1, "bell".to_owned()));
    let all = api.get("/v1/queue").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    let lane = Lane::new("acme", Priority::Normal);
    assert!(
        all["groups"]
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["detail"] == format!("tenant {}, normal", lane.tenant))
    );
}

/// A turn behind an open question is not one that the sweeper should enqueue.
#[tokio::test]
async fn a_turn_behind_an_open_question_is_not_reported_as_not_enqueued() {
    let api = TestApi::new().await;
    let asks = api.run_turn("ask Well?").await;
    api.ack_all_jobs().await;
    api.post("/v1/turns", json!({"thread_id": asks["thread_id"], "input": "and then"})).await;
    let job = api.backends.queue.claim(1.into()).await.unwrap().remove(0);
    assert_eq!(job.thread, thread_of(&asks));
    assert!(!groups(&api).await.contains_key("behind"), "a worker has its job");
    api.backends.queue.ack(&job, None).await.unwrap();
    let all = groups(&api).await;
    assert_eq!(all["behind"], (1, json!("its thread is waiting for a person")), "{all:?}");
    assert!(!all.contains_key("not_enqueued"), "{all:?}");
}

/// Lets the leases of a queue in memory grow older. The clock stands still only meanwhile: connections to the database need
/// it.
async fn advance_clock(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Seconds from now until a time in an answer.
fn seconds_until(time: &Value) -> i64 {
    (clock::parse_rfc3339(time.as_str().unwrap()).unwrap() - clock::now()) / 1_000_000
}

/// A silent worker shows by its lease, long before it expires. A worker that renews its lease is not mentioned.
#[tokio::test]
async fn a_turn_whose_worker_is_silent_is_stalled_until_another_one_takes_over() {
    let first = MemoryQueue::new(Duration::from_secs(30)).consumer("first");
    let api = TestApi::with(|config| config.parts.queue = Arc::new(first.clone())).await;
    let turn = api.submit("echo hi").await;
    let path = format!("/v1/queue?thread_id={}", thread_of(&turn));
    let jobs = first.claim(1.into()).await.unwrap();
    advance_clock(Duration::from_secs(11)).await;
    assert_eq!(api.get(&path).await.json()["data"], json!([]), "one renewal is late");
    assert_eq!(first.renew_leases(&jobs).await.unwrap(), []);
    advance_clock(Duration::from_secs(11)).await;
    assert_eq!(api.get(&path).await.json()["data"], json!([]), "the lease was renewed");

    advance_clock(Duration::from_secs(9)).await;
    let page = api.get(&path).await.json();
    let detail = "worker first no longer renews its lease; another worker takes over when the lease expires";
    let reported = &page["data"][0];
    assert_eq!((&reported["cause"], &reported["detail"]), (&json!("stalled"), &json!(detail)), "{page}");
    assert_eq!(reported["turn_id"], turn["id"]);
    assert!((-22..=-19).contains(&seconds_until(&reported["since"])), "{reported}");
    assert!((7..=10).contains(&seconds_until(&reported["until"])), "{reported}");
    let group = api.get("/v1/queue").await.json()["groups"][0].clone();
    assert_eq!(
        (&group["cause"], &group["detail"], &group["turns"]),
        (&json!("stalled"), &json!(detail), &json!(1))
    );

    advance_clock(Duration::from_secs(11)).await;
    let reported = api.get(&path).await.json()["data"][0].clone();
    assert_eq!((&reported["cause"], &reported["until"]), (&json!("stalled"), &Value::Null));
    assert!(reported["detail"].as_str().unwrap().contains("has expired"), "{reported}");

    let taken = first.consumer("second").claim(1.into()).await.unwrap();
    assert_eq!(taken[0].thread, thread_of(&turn));
    let reported = api.get(&path).await.json()["data"][0].clone();
    assert_eq!((&reported["cause"], &reported["detail"]), (&json!("died"), &json!("its worker died once")));
}

/// One thread of many, also in a queue that is too long to list it.
#[tokio::test]
async fn the_turns_of_one_thread_are_explained_alone() {
    let api = TestApi::new().await;
    let queue_of = async |thread: ThreadId, tenant: &str| {
        let path = format!("/v1/queue?thread_id={thread}");
        let request = axum::http::Request::get(path).header("X-Turnfold-Tenant", tenant);
        api.send(request.body(axum::body::Body::empty()).unwrap()).await.json()
    };
    let none = json!({"groups": [], "not_inspected": 0, "data": [], "has_more": false});
    let asks = api.run_turn("ask Well?").await;
    api.ack_all_jobs().await;
    let turn = api.submit("echo one").await;
    let more = json!({"thread_id": turn["thread_id"], "input": "echo more"});
    let more = api.post("/v1/turns", more).await.json();
    block_thread(&api, thread_of(&turn), BlockedBy::Retry.because("no answer")).await;
    api.ack_all_jobs().await;
    let other = api.submit("echo other").await;
    let page = queue_of(thread_of(&turn), "default").await;
    let ids =
        [&page["data"][0], &page["data"][1]].map(|turn| (turn["cause"].clone(), turn["turn_id"].clone()));
    assert_eq!(ids, [(json!("retry"), turn["id"].clone()), (json!("behind"), more["id"].clone())], "{page}");
    assert_eq!(page["groups"].as_array().unwrap().len(), 2, "{page}");
    assert_eq!(queue_of(thread_of(&asks), "default").await["data"][0]["cause"], "person");
    assert_eq!(
        queue_of(thread_of(&turn), "acme").await,
        none,
        "another tenant's thread is like an unknown one"
    );
    assert_eq!(queue_of(ThreadId::from_u128(7), "default").await, none);

    let soon = Schedule::Blocked { after: MAX_PAUSE / 2, reason: BlockedBy::Limit.because("so are these") };
    for n in 0..MAX_LISTED {
        api.backends
            .queue
            .enqueue(ThreadId::from_u128(n as u128 + 1), &Lane::default(), soon.clone())
            .await
            .unwrap();
    }
    assert_eq!(
        queue_of(thread_of(&turn), "default").await["not_inspected"],
        1,
        "its job is not among the first"
    );
    assert_eq!(queue_of(thread_of(&other), "default").await["data"][0]["cause"], "worker");
}

/// If the queue has more jobs than it lists, the others are not reported as waiting for a worker.
#[tokio::test]
async fn turns_beyond_the_listed_jobs_are_not_inspected() {
    let api = TestApi::new().await;
    api.ack_all_jobs().await;
    let turn = api.submit("echo held").await;
    block_thread(&api, thread_of(&turn), BlockedBy::Limit.because("model a/b is at its 20 requests at once"))
        .await;
    assert_eq!(groups(&api).await.keys().collect::<Vec<_>>(), ["limit"]);
    let soon = Schedule::Blocked { after: MAX_PAUSE / 2, reason: BlockedBy::Limit.because("so are these") };
    for n in 0..MAX_LISTED {
        let thread = ThreadId::from_u128(n as u128 + 1);
        api.backends.queue.enqueue(thread, &Lane::default(), soon.clone()).await.unwrap();
    }
    let page = api.get("/v1/queue").await.json();
    assert_eq!((&page["groups"], &page["not_inspected"]), (&json!([]), &json!(1)), "{page}");
}

/// Above the limit nothing is written, and repeated requests are still answered.
#[tokio::test]
async fn too_many_turns_are_rejected() {
    let api = TestApi::with(|config| {
        config.waiting_max = 3;
        let rule = api::TenantRule { max_waiting_turns: Some(1), ..api::TenantRule::default() };
        config.tenant_rules.named = BTreeMap::from([("acme".to_owned(), rule)]);
    })
    .await;
    let send = async |tenant: &str, key: &str| {
        let headers = [("X-Turnfold-Tenant", tenant), ("Idempotency-Key", key)];
        api.post_with("/v1/turns", &headers, json!({"strategy": "probe", "input": "echo"})).await
    };
    let first = send("acme", "one").await.json();
    let refused = send("acme", "two").await;
    assert!(refused.problem(429, "too-many-wait").contains("tenant acme already has 1 queued turns"));
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    let again = send("acme", "one").await;
    assert_eq!(
        (id_of(&again.json()), &again.headers["idempotency-replayed"]),
        (id_of(&first), &"true".parse().unwrap())
    );
    let others = [send("bell", "one").await, send("bell", "two").await].map(|reply| reply.json());
    assert!(send("bell", "three").await.problem(429, "too-many-wait").contains("already 3 queued turns"));
    let more = json!({"thread_id": others[0]["thread_id"], "input": "echo more"});
    api.post("/v1/turns", more.clone()).await.problem(429, "too-many-wait");
    assert_eq!(api.backends.store.queued(None, 100).await.unwrap(), 3, "nothing was written");

    for turn in [&first, &others[0], &others[1]] {
        api.run_until_idle(thread_of(turn)).await;
    }
    let began = std::time::Instant::now();
    while api.post("/v1/turns", more.clone()).await.status != 202 {
        assert!(began.elapsed() < Duration::from_secs(20), "turns are accepted again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
