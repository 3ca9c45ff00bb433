//! The outbox: deliveries are written in the transaction of their event.

use queue::clock;
use sea_orm::{ActiveValue::Set, ColumnTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _};
use serde_json::{Value, json};
use shared::DeliveryState;

use super::{
    table::{deliveries, webhooks},
    webhook::{DeliveryId, EventType, Webhook},
};
use crate::{
    Error,
    log::{Transaction, plain},
};

/// An event, and what it is about.
pub(crate) struct Happening<'a> {
    /// Tenant whose webhooks receive it beside those of operators; only the latter if `None`.
    pub(crate) tenant: Option<&'a str>,
    pub(crate) event: EventType,
    pub(crate) strategy: Option<&'a str>,
    pub(crate) metadata: Option<&'a Value>,
    /// Field `data` of the body.
    pub(crate) data: Value,
}

/// Writes a delivery for each webhook that subscribes to an event.
pub(crate) async fn announce(tx: &Transaction, happening: Happening<'_>) -> Result<(), Error> {
    let Happening { tenant, event, strategy, metadata, data } = happening;
    let recipients = match tenant {
        Some(tenant) => webhooks::Column::Tenant.eq(tenant).or(webhooks::Column::Tenant.is_null()),
        None => webhooks::Column::Tenant.is_null(),
    };
    let rows = webhooks::Entity::find().filter(recipients).filter(webhooks::Column::DisabledAt.is_null());
    let now = clock::now();
    let mut new = Vec::new();
    for row in rows.all(tx).await? {
        let webhook = Webhook::try_from(row)?;
        if !webhook.types.contains(&event) || !webhook.filter.admits(strategy, metadata) {
            continue;
        }
        let id = clock::new_id();
        let payload = json!({
            "object": "event",
            "id": name(id),
            "type": event.as_str(),
            "created_at": now.div_euclid(1_000_000),
            "timestamp": clock::rfc3339(now),
            "data": data,
        });
        new.push(deliveries::ActiveModel {
            id: Set(id),
            webhook_id: Set(webhook.id),
            kind: Set(event.to_string()),
            payload: Set(plain(&payload.to_string())),
            created_at: Set(now),
            state: Set(DeliveryState::Pending.to_string()),
            attempts: Set(0),
            due_at: Set(now),
            tried_at: Set(None),
            status: Set(None),
            error: Set(None),
        });
    }
    if !new.is_empty() {
        deliveries::Entity::insert_many(new).exec_without_returning(tx).await?;
    }
    Ok(())
}

/// Returns the `webhook-id` of a delivery.
pub(super) fn name(id: DeliveryId) -> String {
    format!("msg_{}", id.simple())
}
