//! An endpoint of OpenAI's API whose model answers at once.

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Text of every answer.
pub(super) const ANSWER: &str = "At once.";

/// The answer of the model, whole.
const WHOLE: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"model","choices":[{"index":0,"message":{"role":"assistant","content":"At once."},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}"#;

/// Answer as a stream.
const STREAM: &str = concat!(
    r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"model","choices":[{"index":0,"delta":{"role":"assistant","content":"At once."},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}"#,
    "\n\ndata: [DONE]\n\n"
);

/// The endpoint. It ends when this is dropped.
pub(super) struct InstantModel {
    /// URL before the paths of the API.
    pub(super) url: String,
    task: JoinHandle<()>,
}

impl Drop for InstantModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl InstantModel {
    /// Starts the endpoint.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer_all(connection));
            }
        });
        Ok(Self { url, task })
    }
}

/// Answers the requests of a connection until it closes.
async fn answer_all(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        while let Some((head, length)) = first_request(&received) {
            let is_streamed = received[head..length].windows(13).any(|part| part == b"\"stream\":true");
            received.drain(..length);
            let (kind, body) =
                if is_streamed { ("text/event-stream", STREAM) } else { ("application/json", WHOLE) };
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
            connection.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await?;
        }
        if connection.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

/// Returns the length of the head of the first request, and of the whole request; none until it has arrived.
fn first_request(received: &[u8]) -> Option<(usize, usize)> {
    let head = received.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&received[..head]).to_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse::<usize>().ok()?;
    (head + length <= received.len()).then_some((head, head + length))
}

#[test]
fn a_request_is_answered_once_it_has_arrived() {
    let request = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST";
    let whole = request.len() - 4;
    assert_eq!(first_request(request), Some((whole - 3, whole)));
    assert_eq!(first_request(&request[..whole - 1]), None);
    for body in [WHOLE, STREAM] {
        assert!(body.contains(ANSWER), "{body}");
    }
}
