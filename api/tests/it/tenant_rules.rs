//! Rules of tenants: what each may use, and the operator's bounds that it cannot exceed.

use std::collections::BTreeMap;

use api::{ApiConfig, TenantRule};
use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use shared::Event;
use store::Store;
use threads::Backends;

use crate::{
    batch_run::{Hall, form},
    test_api::{Reply, Room, parts, thread_of},
};

const ACME: (&str, &str) = ("x-turnfold-tenant", "acme");

/// The operator's configuration: a planner that is limited in every way, and one model for each of its nodes.
fn office(door: &mut ApiConfig, acme: TenantRule) {
    let planner = json!({
        "model": "openai/big", "rounds": 3, "model_calls": 9,
        "nodes": {"assess": {"model": "openai/small", "max_tokens": 50}},
    });
    door.tuned = BTreeMap::from([("planner".to_owned(), planner)]);
    door.tenant_rules.named = BTreeMap::from([("acme".to_owned(), acme)]);
}

fn strings(it: &[&str]) -> Option<Vec<String>> {
    Some(it.iter().map(|it| (*it).to_owned()).collect())
}

fn turn(strategy: &str, config: Value) -> Value {
    json!({"strategy": strategy, "input": "hi", "config": config})
}

async fn send(room: &Room, body: Value) -> Reply {
    room.post_with("/v1/turns", &[ACME], body).await
}

#[track_caller]
fn assert_refused(reply: &Reply, detail: &str) {
    let found = reply.problem(422, "invalid");
    assert_eq!(found, detail);
}

#[tokio::test]
async fn a_tenant_runs_only_its_strategies() {
    let parts = parts().await;
    let free = Room::with(|door| door.parts = parts.clone()).await;
    let source = thread_of(&send(&free, turn("planner", json!({}))).await.json());
    let rule = TenantRule { strategies: strings(&["probe"]), ..TenantRule::default() };
    let room = Room::with(|door| {
        office(door, rule);
        door.parts = parts.clone();
    })
    .await;
    let detail = "strategy: this tenant may not run \"planner\"; it may run: probe";
    let refused = send(&room, turn("planner", json!({}))).await;
    assert_eq!(refused.problem(422, "names-no-strategy"), detail);
    assert_eq!(refused.json()["hint"], "an operator can add it to `strategies` under [tenants.acme]");
    let continued = send(&room, json!({"thread_id": source, "input": "hi"})).await;
    assert_eq!(continued.problem(422, "names-no-strategy"), detail);
    let forked = room.post_with(&format!("/v1/threads/{source}/fork"), &[ACME], json!({})).await;
    assert_eq!(forked.problem(422, "names-no-strategy"), detail);
    assert!(send(&room, turn("probe", json!({}))).await.status.is_success());
    let chat = json!({"model": "planner", "messages": [{"role": "user", "content": "hi"}]});
    let told = room.post_with("/v1/chat/completions", &[ACME], chat).await.refused(404, "model_not_found");
    assert!(told.contains("known models: turnfold/probe"), "{told}");

    let get = async |path: &str| {
        room.send(Request::get(path).header(ACME.0, ACME.1).body(Body::empty()).unwrap()).await
    };
    let names = |page: Value, field: &str| -> Vec<String> {
        page["data"].as_array().unwrap().iter().map(|it| it[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(get("/v1/strategies").await.json(), "name"), ["probe"]);
    assert_eq!(names(get("/v1/models").await.json(), "id"), ["turnfold/probe"]);
    for path in ["/v1/strategies/planner", "/v1/strategies/planner/map"] {
        assert_eq!(get(path).await.problem(404, "unknown-strategy"), detail);
    }
    get("/v1/models/turnfold/planner").await.refused(404, "model_not_found");
    let all = names(room.get("/v1/strategies").await.json(), "name");
    assert!(all.contains(&"index_builder".to_owned()), "an operator may run everything: {all:?}");
}

/// All tenants search the index, so only an operator decides what builds it, and with which configuration.
#[tokio::test]
async fn the_shared_index_is_the_operators() {
    let room = Room::with(|door| office(door, TenantRule::default())).await;
    let refused = send(&room, turn("index_builder", json!({}))).await;
    let detail = refused.problem(422, "names-no-strategy");
    assert!(detail.starts_with("strategy: this tenant may not run \"index_builder\""), "{detail}");
    let built = room.post("/v1/turns", turn("index_builder", json!({"characters": 1}))).await;
    assert!(built.status.is_success(), "an operator may shorten it: {built:?}");
    let rule = TenantRule { strategies: strings(&["index_builder"]), ..TenantRule::default() };
    let room = Room::with(|door| office(door, rule)).await;
    let why = "config: the configuration of index_builder is the operator's, because it serves all tenants";
    assert_refused(&send(&room, turn("index_builder", json!({"characters": 1}))).await, why);
    let source = send(&room, turn("index_builder", json!({}))).await;
    let path = format!("/v1/threads/{}/fork", thread_of(&source.json()));
    let fork = room.post_with(&path, &[ACME], json!({"config": {"characters": 1}})).await;
    assert_refused(&fork, why);
}

#[tokio::test]
async fn a_tenant_uses_only_its_models() {
    let room = Room::with(|door| office(door, TenantRule::default())).await;
    let named =
        |key: &str, model: &str| format!("config: {key}: this tenant may not use the model {model:?}");
    for (config, why) in [
        (json!({"model": "openai/o1"}), named("model", "openai/o1")),
        (json!({"nodes": {"plan": {"model": "openai/o1"}}}), named("nodes.plan.model", "openai/o1")),
    ] {
        assert_refused(&send(&room, turn("planner", config)).await, &why);
    }
    let cheaper = turn("planner", json!({"model": "openai/small"}));
    assert!(send(&room, cheaper).await.status.is_success(), "the operator names it for another node");
    let rule = TenantRule { models: strings(&["local/*"]), ..TenantRule::default() };
    let room = Room::with(|door| office(door, rule)).await;
    assert_refused(&send(&room, turn("planner", json!({}))).await, &named("model", "openai/big"));
    let own = turn("planner", json!({"model": "local/any"}));
    assert_refused(&send(&room, own).await, &named("nodes.assess.model", "openai/small"));
    for model in [json!("local/small"), Value::Null] {
        let nodes = json!({"assess": {"model": model}});
        let own = turn("planner", json!({"model": "local/any", "nodes": nodes}));
        assert!(send(&room, own).await.status.is_success());
    }
}

/// Keys of a configuration above the operator's bound, and the reason for which each is refused.
fn too_much() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"rounds": 900}), "config.rounds: it is 900, above the operator's bound 3"),
        (json!({"model_calls": 10}), "config.model_calls: it is 10, above the operator's bound 9"),
        (
            json!({"nodes": {"assess": {"max_tokens": 51}}}),
            "config.nodes.assess.max_tokens: it is 51, above the operator's bound 50",
        ),
        (
            json!({"nodes": {"assess": {"max_tokens": null}}}),
            "config.nodes.assess.max_tokens: it must be set, because the operator's bound is 50",
        ),
        (
            json!({"nodes": {"plan": {"extra": {"seed": 7}}}}),
            "config.nodes.plan.extra: only an operator may set this",
        ),
        (
            json!({"nodes": null}),
            "config.nodes.assess.max_tokens: it must be set, because the operator's bound is 50",
        ),
    ]
}

