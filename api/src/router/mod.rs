//! The router, the middleware of every request, and the server.

mod console_page;
mod openapi_page;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::Uri,
    middleware::{Next, from_fn, from_fn_with_state, map_response},
    response::{Response},
    routing::get,
};
use metrics::metrics;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;
use tower_http::{
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    trace::TraceLayer,
};
use tracing::{Span, info_span, warn};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    batches::{coordinator::BatchCoordinator, quote, results, routes as batches},
    files::routes as files,
    inbox::routes as inbox,
    openai::{chat, error::to_openai_error, models},
    pauses,
    server::{
        auth,
        config::ApiConfig,
        health,
        listener::listen,
        problem::{ApiError, Kind},
        state::AppState,
    },
    strategies,
    threads::{answer, attachments, events, explain, fork, routes as threads},
    turns::{cancel_retry, failures, pending, routes as turns, submit},
    webhooks::{dispatcher::WebhookDispatcher, routes as webhooks},
    workers,
};

/// Maximum time for requests in progress to finish after shutdown begins.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Builds the API as a router, for use in another server. Background tasks are not included; see [`run_background`].
pub fn router(config: ApiConfig) -> Router {
    let body_limit = config.body_limit;
    build(Arc::new(AppState::new(config, CancellationToken::new())), body_limit)
}

/// Runs the batch coordinator and the webhook dispatcher until `stop` is cancelled, without an HTTP server. [`serve`]
/// includes them.
pub async fn run_background(config: ApiConfig, stop: CancellationToken) {
    background(Arc::new(AppState::new(config, stop))).await;
}

async fn background(app: Arc<AppState>) {
    let webhooks = async {
        if let Some(dispatcher) = WebhookDispatcher::new(Arc::clone(&app)) {
            dispatcher.run().await;
        }
    };
    tokio::join!(Arc::new(BatchCoordinator::new(Arc::clone(&app))).run(), webhooks);
}

/// Serves the API and runs its background tasks until `stop` is cancelled. Requests in progress then have ten seconds to
/// finish; streams and long polls end at once.
pub async fn serve(listener: TcpListener, config: ApiConfig, stop: CancellationToken) {
    let (body_limit, connections) = (config.body_limit, config.connections);
    let app = Arc::new(AppState::new(config, stop.clone()));
    let tasks = tokio::spawn(background(Arc::clone(&app)));
    let router = build(app, body_limit);
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    let served = async {
        listen(listener, router, connections, stop.clone()).await;
        if stop.is_cancelled()
            && let Err(error) = tasks.await
        {
            warn!(%error, "background tasks of the API failed");
        }
    };
    tokio::select! {
        () = served => {}
        () = late => warn!("some requests did not finish in time; dropping them"),
    }
}

/// Returns the OpenAPI document as JSON.
pub fn openapi() -> String {
    openapi_page::document(open_routes().merge(protected_routes()).merge(openai_routes()).into_openapi())
}

/// Routes that require authentication.
fn protected_routes() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::default()
        .routes(routes!(submit::submit, turns::list))
        .routes(routes!(failures::causes))
        .routes(routes!(turns::get))
        .routes(routes!(cancel_retry::cancel))
        .routes(routes!(cancel_retry::retry))
        .routes(routes!(threads::list))
        .routes(routes!(threads::get))
        .routes(routes!(events::events))
        .routes(routes!(attachments::read))
        .routes(routes!(threads::state))
        .routes(routes!(threads::verify))
        .routes(routes!(threads::replay))
        .routes(routes!(explain::why))
        .routes(routes!(explain::diff))
        .routes(routes!(fork::fork))
        .routes(routes!(answer::answer))
        .routes(routes!(answer::reconcile))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::get, inbox::answer))
        .routes(routes!(pending::list))
        .routes(routes!(pauses::list))
        .routes(routes!(pauses::get, pauses::put, pauses::delete))
        .routes(routes!(webhooks::add, webhooks::list))
        .routes(routes!(webhooks::remove))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::redeliver))
        .routes(routes!(workers::list))
        .routes(routes!(health::read_metrics))
        .routes(routes!(strategies::list))
        .routes(routes!(strategies::get))
        .routes(routes!(strategies::map))
}

/// Routes that require authentication and follow OpenAI's API, including its error shape.
fn openai_routes() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::default()
        .routes(routes!(chat::create))
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .merge(bulk_routes())
}

/// Routes of files and batches.
fn bulk_routes() -> OpenApiRouter<Arc<AppState>> {
    let upload = OpenApiRouter::default().routes(routes!(files::upload)).layer(DefaultBodyLimit::disable());
    OpenApiRouter::default()
        // Files have a limit of their own.
        .merge(upload)
        .routes(routes!(files::list))
        .routes(routes!(files::get, files::delete))
        .routes(routes!(files::content))
        .routes(routes!(batches::create, batches::list))
        .routes(routes!(batches::get))
        .routes(routes!(batches::cancel))
        .routes(routes!(batches::pause))
        .routes(routes!(batches::resume))
        .routes(routes!(results::results))
        .routes(routes!(quote::quote))
}

/// Routes without authentication.
fn open_routes() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::default()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(openapi_page::openapi))
}

fn build(app: Arc<AppState>, body_limit: usize) -> Router {
    let protected: Router<Arc<AppState>> = protected_routes().into();
    // **Invariant:** every protected route passes authentication. Paths without a route need none.
    let protected = protected.route_layer(from_fn_with_state(Arc::clone(&app), auth::authenticate));
    let openai: Router<Arc<AppState>> = openai_routes().into();
    let openai = openai
        .route("/v1/models/{model}/{name}", get(models::get_of))
        .route_layer(from_fn_with_state(Arc::clone(&app), auth::authenticate))
        .route_layer(map_response(to_openai_error));
    let open: Router<Arc<AppState>> = open_routes().into();
    open.merge(protected)
        .merge(openai)
        .merge(openapi_page::page())
        .merge(console_page::page())
        .fallback(unknown_path)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app)
        .layer(DefaultBodyLimit::max(body_limit))
        .layer(from_fn(count_request))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(TraceLayer::new_for_http().make_span_with(span))
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

async fn unknown_path(uri: Uri) -> ApiError {
    Kind::UnknownPath
        .because(format!("no route has the path {}", uri.path()))
        .hint("see /docs for all routes")
}

async fn method_not_allowed(request: Request) -> ApiError {
    let detail = format!("{} does not support {}", request.uri().path(), request.method());
    Kind::Method.because(detail).hint("see /docs for all routes")
}

/// Counts a request for the metrics.
async fn count_request(request: Request, next: Next) -> Response {
    let (began, method) = (Instant::now(), request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    metrics().http.request(method.as_str(), route, response.status().as_u16(), began.elapsed());
    response
}

/// Creates the tracing span of a request. It excludes headers and the query, because both may contain secrets.
fn span(request: &Request) -> Span {
    let id = request.headers().get("x-request-id").and_then(|it| it.to_str().ok()).unwrap_or_default();
    info_span!("request", method = %request.method(), path = request.uri().path(), request = id)
}
