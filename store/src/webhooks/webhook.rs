//! A webhook, and the events that it can subscribe to.

use std::fmt;

use queue::clock;
use secrecy::SecretString;
use shared::status;
use uuid::Uuid;

use super::{filter::WebhookFilter, table::webhooks};
use crate::{Error, log::plain};

/// Id of a webhook: a UUIDv7.
pub type WebhookId = Uuid;

/// Id of a delivery: a UUIDv7.
pub type DeliveryId = Uuid;

status! {
    /// Event that a webhook can subscribe to.
    EventType {
        /// All lines of a batch succeeded.
        BatchCompleted = "batch.completed",
        /// All lines of a batch ended, and some failed.
        BatchCompletedWithErrors = "batch.completed_with_errors",
        /// The time limit of a batch passed before all of its lines ended.
        BatchExpired = "batch.expired",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
        /// No line of a batch could be run.
        BatchFailed = "batch.failed",
        /// A turn ended with a reply.
        TurnCompleted = "turn.completed",
        /// A turn failed.
        TurnFailed = "turn.failed",
        /// A turn waits for a person.
        TurnWaiting = "turn.waiting",
        /// A turn waits for permission to act.
        ApprovalRequested = "approval.requested",
        /// A turn or its thread reached its budget.
        BudgetExceeded = "budget.exceeded",
        /// The tools of an MCP server are no longer those that were approved.
        PinChanged = "pin.changed",
    }
}

/// An endpoint that receives events.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Id of the webhook.
    pub id: WebhookId,
    /// Tenant whose events are sent; an operator webhook, with `None`, receives the events of all tenants.
    pub tenant: Option<String>,
    /// Address of the endpoint.
    pub url: String,
    /// Event types that are sent.
    pub types: Vec<EventType>,
    /// Condition on what the events are about.
    pub filter: WebhookFilter,
    /// Signing secret: `whsec_…`.
    pub secret: SecretString,
    /// Creation time, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time at which the webhook was disabled, in microseconds since the Unix epoch, and the reason.
    pub disabled: Option<(i64, String)>,
}

impl EventType {
    /// Events of batches, which a webhook receives by default.
    pub const OF_BATCHES: [Self; 5] = [
        Self::BatchCompleted,
        Self::BatchCompletedWithErrors,
        Self::BatchExpired,
        Self::BatchCancelled,
        Self::BatchFailed,
    ];

    /// Reports whether it is written by the append that ends a turn.
    pub(super) fn is_of_turns(self) -> bool {
        match self {
            Self::TurnCompleted
            | Self::TurnFailed
            | Self::TurnWaiting
            | Self::ApprovalRequested
            | Self::BudgetExceeded => true,
            Self::BatchCompleted
            | Self::BatchCompletedWithErrors
            | Self::BatchExpired
            | Self::BatchCancelled
            | Self::BatchFailed
            | Self::PinChanged => false,
        }
    }
}

impl Webhook {
    /// Creates a webhook with a new id.
    pub fn new(tenant: Option<&str>, url: &str, types: Vec<EventType>, secret: SecretString) -> Self {
        Self {
            id: clock::new_id(),
            tenant: tenant.map(plain),
            url: plain(url),
            types,
            filter: WebhookFilter::default(),
            secret,
            created_at: clock::now(),
            disabled: None,
        }
    }
}

impl TryFrom<webhooks::Model> for Webhook {
    type Error = Error;

    fn try_from(row: webhooks::Model) -> Result<Self, Error> {
        let webhooks::Model {
            id,
            tenant,
            url,
            types,
            secret,
            created_at,
            disabled_at,
            disabled_reason,
            strategy,
            metadata,
        } = row;
        let unread = |error: &dyn fmt::Display| Error::Database(format!("webhook {id}: {error}"));
        let names: Vec<String> = serde_json::from_str(&types).map_err(|error| unread(&error))?;
        // Event types of a newer version are ignored.
        let types = names.iter().filter_map(|name| name.parse().ok()).collect();
        let disabled = disabled_at.map(|at| (at, disabled_reason.unwrap_or_default()));
        let filter = WebhookFilter::read(strategy, metadata).map_err(|error| unread(&error))?;
        Ok(Self { id, tenant, url, types, filter, secret: secret.into(), created_at, disabled })
    }
}
