//! Details of keys, schedules and webhooks in entries.
//!
//! **Invariant:** a secret is here by its SHA-256 alone, and so is a text that may contain one: the address of a webhook, and the
//! request of a schedule.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::MultitaskStrategy;
use uuid::Uuid;

/// A key as the log has it, without its secret part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyDetails {
    /// Public part of the key.
    pub id: String,
    /// SHA-256 of the stored hash of the secret part, in hexadecimal: it shows that the secret was exchanged, and opens nothing.
    pub fingerprint: String,
    /// Name for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Names of the scopes.
    pub scopes: Vec<String>,
    /// Author of the key.
    pub created_by: String,
    /// Time of its creation.
    pub created_at: i64,
    /// End of its validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// Treatment of a turn that the key submits to a busy thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitask_strategy: Option<MultitaskStrategy>,
}

/// A schedule as the log has it, under the names of its columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleDetails {
    /// Id of the schedule.
    pub id: Uuid,
    /// Name for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Cron expression with five fields.
    pub cron: String,
    /// Time zone by its IANA name.
    pub zone: String,
    /// Treatment of missed firings.
    pub missed: String,
    /// Kind of request: `turn` or `batch`.
    pub target: String,
    /// SHA-256 of the body of the request, in hexadecimal.
    pub body_sha256: String,
    /// Author of what it submits.
    pub author: String,
    /// Key with whose rights it submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// True if it acts as an operator who names no tenant.
    pub by_operator: bool,
    /// Time of its creation.
    pub created_at: i64,
}

/// A webhook as the log has it, under the names of its columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookDetails {
    /// Id of the webhook.
    pub id: Uuid,
    /// Host of its address.
    pub host: String,
    /// SHA-256 of its address, in hexadecimal. Addresses of some services contain a secret.
    pub url_sha256: String,
    /// SHA-256 of its signing secret of 256 random bits, in hexadecimal.
    pub secret_sha256: String,
    /// Event types that it receives.
    pub types: Value,
    /// Strategy whose turns it receives; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// SHA-256 of the metadata that turns and batches must have, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_sha256: Option<String>,
    /// Time of its creation.
    pub created_at: i64,
}
