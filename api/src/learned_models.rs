//! Routes that list what was learned about models.

use std::collections::BTreeMap;

use api_types::{LearnedModel, Page, Problem};
use axum::{Json, extract::State};
use queue::clock;
use shared::visible_start;

use crate::server::{
    extract::Path,
    pagination::whole,
    principal::Operator,
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// Maximum characters of a name in an error.
const SHOWN_CHARS: usize = 200;

/// List what was learned about models
///
/// Returns what the workers that run learned from refusals, sorted by model: windows, refused parts of requests, schemas of
/// tools. A worker reports every ten seconds, and forgets what an endpoint refused when it ends; a thread keeps its window in its
/// log. Requires an operator.
#[utoipa::path(
    get, path = "/v1/learned_models", tag = "pauses", operation_id = "list_learned_models",
    responses((status = 200, description = "The models about which something was learned.", body = Page<LearnedModel>))
)]
pub(crate) async fn list(State(app): SharedState, _: Operator) -> Result<Json<Page<LearnedModel>>, ApiError> {
    Ok(Json(whole(learned(&app).await?)))
}

/// Show what was learned about a model
///
/// As the list, of one model. Requires an operator.
#[utoipa::path(
    get, path = "/v1/learned_models/{name}", tag = "pauses", operation_id = "get_learned_model",
    params(("name" = String, Path, description = "Model, as `provider/model`. Write the slash as `%2F`.", example = "openai/gpt-4o")),
    responses(
        (status = 200, description = "What was learned about the model.", body = LearnedModel),
        (status = 404, description = "Nothing was learned about the model.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    _: Operator,
    Path(name): Path<String>,
) -> Result<Json<LearnedModel>, ApiError> {
    let found = learned(&app).await?.into_iter().find(|learned| learned.model == name);
    found.map(Json).ok_or_else(|| {
        let name = visible_start(&name, SHOWN_CHARS);
        Kind::UnknownModel
            .because(format!("no running worker has learned anything about model {name:?}"))
            .hint("GET /v1/learned_models lists the others")
    })
}

/// Returns what the workers that run have learned, sorted by model.
async fn learned(app: &AppState) -> Result<Vec<LearnedModel>, ApiError> {
    let now = clock::now();
    let mut models: BTreeMap<String, (store::LearnedModel, Vec<String>)> = BTreeMap::new();
    for worker in app.backends.store.workers().await? {
        if worker.is_missing(now) {
            continue;
        }
        for learned in worker.learned_models {
            let (known, workers) = models.entry(learned.model.clone()).or_default();
            known.model.clone_from(&learned.model);
            known.merge(learned);
            workers.push(worker.name.clone());
        }
    }
    Ok(models.into_values().map(|(learned, workers)| view(learned, workers)).collect())
}

fn view(learned: store::LearnedModel, mut workers: Vec<String>) -> LearnedModel {
    workers.sort();
    workers.dedup();
    LearnedModel {
        model: learned.model,
        context_tokens: learned.context_tokens,
        attachments_max: learned.attachments_max,
        structured_output: learned.structured_output,
        refused: learned.refused,
        simplified_tools: learned.simplified_tools,
        omitted_tools: learned.omitted_tools,
        workers,
    }
}
