//! Whether the api lives, and whether it can do its work.

use axum::extract::State;

use crate::{
    house::Inside,
    problem::{Kind, Problem},
};

/// Tells whether the api lives
///
/// It does, if it says so.
#[utoipa::path(
    get, path = "/livez", tag = "health", operation_id = "livez",
    responses((status = 200, description = "It lives.", body = String, content_type = "text/plain", example = "ok"))
)]
pub(crate) async fn livez() -> &'static str {
    "ok"
}

/// Tells whether the api can do its work
///
/// The store must answer and have its tables, and the queue must answer.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "readyz",
    responses(
        (status = 200, description = "It can.", body = String, content_type = "text/plain", example = "ready"),
        (status = 503, description = "It cannot; the detail names what is away.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn readyz(State(house): Inside) -> Result<&'static str, Problem> {
    let (store, queue) = tokio::join!(house.parts.store.check_migrated(), house.parts.queue.len());
    let away: Vec<String> = [
        store.err().map(|error| format!("the store: {error}")),
        queue.err().map(|error| format!("the queue: {error}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if away.is_empty() { Ok("ready") } else { Err(Kind::Unavailable.because(away.join("; "))) }
}
