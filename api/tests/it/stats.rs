//! Statistics: counts by interval and cause, for one tenant or all.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::test_api::{Room, thread_of};

/// Returns a number of the response.
fn at<'a>(stats: &'a Value, pointer: &str) -> &'a Value {
    stats.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {stats}"))
}

#[tokio::test]
async fn turns_are_counted_by_status_end_and_cause() {
    let room = Room::new().await;
    room.lived("echo hi").await;
    room.lived("ask Well?").await;
    room.lived("fail no model in 30 s").await;
    room.probe("echo later").await;
    room.parts.store.write_counts().await.unwrap();
    for (range, seconds) in [("hour", 60), ("today", 900), ("day", 900), ("week", 3600)] {
        let stats = room.get(&format!("/v1/stats?range={range}")).await.json();
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
        let failed: u64 = series.iter().map(|it| it["failed"].as_u64().unwrap()).sum();
        assert_eq!(failed, 1, "{series:?}");
        assert!(series.iter().all(|it| it["at"].as_str() >= stats["since"].as_str()), "{stats}");
    }
    let default = room.get("/v1/stats").await.json();
    assert_eq!(default["range"], "day");
    room.get("/v1/stats?range=year").await.problem(400, "malformed");
}

#[tokio::test]
async fn a_tenant_sees_its_own_counts() {
    let room = Room::new().await;
    let turn = room
        .post_with(
            "/v1/turns",
            &[("x-turnfold-tenant", "acme")],
            json!({"strategy": "probe", "input": "echo hi"}),
        )
        .await
        .json();
    room.live(thread_of(&turn)).await;
    room.lived("echo hi").await;
    room.parts.store.write_counts().await.unwrap();
    let answered = async |tenant: Option<&str>| {
        let mut request = Request::get("/v1/stats?range=hour");
        if let Some(tenant) = tenant {
            request = request.header("x-turnfold-tenant", tenant);
        }
        room.send(request.body(Body::empty()).unwrap()).await.json()["ended"]["answered"].clone()
    };
    assert_eq!(answered(None).await, 2);
    assert_eq!(answered(Some("acme")).await, 1);
    assert_eq!(answered(Some("bell")).await, 0);
}

/// The statistics of a period are computed once and then kept for some seconds.
#[tokio::test]
async fn the_same_statistics_are_not_computed_for_every_request() {
    let room = Room::new().await;
    let first = room.get("/v1/stats?range=hour").await.json();
    room.lived("echo hi").await;
    room.parts.store.write_counts().await.unwrap();
    assert_eq!(room.get("/v1/stats?range=hour").await.json(), first);
    assert_eq!(room.get("/v1/stats?range=day").await.json()["ended"]["answered"], 1, "another period");
}
