//! Clients that hold connections: others are served, and idle connections end.

use std::{net::SocketAddr, time::Duration};

use api::ConnectionLimits;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::test_api::{backends, config};

/// Beginnings of requests, after which a client sends nothing more: nothing at all, a part of the request line, of the
/// headers, of the body, and a whole request whose connection it keeps.
const UNFINISHED_REQUESTS: [&str; 5] = [
    "",
    "GET /liv",
    "GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a",
    "POST /v1/turns HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"input\"",
    "GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
];

async fn serve(limits: ConnectionLimits) -> (SocketAddr, JoinHandle<()>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = api::ApiConfig { connections: limits, ..config(&backends().await) };
    (address, tokio::spawn(api::serve(listener, config, CancellationToken::new())))
}

async fn send_unfinished(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A connection that is closed with unread input is reset.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn held_connections_give_way_to_others() {
    for limits in [
        ConnectionLimits { max: 20, ..ConnectionLimits::default() },
        ConnectionLimits { max_per_address: 20, ..ConnectionLimits::default() },
    ] {
        let (address, server) = serve(limits).await;
        let mut held = Vec::new();
        for text in UNFINISHED_REQUESTS {
            for _ in 0..30 {
                held.push(send_unfinished(address, text).await);
            }
            let client = reqwest::Client::new();
            let answer = client.get(format!("http://{address}/livez")).send().await;
            assert_eq!(answer.expect("it is answered").status(), 200, "{limits:?} {text:?}");
        }
        let first = tokio::time::timeout(Duration::from_secs(10), read_to_end(&mut held[0])).await;
        assert_eq!(first.expect("the longest idle connection is closed"), "");
        server.abort();
    }
}

#[tokio::test]
async fn a_connection_whose_request_is_answered_is_kept() {
    let (address, server) = serve(ConnectionLimits { max: 3, ..ConnectionLimits::default() }).await;
    let client = reqwest::Client::new();
    let body = serde_json::json!({"strategy": "probe", "input": "echo hi"});
    let turn = client.post(format!("http://{address}/v1/turns")).json(&body).send().await.unwrap();
    assert_eq!(turn.headers().get("connection"), None, "the whole body was read");
    let turn: serde_json::Value = turn.json().await.unwrap();
    let thread = turn["thread_id"].as_str().unwrap();
    let mut events = send_unfinished(
        address,
        &format!(
            "GET /v1/threads/{thread}/events HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n"
        ),
    )
    .await;
    let mut head = [0; 15];
    events.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    for _ in 0..10 {
        drop(send_unfinished(address, "").await);
        let answer = client.get(format!("http://{address}/livez")).send().await;
        assert_eq!(answer.unwrap().status(), 200);
    }
    let mut rest = vec![0; 64 * 1024];
    let end = async { while events.read(&mut rest).await.unwrap() != 0 {} };
    assert!(tokio::time::timeout(Duration::from_millis(200), end).await.is_err(), "the stream is still open");
    server.abort();
}

#[tokio::test]
async fn a_request_that_does_not_arrive_in_time_ends() {
    let limits = ConnectionLimits {
        header_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        ..ConnectionLimits::default()
    };
    let (address, server) = serve(limits).await;
    for (text, status) in UNFINISHED_REQUESTS.into_iter().zip(["", "", "", "HTTP/1.1 400", "HTTP/1.1 200"]) {
        let mut held = send_unfinished(address, text).await;
        let answer = tokio::time::timeout(Duration::from_secs(20), read_to_end(&mut held)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{text:?} is kept open"));
        assert!(answer.starts_with(status), "{text:?}: {answer}");
        assert_eq!(answer.contains("connection: close"), status.ends_with("400"), "{text:?}: {answer}");
    }
    server.abort();
}
