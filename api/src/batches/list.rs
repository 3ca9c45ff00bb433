//! Route that lists batches.

use api_types::{OpenAiList, Page};
use axum::{Json, extract::State};
use serde::Deserialize;
use store::{
    Order, RankOrder,
    batches::{Batch, BatchRank},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    lookup::{find, unknown_batch},
    view::show_briefly,
};
use crate::server::{
    extract::Query,
    list_order::StoreOrder,
    openai_ids::batch_id,
    pagination::{limit, openai_list, page},
    principal::Principal,
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// Query parameters of the list of batches.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListBatches {
    /// Order of the list. Default: `newest`. All but `newest` and `oldest` put the newest 10,000 batches in order, the highest value
    /// first, or with `_asc` the lowest. A batch whose value changes while you read page after page may come twice or be left out.
    #[param(inline)]
    order: Option<BatchOrder>,
    /// Only batches after this one: the last batch of the previous page. If its value changed, the page follows its new place.
    after: Option<String>,
    /// Maximum number of batches. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Order of a list of batches.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchOrder {
    /// Newest first.
    Newest,
    /// Oldest first.
    Oldest,
    /// Last change of the status first: of a batch that has ended, its end.
    Updated,
    /// Longest without a change of the status first.
    UpdatedAsc,
    /// Most failed lines first.
    Failed,
    /// Fewest failed lines first.
    FailedAsc,
    /// Highest cost first.
    Usd,
    /// Lowest cost first; no known cost counts as zero.
    UsdAsc,
}

impl BatchOrder {
    fn of_store(self) -> StoreOrder<BatchRank> {
        StoreOrder::ByValue(match self {
            BatchOrder::Newest => return StoreOrder::ByCreation(Order::NewestFirst),
            BatchOrder::Oldest => return StoreOrder::ByCreation(Order::OldestFirst),
            BatchOrder::Updated => RankOrder::highest_first(BatchRank::Changed),
            BatchOrder::UpdatedAsc => RankOrder::lowest_first(BatchRank::Changed),
            BatchOrder::Failed => RankOrder::highest_first(BatchRank::Failed),
            BatchOrder::FailedAsc => RankOrder::lowest_first(BatchRank::Failed),
            BatchOrder::Usd => RankOrder::highest_first(BatchRank::MicroUsd),
            BatchOrder::UsdAsc => RankOrder::lowest_first(BatchRank::MicroUsd),
        })
    }
}

/// List batches
///
/// Returns a page of batches, newest first unless `order` says otherwise, without `top_causes`.
#[utoipa::path(
    get, path = "/v1/batches", tag = "bulk", operation_id = "list_batches", params(ListBatches),
    responses((status = 200, description = "A page of batches.", body = OpenAiList<api_types::Batch>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListBatches>,
) -> Result<Json<OpenAiList<api_types::Batch>>, ApiError> {
    let limit = limit(params.limit)?;
    let order = params.order.unwrap_or(BatchOrder::Newest).of_store();
    let rows = rows(&app, &principal, order, params.after.as_deref(), limit + 1).await?;
    let page = page(rows, limit);
    let mut data = Vec::with_capacity(page.data.len());
    for batch in page.data {
        data.push(show_briefly(&app, batch).await?);
    }
    Ok(Json(openai_list(Page { data, has_more: page.has_more }, |batch| batch.id.clone())))
}

async fn rows(
    app: &AppState,
    principal: &Principal,
    order: StoreOrder<BatchRank>,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Batch>, ApiError> {
    let (store, tenant) = (&app.backends.store, principal.only());
    match order {
        StoreOrder::ByCreation(order) => {
            // The batch may be gone: an operator may have pruned it.
            let id = |name: &str| batch_id(name).ok_or_else(|| unknown_batch(name));
            Ok(store.batches(tenant, order, after.map(id).transpose()?, limit).await?)
        }
        StoreOrder::ByValue(order) => {
            let after = match after {
                Some(name) => Some(find(app, principal, name).await?.id),
                None => None,
            };
            let rows = store.ranked_batches(tenant, order, after, limit).await?;
            rows.ok_or_else(|| Kind::UnknownBatch.because("the batch `after` was deleted"))
        }
    }
}
