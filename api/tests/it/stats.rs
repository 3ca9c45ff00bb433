//! Statistics: counts by interval and cause, for one tenant or all.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::test_api::{TestApi, thread_of};

/// Returns a number of the response.
fn at<'a>(stats: &'a Value, pointer: &str) -> &'a Value {
    stats.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {stats}"))
}

#[tokio::test]
async fn turns_are_counted_by_status_end_and_cause() {
    let api = TestApi::new().await;
    api.run_turn("echo hi").await;
    api.run_turn("ask Well?").await;
    api.run_turn("fail no model in 30 s").await;
    api.submit("echo later").await;
    api.backends.store.write_counts().await.unwrap();
    for (range, seconds) in [("hour", 60), ("today", 900), ("day", 900), ("week", 3600)] {
        let stats = api.get(&format!("/v1/stats?range={range}")).await.json();
        assert_eq!(at(&stats, "/interval_seconds"), seconds);
        assert_eq!(at(&stats, "/open"), &json!({"queued": 1, "running": 0, "interrupted": 1}));
        let ended = at(&stats, "/ended");
        assert_eq!(
            (&ended["answered"], &ended["interrupted"], &ended["failed"]),
            (&json!(1), &json!(1), &json!(1))
        );
        let cause = at(&stats, "/causes/0");
        assert_eq!((&cause["ended"], &cause["turns"]), (&json!("failed"), &json!(1)));
        assert!(cause["cause"].as_str().unwrap().contains("no model in #"), "{cause}");
        let series = at(&stats, "/series").as_array().unwrap();
        let failed: u64 = series.iter().map(|bucket| bucket["failed"].as_u64().unwrap()).sum();
        assert_eq!(failed, 1, "{series:?}");
        assert!(series.iter().all(|bucket| bucket["at"].as_str() >= stats["since"].as_str()), "{stats}");
    }
    let default = api.get("/v1/stats").await.json();
    assert_eq!(default["range"], "day");
    api.get("/v1/stats?range=year").await.problem(400, "malformed");
}

#[tokio::test]
async fn a_tenant_sees_its_own_counts() {
    let api = TestApi::new().await;
    let turn = api
        .post_with(
            "/v1/turns",
            &[("x-turnfold-tenant", "acme")],
            json!({"strategy": "probe", "input": "echo hi"}),
        )
        .await
        .json();
    api.run_until_idle(thread_of(&turn)).await;
    api.run_turn("echo hi").await;
    api.backends.store.write_counts().await.unwrap();
    let answered = async |tenant: Option<&str>| {
        let mut request = Request::get("/v1/stats?range=hour");
        if let Some(tenant) = tenant {
            request = request.header("x-turnfold-tenant", tenant);
        }
        api.send(request.body(Body::empty()).unwrap()).await.json()["ended"]["answered"].clone()
    };
    assert_eq!(answered(None).await, 2);
    assert_eq!(answered(Some("acme")).await, 1);
    assert_eq!(answered(Some("bell")).await, 0);
}

/// The statistics of a period are computed once and then kept for some seconds.
#[tokio::test]
async fn the_same_statistics_are_not_computed_for_every_request() {
    let api = TestApi::new().await;
    let first = api.get("/v1/stats?range=hour").await.json();
    api.run_turn("echo hi").await;
    api.backends.store.write_counts().await.unwrap();
    assert_eq!(api.get("/v1/stats?range=hour").await.json(), first);
    assert_eq!(api.get("/v1/stats?range=day").await.json()["ended"]["answered"], 1, "another period");
}
