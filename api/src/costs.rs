//! Route that sums the money and the time of turns, page by page.

mod log_reader;
mod summed;

use api_types::{CostPage, Problem};
use axum::{Json, extract::State};
use queue::clock;
use serde::Deserialize;
use store::{ThreadFilter, ThreadId};
use utoipa::IntoParams;
use uuid::Uuid;

use self::summed::Sums;
use crate::{
    server::{
        extract::Query,
        principal::Principal,
        problem::{ApiError, Kind},
        state::SharedState,
    },
    turns::routes::conditions,
};

/// Default and maximum number of threads of one request.
const THREADS: u64 = 50;
const THREADS_MAX: u64 = 100;

/// Number of events after which a request reads no further thread.
const EVENTS_MAX: u64 = 10_000;

/// Query parameters of the costs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CostParams {
    /// Only threads with a turn that was submitted, started or ended after this time (RFC 3339), and of their turns those that ended
    /// after it or have not ended. Default: all turns.
    #[param(example = "2026-11-29T00:00:00Z")]
    since: Option<String>,
    /// Only threads with a turn that was submitted before this time (RFC 3339), and of their turns those that ended before it. With
    /// `since`, a turn that ends counts in one of two periods that follow each other. Default: all turns.
    #[param(example = "2026-11-30T00:00:00Z")]
    until: Option<String>,
    /// Only threads created before this one: `next` of the previous page.
    after: Option<Uuid>,
    /// Maximum number of threads. Default: 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u64>,
}

/// Sum the money and time of turns
///
/// Reads the logs of threads, newest first, and returns their usage by strategy, model, tool, day and purpose, the uses of their time,
/// what failed attempts and dead workers took, and the turns that cost most and took longest. A request ends after 10,000 events, so
/// a page may have fewer threads than `limit`; continue with `next` and add up the sums. Of a thread with more than 100,000 events, only
/// the turns that started within the last 100,000 are counted; `cut` names it. Costs are those that were recorded, at the prices of
/// that time.
#[utoipa::path(
    get, path = "/v1/costs", tag = "turns", operation_id = "get_costs", params(CostParams),
    responses(
        (status = 200, description = "The sums.", body = CostPage),
        (status = 400, description = "The time or the limit is invalid.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn costs(
    State(app): SharedState,
    principal: Principal,
    Query(CostParams { since, until, after, limit }): Query<CostParams>,
) -> Result<Json<CostPage>, ApiError> {
    let limit = limit.unwrap_or(THREADS);
    if !(1..=THREADS_MAX).contains(&limit) {
        let detail = format!("limit must be between 1 and {THREADS_MAX}, but is {limit}");
        return Err(Kind::Malformed.because(detail).hint(format!("leave it out for {THREADS}")));
    }
    let since = since.map(|text| parsed("since", &text)).transpose()?;
    let until = until.map(|text| parsed("until", &text)).transpose()?;
    let Ok(_permit) = app.replays.acquire().await else {
        return Err(Kind::Unavailable.because("the API is stopping").hint("repeat the request in a moment"));
    };
    let conditions = conditions(&app, &principal, active(since, until).as_deref()).await?;
    let filter =
        ThreadFilter { tenant: principal.only(), turns: conditions.as_ref(), ..ThreadFilter::default() };
    let rows = app.backends.store.threads(filter, after, limit + 1).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut sums = Sums::between(since.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
    let mut last: Option<ThreadId> = None;
    let mut rest = rows.iter();
    for thread in rest.by_ref().take(limit) {
        sums.read(&app.backends.store, thread).await?;
        last = Some(thread.id);
        if EVENTS_MAX <= sums.events() {
            break;
        }
    }
    let has_more = rest.next().is_some();
    Ok(Json(sums.page(last.filter(|_| has_more))))
}

/// Returns the condition for turns that may have ended in a period.
fn active(since: Option<i64>, until: Option<i64>) -> Option<String> {
    let since = since.map(|since| format!("updated > '{}'", clock::rfc3339(since)));
    let until = until.map(|until| format!("created < '{}'", clock::rfc3339(until)));
    let conditions: Vec<String> = since.into_iter().chain(until).collect();
    (!conditions.is_empty()).then(|| conditions.join(" and "))
}

fn parsed(name: &str, text: &str) -> Result<i64, ApiError> {
    clock::parse_rfc3339(text).ok_or_else(|| {
        Kind::Malformed
            .because(format!("{name} is not a time: {text}"))
            .hint("write it as 2026-11-29T00:00:00Z (RFC 3339)")
    })
}
