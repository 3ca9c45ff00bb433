//! The router, the middleware of every request, and the server.

mod console_page;
mod generator_rules;
mod openapi_page;
mod protected;
mod unknown;

use std::{sync::Arc, time::Duration};

use api_types::Scope::{Admin, Answer, Operate, Read, Submit};
use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::{HeaderName, HeaderValue, Method},
    middleware::{Next, from_fn, from_fn_with_state, map_response},
    response::Response,
    routing::get,
};
use metrics::metrics;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;
use tower_http::{
    compression::CompressionLayer,
    cors::CorsLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    trace::TraceLayer,
};
use tracing::{Span, info_span, warn};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};

use self::protected::ProtectedRoutes;
use crate::{
    audits,
    batches::{
        coordinator::BatchCoordinator, list as batches_list, quote, results, routes as batches, validation,
    },
    costs,
    files::routes as files,
    forgotten_models, ids,
    inbox::{routes as inbox, settle},
    keys::{routes as keys, session, sign_in},
    learned_models, mcp, mcp_servers,
    openai::{
        chat, embeddings,
        error::to_openai_error,
        models,
        responses::{conversations, routes as responses},
        text_completion,
    },
    pauses, prompts,
    schedules::{routes as schedules, scheduler::Scheduler},
    search,
    server::{access_log::access_log, auth, config::ApiConfig, health, listener::listen, state::AppState},
    stats, strategies,
    threads::{
        answer, attachments, events, explain, export, fork, list as threads_list, page, prompt, retention,
        routes as threads,
    },
    turns::{cancel_retry, failures, pending, rating, routes as turns, submit, timeline},
    webhooks::{dispatcher::WebhookDispatcher, routes as webhooks},
    workers,
};

/// Maximum time for requests in progress to finish after shutdown begins.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Time for which a browser need not ask again whether another site may use the API.
const CORS_MAX_AGE: Duration = Duration::from_secs(600);

/// Builds the API as a router, for use in another server. Background tasks are not included; see [`run_background`]. Only [`serve`]
/// writes what clients wait for, so that a repetition joins its turn if the process is killed.
pub fn router(config: ApiConfig) -> Router {
    let layers = Layers::of(&config);
    build(Arc::new(AppState::new(config, CancellationToken::new())), layers)
}

/// Runs the batch coordinator, the webhook dispatcher, the scheduler and the other background tasks until `stop` is cancelled,
/// without an HTTP server. [`serve`] includes them.
pub async fn run_background(config: ApiConfig, stop: CancellationToken) {
    background(Arc::new(AppState::new(config, stop))).await;
}

async fn background(app: Arc<AppState>) {
    let webhooks = async {
        if let Some(dispatcher) = WebhookDispatcher::new(Arc::clone(&app)) {
            dispatcher.run().await;
        }
    };
    let keys = app.keys.issued.follow_changes(&*app.backends.notifications, &app.stop);
    let (store, strategies) = (app.backends.store.clone(), app.strategies.clone());
    let index = ::threads::keep_indexing(store.clone(), app.stop.cancelled());
    let counts = ::threads::keep_writing_counts(store, strategies, app.stop.cancelled());
    let schedules = Scheduler::new(Arc::clone(&app), schedulable_routes()).run();
    let waits = app.waits.keep_writing(&app.backends.store, &app.stop);
    let batches = Arc::new(BatchCoordinator::new(Arc::clone(&app))).run();
    tokio::join!(batches, webhooks, keys, counts, index, schedules, waits);
}

/// Serves the API and runs its background tasks until `stop` is cancelled. Requests in progress then have ten seconds to
/// finish; streams and long polls end at once.
pub async fn serve(listener: TcpListener, config: ApiConfig, stop: CancellationToken) {
    let (layers, connections) = (Layers::of(&config), config.connections);
    let app = Arc::new(AppState::new(config, stop.clone()));
    let tasks = tokio::spawn(background(Arc::clone(&app)));
    let router = build(app, layers);
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
    let protected = protected_routes().merge(openai_routes()).documented();
    openapi_page::document(open_routes().merge(protected).into_openapi())
}

