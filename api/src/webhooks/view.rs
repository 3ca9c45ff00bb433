//! Responses of webhooks and deliveries, and patterns of event types.

use queue::clock::rfc3339;
use store::webhooks::{Delivery, DeliveryState, EventType, Webhook};

/// Expands names and patterns of event types. No list means those of batches. Fails with the first name that matches none.
pub(super) fn event_types(names: Option<&[String]>) -> Result<Vec<EventType>, String> {
    let Some(names) = names else { return Ok(EventType::OF_BATCHES.to_vec()) };
    let matches = |name: &str, kind: &EventType| match name.strip_suffix('*') {
        Some(start) => kind.as_str().starts_with(start),
        None => kind.as_str() == name,
    };
    for name in names {
        if !EventType::ALL.iter().any(|kind| matches(name, kind)) {
            return Err(name.clone());
        }
    }
    let wanted = |kind: &&EventType| names.iter().any(|name| matches(name, kind));
    Ok(EventType::ALL.iter().filter(wanted).copied().collect())
}

/// Converts a webhook to its response, without the secret.
pub(super) fn webhook(row: Webhook) -> api_types::Webhook {
    let (disabled_at, disabled_reason) = row.disabled.map(|(at, reason)| (rfc3339(at), reason)).unzip();
    api_types::Webhook {
        id: row.id,
        tenant: row.tenant,
        url: row.url,
        types: row.types.into_iter().map(|kind| kind.as_str().to_owned()).collect(),
        strategy: row.filter.strategy,
        metadata: row.filter.metadata,
        created_at: rfc3339(row.created_at),
        disabled_at,
        disabled_reason,
        secret: None,
        warning: None,
    }
}

/// Converts a delivery to its response.
pub(super) fn delivery(row: Delivery) -> api_types::Delivery {
    api_types::Delivery {
        id: row.id,
        name: row.name(),
        webhook_id: row.webhook,
        kind: row.kind,
        state: row.state,
        attempts: row.attempts,
        created_at: rfc3339(row.created_at),
        due_at: (row.state == DeliveryState::Pending).then(|| rfc3339(row.due_at)),
        tried_at: row.tried_at.map(rfc3339),
        status: row.status,
        error: row.error,
        payload: serde_json::from_str(&row.payload).unwrap_or_default(),
    }
}
