//! Route that lists threads.

use api_types::{ListedThread, Page, Problem, ThreadStatus};
use axum::{Json, extract::State};
use serde::Deserialize;
use store::{Rank, ThreadFilter};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::listed::listed;
use crate::{
    logs::lookup::find_thread,
    server::{
        extract::Query,
        pagination::{limit, page},
        principal::Principal,
        problem::ApiError,
        state::SharedState,
    },
    turns::routes::conditions,
};

/// Query parameters of the list of threads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListThreads {
    /// Only threads with this status.
    #[param(inline)]
    status: Option<ThreadStatus>,
    /// Only threads with a turn that matches these conditions, as in the list of turns.
    #[param(example = "status = failed and age < 7d")]
    r#where: Option<String>,
    /// Order of the list. Default: `newest`. The others put the newest 10,000 threads that match in order, the highest value first. `usd`
    /// and `tokens` need the search index. A thread whose value changes while you read page after page may come twice or be left out.
    #[param(inline)]
    order: Option<ThreadOrder>,
    /// Only threads after this one: the last thread of the previous page.
    after: Option<Uuid>,
    /// Maximum number of threads. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Order of a list of threads.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThreadOrder {
    /// Newest first.
    Newest,
    /// Last changed first.
    Updated,
    /// Highest cost of all turns first.
    Usd,
    /// Most tokens of all turns first.
    Tokens,
    /// Longest time from the first event to the last change first.
    Took,
}

impl ThreadOrder {
    /// Returns the value by which the threads are ordered, if it is not their beginning.
    fn rank(self) -> Option<Rank> {
        match self {
            ThreadOrder::Newest => None,
            ThreadOrder::Updated => Some(Rank::Updated),
            ThreadOrder::Usd => Some(Rank::MicroUsd),
            ThreadOrder::Tokens => Some(Rank::Tokens),
            ThreadOrder::Took => Some(Rank::Took),
        }
    }
}

/// List threads
///
/// Returns a page of threads, newest first unless `order` says otherwise, each with the beginning of its first input and of its last result.
#[utoipa::path(
    get, path = "/v1/threads", tag = "threads", operation_id = "list_threads", params(ListThreads),
    responses(
        (status = 200, description = "A page of threads.", body = Page<ListedThread>),
        (status = 422, description = "The conditions are invalid; `detail` names the position.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListThreads>,
) -> Result<Json<Page<ListedThread>>, ApiError> {
    let limit = limit(params.limit)?;
    let conditions = conditions(&app, &principal, params.r#where.as_deref()).await?;
    let filter = ThreadFilter { tenant: principal.only(), status: params.status, turns: conditions.as_ref() };
    let store = &app.backends.store;
    let rows = match params.order.and_then(ThreadOrder::rank) {
        Some(rank) => {
            if let Some(after) = params.after {
                find_thread(&app, &principal, after).await?;
            }
            store.ranked_threads(filter, rank, params.after, limit + 1).await.map_err(unordered)?
        }
        None => store.threads(filter, params.after, limit + 1).await?,
    };
    let Page { data, has_more } = page(rows, limit);
    Ok(Json(Page { data: listed(&app, data).await?, has_more }))
}

/// Converts an error of an order. The values of a thread are those of all its turns, so no condition lets the index answer.
fn unordered(error: store::Error) -> ApiError {
    let is_behind = matches!(error, store::Error::SearchBehind { .. });
    let answer = ApiError::from(error);
    if is_behind { answer.hint("try again later, or list without `order` meanwhile") } else { answer }
}
