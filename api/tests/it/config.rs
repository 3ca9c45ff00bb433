//! Configuration of nodes and servers in a request: pinned when the thread opens, refused with a hint.

use std::collections::BTreeMap;

use api::TenantRule;
use serde_json::{Value, json};
use shared::{Event, Opened};

use crate::test_api::{TestApi, thread_of};

async fn api_with_three_servers() -> TestApi {
    TestApi::with(|config| {
        config.experts = ["calendar", "contacts", "mail"].map(|server| (server.to_owned(), format!("the {server}"))).into();
        let planner = json!({
            "model": "openai/big",
            "nodes": {"plan": {"prompt": "Operator: {prompt}", "temperature": 0.1}, "assess": {"model": "openai/small"}},
            "servers": ["calendar", "contacts"],
        });
        let of_tenant = ["contacts", "mail"].map(str::to_owned).to_vec();
        let strategies = ["index_builder", "planner", "retriever"].map(str::to_owned).to_vec();
        let rule =
            TenantRule { strategies: Some(strategies), servers: Some(of_tenant), ..TenantRule::default() };
        config.tenant_rules.named = BTreeMap::from([("acme".to_owned(), rule)]);
        config.tuned = BTreeMap::from([("planner".to_owned(), planner)]);
    })
    .await
}

async fn opened(api: &TestApi, body: Value) -> Opened {
    let turn = api.post("/v1/turns", body).await;
    assert!(turn.status.is_success(), "{turn:?}");
    let first = api.backends.store.events(thread_of(&turn.json()), None, 1).await.unwrap().remove(0).event;
    let Event::Opened(opened) = first else { panic!("a log begins with its opening: {first}") };
    opened
}

fn names(opened: &Opened) -> Vec<&str> {
    opened.servers.keys().map(String::as_str).collect()
}

/// Key by key, a request's configuration lies over the operator's, and null takes a key back to the strategy's default.
#[tokio::test]
async fn the_nodes_of_a_request_lie_over_those_of_the_operator() {
    let api = api_with_three_servers().await;
    let nodes = json!({"plan": {"temperature": 0.9, "prompt": null}, "respond": {"max_tokens": 90}});
    let opened =
        opened(&api, json!({"strategy": "planner", "input": "hi", "config": {"nodes": nodes}})).await;
    assert_eq!(
        opened.config["nodes"],
        json!({
            "plan": {"temperature": 0.9, "prompt": null},
            "assess": {"model": "openai/small"},
            "respond": {"max_tokens": 90},
        })
    );
    assert_eq!(names(&opened), ["calendar", "contacts"]);
}

#[tokio::test]
async fn a_request_narrows_the_servers_and_cannot_widen_them() {
    let api = api_with_three_servers().await;
    let of = |strategy: &str, servers: Value| json!({"strategy": strategy, "input": "hi", "config": {"servers": servers}});
    let narrow = opened(&api, of("planner", json!(["contacts"]))).await;
    assert_eq!((names(&narrow), &narrow.config["servers"]), (vec!["contacts"], &json!(["contacts"])));
    assert_eq!(names(&opened(&api, of("retriever", json!(["mail"]))).await), ["mail"]);
    assert_eq!(names(&opened(&api, of("planner", json!([]))).await), [""; 0]);
    let all = opened(&api, json!({"strategy": "retriever", "input": "hi"})).await;
    assert_eq!(names(&all), ["calendar", "contacts", "mail"]);
    let refused = |body: Value| async { api.post("/v1/turns", body).await.problem(422, "invalid") };
    let detail = refused(of("planner", json!(["mail"]))).await;
    assert!(detail.contains("servers: \"mail\" is no MCP server that can be used here"), "{detail}");
    let detail = refused(of("retriever", json!(["calender"]))).await;
    assert!(detail.contains("did you mean \"calendar\"?"), "{detail}");
}

