//! The router: which route is where, and what every request passes on its way in and out.

mod docs;

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::Uri,
    middleware::{from_fn_with_state, map_response},
    response::Redirect,
    routing::get,
    serve::ListenerExt,
};
use secrecy::SecretString;
use serde_json::Value;
use shared::Budget;
use store::{Parts, Strategies};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::{
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    trace::TraceLayer,
};
use tracing::{Span, info_span, warn};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    acts, answers, auth,
    batches::{Bulk, Capacity, keeper::Keeper, quote, results, routes as batches},
    compare, events, failures, files, fork, health,
    house::House,
    inbox,
    openai::{chat, error::in_dialect, models},
    pauses,
    problem::{Kind, Problem},
    strategies, submit, threads,
    threshold::WaitingMax,
    turns, waits,
    webhooks::{self, Webhooks, courier::Courier},
};

/// How long requests that are under way may go on once the door closes.
const CLOSING: Duration = Duration::from_secs(10);

/// What the door is made of.
pub struct Door {
    /// The log, the doorbell, the news.
    pub parts: Parts,
    /// The strategies that threads may open under, and whose logs can be shown.
    pub strategies: Strategies,
    /// The MCP servers at hand, each with what it is good for: pinned in a thread when it opens.
    pub experts: BTreeMap<String, String>,
    /// What the operator tuned, by strategy: what a request tunes is laid over it.
    pub tuned: BTreeMap<String, Value>,
    /// What a thread and each of its turns may take of the world: pinned in a thread when it opens.
    pub budget: Budget,
    /// The keys of operators, who see everything; without any key of anybody, nobody is asked for one.
    pub keys: Vec<SecretString>,
    /// The keys of tenants, each of whom sees what is theirs.
    pub tenants: BTreeMap<String, Vec<SecretString>>,
    /// The largest body that is read, in bytes.
    pub body_limit: usize,
    /// How long a chat completion is waited for, before the client is told to look for it later.
    pub chat_wait: Duration,
    /// How many turns may wait before no more are let in.
    pub waiting_max: WaitingMax,
    /// What batches may be, and how they are looked after.
    pub bulk: Bulk,
    /// How webhooks are told.
    pub webhooks: Webhooks,
    /// What there is to run turns with, for quotes.
    pub capacity: Capacity,
}

/// The door as a router, for a server of one's own.
pub fn router(door: Door) -> Router {
    let body_limit = door.body_limit;
    build(Arc::new(House::new(door, CancellationToken::new())), body_limit)
}

/// Looks after batches and webhooks until `stop` is cancelled, without a door: [`serve`] does so beside its own.
pub async fn keep(door: Door, stop: CancellationToken) {
    look_after(Arc::new(House::new(door, stop))).await;
}

async fn look_after(house: Arc<House>) {
    let told = async {
        if let Some(courier) = Courier::new(Arc::clone(&house)) {
            courier.run().await;
        }
    };
    tokio::join!(Arc::new(Keeper::new(Arc::clone(&house))).run(), told);
}

/// Serves, and looks after batches and webhooks, until `stop` is cancelled, then lets requests under way end; streams and long polls end at once.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve(listener: TcpListener, door: Door, stop: CancellationToken) -> io::Result<()> {
    let body_limit = door.body_limit;
    let house = Arc::new(House::new(door, stop.clone()));
    let kept = tokio::spawn(look_after(Arc::clone(&house)));
    let router = build(house, body_limit);
    // A stream's events are small, and each is waited for.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            warn!(%error, "cannot send without delay");
        }
    });
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(CLOSING).await;
    };
    let served = async {
        let ended =
            axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned()).await;
        if stop.is_cancelled()
            && let Err(error) = kept.await
        {
            warn!(%error, "looking after batches and webhooks broke off");
        }
        ended
    };
    tokio::select! {
        ended = served => ended,
        () = late => {
            warn!("some requests did not end in time; leaving them");
            Ok(())
        }
    }
}

