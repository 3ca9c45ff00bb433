//! The server over a real socket, until shutdown.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use queue::{Notification, Notifications, QueueError};
use serde_json::{Value, json};
use store::ThreadId;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::test_api::{TestApi, backends, config};

/// Notifications that count their subscribers.
struct CountedNotifications(Arc<dyn Notifications>, Arc<Semaphore>);

#[async_trait]
impl Notifications for CountedNotifications {
    async fn publish(&self, thread: ThreadId, notification: Notification) {
        self.0.publish(thread, notification).await;
    }

    async fn subscribe(&self, thread: ThreadId) -> Result<BoxStream<'static, Notification>, QueueError> {
        let notifications = self.0.subscribe(thread).await;
        self.1.add_permits(1);
        notifications
    }

    async fn subscribe_to_ends(
        &self,
        thread: ThreadId,
    ) -> Result<BoxStream<'static, Notification>, QueueError> {
        let notifications = self.0.subscribe_to_ends(thread).await;
        self.1.add_permits(1);
        notifications
    }
}

#[tokio::test]
async fn the_server_ends_streams_and_long_polls_on_shutdown() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listeners = Arc::new(Semaphore::new(0));
    let mut backends = backends().await;
    backends.notifications = Arc::new(CountedNotifications(backends.notifications, Arc::clone(&listeners)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(api::serve(listener, config(&backends), stop.clone()));
    let client = reqwest::Client::new();

    let body = json!({"strategy": "probe", "input": "echo hi"});
    let turn: Value =
        client.post(format!("{base}/v1/turns")).json(&body).send().await.unwrap().json().await.unwrap();
    let thread = turn["thread_id"].as_str().unwrap();
    let events =
        client.get(format!("{base}/v1/threads/{thread}/events")).header("accept", "text/event-stream");
    let mut events = events.send().await.unwrap().bytes_stream();
    assert!(events.next().await.unwrap().unwrap().starts_with(b"id: 0\nevent: opened\n"));
    let poll = client.get(format!("{base}/v1/turns/{}?wait=60", turn["id"].as_str().unwrap())).send();
    let poll = tokio::spawn(poll);
    // The API is subscribed for its keys, and so are both the stream and the long poll.
    let _ = listeners.acquire_many(3).await.unwrap();

    stop.cancel();
    let end = async {
        while let Some(event) = events.next().await {
            event.unwrap();
        }
        let turn: Value = poll.await.unwrap().unwrap().json().await.unwrap();
        assert_eq!(turn["status"], "queued");
        serving.await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(5), end).await.expect("streams and long polls end at once");
    assert!(client.get(format!("{base}/livez")).send().await.is_err(), "the server has ended");
}

#[tokio::test]
async fn a_waiting_chat_completion_asks_for_a_retry_that_finds_the_same_turn() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chat = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hi"}]});
    let client = reqwest::Client::new();
    let marked = [("x-stainless-retry-count", "0", "1"), ("idempotency-key", "mine", "mine")];
    for headers in [Some(marked[0]), Some(marked[1]), None] {
        let backends = backends().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let path = "/v1/chat/completions";
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(api::serve(listener, config(&backends), stop.clone()));
        let mut request = client.post(url).json(&chat);
        if let Some((name, first, _)) = headers {
            request = request.header(name, first);
        }
        let sent = tokio::spawn(request.send());
        let api = TestApi::with(|config| config.parts = backends.clone()).await;
        while api.enqueued().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.cancel();
        let response = sent.await.unwrap().unwrap();
        assert_eq!(response.status(), 503, "{response:?}");
        assert!(response.headers().get("x-should-retry").is_none(), "{response:?}");
        serving.await.unwrap();

        // Another API process over the same store.
        api.run_until_idle(api.enqueued().await[0]).await;
        let again: Vec<_> = headers.into_iter().map(|(name, _, again)| (name, again)).collect();
        let reply =
            tokio::time::timeout(Duration::from_millis(500), api.post_with(path, &again, chat.clone()));
        let turn = reply.await.ok().map(|reply| reply.headers["x-turnfold-turn"].clone());
        assert_eq!(turn.as_ref(), response.headers().get("x-turnfold-turn"));
    }
}