/// Routes that require authentication.
fn protected_routes() -> ProtectedRoutes {
    ProtectedRoutes::default()
        .needs(Submit, routes!(submit::submit))
        .needs(Read, routes!(turns::list))
        .needs(Read, routes!(failures::causes))
        .needs(Read, routes!(turns::get))
        .needs(Read, routes!(timeline::timeline))
        .needs(Submit, routes!(cancel_retry::cancel))
        .needs(Submit, routes!(cancel_retry::retry))
        .needs(Answer, routes!(rating::rate))
        .needs(Read, routes!(threads_list::list))
        .needs(Read, routes!(threads::get))
        .needs(Read, routes!(events::events))
        .needs(Read, routes!(attachments::read))
        .needs(Read, routes!(threads::state))
        .needs(Read, routes!(threads::verify))
        .needs(Read, routes!(threads::replay))
        .needs(Read, routes!(export::export))
        .needs(Read, routes!(export::fixture))
        .needs(Read, routes!(page::page))
        .needs(Read, routes!(prompt::prompt))
        .needs(Read, routes!(explain::why))
        .needs(Read, routes!(explain::diff))
        .needs(Admin, routes!(retention::delete))
        .needs(Admin, routes!(retention::hold, retention::release))
        .needs(Read, routes!(retention::holds))
        .needs(Submit, routes!(fork::fork))
        .needs(Answer, routes!(answer::answer))
        .needs(Answer, routes!(answer::reconcile))
        .needs(Read, routes!(ids::find))
        .needs(Read, routes!(search::search))
        .needs(Read, routes!(inbox::list))
        .needs(Read, routes!(inbox::get))
        .needs(Answer, routes!(inbox::answer))
        .needs(Answer, routes!(settle::settle))
        .needs(Read, routes!(pending::list))
        .needs(Read, routes!(stats::stats))
        .needs(Read, routes!(prompts::list))
        .needs(Read, routes!(prompts::get))
        .needs(Operate, routes!(pauses::list))
        .needs(Operate, routes!(pauses::get, pauses::put, pauses::delete))
        .needs(Operate, routes!(forgotten_models::list))
        .needs(Admin, routes!(forgotten_models::put))
        .needs(Operate, routes!(learned_models::list))
        .needs(Operate, routes!(learned_models::get))
        .needs(Operate, routes!(webhooks::add))
        .needs(Read, routes!(webhooks::list))
        .needs(Operate, routes!(webhooks::remove))
        .needs(Read, routes!(webhooks::deliveries))
        .needs(Operate, routes!(webhooks::redeliver))
        .needs(Submit, routes!(schedules::add))
        .needs(Read, routes!(schedules::list))
        .needs(Read, routes!(schedules::get))
        .needs(Submit, routes!(schedules::change))
        .needs(Submit, routes!(schedules::remove))
        .for_every_key(routes!(keys::caller))
        .for_every_key(routes!(session::start))
        .needs(Admin, routes!(keys::create, keys::list))
        .needs(Admin, routes!(keys::revoke))
        .needs(Admin, routes!(keys::rotate))
        .needs(Operate, routes!(workers::list))
        .needs(Read, routes!(mcp_servers::list))
        .needs(Read, routes!(mcp_servers::get))
        .needs(Operate, routes!(mcp_servers::approve))
        .needs(Operate, routes!(health::read_metrics))
        .needs(Read, routes!(strategies::list))
        .needs(Read, routes!(strategies::get))
        .needs(Read, routes!(strategies::map))
        .needs(Read, routes!(strategies::nodes))
        .needs(Read, routes!(audits::threads))
        .needs(Read, routes!(audits::checkpoints))
        .needs(Read, routes!(costs::costs))
        .needs(Admin, routes!(audits::log))
}

/// Routes that require authentication and follow OpenAI's API, including its error shape.
fn openai_routes() -> ProtectedRoutes {
    ProtectedRoutes::default()
        .needs(Submit, routes!(chat::create))
        .needs(Submit, routes!(text_completion::create))
        .needs(Submit, routes!(embeddings::create))
        .needs(Submit, routes!(responses::create))
        .needs(Read, routes!(responses::get))
        .needs(Admin, routes!(responses::delete))
        .needs(Submit, routes!(responses::cancel))
        .needs(Read, routes!(responses::input_items))
        .needs(Submit, routes!(conversations::create))
        .needs(Read, routes!(conversations::get))
        .needs(Submit, routes!(conversations::update))
        .needs(Admin, routes!(conversations::delete))
        .needs(Read, routes!(conversations::items))
        .needs(Submit, routes!(conversations::add_items))
        .needs(Read, routes!(models::list))
        .needs(Read, routes!(models::get))
        .needs_undocumented(Read, "/v1/models/{model}/{name}", get(models::get_of))
        .merge(bulk_routes())
}

