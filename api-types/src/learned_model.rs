//! Knowledge about models, learned from the answers of their endpoints.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Knowledge of the running workers about a model, learned from the answers of its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LearnedModel {
    /// Model, as `provider/model`.
    #[schema(examples("openai/gpt-4o"))]
    pub model: String,
    /// Smallest context window in tokens that a refusal taught a thread of these workers; null if none did.
    pub context_tokens: Option<u64>,
    /// Smallest number of images and files in one request, learned like `context_tokens`.
    pub attachments_max: Option<u64>,
    /// Form of structured output that is used in place of the first one: `tool` or `json`; null if the first one works.
    pub structured_output: Option<String>,
    /// Parts of requests that the endpoint refused. They are left out, or sent in another form.
    pub refused: Vec<String>,
    /// Tools whose schema was refused, and that are offered with a simplified one.
    pub simplified_tools: Vec<String>,
    /// Tools whose simplified schema was refused too. They are not offered.
    pub omitted_tools: Vec<String>,
    /// Names of the workers that learned it, sorted.
    pub workers: Vec<String>,
}
