//! Schedules: what they submit, when, and with whose rights; and a scheduler that is killed.

use std::time::{Duration, Instant};

use api::{ApiConfig, run_background};
use queue::clock;
use serde_json::{Value, json};
use store::{schedules::MOST_SCHEDULES, testing::forget_firing};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    batch_test::{form, line},
    keys::{api_with_keys, ask, create, secret},
    test_api::{TestApi, config, id_of, key_ring},
};

const PATIENCE: Duration = Duration::from_secs(30);

fn at(text: &str) -> i64 {
    clock::parse_rfc3339(text).unwrap()
}

/// Sets the clock of this process, which runs one test.
fn now_is(text: &str) {
    clock::follow(at(text), Instant::now());
}

/// Starts the background tasks of an API, until the guard is dropped.
fn background(api: &TestApi, change: impl FnOnce(&mut ApiConfig)) -> DropGuard {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = config(&api.backends);
    change(&mut config);
    let stop = CancellationToken::new();
    tokio::spawn(run_background(config, stop.clone()));
    stop.drop_guard()
}

async fn add(api: &TestApi, body: Value) -> Value {
    let reply = api.post("/v1/schedules", body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn hourly(missed: &str) -> Value {
    let turn = json!({"strategy": "probe", "input": "echo hi", "metadata": {"of": missed}});
    json!({"cron": "0 * * * *", "missed": missed, "turn": turn})
}

/// Waits until a schedule satisfies the condition.
async fn wait_until(api: &TestApi, key: Option<&str>, id: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let schedule = ask(api, key, "GET", &format!("/v1/schedules/{id}"), &Value::Null).await.json();
        if is_met(&schedule) {
            return schedule;
        }
        assert!(began.elapsed() < PATIENCE, "{schedule:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the turns of a schedule, oldest first.
async fn turns(api: &TestApi, id: &str) -> Vec<Value> {
    let page = api.get("/v1/turns?limit=1000").await.json();
    let all = page["data"].as_array().unwrap().iter().rev();
    all.filter(|turn| turn["metadata"]["schedule_id"] == id).cloned().collect()
}

#[tokio::test]
async fn two_processes_fire_once_also_over_a_change_of_the_clock() {
    now_is("2026-03-28T00:00:00Z");
    let api = TestApi::new().await;
    let turn = json!({"strategy": "probe", "input": "echo hi"});
    let made =
        add(&api, json!({"cron": "30 2 * * *", "timezone": "Europe/Berlin", "name": "n", "turn": turn}))
            .await;
    let id = id_of(&made);
    assert_eq!(made["next_at"], "2026-03-28T01:30:00.000000Z");
    let _both = [background(&api, |_| ()), background(&api, |_| ())];
    // In the night to the 29th, 02:30 does not exist.
    let nights = ["2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00", "2026-03-31T00:30:00"];
    for (nth, pair) in nights.windows(2).enumerate() {
        now_is(&format!("{}Z", pair[0]));
        let next = format!("{}.000000Z", pair[1]);
        let fired = wait_until(&api, None, &id, |schedule| schedule["next_at"] == next).await;
        assert_eq!(fired["last_at"], format!("{}.000000Z", pair[0]));
        let turns = turns(&api, &id).await;
        assert_eq!(turns.len(), nth + 1, "{turns:#?}");
        assert_eq!(fired["last_turn_id"], turns[nth]["id"]);
    }
}

#[tokio::test]
async fn a_scheduler_that_is_killed_before_it_records_a_firing_fires_once() {
    now_is("2026-11-02T08:59:00Z");
    let api = TestApi::new().await;
    let id = id_of(&add(&api, hourly("once")).await);
    now_is("2026-11-02T09:00:01Z");
    let fired = {
        let _guard = background(&api, |_| ());
        wait_until(&api, None, &id, |schedule| schedule["last_at"].is_string()).await
    };
    forget_firing(&api.backends.store, id.parse().unwrap(), at("2026-11-02T09:00:00Z")).await.unwrap();
    let _guard = background(&api, |_| ());
    let again = wait_until(&api, None, &id, |schedule| schedule["last_at"].is_string()).await;
    assert_eq!(again, fired);
    assert_eq!(turns(&api, &id).await.len(), 1);
}

#[tokio::test]
async fn missed_firings_are_skipped_submitted_once_or_all() {
    now_is("2026-11-02T08:30:00Z");
    let api = TestApi::new().await;
    let mut ids = Vec::new();
    for missed in ["skip", "once", "all"] {
        ids.push(id_of(&add(&api, hourly(missed)).await));
    }
    let paused = id_of(&add(&api, hourly("all")).await);
    let pause = json!({"paused": true});
    let path = format!("/v1/schedules/{paused}");
    let reply = ask(&api, None, "PATCH", &path, &pause).await.json();
    assert_eq!((&reply["status"], &reply["next_at"]), (&json!("paused"), &Value::Null));
    now_is("2026-11-02T12:30:00Z");
    let _guard = background(&api, |_| ());
    let mut counts = Vec::new();
    for id in &ids {
        let next = "2026-11-02T13:00:00.000000Z";
        wait_until(&api, None, id, |schedule| schedule["next_at"] == next).await;
        counts.push(turns(&api, id).await.len());
    }
    assert_eq!(counts, [0, 1, 4]);
    let resumed = ask(&api, None, "PATCH", &path, &json!({"paused": false})).await.json();
    assert_eq!(
        (&resumed["status"], &resumed["next_at"]),
        (&json!("active"), &json!("2026-11-02T13:00:00.000000Z"))
    );
    assert!(turns(&api, &paused).await.is_empty(), "a paused schedule misses nothing");
}

#[tokio::test]
async fn a_schedule_has_the_rights_of_its_key() {
    now_is("2026-11-02T08:30:00Z");
    let api = api_with_keys().await;
    let key = create(&api, Some("acme"), json!({"scopes": ["submit", "admin"]})).await;
    let post = async |key: &str, path: &str, body: Value| {
        let reply = ask(&api, Some(key), "POST", path, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let made = post(secret(&key), "/v1/schedules", hourly("skip")).await;
    let id = id_of(&made);
    assert_eq!((&made["tenant"], &made["key"]), (&json!("acme"), &key["id"]));
    let path = format!("/v1/schedules/{id}");
    for (method, body) in [("GET", Value::Null), ("PATCH", json!({"paused": true})), ("DELETE", Value::Null)]
    {
        let bell = create(&api, Some("bell"), json!({"scopes": ["submit", "read"]})).await;
        ask(&api, Some(secret(&bell)), method, &path, &body).await.problem(404, "unknown-schedule");
    }
    let rotate = format!("/v1/keys/{}/rotate", id_of(&key));
    let rotated = post(secret(&key), &rotate, json!({"overlap_seconds": 0})).await;
    let _guard =
        background(&api, |config| config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"])]));
    now_is("2026-11-02T09:00:00Z");
    let fired =
        wait_until(&api, Some("acme-key"), &id, |schedule| schedule["last_turn_id"].is_string()).await;
    assert_eq!(fired["key"], rotated["id"], "the schedule goes on with the new key");
    let turn = fired["last_turn_id"].as_str().unwrap().parse().unwrap();
    let caller = api.backends.store.turn(turn).await.unwrap().unwrap().caller.unwrap();
    assert_eq!(caller.key, Some(id_of(&rotated)));

    let revoked = format!("/v1/keys/{}", id_of(&rotated));
    assert_eq!(ask(&api, Some("operator-key"), "DELETE", &revoked, &Value::Null).await.status, 200);
    now_is("2026-11-02T10:00:00Z");
    let stopped = wait_until(&api, Some("acme-key"), &id, |schedule| schedule["status"] == "stopped").await;
    assert!(stopped["stopped_reason"].as_str().unwrap().contains("revoked"), "{stopped}");
    let resumed = ask(&api, Some("acme-key"), "PATCH", &path, &json!({"paused": false})).await.json();
    assert_eq!(resumed["status"], "active");
    assert!(resumed["key"].as_str().unwrap().starts_with("config-"), "{resumed}");
    now_is("2026-11-02T11:00:00Z");
    wait_until(&api, Some("acme-key"), &id, |schedule| schedule["last_at"] == "2026-11-02T11:00:00.000000Z")
        .await;
}

#[tokio::test]
async fn a_schedule_creates_batches_and_reports_what_was_refused() {
    now_is("2026-11-02T08:30:00Z");
    let api = TestApi::new().await;
    let file = id_of(&api.send(form("batch", line("c-1", "echo hi").as_bytes())).await.json());
    let batch =
        json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h", "reuse": "none"});
    let id = id_of(&add(&api, json!({"cron": "@hourly", "batch": batch})).await);
    let _guard = background(&api, |_| ());
    now_is("2026-11-02T09:00:00Z");
    let fired = wait_until(&api, None, &id, |schedule| schedule["last_batch_id"].is_string()).await;
    let batches = api.get("/v1/batches").await.json();
    assert_eq!(batches["data"][0]["id"], fired["last_batch_id"]);
    assert_eq!(batches["data"][0]["metadata"]["schedule_id"], id);

    let delete = format!("/v1/files/{file}");
    let began = Instant::now();
    while ask(&api, None, "DELETE", &delete, &Value::Null).await.status != 200 {
        assert!(began.elapsed() < PATIENCE, "the batch has not read its file");
        api.backends.store.cancel_batch(batch_of(&fired), "test").await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    now_is("2026-11-02T10:00:00Z");
    let refused = wait_until(&api, None, &id, |schedule| schedule["last_error"].is_string()).await;
    assert!(refused["last_error"].as_str().unwrap().contains(&file), "{refused}");
    assert_eq!((&refused["status"], &refused["last_batch_id"]), (&json!("active"), &Value::Null));
}

fn batch_of(schedule: &Value) -> store::batches::BatchId {
    let id = schedule["last_batch_id"].as_str().unwrap();
    id.strip_prefix("batch_").unwrap().parse().unwrap()
}

#[tokio::test]
async fn schedules_are_listed_in_pages_and_bounded() {
    let api = TestApi::new().await;
    let mut ids = Vec::new();
    for _ in 0..MOST_SCHEDULES {
        ids.push(id_of(&add(&api, hourly("skip")).await));
    }
    api.post("/v1/schedules", hourly("skip")).await.problem(409, "not-now");
    let mut listed = Vec::new();
    loop {
        let after = listed.last().map(|id| format!("&after={id}")).unwrap_or_default();
        let page = api.get(&format!("/v1/schedules?limit=30{after}")).await.json();
        listed.extend(page["data"].as_array().unwrap().iter().map(id_of));
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(listed, ids);
    let path = format!("/v1/schedules/{}", ids[0]);
    assert_eq!(ask(&api, None, "DELETE", &path, &Value::Null).await.status, 200);
    ask(&api, None, "DELETE", &path, &Value::Null).await.problem(404, "unknown-schedule");
    add(&api, hourly("skip")).await;
}

#[tokio::test]
async fn a_schedule_that_could_not_fire_is_refused() {
    let api = TestApi::with(|config| config.body_limit = 1 << 20).await;
    let turn = json!({"strategy": "probe", "input": "echo hi"});
    let with = |field: &str, value: Value| {
        let mut body = json!({"cron": "@daily", "turn": turn});
        body[field] = value;
        body
    };
    let long = "x".repeat(300 * 1024);
    for (body, status, word) in [
        (with("cron", json!("0 25 * * *")), 422, "the hour \"25\""),
        (with("cron", json!("0 0 31 2 *")), 422, "no such time"),
        (with("timezone", json!("Europe/Berln")), 422, "Europe/Berln"),
        (with("name", json!("x".repeat(101))), 422, "100 characters"),
        (with("missed", json!("some")), 422, "missed"),
        (with("turn", Value::Null), 422, "exactly one"),
        (with("batch", json!({})), 422, "exactly one"),
        (with("turn", json!("hello")), 422, "an object"),
        (with("turn", json!({"strategy": "probe"})), 422, "input"),
        (with("turn", json!({"strategy": "prob", "input": "a"})), 422, "prob"),
        (with("turn", json!({"strategy": "probe", "input": "a", "delay_seconds": 1})), 422, "not allowed"),
        (
            with("turn", json!({"strategy": "probe", "input": "a", "metadata": {"schedule_id": 1}})),
            422,
            "schedule_id",
        ),
        (with("turn", json!({"strategy": "probe", "input": long})), 413, "262144 bytes"),
    ] {
        let reply = api.post("/v1/schedules", body).await;
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
        assert!(reply.json()["detail"].as_str().unwrap().contains(word), "{word}: {reply:?}");
    }
    let batch = json!({"cron": "@daily", "batch": {"input_file_id": "file-1", "endpoint": "/v1/turns", "completion_window": "24h"}});
    api.post("/v1/schedules", batch).await.problem(404, "unknown-file");
}
