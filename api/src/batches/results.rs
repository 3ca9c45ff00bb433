//! What came of a batch's lines, read while it runs.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use futures::stream;
use serde::Deserialize;
use store::bulk::ResultLine;
use utoipa::IntoParams;

use super::routes::find;
use crate::{
    auth::Acting,
    extract::{Path, Query},
    house::Inside,
    openai::error::ErrorReply,
    problem::{Kind, Problem},
};

/// How many results are read at once.
pub(super) const PAGE: u64 = 1000;

/// How many results one response holds at most.
const LIMIT_MAX: u64 = 100_000;

/// Which results.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those after this number; all, if nobody says.
    after: Option<u64>,
    /// At most so many; 100000 if nobody says.
    #[param(minimum = 1, maximum = 100000)]
    limit: Option<u64>,
}

/// Reads results
///
/// Lines of JSON in the order in which they came, also while the batch runs: each is a line of OpenAI's output with its
/// number `n` before it, counted from 1 without gaps. Ask again with `after` set to the last number. A line that was run
/// again (`resume` with `only`) has a result each time, all with the same `id` and `custom_id`: the one with the highest `n`
/// counts. The files of output and errors of a batch that is over hold each line once, with that result.
#[utoipa::path(
    get, path = "/v1/batches/{id}/results", tag = "bulk", operation_id = "batch_results",
    params(("id" = String, Path, description = "The batch."), Which),
    responses(
        (status = 200, description = "Lines of JSON; none, if there are none after `after` yet.", body = String, content_type = "application/x-ndjson"),
        (status = 404, description = "There is no such batch.", body = ErrorReply)
    )
)]
pub(crate) async fn results(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let limit = which.limit.unwrap_or(LIMIT_MAX);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(
            Kind::Malformed.because(format!("limit is a number from 1 to {LIMIT_MAX}, and not {limit}"))
        );
    }
    let batch = find(&house, &acting, &id).await?.id;
    let from = (house, which.after.unwrap_or_default(), limit);
    let pages = stream::try_unfold(from, move |(house, after, left)| async move {
        let page = house.parts.store.results(batch, after, left.min(PAGE)).await?;
        let Some(last) = page.last().map(|it| it.n) else { return Ok::<_, store::Error>(None) };
        let left = left - page.len() as u64;
        let lines: String = page.iter().map(numbered).collect();
        Ok(Some((Bytes::from(lines), (house, last, left))))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response())
}

/// A result with its number before it.
fn numbered(ResultLine { n, line }: &ResultLine) -> String {
    format!("{{\"n\":{n},{}\n", line.strip_prefix('{').unwrap_or(line))
}
