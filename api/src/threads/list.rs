//! Route that lists threads.

use api_types::{ListedThread, Page, Problem, ThreadStatus};
use axum::{Json, extract::State};
use serde::Deserialize;
use store::{Order, ThreadFilter};
use utoipa::IntoParams;
use uuid::Uuid;

use super::listed::listed;
use crate::{
    logs::lookup::find_thread,
    server::{
        extract::Query,
        list_order::{ListOrder, StoreOrder},
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
    /// Order of the list. Default: `newest`. All but `newest` and `oldest` put the newest 10,000 threads that match in order, the highest
    /// value first, or with `_asc` the lowest. `usd` and `tokens` need the search index. A thread whose value changes while you read page
    /// after page may come twice or be left out.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Only threads after this one: the last thread of the previous page. If its value changed, the page follows its new place.
    after: Option<Uuid>,
    /// Maximum number of threads. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
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
    let (status, turns) = (params.status, conditions.as_ref());
    let filter = ThreadFilter { tenant: principal.only(), status, turns, order: Order::default() };
    let store = &app.backends.store;
    let rows = match params.order.unwrap_or(ListOrder::Newest).of_store() {
        StoreOrder::ByValue(order) => {
            if let Some(after) = params.after {
                find_thread(&app, &principal, after).await?;
            }
            store.ranked_threads(filter, order, params.after, limit + 1).await.map_err(unordered)?
        }
        StoreOrder::ByCreation(order) => {
            store.threads(ThreadFilter { order, ..filter }, params.after, limit + 1).await?
        }
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