/// The OpenAPI document, as JSON.
pub fn openapi() -> String {
    docs::document(open_routes().merge(keyed_routes()).merge(openai_routes()).into_openapi())
}

/// The routes that need a key.
fn keyed_routes() -> OpenApiRouter<Arc<House>> {
    OpenApiRouter::default()
        .routes(routes!(submit::submit, turns::list))
        .routes(routes!(failures::causes))
        .routes(routes!(turns::get))
        .routes(routes!(acts::cancel))
        .routes(routes!(acts::retry))
        .routes(routes!(threads::list))
        .routes(routes!(threads::get))
        .routes(routes!(events::events))
        .routes(routes!(threads::state))
        .routes(routes!(threads::verify))
        .routes(routes!(compare::why))
        .routes(routes!(compare::diff))
        .routes(routes!(fork::fork))
        .routes(routes!(answers::answer))
        .routes(routes!(answers::reconcile))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::get, inbox::answer))
        .routes(routes!(waits::list))
        .routes(routes!(pauses::list))
        .routes(routes!(pauses::get, pauses::put, pauses::delete))
        .routes(routes!(webhooks::routes::add, webhooks::routes::list))
        .routes(routes!(webhooks::routes::remove))
        .routes(routes!(webhooks::routes::deliveries))
        .routes(routes!(webhooks::routes::redeliver))
        .routes(routes!(strategies::list))
        .routes(routes!(strategies::get))
        .routes(routes!(strategies::map))
}

/// The routes that need a key and speak OpenAI's dialect, also when something is the matter.
fn openai_routes() -> OpenApiRouter<Arc<House>> {
    OpenApiRouter::default()
        .routes(routes!(chat::create))
        .routes(routes!(models::list))
        .routes(routes!(models::get))
        .merge(bulk_routes())
}

/// The routes of files and batches.
fn bulk_routes() -> OpenApiRouter<Arc<House>> {
    let upload = OpenApiRouter::default().routes(routes!(files::upload)).layer(DefaultBodyLimit::disable());
    OpenApiRouter::default()
        // A file has a limit of its own.
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

/// The routes that are open to all.
fn open_routes() -> OpenApiRouter<Arc<House>> {
    OpenApiRouter::default()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(docs::openapi))
}

fn build(house: Arc<House>, body_limit: usize) -> Router {
    let keyed: Router<Arc<House>> = keyed_routes().into();
    // **Invariant:** nothing behind the guard is reached past it; what has no route has nothing to guard.
    let keyed = keyed.route_layer(from_fn_with_state(Arc::clone(&house), auth::guard));
    let openai: Router<Arc<House>> = openai_routes().into();
    let openai = openai
        .route("/v1/models/{model}/{name}", get(models::get_of))
        .route_layer(from_fn_with_state(Arc::clone(&house), auth::guard))
        .route_layer(map_response(in_dialect));
    let open: Router<Arc<House>> = open_routes().into();
    open.merge(keyed)
        .merge(openai)
        .merge(docs::page())
        .route("/", get(async || Redirect::to("/docs/")))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_by_this_method)
        .with_state(house)
        .layer(DefaultBodyLimit::max(body_limit))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(TraceLayer::new_for_http().make_span_with(span))
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

async fn nothing_here(uri: Uri) -> Problem {
    Kind::UnknownPath.because(format!("there is nothing at {}", uri.path())).mend("/docs tells what there is")
}

async fn not_by_this_method(request: Request) -> Problem {
    let words = format!("{} does nothing at {}", request.method(), request.uri().path());
    Kind::Method.because(words).mend("/docs tells what there is")
}

/// The span of a request. Neither headers nor query are in it, because either may hold a secret.
fn span(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let id = request.headers().get("x-request-id").and_then(|it| it.to_str().ok()).unwrap_or_default();
    info_span!("request", method = %request.method(), route, path = request.uri().path(), id)
}
