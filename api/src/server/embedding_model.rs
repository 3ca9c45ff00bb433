//! The embedding model of the configuration.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use shared::Fault;

/// Sends a request for embeddings to the provider of a model, `provider/model`, and returns its answer.
pub type RequestEmbeddings =
    Arc<dyn Fn(Map<String, Value>) -> BoxFuture<'static, Result<Value, Fault>> + Send + Sync>;

/// The embedding model of the configuration.
#[derive(Clone)]
pub struct EmbeddingModel {
    /// Name of the model, as `provider/model`.
    pub name: String,
    /// Sends a request to its provider.
    pub request: RequestEmbeddings,
}
