//! Embeddings, which are passed on to the provider of the configured model.

use api_types::Problem;
use axum::{Json, extract::State};
use serde_json::{Map, Value};
use shared::{Fault, FaultKind};

use crate::server::{
    extract::Body,
    principal::Operator,
    problem::{ApiError, Kind},
    state::SharedState,
};

/// Create embeddings
///
/// Works as `POST /v1/embeddings` of OpenAI's API: the request is passed on to the provider of `index.embedding_model`, and its answer is
/// returned as it is. Nothing is recorded. Budgets and limits do not count embeddings, so only operators may create them.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "openai", operation_id = "create_embeddings",
    request_body(content = api_types::EmbeddingsBody, description = "A request of OpenAI's API.", content_type = "application/json",
        example = json!({"model": "text-embedding-3-small", "input": "hello"})),
    responses(
        (status = 200, description = "The answer of the provider.", body = Object),
        (status = 400, description = "The request is invalid.", body = Problem),
        (status = 404, description = "No embedding model is configured, or another one.", body = Problem),
        (status = 502, description = "The provider refuses the request; `message` contains its reason.", body = Problem)
    )
)]
pub(crate) async fn create(
    State(app): SharedState,
    _: Operator,
    Body { value: mut body, .. }: Body<Map<String, Value>>,
) -> Result<Json<Value>, ApiError> {
    let model = app.embeddings.as_ref().ok_or_else(|| {
        Kind::UnknownModel
            .because("model: no embedding model is configured")
            .hint("an operator can set `embedding_model` under `[index]`")
            .with_param("model")
    })?;
    let named = body.get("model").and_then(Value::as_str).unwrap_or_default();
    let short = model.name.split_once('/').map_or(model.name.as_str(), |parts| parts.1);
    if named != model.name && named != short {
        let detail = format!("model: {named:?} is not the embedding model, which is {short:?}");
        return Err(Kind::UnknownModel.because(detail).with_param("model"));
    }
    if body.get("input").is_none_or(Value::is_null) {
        return Err(Kind::Invalid.because("input is missing").with_param("input"));
    }
    body.insert("model".to_owned(), short.into());
    (model.request)(body).await.map(Json).map_err(|fault| refused(&fault))
}

/// Converts the failure of a request to a provider.
fn refused(fault: &Fault) -> ApiError {
    match fault.kind {
        FaultKind::Transient { .. } | FaultKind::Unavailable { .. } | FaultKind::InDoubt { .. } => {
            Kind::Unavailable.because(fault.error.clone()).hint("send the request again in a moment")
        }
        FaultKind::Permanent | FaultKind::ContextExceeded { .. } | FaultKind::Oversized(_) => {
            Kind::Refused.because(fault.error.clone())
        }
    }
}