#[tokio::test]
async fn a_tenant_stays_within_the_operators_bounds() {
    let room = Room::with(|door| office(door, TenantRule::default())).await;
    for (config, why) in too_much() {
        assert_refused(&send(&room, turn("planner", config.clone())).await, why);
        if config["nodes"].is_object() || config["rounds"].is_number() {
            let operators = room.post("/v1/turns", turn("planner", config.clone())).await;
            assert!(operators.status.is_success(), "{config}: {operators:?}");
        }
    }
    let lower = json!({"rounds": 2, "model_calls": 9, "nodes": {"assess": {"max_tokens": 1}, "plan": {"max_tokens": 9}}});
    assert!(send(&room, turn("planner", lower)).await.status.is_success());
    let effort = send(&room, turn("research", json!({"effort": "high"}))).await;
    assert_refused(&effort, "config.effort: it is \"high\", above the operator's bound \"medium\"");
    assert!(send(&room, turn("research", json!({"effort": "low"}))).await.status.is_success());
    let chat = json!({
        "model": "planner", "messages": [{"role": "user", "content": "hi"}], "turnfold": {"config": {"rounds": 4}},
    });
    let told = room.post_with("/v1/chat/completions", &[ACME], chat).await.refused(400, "invalid");
    assert!(told.starts_with("config.rounds: it is 4, above the operator's bound 3"), "{told}");
}

