//! Accepts connections and serves a router on each, within the limits of [`ConnectionLimits`].

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request},
    http::{HeaderValue, header::CONNECTION},
    response::Response,
};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use tower_http::timeout::TimeoutBody;
use tracing::{debug, warn};

use super::connections::{Connection, Connections, Exchange};

/// Delay after a connection could not be accepted, for example because no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Limits of the connections to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of open connections. At the limit, the one that has been idle longest is closed. Default: 4,096.
    pub max: usize,
    /// Maximum number of open connections of one address. Default: 2,048.
    pub max_per_address: usize,
    /// Maximum time between the end of a response and the end of the next request's headers. Default: 60 s.
    pub header_timeout: Duration,
    /// Maximum time between two parts of a request's body. Default: 30 s.
    pub body_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max: 4096,
            max_per_address: 2048,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves `router` until `stop` is cancelled, and returns when all connections are closed.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let connections = Arc::new(Connections::new(limits.max, limits.max_per_address));
    let tasks = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, address)) => {
                let Some(connection) = connections.admit(address.ip()) else {
                    debug!(%address, "connection refused: all connections are in use");
                    continue;
                };
                let server =
                    Server { router: router.clone(), limits, address, connection: connection.into() };
                tasks.spawn(server.serve(stream, stop.clone()));
            }
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                warn!(%error, "cannot accept a connection, retrying");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// True if the client gave up a connection before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// Serves one connection.
struct Server {
    router: Router,
    limits: ConnectionLimits,
    address: SocketAddr,
    connection: Arc<Connection>,
}

impl Server {
    async fn serve(self, stream: TcpStream, stop: CancellationToken) {
        // Events of a stream are small and must not wait for more data.
        if let Err(error) = stream.set_nodelay(true) {
            warn!(%error, "cannot set TCP_NODELAY");
        }
        let connection = Arc::clone(&self.connection);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.limits.header_timeout);
        let service = service_fn(|request| self.answer(request));
        let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            () = connection.must_close() => return,
            () = stop.cancelled() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = ended {
            debug!(address = %self.address, %error, "connection ended");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let exchange = Arc::new(Exchange::new(Arc::clone(&self.connection)));
        if request.body().is_end_stream() {
            exchange.received();
        }
        let mut request = request.map(|body| {
            let body = Body::new(TimeoutBody::new(self.limits.body_timeout, body));
            Body::new(TrackedBody { body, exchange: Arc::clone(&exchange), is_request: true })
        });
        request.extensions_mut().insert(ConnectInfo(self.address));
        let mut response = self.router.clone().oneshot(request).await?;
        // The unread rest of a request would be read as the next one.
        if !exchange.is_received() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response.map(|body| Body::new(TrackedBody { body, exchange, is_request: false })))
    }
}

/// Body of a request or response that keeps its exchange, and notes the end of the request.
struct TrackedBody {
    body: Body,
    exchange: Arc<Exchange>,
    is_request: bool,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if self.is_request && (matches!(polled, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.exchange.received();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
