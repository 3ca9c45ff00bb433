//! Models about which everything learned is forgotten.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request to forget what was learned about a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgottenModel {
    /// Model, as `provider/model`.
    #[schema(examples("openai/gpt-4o"))]
    pub model: String,
    /// User who made the request.
    pub by: String,
    /// Time of the request (RFC 3339). What is learned later is kept.
    pub at: String,
}
