//! MCP servers as child processes: a transport over their standard input and output.

mod reader;

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{
        CancelledNotification, ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId,
        ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, Command},
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use self::reader::Reader;
use super::{
    notifications::Changes,
    process_group::ProcessGroup,
    stderr::StderrTail,
    wire::{Traffic, Waiting},
};

/// Environment variables passed to a child; the others may hold secrets.
pub(super) const INHERITED_ENV: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Maximum messages that wait for rmcp, and for the child to read its input. A reply beyond it is not sent.
const QUEUE: usize = 64;

/// A child process as rmcp's transport.
pub(super) struct ChildTransport {
    process: ProcessGroup,
    /// `None` once closed.
    input: Option<mpsc::Sender<Line>>,
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
    waiting: Arc<Mutex<Waiting>>,
    reader: AbortHandle,
    /// Messages that rmcp receives before those of the child.
    ready: VecDeque<ServerJsonRpcMessage>,
}

/// A line for the child, and the receiver of the result of writing it.
type Line = (Vec<u8>, Option<oneshot::Sender<std::io::Result<()>>>);

/// Configuration of a child.
pub(super) struct ChildConfig<'a> {
    /// Name of the server.
    pub(super) name: &'a str,
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) cwd: Option<&'a Path>,
}

impl ChildTransport {
    /// Starts the command of a server. `redact` removes secrets from its standard error.
    pub(super) fn spawn(
        name: &str,
        mut command: Command,
        changes: Changes,
        redact: impl Fn(&str) -> String + Send + 'static,
    ) -> std::io::Result<(Self, StderrTail)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ProcessGroup::spawn(command)?;
        let child = process.child();
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("its standard input or output is not available"));
        };
        let tail = StderrTail::start(name, stderr, redact);
        let (input, lines) = mpsc::channel(QUEUE);
        let (sender, messages) = mpsc::channel(QUEUE);
        tokio::spawn(write_lines(stdin, lines));
        let waiting = Arc::new(Mutex::new(Waiting::new(name)));
        let reader = Reader {
            traffic: Traffic::new(name, changes),
            waiting: Arc::clone(&waiting),
            // Only the transport keeps the input open.
            replies: input.downgrade(),
            messages: sender,
        };
        let reader = tokio::spawn(reader.run(stdout)).abort_handle();
        Ok((Self { process, input: Some(input), messages, waiting, reader, ready: VecDeque::new() }, tail))
    }

    /// Writes a message. The message was not received if this fails: its line is incomplete.
    fn write(
        &mut self,
        message: &ClientJsonRpcMessage,
    ) -> impl Future<Output = std::io::Result<()>> + Send + use<> {
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let encoded = serde_json::to_vec(message).map_err(std::io::Error::from);
        let input = self.input.clone();
        async move {
            let mut line = encoded?;
            line.push(b'\n');
            let (sender, written) = oneshot::channel();
            input.ok_or_else(closed)?.send((line, Some(sender))).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a message that is about to be sent.
    fn record(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let is_subscription = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                self.waiting().add(request.id.clone(), is_subscription);
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let Some(id) = cancelled(&notification.notification) {
                    let settled = self.waiting().remove(id);
                    self.ready.extend(settled);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => (),
        }
    }
}

fn cancelled(notification: &ClientNotification) -> Option<&RequestId> {
    let ClientNotification::CancelledNotification(CancelledNotification { params, .. }) = notification else {
        return None;
    };
    params.request_id.as_ref()
}

impl Transport<RoleClient> for ChildTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.record(&item);
        self.write(&item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        match self.ready.pop_front() {
            Some(message) => Some(message),
            None => self.messages.recv().await,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input = None;
        self.process.end().await;
        Ok(())
    }
}

impl Drop for ChildTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn write_lines(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Line>) {
    while let Some((line, written)) = lines.recv().await {
        let result = match stdin.write_all(&line).await {
            Ok(()) => stdin.flush().await,
            Err(error) => Err(error),
        };
        let failed = result.is_err();
        if let Some(written) = written {
            let _ = written.send(result);
        }
        if failed {
            return;
        }
    }
}
