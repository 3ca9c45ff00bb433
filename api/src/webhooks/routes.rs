//! How webhooks are made, listed and removed; and what they were told.

use axum::{Json, extract::State};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use store::webhooks::{Delivery, DeliveryFilter, EventType, MOST_WEBHOOKS, Webhook};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    may_be_anywhere,
    reach::Reach,
    wire::{DeliveryView, NewWebhook, WebhookView, types},
};
use crate::{
    auth::Acting,
    extract::{Body, Path, Query},
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
};

/// How long a secret is, in bytes.
const SECRET: usize = 32;

/// The longest URL, in bytes.
const URL_MAX: usize = 2000;

/// Adds a webhook
///
/// From now on it is told of the ends of batches, as [Standard Webhooks](https://www.standardwebhooks.com) 1.0.0 says: a
/// `POST` with `webhook-id`, `webhook-timestamp` and `webhook-signature`, sent again on a schedule until a 2xx answers it,
/// and never again after a 410. It may arrive more than once, each time under the same `webhook-id`. The answer holds the
/// secret, which is shown to nobody afterwards. Who acts for a tenant is told of that tenant's batches, an operator of all.
#[utoipa::path(
    post, path = "/v1/webhooks", tag = "webhooks", operation_id = "add_webhook", request_body = NewWebhook,
    responses(
        (status = 200, description = "It is told from now on; with its secret.", body = WebhookView),
        (status = 422, description = "It makes no sense, or is not where it may be; the detail names the field.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn add(
    State(house): Inside,
    acting: Acting,
    Body { value: new, .. }: Body<NewWebhook>,
) -> Result<Json<WebhookView>, Problem> {
    let tenant = acting.only();
    if new.url.len() > URL_MAX {
        return Err(Kind::Invalid.because(format!("url: it is longer than {URL_MAX} bytes")));
    }
    if let Some(why) = Reach::of(may_be_anywhere(&house, tenant)).refuses(&new.url) {
        let problem = Kind::Invalid.because(format!("url: {why}"));
        return Err(problem.mend("a tenant's webhook is https at a public address, unless the operator sets `[webhooks] private_addresses`"));
    }
    let types = types(new.types.as_deref()).map_err(|name| {
        let known: Vec<_> = EventType::ALL.iter().map(|it| it.as_str()).collect();
        Kind::Invalid.because(format!("types: {name:?} is none of {}", known.join(", ")))
    })?;
    if types.is_empty() {
        return Err(Kind::Invalid
            .because("types: it is told of nothing")
            .mend("leave `types` out to be told of all"));
    }
    let secret = secret()?;
    let webhook = Webhook::new(tenant, &new.url, types, secret.clone().into());
    if !house.parts.store.add_webhook(&webhook).await? {
        return Err(Kind::NotNow
            .because(format!("there are {MOST_WEBHOOKS} webhooks, which is as many as there may be"))
            .mend("remove one with DELETE /v1/webhooks/{id}"));
    }
    tracing::info!(webhook = %webhook.id, "a webhook was added");
    Ok(Json(WebhookView::from(webhook).with(secret)))
}

fn secret() -> Result<String, Problem> {
    let mut bytes = [0; SECRET];
    getrandom::fill(&mut bytes).map_err(|err| Kind::Internal.because(format!("no randomness: {err}")))?;
    Ok(format!("whsec_{}", BASE64_STANDARD.encode(bytes)))
}

/// Lists webhooks
///
/// Oldest first, without their secrets.
#[utoipa::path(
    get, path = "/v1/webhooks", tag = "webhooks", operation_id = "list_webhooks",
    responses((status = 200, description = "All of them.", body = Page<WebhookView>))
)]
pub(crate) async fn list(State(house): Inside, acting: Acting) -> Result<Json<Page<WebhookView>>, Problem> {
    let all = house.parts.store.webhooks(acting.only()).await?;
    Ok(Json(Page { data: all.into_iter().map(WebhookView::from).collect(), has_more: false }))
}

/// Removes a webhook
///
/// It is told nothing more, and what it was told is forgotten.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", tag = "webhooks", operation_id = "remove_webhook",
    params(("id" = Uuid, Path, description = "The webhook.")),
    responses(
        (status = 200, description = "The webhook that was removed.", body = WebhookView),
        (status = 404, description = "There is no such webhook.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn remove(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
) -> Result<Json<WebhookView>, Problem> {
    let webhook = find(&house, &acting, id).await?;
    house.parts.store.remove_webhook(id).await?;
    tracing::info!(webhook = %id, "a webhook was removed");
    Ok(Json(webhook.into()))
}

/// The webhook of this name, if whoever asks sees it. A tenant sees none of an operator's.
async fn find(house: &House, acting: &Acting, id: Uuid) -> Result<Webhook, Problem> {
    let sees = |it: &Webhook| it.tenant.as_deref().map_or(acting.only().is_none(), |of| acting.sees(of));
    let webhook = house.parts.store.webhook(id).await?.filter(sees);
    webhook.ok_or_else(|| Kind::UnknownWebhook.because(format!("there is no webhook {id}")))
}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those of this webhook.
    webhook_id: Option<Uuid>,
    /// Those that are `pending`, `delivered` or `failed`.
    state: Option<String>,
    /// Those before this delivery: the last of the page before.
    after: Option<Uuid>,
    /// At most so many; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Lists deliveries
///
/// What webhooks were told and are to be told, newest first; of those that are over, the ones of the last 30 days.
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "webhooks", operation_id = "list_deliveries", params(Which),
    responses((status = 200, description = "A page of deliveries.", body = Page<DeliveryView>))
)]
pub(crate) async fn deliveries(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Page<DeliveryView>>, Problem> {
    let limit = limit(which.limit)?;
    if let Some(id) = which.webhook_id {
        find(&house, &acting, id).await?;
    }
    let state =
        which.state.map(|it| it.parse().map_err(|err| Kind::Invalid.because(format!("state: {err}"))));
    let filter =
        DeliveryFilter { tenant: acting.only(), webhook: which.webhook_id, state: state.transpose()? };
    let rows = house.parts.store.deliveries(filter, which.after, limit + 1).await?;
    Ok(Json(Page::cut(rows, limit).map(DeliveryView::from)))
}

/// Sends a delivery again
///
/// At once, and from its first attempt on: the same words under the same `webhook-id`.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/redeliver", tag = "webhooks", operation_id = "redeliver",
    params(("id" = Uuid, Path, description = "The delivery.")),
    responses(
        (status = 200, description = "It is sent again.", body = DeliveryView),
        (status = 404, description = "There is no such delivery.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its webhook is disabled.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn redeliver(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
) -> Result<Json<DeliveryView>, Problem> {
    let (_, webhook) = delivery(&house, &acting, id).await?;
    if let Some((_, why)) = webhook.disabled {
        let words = format!("webhook {} is disabled: {why}", webhook.id);
        return Err(Kind::NotNow.because(words).mend("remove it, and add another"));
    }
    house.parts.store.redeliver(id).await?;
    house.announced.notify_one();
    Ok(Json(delivery(&house, &acting, id).await?.0.into()))
}

async fn delivery(house: &House, acting: &Acting, id: Uuid) -> Result<(Delivery, Webhook), Problem> {
    let unknown = || Kind::UnknownDelivery.because(format!("there is no delivery {id}"));
    let delivery = house.parts.store.delivery(id).await?.ok_or_else(unknown)?;
    let webhook = find(house, acting, delivery.webhook).await.map_err(|_| unknown())?;
    Ok((delivery, webhook))
}