/// A section of a tenant can raise a bound for it alone, and its configuration lies over that for all tenants.
#[tokio::test]
async fn a_bound_can_be_raised_for_one_tenant() {
    let own = json!({"rounds": 5, "nodes": {"plan": {"prompt": "Acme: {prompt}"}}});
    let config = BTreeMap::from([("planner".to_owned(), own)]);
    let room = Room::with(|door| office(door, TenantRule { config, ..TenantRule::default() })).await;
    let reply = send(&room, turn("planner", json!({"rounds": 4}))).await;
    let log = room.log_of(thread_of(&reply.json())).await;
    let Some(Event::Opened(opened)) = log.first() else { panic!("{log:?}") };
    assert_eq!((&opened.config["rounds"], &opened.config["model_calls"]), (&json!(4), &json!(9)));
    assert_eq!(opened.config["nodes"]["plan"]["prompt"], "Acme: {prompt}");
    assert_eq!(opened.config["nodes"]["assess"]["model"], "openai/small");
    let other =
        room.post_with("/v1/turns", &[("x-turnfold-tenant", "bell")], turn("planner", json!({"rounds": 4})));
    assert_refused(&other.await, "config.rounds: it is 4, above the operator's bound 3");
}

#[tokio::test]
async fn a_fork_stays_within_the_bounds_or_keeps_what_its_source_has() {
    let parts = parts().await;
    // An operator raised the limits of this thread.
    let config = json!({"rounds": 70, "model": "openai/o1"});
    let rule = TenantRule { config: [("planner".to_owned(), config)].into(), ..TenantRule::default() };
    let raised = Room::with(|door| {
        office(door, rule);
        door.parts = parts.clone();
    })
    .await;
    let source = thread_of(&send(&raised, turn("planner", json!({}))).await.json());
    let room = Room::with(|door| {
        office(door, TenantRule::default());
        door.parts = parts.clone();
        door.budget = serde_json::from_value(json!({"turn": {"tokens": 100}})).unwrap();
    })
    .await;
    room.hear(source).await;
    let path = format!("/v1/threads/{source}/fork");
    let fork = async |body: Value| room.post_with(&path, &[ACME], body).await;
    assert_refused(
        &fork(json!({"config": {"rounds": 71}})).await,
        "config.rounds: it is 71, above the operator's bound 3",
    );
    assert_refused(
        &fork(json!({"config": {"nodes": {"plan": {"model": "openai/o2"}}}})).await,
        "config: nodes.plan.model: this tenant may not use the model \"openai/o2\"",
    );
    assert_refused(
        &fork(json!({"budget": {"turn": {"tokens": 101}}})).await,
        "budget.turn.tokens: it is 101, above the operator's bound 100",
    );
    let kept = fork(json!({"config": {"confidence": 0.9}, "budget": {"turn": {"tokens": 99}}})).await;
    assert!(kept.status.is_success(), "{kept:?}");
}

#[tokio::test]
async fn a_tenant_stays_within_the_operators_budget() {
    let room = Room::with(|door| {
        office(door, TenantRule::default());
        door.budget =
            serde_json::from_value(json!({"turn": {"usd": 0.5}, "thread": {"tokens": 10}})).unwrap();
    })
    .await;
    let of = |budget: Value| json!({"strategy": "probe", "input": "echo", "budget": budget});
    assert_refused(
        &send(&room, of(json!({"turn": {"usd": 0.6}}))).await,
        "budget.turn.usd: it is 0.6, above the operator's bound 0.5",
    );
    let budget = async |reply: Reply| {
        let log = room.log_of(thread_of(&reply.json())).await;
        let Some(Event::Opened(opened)) = log.first() else { panic!("{log:?}") };
        serde_json::to_value(&opened.budget).unwrap()
    };
    let asked = json!({"turn": {"usd": 0.4, "seconds": 9}});
    let lower = json!({"turn": {"usd": 0.4, "seconds": 9}, "thread": {"tokens": 10}});
    assert_eq!(budget(send(&room, of(asked)).await).await, lower);
    let higher = room.post("/v1/turns", of(json!({"turn": {"usd": 0.6}}))).await;
    assert_eq!(budget(higher).await, json!({"turn": {"usd": 0.6}, "thread": {"tokens": 10}}));
}

