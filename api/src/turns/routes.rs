//! Routes that list turns and show one.

use api_types::{Page, Problem, Turn, TurnStatus};
use axum::{Json, extract::State};
use queue::clock;
use serde::Deserialize;
use store::{Conditions, Order, TurnFilter};
use utoipa::IntoParams;
use uuid::Uuid;

use super::lookup::{WaitParams, find, show_all, show_within};
use crate::{
    ids::check_threads,
    server::{
        extract::{Path, Query},
        list_order::{ListOrder, StoreOrder},
        pagination::{limit, page},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Query parameters of the list of turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListTurns {
    /// Only turns of this thread.
    thread_id: Option<Uuid>,
    /// Only turns with this status.
    #[param(inline)]
    status: Option<TurnStatus>,
    /// Only turns that match these conditions: `FIELD OPERATOR VALUE`, joined by `and`. Fields: status, outcome, strategy, tenant,
    /// priority, author, thread, batch, custom_id, text, tool, model, prompt, worker, rating, usd, tokens, took, error, cause, age,
    /// created, updated and metadata.KEY. Operators: = != ~ (contains) < >. A value is a word or a quoted text; a time is RFC 3339 or an
    /// age such as 7d. `text = 'two words'` finds turns of which one event has all the words, in any order; it selects from the newest
    /// 10000 events with them.
    #[param(example = "status = failed and error ~ 'timed out' and age < 7d")]
    r#where: Option<String>,
    /// Order of the list. Default: `newest`. All but `newest` and `oldest` put the newest 10,000 turns that match in order, the highest
    /// value first, or with `_asc` the lowest. `usd` and `tokens` need the search index. A turn whose value changes while you read page
    /// after page may come twice or be left out.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Only turns after this one: the last turn of the previous page. If its value changed, the page follows its new place.
    after: Option<Uuid>,
    /// Maximum number of turns. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List turns
///
/// Returns a page of turns, newest first unless `order` says otherwise.
#[utoipa::path(
    get, path = "/v1/turns", tag = "turns", operation_id = "list_turns", params(ListTurns),
    responses(
        (status = 200, description = "A page of turns.", body = Page<Turn>),
        (status = 422, description = "The conditions are invalid; `detail` names the position.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListTurns>,
) -> Result<Json<Page<Turn>>, ApiError> {
    let limit = limit(params.limit)?;
    if let Some(after) = params.after {
        find(&app, &principal, after).await?;
    }
    let (tenant, status) = (principal.only(), params.status);
    let conditions = conditions(&app, &principal, params.r#where.as_deref()).await?;
    let (conditions, order) = (conditions.as_ref(), Order::default());
    let filter = TurnFilter { tenant, thread: params.thread_id, status, conditions, order };
    let store = &app.backends.store;
    let rows = match params.order.unwrap_or(ListOrder::Newest).of_store() {
        StoreOrder::ByValue(order) => store.ranked_turns(filter, order, params.after, limit + 1).await?,
        StoreOrder::ByCreation(order) => {
            store.turns(TurnFilter { order, ..filter }, params.after, limit + 1).await?
        }
    };
    let Page { data, has_more } = page(rows, limit);
    Ok(Json(Page { data: show_all(&app, data).await?, has_more }))
}

/// Parses the conditions of a filter. A part of an id that several threads have is refused.
pub(crate) async fn conditions(
    app: &AppState,
    principal: &Principal,
    text: Option<&str>,
) -> Result<Option<Conditions>, ApiError> {
    let parse = |text| {
        Conditions::parse(text, clock::now()).map_err(|error| {
            Kind::Invalid
                .because(format!("where: at character {}: {}", error.at, error.what))
                .hint(error.hint)
        })
    };
    let conditions = text.map(parse).transpose()?;
    if let Some(conditions) = &conditions {
        check_threads(app, principal, conditions).await?;
        app.backends.store.check_searchable(conditions).await?;
    }
    Ok(conditions)
}

/// Show a turn
///
/// Returns one turn. With `wait`, the response is sent when the turn has ended or the time has passed.
#[utoipa::path(
    get, path = "/v1/turns/{id}", tag = "turns", operation_id = "get_turn",
    params(("id" = Uuid, Path, description = "Id of the turn."), WaitParams),
    responses(
        (status = 200, description = "The turn.", body = Turn),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(params): Query<WaitParams>,
) -> Result<Json<Turn>, ApiError> {
    let wait = params.check()?;
    let (_, turn) = show_within(&app, find(&app, &principal, id).await?, wait).await?;
    Ok(Json(turn))
}
