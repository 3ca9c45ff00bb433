//! Routes that download a thread: its stored log, and a fixture for tests made from it.

use api_types::Problem;
use audit::LogExport;
use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::stream;
use shared::Event;
use store::Chain;
use strategy_tests::{capture, fixture_lines};
use uuid::Uuid;

use crate::{
    ids::short,
    logs::{folded_log::graph_of, lookup::find_thread},
    server::{
        extract::Path,
        principal::Principal,
        problem::{ApiError, Kind},
        state::SharedState,
    },
};

/// Media type of JSON lines.
const JSON_LINES: &str = "application/x-ndjson";

/// Maximum events of a thread that becomes a fixture over HTTP: each answer is changed and replayed.
const CAPTURED_MAX: u64 = 2_000;

/// Export a thread
///
/// Returns the log as JSON lines: each event with its stored bytes and its hash, then the contents of images and files.
/// `turnfold thread export` writes the same bytes, and `turnfold thread import` reads them.
#[utoipa::path(
    get, path = "/v1/threads/{id}/export", tag = "threads", operation_id = "export_thread",
    params(("id" = Uuid, Path, description = "Id of the thread.")),
    responses(
        (status = 200, description = "JSON lines.", body = String, content_type = "application/x-ndjson"),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn export(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Response, ApiError> {
    find_thread(&app, &principal, id).await?;
    let export = LogExport::new(app.backends.store.clone(), id);
    let parts = stream::try_unfold(export, |mut export| async move {
        Ok::<_, store::Error>(export.next().await?.map(|part| (Bytes::from(part), export)))
    });
    Ok((download(&id.to_string()), Body::from_stream(parts)).into_response())
}

/// Capture a thread as a fixture
///
/// Returns the events without secrets as JSON lines: a file for `fixtures/STRATEGY/`, as `turnfold fixture capture` writes it. It
/// is refused if it would test nothing: if its first turn has not started, today's code decides differently, or does not notice a
/// changed answer.
#[utoipa::path(
    get, path = "/v1/threads/{id}/fixture", tag = "threads", operation_id = "capture_thread",
    params(("id" = Uuid, Path, description = "Id of the thread.")),
    responses(
        (status = 200, description = "JSON lines.", body = String, content_type = "application/x-ndjson"),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The thread cannot be a fixture.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn fixture(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Response, ApiError> {
    find_thread(&app, &principal, id).await?;
    let refused = |why: String| Kind::NoFixture.because(format!("cannot capture thread {id}: {why}"));
    let events = app.backends.store.head(id).await?.seq;
    if CAPTURED_MAX < events {
        let why = format!("it has {events} events, more than {CAPTURED_MAX}");
        return Err(refused(why).hint("run turnfold fixture capture, which has no limit"));
    }
    let Ok(_permit) = app.replays.acquire().await else {
        return Err(Kind::Unavailable.because("the API is stopping"));
    };
    if let Chain::Broken { seq, what } = app.backends.store.verify_chain(id).await? {
        return Err(refused(format!("its hash chain breaks at event {seq}: {what}")));
    }
    let graph = graph_of(&app, id).await?;
    let (_, log) = app.backends.store.load(id).await?;
    let log: Vec<Event> = log.into_iter().map(|recorded| recorded.event).collect();
    let secrets = app.fixture_secrets.clone();
    let captured = tokio::task::spawn_blocking(move || capture(graph, &log, &secrets)).await;
    let captured =
        captured.map_err(|error| Kind::Internal.because(format!("the capture failed: {error}")))?;
    let log = captured.map_err(|error| refused(error.to_string()))?.redacted.log;
    let lines = fixture_lines(&log)
        .map_err(|error| Kind::Internal.because(format!("the fixture is not JSON: {error}")))?;
    Ok((download(&format!("{}_{}", graph.name(), short(id))), lines).into_response())
}

fn download(name: &str) -> [(axum::http::HeaderName, String); 2] {
    let disposition = format!("attachment; filename=\"{name}.jsonl\"");
    [(CONTENT_TYPE, JSON_LINES.to_owned()), (CONTENT_DISPOSITION, disposition)]
}
