//! Metrics of the API.

use axum::{body::Body, http::Request};
use metrics::metrics;
use serde_json::json;

use crate::test_api::TestApi;

async fn read(api: &TestApi) -> String {
    api.get("/metrics").await.text().to_owned()
}

#[tokio::test]
async fn requests_are_counted_by_the_template_of_their_path() {
    let api = TestApi::new().await;
    api.submit("echo hi").await;
    let id = uuid::Uuid::nil();
    api.get(&format!("/v1/turns/{id}")).await;
    api.get("/v1/strange/path").await;
    let brewed = Request::builder().method("BREW").uri("/v1/turns").body(Body::empty()).unwrap();
    api.send(brewed).await;
    let text = read(&api).await;
    for labels in [
        r#"method="POST",route="/v1/turns",status="202""#,
        r#"method="GET",route="/v1/turns/{id}",status="404""#,
        r#"method="GET",route="",status="404""#,
        r#"method="other",route="/v1/turns",status="405""#,
    ] {
        let line = format!("turnfold_http_requests_total{{{labels}}} 1\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(!text.contains("strange") && !text.contains(&id.to_string()), "{text}");
}

#[tokio::test]
async fn turns_that_wait_are_measured_by_cause() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    let behind = json!({"thread_id": turn["thread_id"], "input": "echo again"});
    api.post("/v1/turns", behind).await;
    let text = read(&api).await;
    let line = |name: &str, cause: &str| {
        let start = format!("turnfold_{name}{{cause=\"{cause}\"}} ");
        text.lines()
            .find_map(|line| line.strip_prefix(&start))
            .unwrap_or_else(|| panic!("{start} in {text}"))
            .to_owned()
    };
    assert_eq!(line("turns_waiting", "worker"), "1");
    assert_eq!(line("turns_waiting", "behind"), "1");
    assert_eq!(line("turns_waiting", "limit"), "0", "a cause without turns is 0");
    assert_eq!(line("turns_oldest_waiting_seconds", "limit"), "0");
    assert!(text.contains("turnfold_workers{status=\"missing\"} 0\n"), "{text}");
    assert!(text.contains("turnfold_database_connections{pool=\"read\",state=\"idle\"} "), "{text}");
}

#[tokio::test]
async fn tenants_beyond_the_limit_are_counted_together() {
    let api = TestApi::new().await;
    metrics().turns.name_tenants(["zebra"]);
    for nth in 0..150 {
        metrics().turns.ended(&format!("tenant-{nth}"), "probe", "answered");
    }
    metrics().turns.ended("zebra", "probe", "answered");
    let text = read(&api).await;
    let of = |tenant: &str| {
        let start = format!("turnfold_tenant_turns_total{{tenant=\"{tenant}\",outcome=\"answered\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    assert_eq!(of("tenant-98").as_deref(), Some("1"));
    assert_eq!(of("tenant-99"), None, "100 tenants have a series of their own");
    assert_eq!(of("other").as_deref(), Some("51"));
    assert_eq!(of("zebra").as_deref(), Some("1"), "a configured tenant comes first");
}
