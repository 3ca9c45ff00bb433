//! Routes that list strategies as models.

use api_types::Problem;
use axum::{Json, extract::State};
use serde::Serialize;
use shared::Graph;
use utoipa::ToSchema;

use super::model_names::{OWNER, find_model, model, strategy};
use crate::{
    server::{
        extract::Path,
        openai_ids::seconds,
        principal::Principal,
        problem::ApiError,
        state::{AppState, SharedState},
    },
    turns::opening::usable_strategies,
};

/// A strategy as a model, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Model {
    /// Name of the model.
    #[schema(examples("turnfold/planner"))]
    id: String,
    /// Type of the object, always `model`.
    object: &'static str,
    /// Start of the API process, in seconds since the Unix epoch.
    created: i64,
    /// Owner of the model, always `turnfold`.
    owned_by: &'static str,
    /// Description of the strategy, one line.
    description: &'static str,
}

/// All models, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// Type of the object, always `list`.
    object: &'static str,
    /// The models, sorted by name.
    data: Vec<Model>,
}

impl Model {
    fn new(app: &AppState, graph: &dyn Graph) -> Self {
        let (created, description) = (seconds(app.started), graph.about());
        Self { id: model(graph.name()), object: "model", created, owned_by: OWNER, description }
    }
}

/// List models
///
/// Returns the strategies that you may run as models.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai", operation_id = "list_models",
    responses((status = 200, description = "All models.", body = ModelList))
)]
pub(crate) async fn list(State(app): SharedState, principal: Principal) -> Json<ModelList> {
    let data = usable_strategies(&app, (&principal).into()).map(|graph| Model::new(&app, graph)).collect();
    Json(ModelList { object: "list", data })
}

/// Show a model
///
/// Accepts `turnfold/planner`, with the slash as it is or as `%2F`, and `planner`.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "openai", operation_id = "get_model",
    params(("model" = String, Path, description = "Name of the model.", example = "turnfold/probe")),
    responses(
        (status = 200, description = "The model.", body = Model),
        (status = 404, description = "The model does not exist.", body = Problem)
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<Model>, ApiError> {
    Ok(Json(Model::new(&app, find_model(&app, (&principal).into(), strategy(&name))?)))
}

/// Shows a model whose name is written with a plain slash in the path.
pub(crate) async fn get_of(
    State(app): SharedState,
    principal: Principal,
    Path((owner, name)): Path<(String, String)>,
) -> Result<Json<Model>, ApiError> {
    get(State(app), principal, Path(format!("{owner}/{name}"))).await
}
