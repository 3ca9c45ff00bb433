//! Webhooks and their deliveries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::DeliveryState;
use utoipa::ToSchema;
use uuid::Uuid;

/// Request to create a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"url": "https://example.org/hooks/turnfold", "types": ["batch.*"]})))]
pub struct NewWebhook {
    /// URL that receives a `POST` of JSON for each event, signed as Standard Webhooks specifies.
    pub url: String,
    /// Event types to deliver: names, or patterns such as `turn.*`; `*` is all types. Default: `batch.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Only events of turns of this strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(examples("planner"))]
    pub strategy: Option<String>,
    /// Only events of turns and batches whose metadata has these values: up to 16 pairs. A value that is no text is compared as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(examples(json!({"team": "sales"})))]
    pub metadata: BTreeMap<String, String>,
}

/// An endpoint that receives events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Id of the webhook.
    pub id: Uuid,
    /// Tenant whose events are delivered; null for events of all tenants.
    pub tenant: Option<String>,
    /// URL that receives the events.
    pub url: String,
    /// Event types that are delivered.
    #[schema(examples(json!(["batch.completed", "batch.failed"])))]
    pub types: Vec<String>,
    /// Strategy to whose turns the events are limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Values that the metadata of the turn or batch must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Time of creation (RFC 3339).
    pub created_at: String,
    /// Time at which the webhook was disabled (RFC 3339); null if it is active.
    pub disabled_at: Option<String>,
    /// Reason why the webhook was disabled.
    pub disabled_reason: Option<String>,
    /// Key that verifies signatures: `whsec_…`. Returned only when the webhook is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Reason why deliveries are expected to fail. Returned only when the webhook is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A delivery of one event to one webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Id of the delivery.
    pub id: Uuid,
    /// Value of the `webhook-id` header, the same in every attempt.
    pub name: String,
    /// Id of the webhook.
    pub webhook_id: Uuid,
    /// Type of the event.
    #[serde(rename = "type")]
    #[schema(examples("batch.completed"))]
    pub kind: String,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Time of creation (RFC 3339).
    pub created_at: String,
    /// Time of the next attempt (RFC 3339); null unless the state is `pending`.
    pub due_at: Option<String>,
    /// Time of the last attempt (RFC 3339).
    pub tried_at: Option<String>,
    /// HTTP status of the last response.
    pub status: Option<u16>,
    /// Error of the last attempt.
    pub error: Option<String>,
    /// Body of the request.
    #[schema(value_type = Object)]
    pub payload: Value,
}
