//! Route that returns the results of a batch while it runs.

use api_types::{BatchResult, Problem};
use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use futures::stream;
use serde::Deserialize;
use store::batches::ResultLine;
use utoipa::IntoParams;

use super::lookup::find;
use crate::server::{
    extract::{Path, Query},
    principal::Principal,
    problem::{ApiError, Kind},
    state::SharedState,
};

/// Number of results read at once.
pub(super) const PAGE: u64 = 1000;

/// Maximum number of results in one response.
const LIMIT_MAX: u64 = 100_000;

/// Query parameters of the results.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListResults {
    /// Only results after this number. Default: all results.
    after: Option<u64>,
    /// Maximum number of results. Default: 100000.
    #[param(minimum = 1, maximum = 100000)]
    limit: Option<u64>,
}

/// Read the results of a batch
///
/// Returns JSON lines in the order in which the results were recorded, also while the batch runs. Each is a line of
/// OpenAI's output format with the additional field `n`, its number, counted from 1 without gaps. To continue, repeat
/// the request with `after` set to the last number. A line that was run again (`resume` with `only`) has a result for
/// each run, with the same `id` and `custom_id`; the one with the highest `n` counts. The output and error files of an
/// ended batch contain each line once, with that result.
#[utoipa::path(
    get, path = "/v1/batches/{id}/results", tag = "bulk", operation_id = "batch_results",
    params(("id" = String, Path, description = "Id of the batch."), ListResults),
    responses(
        (status = 200, description = "JSON lines; none if there are no results after `after` yet.", body = BatchResult, content_type = "application/x-ndjson"),
        (status = 404, description = "The batch does not exist.", body = Problem)
    )
)]
pub(crate) async fn results(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<String>,
    Query(params): Query<ListResults>,
) -> Result<Response, ApiError> {
    let limit = params.limit.unwrap_or(LIMIT_MAX);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(
            Kind::Malformed.because(format!("limit must be between 1 and {LIMIT_MAX}, but is {limit}"))
        );
    }
    let batch = find(&app, &principal, &id).await?.id;
    let from = (app, params.after.unwrap_or_default(), limit);
    let pages = stream::try_unfold(from, move |(app, after, left)| async move {
        let page = app.backends.store.results(batch, after, left.min(PAGE)).await?;
        let Some(last) = page.last().map(|line| line.n) else { return Ok::<_, store::Error>(None) };
        let left = left - page.len() as u64;
        let lines: String = page.iter().map(numbered).collect();
        Ok(Some((Bytes::from(lines), (app, last, left))))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response())
}

/// Adds the number to a result.
fn numbered(ResultLine { n, line }: &ResultLine) -> String {
    format!("{{\"n\":{n},{}\n", line.strip_prefix('{').unwrap_or(line))
}