/// A tenant's limit applies in addition to that of the strategy, and servers outside of it do not exist for the tenant.
#[tokio::test]
async fn a_tenant_is_limited_to_its_servers() {
    let api = api_with_three_servers().await;
    let acme = [("x-turnfold-tenant", "acme")];
    let of = |strategy: &str, config: Value| json!({"strategy": strategy, "input": "hi", "config": config});
    for (strategy, config, expected) in [
        ("planner", json!({}), vec!["contacts"]),
        ("retriever", json!({}), vec!["contacts", "mail"]),
        ("retriever", json!({"servers": ["mail"]}), vec!["mail"]),
    ] {
        let turn = api.post_with("/v1/turns", &acme, of(strategy, config)).await.json();
        let log = api.log(thread_of(&turn)).await;
        assert_eq!(log.thread().servers(), expected);
    }
    // An index of some servers would take the others from every tenant.
    let detail =
        api.post_with("/v1/turns", &acme, of("index_builder", json!({}))).await.problem(422, "invalid");
    assert!(detail.contains("index_builder needs every MCP server"), "{detail}");
    let detail = api
        .post("/v1/turns", of("index_builder", json!({"servers": ["mail"]})))
        .await
        .problem(422, "invalid");
    assert!(detail.contains("servers: a thread of this strategy needs every server"), "{detail}");
    opened(&api, of("index_builder", json!({}))).await;
    let body = of("retriever", json!({"servers": ["calendar"]}));
    let detail = api.post_with("/v1/turns", &acme, body).await.problem(422, "invalid");
    assert!(
        detail.contains("\"calendar\" is no MCP server that can be used here; known: contacts, mail"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_wrong_node_is_refused_before_a_thread_opens() {
    let api = api_with_three_servers().await;
    for (nodes, why) in [
        (json!({"pln": {}}), "config: nodes: there is no node \"pln\"; did you mean \"plan\"?"),
        (
            json!({"plan": {"prompt": "{expert}"}}),
            "there is no placeholder {expert}; did you mean \"experts\"?",
        ),
        (json!({"plan": {"temperature": 9}}), "nodes.plan.temperature: it is 9, and must be from 0 to 2"),
        (json!({"plan": {"prompt_file": "/etc/passwd"}}), "there is no key \"prompt_file\""),
    ] {
        let body = json!({"strategy": "planner", "input": "hi", "config": {"nodes": nodes}});
        let detail = api.post("/v1/turns", body).await.problem(422, "invalid");
        assert!(detail.contains(why), "{detail}");
    }
    assert_eq!(api.get("/v1/threads").await.json()["data"], json!([]));
}

/// A fork changes nodes by its configuration and by `prompts`, and uses only servers of its source.
#[tokio::test]
async fn a_fork_configures_nodes_and_narrows_servers() {
    let api = api_with_three_servers().await;
    let turn = api.post("/v1/turns", json!({"strategy": "planner", "input": "hi"})).await.json();
    let source = thread_of(&turn);
    api.start_turn(source).await;
    let path = format!("/v1/threads/{source}/fork");
    let body = json!({
        "config": {"servers": ["mail"]},
    });
    let detail = api.post(&path, body).await.problem(422, "invalid");
    assert!(detail.contains("a fork can only use servers of its source"), "{detail}");
    let detail = api.post(&path, json!({"prompts": {"plan": "{task}"}})).await.problem(422, "invalid");
    assert!(detail.contains("prompts: nodes.plan.prompt: there is no placeholder {task}"), "{detail}");
    let body = json!({
        "config": {"servers": ["contacts"], "nodes": {"assess": {"max_tokens": 5}}},
        "prompts": {"plan": "Fork: {experts}"},
    });
    let fork = api.post(&path, body).await;
    assert!(fork.status.is_success(), "{fork:?}");
    let fork = fork.json()["id"].as_str().unwrap().parse().unwrap();
    let log = api.log(fork).await;
    assert_eq!(log.thread().servers(), ["contacts"]);
    assert_eq!(
        log.thread().config().unwrap()["nodes"],
        json!({
            "plan": {"prompt": "Fork: {experts}", "temperature": 0.1},
            "assess": {"model": "openai/small", "max_tokens": 5},
        })
    );
}