/// Lines are validated after the request, by any process, which knows whether an operator sent them.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_batch_stay_within_the_bounds() {
    let mut hall = Hall::idle(|door| office(door, TenantRule::default())).await;
    let line = |nth: usize, config: &Value| {
        let body = turn("planner", config.clone());
        let line =
            json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": "/v1/turns", "body": body});
        format!("{line}\n")
    };
    let mut configs: Vec<Value> = too_much().into_iter().map(|(config, _)| config).collect();
    configs.extend([json!({"model": "openai/o1"}), json!({"rounds": 1})]);
    let file: String = configs.iter().enumerate().map(|(nth, it)| line(nth, it)).collect();
    let quoted = async |hall: &Hall, headers: &[(&str, &str)]| {
        let mut upload = form("batch", file.as_bytes());
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            upload.headers_mut().insert(name, value.parse().unwrap());
        }
        let file = hall.room.send(upload).await.json()["id"].clone();
        let batch = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        let quote = hall.room.post_with("/v1/batches?quote=true", headers, batch.clone()).await.json();
        (quote["invalid"].clone(), hall.room.post_with("/v1/batches", headers, batch).await.json())
    };
    let (invalid, batch) = quoted(&hall, &[ACME]).await;
    assert_eq!(invalid, json!(configs.len() - 1));
    let (invalid, _) = quoted(&hall, &[]).await;
    assert_eq!(invalid, json!(0), "an operator is not bound");
    hall.start_coordinator();
    let seen = hall.until(batch["id"].as_str().unwrap(), |it| it["status"] != "validating").await;
    let errors: Vec<&str> =
        seen["errors"]["data"].as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap()).collect();
    // The coordinator of the test has the default configuration.
    let first = "body: config.rounds: it is 900, above the operator's bound 6";
    let last = "body: config: model: this tenant may not use the model \"openai/o1\"";
    assert_eq!((errors.first(), errors.last()), (Some(&first), Some(&last)));
}

#[tokio::test]
async fn a_model_without_a_provider_is_refused() {
    let room = Room::with(|door| {
        office(door, TenantRule { models: strings(&["*"]), ..TenantRule::default() });
        door.providers = Some(["openai".to_owned(), "local".to_owned()].into());
    })
    .await;
    for (model, why) in [
        ("opnai/gpt", "config: model: the provider of the model \"opnai/gpt\" is not configured"),
        ("gpt", "config: model: the model \"gpt\" names no provider"),
    ] {
        for reply in [
            send(&room, turn("planner", json!({"model": model}))).await,
            room.post("/v1/turns", turn("planner", json!({"model": model}))).await,
        ] {
            assert_refused(&reply, why);
            let hint = reply.json()["hint"].as_str().unwrap().to_owned();
            assert!(hint.contains("configured providers: local, openai"), "{hint}");
        }
    }
    assert!(send(&room, turn("planner", json!({"model": "local/any"}))).await.status.is_success());
}

#[tokio::test]
async fn a_tenant_stores_no_more_than_its_limit() {
    stores_no_more_than_its_limit(parts().await).await;
}

#[tokio::test]
async fn real_postgres_stores_no_more_of_a_tenant_than_its_limit() {
    let postgres = test_servers::Postgres::shared();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    stores_no_more_than_its_limit(Backends { store, ..parts().await }).await;
}

/// Files, logs and attachments count together. Other tenants are not affected.
async fn stores_no_more_than_its_limit(parts: Backends) {
    let rule = TenantRule { max_stored_bytes: Some(4_096), ..TenantRule::default() };
    let room = Room::with(|door| {
        office(door, rule);
        door.parts = parts;
    })
    .await;
    let upload = async |bytes: usize| {
        let mut upload = form("batch", &vec![b'x'; bytes]);
        upload.headers_mut().insert(ACME.0, ACME.1.parse().unwrap());
        room.send(upload).await
    };
    let told = upload(5_000).await.refused(507, "storage_full");
    assert!(told.starts_with("file: tenant acme may store only 4 KiB more (delete files; "), "{told}");
    let first = upload(3_000).await.json()["id"].as_str().unwrap().to_owned();
    upload(1_500).await.refused(507, "storage_full");
    assert_eq!(upload(1_096).await.status, 200, "exactly as much as is left");
    let turn = || turn("probe", json!({}));
    let detail = send(&room, turn()).await.problem(507, "storage-full");
    assert_eq!(detail, "tenant acme stores 1 MiB of files and logs, and its limit is 1 MiB");
    upload(1).await.refused(507, "storage_full");
    assert!(room.post("/v1/turns", turn()).await.status.is_success(), "another tenant is not affected");
    let delete = Request::delete(format!("/v1/files/{first}")).body(Body::empty()).unwrap();
    assert_eq!(room.send(delete).await.status, 200);
    let began = std::time::Instant::now();
    while !send(&room, turn()).await.status.is_success() {
        assert!(began.elapsed().as_secs() < 30, "the freed storage is not counted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
