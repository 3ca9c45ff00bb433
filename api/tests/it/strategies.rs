//! The routes of strategies.

use axum::http::header;
use serde_json::json;

use crate::test_api::{TestApi, known_strategies};

#[tokio::test]
async fn strategies_are_listed_by_name() {
    let api = TestApi::new().await;
    let page = api.get("/v1/strategies").await.json();
    let names: Vec<&str> =
        page["data"].as_array().unwrap().iter().map(|strategy| strategy["name"].as_str().unwrap()).collect();
    assert_eq!(names, known_strategies().names());
    assert!(names.is_sorted() && names.contains(&"two_writes") && names.contains(&"planner"), "{names:?}");
    let two_writes = names.iter().position(|name| *name == "two_writes").unwrap();
    assert_eq!(
        page["data"][two_writes],
        json!({"name": "two_writes", "version": 3, "about": "makes two calls that may change the world"})
    );
}

#[tokio::test]
async fn a_strategy_shows_its_graph_and_configuration() {
    let api = TestApi::new().await;
    let probe = api.get("/v1/strategies/probe").await.json();
    assert_eq!((&probe["name"], &probe["version"]), (&json!("probe"), &json!(1)));
    assert_eq!(probe["defaults"], json!({"padding": 0}));
    assert!(probe["config_schema"]["properties"]["padding"].is_object());
    assert_eq!(probe["entrances"], json!(["read"]));
    assert!(probe["nodes"].as_array().unwrap().contains(&json!("nested.enter")));
    let edges = probe["edges"].as_array().unwrap();
    for edge in [
        json!({"from": "read", "kind": "to", "to": "step"}),
        json!({"from": "ask", "kind": "ask", "to": "receive_answer"}),
        json!({"from": "finish", "kind": "end", "to": null}),
    ] {
        assert!(edges.contains(&edge), "{edge}");
    }
}

#[tokio::test]
async fn a_strategy_is_drawn_as_a_flowchart() {
    let api = TestApi::new().await;
    let reply = api.get("/v1/strategies/probe/map").await;
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert!(reply.text().starts_with("flowchart TD\n"));
    assert!(reply.text().contains("ask -->|asks a person| receive_answer"));
}

#[tokio::test]
async fn an_unknown_strategy_lists_the_known_ones() {
    let api = TestApi::new().await;
    for tail in ["", "/map"] {
        let detail = api.get(&format!("/v1/strategies/unknown{tail}")).await.problem(404, "unknown-strategy");
        assert!(detail.contains(&known_strategies().names().join(", ")), "{detail}");
    }
}

#[tokio::test]
async fn nodes_are_shown_as_they_are_configured() {
    let tuned = json!({"nodes": {"plan": {"temperature": 0.5, "prompt": "Plan it."}}, "model": "own/one"});
    let api = TestApi::with(|config| {
        config.tuned.insert("planner".to_owned(), tuned);
    })
    .await;
    let shown = api.get("/v1/strategies/planner/nodes").await.json();
    let nodes = shown["nodes"].as_array().unwrap();
    let plan = nodes.iter().find(|node| node["name"] == "plan").unwrap();
    let origin = "origin of strategies.planner.nodes.plan.temperature";
    assert_eq!(plan["parameters"]["temperature"], json!({"value": 0.5, "origin": origin}));
    assert_eq!(plan["model"], json!({"value": "own/one", "origin": "origin of strategies.planner.model"}));
    assert_eq!(plan["prompt"]["text"], "Plan it.");
    assert!(nodes.iter().any(|node| node["prompt"]["origin"] == "built-in"), "{nodes:?}");

    let as_acme =
        axum::http::Request::get("/v1/strategies/planner/nodes").header("x-turnfold-tenant", "acme");
    let of_tenant = api.send(as_acme.body(axum::body::Body::empty()).unwrap()).await.json();
    assert!(
        !of_tenant.to_string().contains("origin of"),
        "a tenant does not see the operator's files: {of_tenant}"
    );
}
