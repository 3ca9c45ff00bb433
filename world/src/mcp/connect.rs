//! Opens connections to servers.

use std::{
    io::ErrorKind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use rmcp::{
    RoleClient,
    service::{ClientInitializeError, ClientServiceExt as _, RunningService},
    transport::{
        IntoTransport,
        streamable_http_client::{
            StreamableHttpClient as _, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use shared::Fault;
use tokio::sync::Semaphore;

use super::{
    Server, Transport,
    connection::Connection,
    failure::{connect_error, connect_http_error, unreachable},
    handshake::{self, Protocol},
    http::{HttpClient, HttpError},
    last_output::{LastOutput, with_last_output},
    notifications::NotificationHandler,
    stdio::{ChildConfig, ChildTransport, INHERITED_ENV},
};

/// Number of children that start together, by default.
pub(super) const STARTS_AT_ONCE: usize = 4;

/// The cause of a server that ended, or closed its output.
const CLOSED: &str = "it closed the connection";

/// Connects to one server, and remembers its protocol.
pub(super) struct Connector {
    /// The cause and the last output of a child that ended at its last start, without digits, which may be times or addresses.
    ended: Mutex<Option<String>>,
    protocol: Mutex<Option<Protocol>>,
    /// True if the server lists its tools only by the older protocol.
    is_older: AtomicBool,
    /// Shared by all servers of the process.
    starts: Arc<Semaphore>,
}

/// Reason why a connection was not opened.
enum Refusal {
    /// The cause, as part of a sentence.
    Cause(String),
    /// A fault that says everything itself.
    Fault(Fault),
    /// The child closed its output when it was asked for its protocol.
    Closed(String),
}

impl Connector {
    pub(super) fn new(starts: Arc<Semaphore>) -> Self {
        Self { ended: Mutex::default(), protocol: Mutex::default(), is_older: AtomicBool::new(false), starts }
    }

    /// Decides whether the server is always asked the older way.
    pub(super) fn set_older(&self, is_older: bool) {
        self.is_older.store(is_older, Ordering::Release);
        *self.known() = None;
    }

    /// Connects with the newest protocol version that both sides speak.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server cannot be reached within its connect timeout.
    pub(super) async fn open(&self, name: &str, server: &Server) -> Result<Connection, Fault> {
        let is_older = self.is_older.load(Ordering::Acquire);
        let known = server.protocol.or(is_older.then_some(Protocol::Older)).or_else(|| *self.known());
        let opened = match &server.transport {
            Transport::Stdio { .. } => self.start(name, server, known).await,
            Transport::Http { .. } => reach(name, server, known).await,
        };
        // A server that was replaced by another version is asked again.
        *self.known() = opened.as_ref().ok().map(|parts| parts.protocol);
        match opened {
            Ok(Opened { running, http, output, .. }) => {
                *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = None;
                tracing::debug!(server = name, "connected to MCP server");
                Ok(Connection::new(name, running, http, output))
            }
            Err(Refusal::Fault(fault)) => Err(fault),
            Err(Refusal::Closed(why)) if self.ended_so_before(&why) => {
                let why = format!("it ended twice in the same way: {}", server.transport.redact(&why));
                Err(not_startable_fault(name, &why))
            }
            Err(Refusal::Cause(why) | Refusal::Closed(why)) => {
                Err(unreachable(name, &server.transport.redact(&why), None))
            }
        }
    }

    /// Records the last output of a child that ended, and returns true if it was the same at the last start. Nothing waits for that
    /// child: only another configuration or another package changes what it does.
    fn ended_so_before(&self, why: &str) -> bool {
        let words: String = why.chars().filter(|character| !character.is_ascii_digit()).collect();
        let last = self.ended.lock().unwrap_or_else(PoisonError::into_inner).replace(words.clone());
        why != CLOSED && last == Some(words)
    }

    fn known(&self) -> MutexGuard<'_, Option<Protocol>> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, name: &str, server: &Server, known: Option<Protocol>) -> Result<Opened, Refusal> {
        // Many servers at once would slow each other down beyond their timeouts. The wait for a permit does not count.
        let _permit = self.starts.acquire().await;
        match known {
            Some(_) => start_once(name, server, known, server.connect_timeout).await,
            None => start_unknown(name, server).await,
        }
    }
}

/// Starts a child whose protocol is unknown. One that ends when it is asked for it is started once more, and asked the older way.
/// One that does not answer may be slow, or ignore the question: a second child is asked the older way beside it, and the first
/// of them that is connected stays.
async fn start_unknown(name: &str, server: &Server) -> Result<Opened, Refusal> {
    let (timeout, older) = (server.connect_timeout, Some(Protocol::Older));
    let patience = handshake::CHILD_PATIENCE.min(timeout / 2);
    let mut first = start_once(name, server, None, timeout).boxed();
    match tokio::time::timeout(patience, &mut first).await {
        Ok(Err(Refusal::Closed(_))) => start_once(name, server, older, timeout).await,
        Ok(opened) => opened,
        Err(_) => {
            let second = start_once(name, server, older, timeout.saturating_sub(patience)).boxed();
            futures::future::select_ok([first, second]).await.map(|(opened, _)| opened)
        }
    }
}

/// An open connection.
struct Opened {
    running: RunningService<RoleClient, NotificationHandler>,
    /// The client of a server over HTTP.
    http: Option<HttpClient>,
    protocol: Protocol,
    output: LastOutput,
}

async fn start_once(
    name: &str,
    server: &Server,
    known: Option<Protocol>,
    timeout: Duration,
) -> Result<Opened, Refusal> {
    let Transport::Stdio { command, args, env, cwd } = &server.transport else {
        return Err(Refusal::Cause("it is not a child process".to_owned()));
    };
    let (handler, transport) = (NotificationHandler::default(), server.transport.clone());
    let redact = move |text: &str| transport.redact(text);
    let config = ChildConfig { name, command, args, env, cwd: cwd.as_deref() };
    let command =
        server.confinement.command(&config, &INHERITED_ENV).map_err(|why| not_startable(name, &why))?;
    let (mut child, stderr) = ChildTransport::spawn(name, command, handler.changes().clone(), redact)
        .map_err(|error| not_started(&config, &error))?;
    let connecting = async {
        let protocol = match known {
            Some(protocol) => protocol,
            None => handshake::negotiate(&mut child, &handler)
                .await
                .map_err(|_| Refusal::Closed(CLOSED.to_owned()))?,
        };
        let running = serve(name, handler, child, protocol).await?;
        Ok(Opened { running, http: None, protocol, output: LastOutput::of(stderr.clone()) })
    };
    let refusal = match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(refusal)) => refusal,
        Err(_) => Refusal::Cause(format!("it did not respond within {:?}", server.connect_timeout)),
    };
    let last_lines = stderr.last_lines().await;
    // bubblewrap reports that it cannot make the sandbox, or that the command is not in it.
    if server.confinement.sandbox.is_some() && last_lines.starts_with("bwrap: ") {
        return Err(not_startable(name, &server.transport.redact(&last_lines)));
    }
    Err(with_last_lines(refusal, &last_lines))
}

/// Only an operator can change a command that does not exist, so nothing waits for it.
fn not_started(config: &ChildConfig<'_>, error: &std::io::Error) -> Refusal {
    let ChildConfig { name, command, cwd, .. } = *config;
    let why = match (error.kind(), cwd) {
        (ErrorKind::NotFound, Some(cwd)) if !cwd.exists() => {
            format!("its folder {} does not exist", cwd.display())
        }
        (ErrorKind::NotFound, _) => format!("the command {command:?} does not exist"),
        (ErrorKind::PermissionDenied, _) => format!("the command {command:?} may not be executed"),
        _ => return Refusal::Cause(format!("cannot start {command:?}: {error}")),
    };
    not_startable(name, &why)
}

fn not_startable(name: &str, why: &str) -> Refusal {
    Refusal::Fault(not_startable_fault(name, why))
}

fn not_startable_fault(name: &str, why: &str) -> Fault {
    Fault::permanent(format!(
        "cannot start MCP server {name}: {why}; hint: fix [mcp.{name}] in turnfold.toml, then run: turnfold turn retry"
    ))
}

fn with_last_lines(refusal: Refusal, last_lines: &str) -> Refusal {
    let add = |why: String| {
        if last_lines.is_empty() { why } else { with_last_output(&why, last_lines) }
    };
    match refusal {
        Refusal::Cause(why) => Refusal::Cause(add(why)),
        Refusal::Closed(why) => Refusal::Closed(add(why)),
        Refusal::Fault(fault) => Refusal::Fault(fault),
    }
}

/// Connects to a server over HTTP.
async fn reach(name: &str, server: &Server, known: Option<Protocol>) -> Result<Opened, Refusal> {
    let Transport::Http { url, headers } = &server.transport else {
        return Err(Refusal::Cause("it has no URL".to_owned()));
    };
    let (handler, timeout) = (NotificationHandler::default(), server.connect_timeout);
    let (client, config) =
        HttpClient::new(name, url, headers, timeout, handler.changes().clone()).map_err(Refusal::Cause)?;
    let connecting = async {
        let protocol = match known {
            Some(protocol) => protocol,
            None => {
                let question = client.post_message(
                    config.uri.clone(),
                    handshake::discover(&handler),
                    None,
                    None,
                    config.custom_headers.clone(),
                );
                // A server that ignores the question must leave time to be asked the older way.
                match tokio::time::timeout(handshake::HTTP_PATIENCE.min(timeout / 2), question).await {
                    Ok(answer) => protocol_of(name, answer).await?,
                    Err(_) => Protocol::Older,
                }
            }
        };
        let running = serve(name, handler, client.clone().transport(config), protocol).await?;
        Ok(Opened { running, http: Some(client), protocol, output: LastOutput::default() })
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(opened) => opened,
        Err(_) => Err(Refusal::Cause(format!("it did not respond within {timeout:?}"))),
    }
}

/// Reads the answer to the question for the protocol. A server that refuses it, in whatever way, is of an older one.
async fn protocol_of(
    name: &str,
    answer: Result<StreamableHttpPostResponse, StreamableHttpError<HttpError>>,
) -> Result<Protocol, Refusal> {
    let answer = match answer {
        Ok(answer) => answer.expect_initialized::<HttpError>().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok((answer, _)) if handshake::is_newest(&answer) => Ok(Protocol::Newest),
        Err(StreamableHttpError::Client(error @ HttpError::Lost(_))) => {
            Err(refusal(connect_http_error(name, &error)))
        }
        Err(StreamableHttpError::Client(error @ HttpError::Status { .. })) => {
            match connect_http_error(name, &error) {
                Ok(_) => Ok(Protocol::Older),
                Err(fault) => Err(Refusal::Fault(fault)),
            }
        }
        Ok(_) | Err(_) => Ok(Protocol::Older),
    }
}

async fn serve<T, E, A>(
    name: &str,
    handler: NotificationHandler,
    transport: T,
    protocol: Protocol,
) -> Result<RunningService<RoleClient, NotificationHandler>, Refusal>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let serving = handler.serve_with_lifecycle(transport, protocol.lifecycle()).await;
    serving.map_err(|error| match has_ended(&error) {
        true => Refusal::Closed(CLOSED.to_owned()),
        false => refusal(connect_error(name, &error)),
    })
}

/// Returns true if a child closed its output, or ended before it read its input.
fn has_ended(error: &ClientInitializeError) -> bool {
    if let ClientInitializeError::TransportError { error, .. } = error {
        return error.error.is::<std::io::Error>();
    }
    matches!(error, ClientInitializeError::ConnectionClosed(_))
}

fn refusal(cause: Result<String, Fault>) -> Refusal {
    cause.map_or_else(Refusal::Fault, Refusal::Cause)
}
