//! Streams of server-sent events: answers, and the messages that a server sends on its own.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use reqwest::{
    Method, Response,
    header::{CONTENT_TYPE, HeaderValue},
};
use rmcp::{
    model::{RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::SseError,
};
use serde_json::Value;
use sse_stream::Sse;
use tokio::sync::Semaphore;

use super::{HttpClient, SseStream, Target};
use crate::mcp::wire::{HEAD_BYTES, Inbound, Line, LineBuffer, MAX_LINE_BYTES, Reaction, Traffic, decode};

/// Maximum replies to a server's own requests that are on their way. Further requests are not replied to.
const MAX_REPLIES: usize = 4;

/// Maximum time of a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The events of one response.
pub(super) struct Events {
    client: HttpClient,
    target: Target,
    /// The request that the response answers; `None` for the stream of a session.
    request: Option<RequestId>,
    bytes: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were read.
    taken: usize,
    lines: LineBuffer,
    event: Event,
    ready: VecDeque<Sse>,
    traffic: Traffic,
    replies: Arc<Semaphore>,
}

/// The event being read.
#[derive(Default)]
struct Event {
    kind: String,
    data: Option<Vec<u8>>,
    id: Option<String>,
    retry: Option<u64>,
    bytes: usize,
    is_too_large: bool,
}

impl Event {
    fn add(&mut self, line: &Line) {
        let (Line::Whole(bytes) | Line::TooLong(bytes)) = line;
        self.bytes += bytes.len();
        let (field, value) = match bytes.iter().position(|byte| *byte == b':') {
            Some(at) => (&bytes[..at], bytes[at + 1..].strip_prefix(b" ").unwrap_or(&bytes[at + 1..])),
            None => (bytes.as_slice(), &[][..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        match field {
            b"data" => {
                let data = self.data.get_or_insert_default();
                if !data.is_empty() {
                    data.push(b'\n');
                }
                data.extend_from_slice(value);
                self.is_too_large = matches!(line, Line::TooLong(_)) || MAX_LINE_BYTES < data.len();
            }
            b"event" => self.kind = text(),
            b"id" => self.id = Some(text()),
            b"retry" => self.retry = text().parse().ok(),
            _ => (),
        }
    }

    /// The data as a line, if the event is a message.
    fn line(&mut self) -> Option<Line> {
        let mut data = self.data.take().filter(|_| matches!(self.kind.as_str(), "" | "message"))?;
        if !self.is_too_large {
            return Some(Line::Whole(data));
        }
        data.truncate(HEAD_BYTES);
        Some(Line::TooLong(data))
    }
}

impl Events {
    pub(super) fn new(
        client: &HttpClient,
        target: Target,
        request: Option<RequestId>,
        response: Response,
    ) -> Self {
        let traffic = Traffic::new(&client.name, client.changes.clone());
        Self {
            client: client.clone(),
            target,
            request,
            bytes: response.bytes_stream().map(|chunk| chunk.map(Vec::from)).boxed(),
            chunk: Vec::new(),
            taken: 0,
            lines: LineBuffer::new(MAX_LINE_BYTES),
            event: Event::default(),
            ready: VecDeque::new(),
            traffic,
            replies: Arc::new(Semaphore::new(MAX_REPLIES)),
        }
    }

    /// The events that rmcp acts upon.
    pub(super) fn into_stream(self) -> SseStream {
        futures::stream::unfold(self, |mut events| async move {
            let next = events.next().await?;
            Some((next, events))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match self.line().await? {
                Err(error) => return Some(Err(SseError::Body(Box::new(error)))),
                Ok(Line::Whole(line)) if line.is_empty() => self.dispatch().await,
                Ok(line) => {
                    self.event.add(&line);
                    if self.event.is_too_large {
                        // It may never end.
                        self.dispatch().await;
                    } else if self.event.data.is_none() {
                        // Comments and fields without data are no messages, and may be sent without end.
                        self.pause(0).await;
                    }
                }
            }
        }
    }

    /// Reads the next line; `None` at the end of the response.
    async fn line(&mut self) -> Option<reqwest::Result<Line>> {
        loop {
            let mut rest = &self.chunk[self.taken..];
            let before = rest.len();
            let line = self.lines.next(&mut rest);
            let taken = before - rest.len();
            self.taken += taken;
            if let Some(line) = line {
                return Some(Ok(line));
            }
            if self.lines.is_skipping() {
                self.pause(taken).await;
            }
            if self.taken == self.chunk.len() {
                match self.bytes.next().await? {
                    Ok(bytes) => (self.chunk, self.taken) = (bytes, 0),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }

    /// Handles the event that has ended.
    async fn dispatch(&mut self) {
        let mut event = std::mem::take(&mut self.event);
        let line = event.line();
        let mut messages = Vec::new();
        for message in line.iter().flat_map(decode) {
            messages.extend(self.handle(message, event.bytes).await);
        }
        let mut position = Sse { id: event.id, retry: event.retry, ..Sse::default() };
        for message in messages {
            // Encoding fails only for keys that are not text.
            let Ok(data) = serde_json::to_string(&message) else { continue };
            self.ready.push_back(Sse { data: Some(data), ..std::mem::take(&mut position) });
        }
        if position != Sse::default() {
            self.ready.push_back(position);
        }
    }

    async fn handle(&mut self, message: Inbound, bytes: usize) -> Option<ServerJsonRpcMessage> {
        let reaction = match message {
            Inbound::Answer(answer) => {
                if self.request.is_none() {
                    self.pause(bytes).await;
                }
                let id = answer.id.or_else(|| self.request.clone())?;
                return Some(answer.payload.into_message(id, &self.client.name));
            }
            Inbound::Request { id, method } => self.traffic.request(&id, &method),
            Inbound::Notification { method, message } => self.traffic.notification(&method, message),
            Inbound::Noise => Reaction::Drop,
        };
        self.pause(bytes).await;
        match reaction {
            Reaction::Drop => None,
            Reaction::Deliver(message) => Some(*message),
            Reaction::Reply(reply) => {
                self.reply(&reply);
                None
            }
        }
    }

    fn reply(&self, reply: &Value) {
        let Ok(permit) = Arc::clone(&self.replies).try_acquire_owned() else { return };
        let request = self.client.request(Method::POST, &self.target);
        let request = request
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(reply.to_string());
        let server = Arc::clone(&self.client.name);
        tokio::spawn(async move {
            let sent = tokio::time::timeout(REPLY_TIMEOUT, request.send()).await;
            if !matches!(sent, Ok(Ok(_))) {
                tracing::debug!(%server, "cannot reply to a request of an MCP server");
            }
            drop(permit);
        });
    }

    async fn pause(&mut self, bytes: usize) {
        if let Some(pause) = self.traffic.count(bytes) {
            tokio::time::sleep(pause).await;
        }
    }
}
