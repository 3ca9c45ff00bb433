//! Reads the standard output of a child.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ServerJsonRpcMessage;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStdout,
    sync::mpsc,
};

use super::Line;
use crate::mcp::wire::{Answer, Inbound, LineBuffer, MAX_LINE_BYTES, Reaction, Traffic, Waiting, decode};

/// Reads the messages of a child.
pub(super) struct Reader {
    pub(super) traffic: Traffic,
    pub(super) waiting: Arc<Mutex<Waiting>>,
    pub(super) replies: mpsc::WeakSender<Line>,
    pub(super) messages: mpsc::Sender<ServerJsonRpcMessage>,
}

impl Reader {
    /// Reads until the child closes its output, or its receiver is gone.
    pub(super) async fn run(mut self, stdout: ChildStdout) {
        let (mut stdout, mut buffer) = (BufReader::new(stdout), LineBuffer::new(MAX_LINE_BYTES));
        let mut bytes = 0;
        loop {
            let chunk = match stdout.fill_buf().await {
                Ok([]) | Err(_) => return,
                Ok(chunk) => chunk,
            };
            let mut rest = chunk;
            let line = buffer.next(&mut rest);
            let taken = chunk.len() - rest.len();
            stdout.consume(taken);
            bytes += taken;
            let Some(line) = line else {
                if buffer.is_skipping() {
                    self.pause(taken).await;
                }
                continue;
            };
            for message in decode(&line) {
                if self.handle(message, bytes).await.is_err() {
                    return;
                }
            }
            bytes = 0;
        }
    }

    /// Handles a message. An error means that its receiver is gone.
    async fn handle(&mut self, message: Inbound, bytes: usize) -> Result<(), ()> {
        let reaction = match message {
            Inbound::Answer(answer) => return self.answer(answer, bytes).await,
            Inbound::Request { id, method } => self.traffic.request(&id, &method),
            Inbound::Notification { method, message } => self.traffic.notification(&method, message),
            Inbound::Noise => {
                self.traffic.noise();
                Reaction::Drop
            }
        };
        match reaction {
            Reaction::Drop => (),
            Reaction::Deliver(message) => self.messages.send(*message).await.map_err(|_| ())?,
            Reaction::Reply(reply) => {
                if let Some(replies) = self.replies.upgrade() {
                    // A child that does not read its input receives no more replies than the queue holds.
                    let _ = replies.try_send((format!("{reply}\n").into_bytes(), None));
                }
            }
        }
        self.pause(bytes).await;
        Ok(())
    }

    async fn answer(&mut self, answer: Answer, bytes: usize) -> Result<(), ()> {
        let messages = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).answer(answer);
        if messages.is_empty() {
            // An answer to no request is a message of the server's own.
            self.pause(bytes).await;
        }
        for message in messages {
            self.messages.send(message).await.map_err(|_| ())?;
        }
        Ok(())
    }

    async fn pause(&mut self, bytes: usize) {
        if let Some(pause) = self.traffic.count(bytes) {
            tokio::time::sleep(pause).await;
        }
    }
}
