//! Webhooks with a receiver that verifies signatures, is unavailable, rejects events, or asks for a delay.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api::WebhookConfig;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Request, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use store::{
    batches::BatchStatus,
    webhooks::{DeliveryFilter, MOST_WEBHOOKS},
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    batch_test::{BatchTest, echo_lines, line},
    test_api::{TestApi, key_ring},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver of webhooks.
struct Receiver {
    received: Arc<Received>,
    url: String,
    server: JoinHandle<()>,
}

/// Received requests and the next responses.
#[derive(Default)]
struct Received {
    requests: Mutex<Vec<(HeaderMap, Bytes)>>,
    answers: Mutex<VecDeque<u16>>,
}

impl Receiver {
    /// Starts a receiver that responds with these statuses first (0 means no response), then with 204.
    async fn start(answers: &[u16]) -> Self {
        let received = Arc::new(Received::default());
        received.answers.lock().unwrap().extend(answers);
        let router = Router::new().route("/hook", post(receive)).with_state(received.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { received, url, server }
    }

    /// Waits until this number of requests was received.
    async fn wait_for(&self, count: usize) -> Vec<(HeaderMap, Bytes)> {
        let began = Instant::now();
        loop {
            let requests = self.received.requests.lock().unwrap().clone();
            if requests.len() >= count {
                return requests;
            }
            assert!(began.elapsed() < PATIENCE, "{} of {count} came", requests.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(received): State<Arc<Received>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    received.requests.lock().unwrap().push((headers, body));
    let answer = received.answers.lock().unwrap().pop_front().unwrap_or(204);
    if answer == 0 {
        std::future::pending::<()>().await;
    }
    StatusCode::from_u16(answer).unwrap()
}

/// Intervals that are short enough for a test.
fn short_intervals(retries: usize) -> WebhookConfig {
    WebhookConfig {
        retries: vec![Duration::from_millis(50); retries],
        timeout: Duration::from_secs(2),
        look: Duration::from_millis(20),
        ..WebhookConfig::default()
    }
}

async fn add(api: &TestApi, headers: &[(&str, &str)], body: Value) -> Value {
    let reply = api.post_with("/v1/webhooks", headers, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// Verifies a request with the reference library and returns its body.
#[track_caller]
fn verified(secret: &str, (headers, body): &(HeaderMap, Bytes)) -> Value {
    let webhook = standardwebhooks::Webhook::new(secret).unwrap();
    webhook.verify(body, headers).unwrap_or_else(|error| panic!("{error}: {headers:?}"));
    let mut changed = body.to_vec();
    changed[10] ^= 1;
    assert!(webhook.verify(&changed, headers).is_err(), "a changed body does not fit the signature");
    serde_json::from_slice(body).unwrap()
}

async fn deliveries(test: &BatchTest, state: &str, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let page = test.api.get(&format!("/v1/deliveries?state={state}")).await.json();
        let data = page["data"].as_array().unwrap().clone();
        if data.len() >= count {
            return data;
        }
        assert!(began.elapsed() < PATIENCE, "{page:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_batch_is_delivered_with_a_signature() {
    let mut test = BatchTest::idle(|config| config.webhooks = short_intervals(3)).await;
    test.start_coordinator();
    test.start_worker();
    let receiver = Receiver::start(&[]).await;
    let webhook = add(&test.api, &[], json!({"url": receiver.url})).await;
    let secret = field(&webhook, "secret");
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let only = add(&test.api, &[], json!({"url": receiver.url, "types": ["batch.failed"]})).await;
    let list = test.api.get("/v1/webhooks").await;
    assert!(!list.text().contains("whsec_"), "a secret is shown once: {}", list.text());
    assert_eq!(list.json()["data"].as_array().unwrap().len(), 2);

    let succeeded = test.batch(&test.upload(echo_lines(5)).await, json!({"metadata": {"night": "1"}})).await;
    test.wait_for_status(&succeeded, "completed").await;
    receiver.wait_for(1).await;
    let lines = echo_lines(2) + &line("f", "fail on purpose");
    let with_errors = test.batch(&test.upload(lines).await, json!({"reuse": "none"})).await;
    test.wait_for_status(&with_errors, "completed").await;
    receiver.wait_for(2).await;
    let cancelled = test.batch(&test.upload(line("a", "ask Who? | a | b")).await, json!({})).await;
    test.wait_until(&cancelled, |batch| batch["turnfold"]["awaiting_input"] == 1).await;
    test.act(&cancelled, "cancel", json!({})).await;
    receiver.wait_for(3).await;
    let expired = test.upload(line("l", "ask Who? | a | b")).await;
    let expired = test.batch(&expired, json!({"completion_window": "1s"})).await;
    receiver.wait_for(4).await;
    let empty = test.batch(&test.upload("x\n").await, json!({})).await;

    let requests = receiver.wait_for(6).await;
    let secrets = [secret, field(&only, "secret")];
    // The last event is delivered to both.
    let events: Vec<Value> = requests[..4].iter().map(|request| verified(&secrets[0], request)).collect();
    let types: Vec<String> = events.iter().map(|event| field(event, "type")).collect();
    assert_eq!(
        types,
        ["batch.completed", "batch.completed_with_errors", "batch.cancelled", "batch.expired"],
        "{events:#?}"
    );
    let ids: Vec<String> = events.iter().map(|event| field(&event["data"], "id")).collect();
    assert_eq!(ids, [succeeded, with_errors, cancelled, expired]);
    assert_eq!(
        events[1]["data"]["request_counts"],
        json!({"total": 3, "completed": 2, "partial": 0, "declined": 0, "failed": 1})
    );
    assert_eq!(
        (&events[0]["data"]["metadata"]["night"], &events[0]["object"]),
        (&json!("1"), &json!("event"))
    );
    let body_of = |request: &(HeaderMap, Bytes)| serde_json::from_slice::<Value>(&request.1).unwrap();
    assert!(requests[4..].iter().all(|request| body_of(request)["data"]["id"] == json!(empty)));
    assert!(requests[4..].iter().all(|request| body_of(request)["type"] == "batch.failed"));
    let ids_of_events: BTreeSet<&str> =
        requests.iter().map(|request| request.0["webhook-id"].to_str().unwrap()).collect();
    assert_eq!(ids_of_events.len(), 6, "each has its own id");
    assert!(requests.iter().all(|(headers, _)| headers["content-type"] == "application/json"));
    deliveries(&test, "delivered", 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_receiver_gets_the_event_later_with_the_same_id() {
    let mut test = BatchTest::idle(|config| config.webhooks = short_intervals(5)).await;
    test.start_coordinator();
    test.start_worker();
    let receiver = Receiver::start(&[500, 302, 429]).await;
    let webhook = add(&test.api, &[], json!({"url": receiver.url})).await;
    let batch = test.batch(&test.upload(echo_lines(1)).await, json!({})).await;
    let requests = receiver.wait_for(4).await;
    let ids_of_events: BTreeSet<&[u8]> =
        requests.iter().map(|request| request.0["webhook-id"].as_bytes()).collect();
    assert_eq!((ids_of_events.len(), requests.len()), (1, 4));
    assert!(
        requests
            .iter()
            .all(|request| verified(&field(&webhook, "secret"), request)["data"]["id"] == json!(batch))
    );
    let done = &deliveries(&test, "delivered", 1).await[0];
    assert_eq!((&done["attempts"], &done["status"]), (&json!(4), &json!(204)), "{done:#}");

    // No server is listening at this address, and finally the delivery fails.
    let unreachable = add(&test.api, &[], json!({"url": "http://127.0.0.1:1/hook"})).await;
    test.api.send(remove(&field(&webhook, "id"))).await;
    test.batch(&test.upload(echo_lines(1)).await, json!({"reuse": "none"})).await;
    let failed_delivery = deliveries(&test, "failed", 1).await[0].clone();
    assert_eq!(
        (&failed_delivery["attempts"], &failed_delivery["status"]),
        (&json!(6), &Value::Null),
        "{failed_delivery:#}"
    );
    assert!(field(&failed_delivery, "error").contains("refused"), "{failed_delivery:#}");
    assert_eq!(failed_delivery["webhook_id"], unreachable["id"], "{failed_delivery:#}");
    let again = test
        .api
        .post(&format!("/v1/deliveries/{}/redeliver", field(&failed_delivery, "id")), json!({}))
        .await;
    assert_eq!((again.status, &again.json()["state"]), (StatusCode::OK, &json!("pending")));
    let failed_delivery = deliveries(&test, "failed", 1).await[0].clone();
    assert_eq!(failed_delivery["attempts"], 6, "it was attempted again: {failed_delivery:#}");
}

fn remove(id: &str) -> Request<axum::body::Body> {
    Request::delete(format!("/v1/webhooks/{id}")).body(axum::body::Body::empty()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_disables_the_webhook() {
    let mut test = BatchTest::idle(|config| config.webhooks = short_intervals(5)).await;
    test.start_coordinator();
    test.start_worker();
    let receiver = Receiver::start(&[410]).await;
    let webhook = add(&test.api, &[], json!({"url": receiver.url})).await;
    for nth in 1..=2 {
        let batch = test.batch(&test.upload(echo_lines(nth)).await, json!({})).await;
        test.wait_for_status(&batch, "completed").await;
        if nth == 1 {
            let ended = &deliveries(&test, "failed", 1).await[0];
            assert_eq!((&ended["attempts"], &ended["status"]), (&json!(1), &json!(410)), "{ended:#}");
            let again = format!("/v1/deliveries/{}/redeliver", field(ended, "id"));
            let message = test.api.post(&again, json!({})).await.problem(409, "not-now");
            assert!(message.contains("410"), "{message}");
        }
    }
    let list = test.api.get("/v1/webhooks").await.json();
    assert!(field(&list["data"][0], "disabled_reason").contains("410"), "{list:#}");
    assert_eq!(test.api.get("/v1/deliveries").await.json()["data"].as_array().unwrap().len(), 1);
    assert_eq!(receiver.received.requests.lock().unwrap().len(), 1);
    let gone = test.api.send(remove(&field(&webhook, "id"))).await;
    assert_eq!(gone.status, 200);
    assert_eq!(
        test.api.get("/v1/deliveries").await.json()["data"],
        json!([]),
        "its deliveries are deleted with it"
    );
    test.api.send(remove(&field(&webhook, "id"))).await.problem(404, "unknown-webhook");
}

/// The API process dies between the end of a batch and its delivery, and during the delivery. The next process delivers
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_a_dead_process_are_sent_by_the_next() {
    let mut test = BatchTest::idle(|config| config.webhooks = short_intervals(5)).await;
    // The first request never gets a response.
    let receiver = Receiver::start(&[0]).await;
    add(&test.api, &[], json!({"url": receiver.url})).await;
    let batch = test.batch(&test.upload(echo_lines(3)).await, json!({})).await;
    let store = &test.api.backends.store;
    let kept = store.acquire_batch_leases("the dead", 60_000_000).await.unwrap();
    assert!(
        store.advance_batch(&kept[0], "the dead", BatchStatus::Failed, Some("for the test")).await.unwrap()
    );
    let waiting = &deliveries(&test, "pending", 1).await[0];
    assert_eq!((&waiting["attempts"], &waiting["payload"]["data"]["id"]), (&json!(0), &json!(batch)));
    assert!(!store.advance_batch(&kept[0], "the dead", BatchStatus::Failed, None).await.unwrap());
    assert_eq!(
        deliveries(&test, "pending", 1).await.len(),
        1,
        "an end that was not recorded is not announced"
    );

    test.start_coordinator();
    receiver.wait_for(1).await;
    test.kill_coordinator().await;
    test.start_coordinator();
    let requests = receiver.wait_for(2).await;
    assert_eq!(requests[0].0["webhook-id"], requests[1].0["webhook-id"]);
    assert_eq!(requests[0].1, requests[1].1);
    let delivered = &deliveries(&test, "delivered", 1).await[0];
    assert_eq!(delivered["attempts"], 2, "{delivered:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_receives_its_own_events_and_cannot_target_private_addresses() {
    let mut test = BatchTest::idle(|config| {
        config.webhooks = short_intervals(1);
        config.keys = key_ring(&["master"], &[("a", &["key-a"]), ("b", &["key-b"])]);
    })
    .await;
    test.start_coordinator();
    let api = &test.api;
    let (a, master) = ([("authorization", "Bearer key-a")], [("authorization", "Bearer master")]);
    for url in [
        "https://127.0.0.1/x",
        "https://10.1.2.3/x",
        "http://example.org/x",
        "https://[::1]/x",
        "ftp://x/",
        "hook",
    ] {
        let refused = api.post_with("/v1/webhooks", &a, json!({"url": url})).await;
        let message = refused.problem(422, "invalid");
        assert!(message.starts_with("url: "), "{message}");
    }
    // Names are resolved at delivery, so this one, of this machine, is accepted with a warning.
    let own = add(api, &a, json!({"url": "https://localhost:1/hook", "types": ["batch.*"]})).await;
    assert_eq!(own["tenant"], "a");
    assert!(field(&own, "warning").contains("does not resolve to a public address"), "{own:#}");
    let receiver = Receiver::start(&[]).await;
    let all = add(api, &master, json!({"url": receiver.url})).await;
    assert_eq!((&all["tenant"], &all["warning"]), (&Value::Null, &Value::Null));
    for body in
        [json!({"url": receiver.url, "types": ["thread.*"]}), json!({"url": receiver.url, "types": []})]
    {
        let message = api.post_with("/v1/webhooks", &master, body).await.problem(422, "invalid");
        assert!(message.starts_with("types: "), "{message}");
    }
    let get = async |path: &str, key: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {key}"));
        api.send(request.body(axum::body::Body::empty()).unwrap()).await
    };
    for (key, count) in [("master", 2), ("key-a", 1), ("key-b", 0)] {
        let list = get("/v1/webhooks", key).await.json();
        assert_eq!(list["data"].as_array().unwrap().len(), count, "{key}: {list:#}");
    }
    let path = format!("/v1/deliveries?webhook_id={}", field(&all, "id"));
    get(&path, "key-a").await.problem(404, "unknown-webhook");

    // The end of tenant a's batch is delivered to a and to the operator, not to b.
    let mut upload = crate::batch_test::form("batch", b"no line\n");
    upload.headers_mut().insert("authorization", "Bearer key-a".parse().unwrap());
    let file = field(&api.send(upload).await.json(), "id");
    let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
    assert_eq!(api.post_with("/v1/batches", &a, body).await.status, 200);
    let event: Value = serde_json::from_slice(&receiver.wait_for(1).await[0].1).unwrap();
    assert_eq!((&event["type"], &event["data"]["tenant"]), (&json!("batch.failed"), &json!("a")));
    let began = Instant::now();
    let failed_delivery = loop {
        let page = get("/v1/deliveries?state=failed", "key-a").await.json();
        match page["data"].get(0) {
            Some(delivery) => break delivery.clone(),
            None => assert!(began.elapsed() < PATIENCE, "{page:#}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(
        field(&failed_delivery, "error").contains("does not resolve to a public address"),
        "{failed_delivery:#}"
    );
    assert_eq!(get("/v1/deliveries", "key-b").await.json()["data"], json!([]));
    let b = [("authorization", "Bearer key-b")];
    let again = format!("/v1/deliveries/{}/redeliver", field(&failed_delivery, "id"));
    api.post_with(&again, &b, json!({})).await.problem(404, "unknown-delivery");
    for (key, id) in [("key-b", &own), ("key-a", &all)] {
        let mut request = remove(&field(id, "id"));
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        api.send(request).await.problem(404, "unknown-webhook");
    }
}

/// No request to one tenant's webhooks gets a response, and more deliveries are due than are sent at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_silent_webhooks_delays_no_other() {
    let mut test = BatchTest::idle(|config| {
        config.webhooks = WebhookConfig {
            private_addresses: true,
            timeout: Duration::from_secs(600),
            ..short_intervals(1)
        };
        config.keys = key_ring(&[], &[("a", &["a"]), ("b", &["b"])]);
    })
    .await;
    test.start_coordinator();
    let api = &test.api;
    let fail = async |key: &str, batches: usize| {
        let bearer = format!("Bearer {key}");
        let mut upload = crate::batch_test::form("batch", b"no line\n");
        upload.headers_mut().insert("authorization", bearer.parse().unwrap());
        let file = field(&api.send(upload).await.json(), "id");
        let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        for _ in 0..batches {
            let made = api.post_with("/v1/batches", &[("authorization", &bearer)], body.clone()).await;
            assert_eq!(made.status, 200, "{made:?}");
        }
    };
    let (silent, receiver) = (Receiver::start(&[0; 1000]).await, Receiver::start(&[]).await);
    for _ in 0..MOST_WEBHOOKS {
        add(api, &[("authorization", "Bearer a")], json!({"url": silent.url})).await;
    }
    add(api, &[("authorization", "Bearer b")], json!({"url": receiver.url})).await;
    fail("a", 15).await;
    let began = Instant::now();
    let written = || async {
        let filter = DeliveryFilter { tenant: Some("a"), ..DeliveryFilter::default() };
        api.backends.store.deliveries(filter, None, 1000).await.unwrap().len()
    };
    while written().await < 15 * MOST_WEBHOOKS {
        assert!(began.elapsed() < PATIENCE, "not all batches ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    silent.wait_for(1).await;
    fail("b", 1).await;
    receiver.wait_for(1).await;
}

#[tokio::test]
async fn turns_are_reported_by_strategy_and_metadata() {
    let receiver = Receiver::start(&[]).await;
    let mut test = BatchTest::idle(|config| config.webhooks = short_intervals(3)).await;
    test.start_coordinator();
    let only =
        json!({"url": receiver.url, "types": ["turn.*"], "strategy": "probe", "metadata": {"team": "sales"}});
    let webhook = add(&test.api, &[], only.clone()).await;
    assert_eq!(
        (&webhook["strategy"], &webhook["metadata"]["team"]),
        (&only["strategy"], &only["metadata"]["team"])
    );
    let mut turns = Vec::new();
    for (team, input) in [("other", "echo hi"), ("sales", "ask Pay? | yes | no"), ("sales", "echo hi")] {
        let body = json!({"strategy": "probe", "input": input, "metadata": {"team": team}});
        let turn = test.api.post("/v1/turns", body).await.json();
        test.api.run_until_idle(crate::test_api::thread_of(&turn)).await;
        turns.push(turn);
    }
    let secret = field(&webhook, "secret");
    let bodies: Vec<Value> =
        receiver.wait_for(2).await.iter().map(|request| verified(&secret, request)).collect();
    let of = |kind: &str| bodies.iter().find(|body| body["type"] == kind).unwrap();
    assert_eq!(of("turn.waiting")["data"]["question"]["text"], "Pay?");
    assert_eq!(of("turn.waiting")["data"]["id"], turns[1]["id"]);
    assert_eq!(of("turn.completed")["data"]["id"], turns[2]["id"]);
    assert_eq!(bodies.len(), 2);

    let many: serde_json::Map<String, Value> = (0..17).map(|nth| (nth.to_string(), json!("x"))).collect();
    for (field, wrong) in [("strategy", json!("prob")), ("metadata", json!(many))] {
        let mut body = only.clone();
        body[field] = wrong;
        let reply = test.api.post("/v1/webhooks", body).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        assert!(reply.json()["detail"].as_str().unwrap().starts_with(field), "{reply:?}");
    }
}
