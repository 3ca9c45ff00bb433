//! Webhooks and deliveries as they go over the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{
    time::rfc3339,
    webhooks::{Delivery, DeliveryState, EventType, Webhook},
};
use utoipa::ToSchema;
use uuid::Uuid;

/// Somebody who wants to be told.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"url": "https://example.org/hooks/turnfold", "types": ["batch.*"]})))]
pub(crate) struct NewWebhook {
    /// Where it is told: a `POST` of JSON, signed as Standard Webhooks says.
    pub(crate) url: String,
    /// What it is told of: names of types, or `batch.*`; all there are, if nobody says.
    #[serde(default)]
    pub(crate) types: Option<Vec<String>>,
}

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookView {
    id: Uuid,
    /// Whose batches it is told of; of everybody's, if null.
    tenant: Option<String>,
    url: String,
    #[schema(examples(json!(["batch.completed", "batch.failed"])))]
    types: Vec<&'static str>,
    created_at: String,
    /// Since when it is told nothing more.
    disabled_at: Option<String>,
    /// Why.
    disabled_why: Option<String>,
    /// With what it verifies what it is told: `whsec_…`. Shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// What was told, or is to be.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryView {
    id: Uuid,
    /// The `webhook-id` under which it is sent, each time.
    name: String,
    webhook_id: Uuid,
    #[serde(rename = "type")]
    #[schema(examples("batch.completed"))]
    kind: String,
    /// `pending`, `delivered` or `failed`.
    state: &'static str,
    /// How often it was sent.
    attempts: u32,
    created_at: String,
    /// When it is sent next, while it is pending.
    due_at: Option<String>,
    /// When it was sent last.
    tried_at: Option<String>,
    /// What was answered.
    status: Option<u16>,
    /// Why that will not do.
    error: Option<String>,
    /// What is told.
    #[schema(value_type = Object)]
    payload: Value,
}

impl WebhookView {
    /// The same, with its secret: for its owner, once.
    pub(super) fn with(self, secret: String) -> Self {
        Self { secret: Some(secret), ..self }
    }
}

/// What a webhook is told of, by names and patterns; or the one that means nothing.
pub(super) fn types(names: Option<&[String]>) -> Result<Vec<EventType>, String> {
    let Some(names) = names else { return Ok(EventType::ALL.to_vec()) };
    let fits = |name: &str, it: &EventType| match name.strip_suffix('*') {
        Some(start) => it.as_str().starts_with(start),
        None => it.as_str() == name,
    };
    for name in names {
        if !EventType::ALL.iter().any(|it| fits(name, it)) {
            return Err(name.clone());
        }
    }
    let wanted = |it: &&EventType| names.iter().any(|name| fits(name, it));
    Ok(EventType::ALL.iter().filter(wanted).copied().collect())
}

impl From<Webhook> for WebhookView {
    fn from(it: Webhook) -> Self {
        let (disabled_at, disabled_why) = it.disabled.map(|(at, why)| (rfc3339(at), why)).unzip();
        Self {
            id: it.id,
            tenant: it.tenant,
            url: it.url,
            types: it.types.into_iter().map(EventType::as_str).collect(),
            created_at: rfc3339(it.created_at),
            disabled_at,
            disabled_why,
            secret: None,
        }
    }
}

impl From<Delivery> for DeliveryView {
    fn from(it: Delivery) -> Self {
        Self {
            id: it.id,
            name: it.name(),
            webhook_id: it.webhook,
            kind: it.kind,
            state: it.state.as_str(),
            attempts: it.attempts,
            created_at: rfc3339(it.created_at),
            due_at: (it.state == DeliveryState::Pending).then(|| rfc3339(it.due_at)),
            tried_at: it.tried_at.map(rfc3339),
            status: it.status,
            error: it.error,
            payload: serde_json::from_str(&it.payload).unwrap_or_default(),
        }
    }
}
