//! Routes of webhooks and deliveries.

use std::collections::BTreeMap;

use api_types::{NewWebhook, Page, Problem};
use axum::{Json, extract::State};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use store::webhooks::{Delivery, DeliveryFilter, EventType, MOST_WEBHOOKS, Webhook, WebhookFilter};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    ssrf_guard::{self, TargetPolicy},
    view,
};
use crate::{
    server::{
        extract::{Body, Path, Query},
        pagination::{limit, page, whole},
        principal::{Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::opening::find_strategy,
};

/// Length of a secret in bytes.
const SECRET_LEN: usize = 32;

/// Maximum number of metadata pairs in a filter, and maximum length of a name and a value in bytes.
const PAIRS_MAX: usize = 16;
const NAME_MAX: usize = 64;
const VALUE_MAX: usize = 512;

/// Maximum length of a URL in bytes.
const URL_MAX: usize = 2000;

/// Create a webhook
///
/// From now on, the webhook receives an event whenever one of its types happens: the end of a batch, or with `types` also the end
/// of a turn, a question to a person, a budget that is reached or tools that changed; as specified by
/// [Standard Webhooks](https://www.standardwebhooks.com) 1.0.0: a `POST` with `webhook-id`, `webhook-timestamp` and
/// `webhook-signature`. The request is retried on a schedule until the response is 2xx; a 410 disables the webhook. An event
/// may arrive more than once, always with the same `webhook-id`. The response contains the secret, which is never returned
/// again, and a `warning` if the host has no public address at the moment. A tenant's webhook receives events of that tenant, an operator's webhook those of all tenants.
#[utoipa::path(
    post, path = "/v1/webhooks", tag = "webhooks", operation_id = "add_webhook", request_body = NewWebhook,
    params(("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")),
    responses(
        (status = 200, description = "The webhook, with its secret.", body = api_types::Webhook),
        (status = 422, description = "A field is invalid, or the URL is not allowed; `detail` names the field.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn add(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Body { value: new, .. }: Body<NewWebhook>,
) -> Result<Json<api_types::Webhook>, ApiError> {
    let tenant = principal.only();
    if new.url.len() > URL_MAX {
        return Err(Kind::Invalid.because(format!("url: it is longer than {URL_MAX} bytes")));
    }
    let policy = TargetPolicy::for_tenant(&app, tenant);
    if let Some(why) = policy.violation(&new.url) {
        return Err(Kind::Invalid.because(format!("url: {why}")).hint(
            "use https at a public address, or ask the operator to set `[webhooks] private_addresses`",
        ));
    }
    let types = view::event_types(new.types.as_deref()).map_err(|name| {
        let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
        Kind::Invalid.because(format!("types: {name:?} does not exist; known types: {}", known.join(", ")))
    })?;
    if types.is_empty() {
        let error = Kind::Invalid.because("types: the list is empty");
        return Err(error.hint("send `[\"*\"]` to receive all types"));
    }
    let filter = filter(&app, &principal, new.strategy, new.metadata)?;
    let secret = new_secret()?;
    let webhook = Webhook { filter, ..Webhook::new(tenant, &new.url, types, secret.clone().into()) };
    if !app.backends.store.add_webhook(&webhook, by).await? {
        return Err(Kind::NotNow
            .because(format!("the maximum of {MOST_WEBHOOKS} webhooks is reached"))
            .hint("remove one with DELETE /v1/webhooks/{id}"));
    }
    tracing::info!(webhook = %webhook.id, "webhook created");
    let warning = ssrf_guard::warning(policy, &new.url).await;
    Ok(Json(api_types::Webhook { secret: Some(secret), warning, ..view::webhook(webhook) }))
}

/// Checks a filter.
fn filter(
    app: &AppState,
    principal: &Principal,
    strategy: Option<String>,
    metadata: BTreeMap<String, String>,
) -> Result<WebhookFilter, ApiError> {
    if let Some(name) = &strategy {
        find_strategy(app, principal.into(), name, Kind::NamesNoStrategy)?;
    }
    let fits = |(name, value): (&String, &String)| name.len() <= NAME_MAX && value.len() <= VALUE_MAX;
    if metadata.len() <= PAIRS_MAX && metadata.iter().all(fits) {
        return Ok(WebhookFilter { strategy, metadata });
    }
    let detail = format!(
        "metadata: it can have up to {PAIRS_MAX} pairs, with names of {NAME_MAX} and values of {VALUE_MAX} bytes"
    );
    Err(Kind::Invalid.because(detail).with_param("metadata"))
}

fn new_secret() -> Result<String, ApiError> {
    let mut bytes = [0; SECRET_LEN];
    getrandom::fill(&mut bytes)
        .map_err(|err| Kind::Internal.because(format!("cannot generate a secret: {err}")))?;
    Ok(format!("whsec_{}", BASE64_STANDARD.encode(bytes)))
}

/// List webhooks
///
/// Returns all webhooks, oldest first, without their secrets.
#[utoipa::path(
    get, path = "/v1/webhooks", tag = "webhooks", operation_id = "list_webhooks",
    responses((status = 200, description = "All webhooks.", body = Page<api_types::Webhook>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
) -> Result<Json<Page<api_types::Webhook>>, ApiError> {
    let all = app.backends.store.webhooks(principal.only()).await?;
    Ok(Json(whole(all.into_iter().map(view::webhook).collect())))
}

/// Remove a webhook
///
/// Removes the webhook with its deliveries.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", tag = "webhooks", operation_id = "remove_webhook",
    params(
        ("id" = Uuid, Path, description = "Id of the webhook."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The webhook that was removed.", body = api_types::Webhook),
        (status = 404, description = "The webhook does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn remove(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
) -> Result<Json<api_types::Webhook>, ApiError> {
    let webhook = find(&app, &principal, id).await?;
    app.backends.store.remove_webhook(id, by).await?;
    tracing::info!(webhook = %id, "webhook removed");
    Ok(Json(view::webhook(webhook)))
}

/// Returns the row of a webhook. A webhook of another tenant or of an operator does not exist for a tenant.
async fn find(app: &AppState, principal: &Principal, id: Uuid) -> Result<Webhook, ApiError> {
    let sees = |webhook: &Webhook| {
        webhook.tenant.as_deref().map_or(principal.only().is_none(), |tenant| principal.sees(tenant))
    };
    let webhook = app.backends.store.webhook(id).await?.filter(sees);
    webhook.ok_or_else(|| Kind::UnknownWebhook.because(format!("webhook {id} does not exist")))
}

/// Query parameters of the list of deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListDeliveries {
    /// Only deliveries to this webhook.
    webhook_id: Option<Uuid>,
    /// Only deliveries in this state: `pending`, `delivered` or `failed`.
    state: Option<String>,
    /// Only deliveries before this one: the last delivery of the previous page.
    after: Option<Uuid>,
    /// Maximum number of deliveries. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List deliveries
///
/// Returns a page of deliveries, newest first. Deliveries that have ended are kept for 30 days.
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "webhooks", operation_id = "list_deliveries", params(ListDeliveries),
    responses((status = 200, description = "A page of deliveries.", body = Page<api_types::Delivery>))
)]
pub(crate) async fn deliveries(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListDeliveries>,
) -> Result<Json<Page<api_types::Delivery>>, ApiError> {
    let limit = limit(params.limit)?;
    if let Some(id) = params.webhook_id {
        find(&app, &principal, id).await?;
    }
    let invalid = |err| Kind::Invalid.because(format!("state: {err}"));
    let state = params.state.map(|state| state.parse().map_err(invalid)).transpose()?;
    let filter = DeliveryFilter { tenant: principal.only(), webhook: params.webhook_id, state };
    let rows = app.backends.store.deliveries(filter, params.after, limit + 1).await?;
    Ok(Json(page(rows, limit).map(view::delivery)))
}

/// Repeat a delivery
///
/// Sends the same event at once, with the same `webhook-id`, and restarts the retry schedule.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/redeliver", tag = "webhooks", operation_id = "redeliver",
    params(("id" = Uuid, Path, description = "Id of the delivery.")),
    responses(
        (status = 200, description = "The delivery is pending again.", body = api_types::Delivery),
        (status = 404, description = "The delivery does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The webhook is disabled.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn redeliver(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Json<api_types::Delivery>, ApiError> {
    let (_, webhook) = find_delivery(&app, &principal, id).await?;
    if let Some((_, reason)) = webhook.disabled {
        let detail = format!("webhook {} is disabled: {reason}", webhook.id);
        return Err(Kind::NotNow.because(detail).hint("remove it and create another one"));
    }
    app.backends.store.redeliver(id).await?;
    app.deliveries_changed.notify_one();
    Ok(Json(view::delivery(find_delivery(&app, &principal, id).await?.0)))
}

async fn find_delivery(
    app: &AppState,
    principal: &Principal,
    id: Uuid,
) -> Result<(Delivery, Webhook), ApiError> {
    let unknown = || Kind::UnknownDelivery.because(format!("delivery {id} does not exist"));
    let delivery = app.backends.store.delivery(id).await?.ok_or_else(unknown)?;
    let webhook = find(app, principal, delivery.webhook).await.map_err(|_| unknown())?;
    Ok((delivery, webhook))
}