/// Routes of files and batches.
fn bulk_routes() -> ProtectedRoutes {
    ProtectedRoutes::default()
        // Files have a limit of their own.
        .needs(Submit, routes!(files::upload).layer(DefaultBodyLimit::disable()))
        .needs(Read, routes!(files::list))
        .needs(Read, routes!(files::get))
        .needs(Submit, routes!(files::delete))
        .needs(Read, routes!(files::content))
        .needs(Submit, routes!(validation::validate).layer(DefaultBodyLimit::disable()))
        .needs(Submit, routes!(batches::create))
        .needs(Read, routes!(batches_list::list))
        .needs(Read, routes!(batches::get))
        .needs(Submit, routes!(batches::cancel))
        .needs(Submit, routes!(batches::pause))
        .needs(Submit, routes!(batches::resume))
        .needs(Read, routes!(results::results))
        .needs(Read, routes!(quote::quote))
}

/// Routes to which schedules submit. The body of a schedule has a limit of its own.
fn schedulable_routes() -> Router<Arc<AppState>> {
    let routes = ProtectedRoutes::default()
        .needs(Submit, routes!(submit::submit))
        .needs(Submit, routes!(batches::create));
    routes.into_router().layer(DefaultBodyLimit::disable())
}

/// Routes without authentication.
fn open_routes() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::default()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(openapi_page::openapi))
        // A session whose key is no longer valid can be ended, too.
        .routes(routes!(session::end, sign_in::ways))
        .routes(routes!(sign_in::begin))
        .routes(routes!(sign_in::finish))
}

/// Settings of the middleware of every request.
struct Layers {
    body_limit: usize,
    access_log: bool,
    cors_origins: Vec<HeaderValue>,
}

impl Layers {
    fn of(config: &ApiConfig) -> Self {
        let cors_origins = config.cors_origins.clone();
        Self { body_limit: config.body_limit, access_log: config.access_log, cors_origins }
    }
}

fn build(app: Arc<AppState>, layers: Layers) -> Router {
    // **Invariant:** every protected route passes authentication. Paths without a route need none.
    let authenticated = from_fn_with_state(Arc::clone(&app), auth::authenticate);
    let mcp = mcp::service(&app, protected_routes().into_router(), layers.body_limit, &layers.cors_origins);
    let protected = protected_routes().service_for_every_key("/mcp", mcp);
    let protected = protected.into_router().route_layer(authenticated.clone());
    let openai =
        openai_routes().into_router().route_layer(authenticated).route_layer(map_response(to_openai_error));
    let open: Router<Arc<AppState>> = open_routes().into();
    let router = open
        .merge(protected)
        .merge(openai)
        .merge(openapi_page::page())
        .merge(console_page::page())
        .fallback(unknown::path)
        .method_not_allowed_fallback(unknown::method)
        .with_state(app)
        .layer(DefaultBodyLimit::max(layers.body_limit))
        .layer(CompressionLayer::new())
        .layer(from_fn(count_request))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(TraceLayer::new_for_http().make_span_with(span));
    let router = if layers.access_log { router.layer(from_fn(access_log)) } else { router };
    let router =
        if layers.cors_origins.is_empty() { router } else { router.layer(cors(layers.cors_origins)) };
    router.layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

/// Lets scripts of these origins use the API with a key. Browsers send no cookies or other credentials of their own.
fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    const SENT: [&str; 10] = [
        "authorization",
        "content-type",
        "idempotency-key",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "x-turnfold-tenant",
        "x-turnfold-thread",
        "x-turnfold-user",
    ];
    const SHOWN: [&str; 6] = [
        "idempotency-replayed",
        "location",
        "retry-after",
        "x-request-id",
        "x-turnfold-thread",
        "x-turnfold-turn",
    ];
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(SENT.map(HeaderName::from_static))
        .expose_headers(SHOWN.map(HeaderName::from_static))
        .max_age(CORS_MAX_AGE)
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
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    info_span!("request", method = %request.method(), path = request.uri().path(), request = id)
}
