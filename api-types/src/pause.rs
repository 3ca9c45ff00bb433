//! Pauses of strategies, models and tenants.

use serde::{Deserialize, Serialize};
use shared::PauseKind;
use utoipa::ToSchema;

/// Request to pause a strategy, a model or a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPause {
    /// Reason, shown with every turn that the pause blocks. Default: empty.
    #[serde(default)]
    #[schema(examples("the endpoint is being moved"))]
    pub reason: String,
}

/// An active pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// Kind of thing that is paused.
    #[schema(examples("model"))]
    pub kind: PauseKind,
    /// Name of the strategy, model or tenant.
    #[schema(examples("openai/gpt-4o"))]
    pub name: String,
    /// Reason; empty if none was given.
    pub reason: String,
    /// User who paused it.
    pub by: String,
    /// Start of the pause (RFC 3339).
    pub at: String,
}
