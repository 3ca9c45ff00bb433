//! Which models there are: the strategies.

use axum::{Json, extract::State};
use serde::Serialize;
use shared::Graph;
use utoipa::ToSchema;

use super::{OWNER, error::ErrorReply, model, strategy};
use crate::{
    batches::wire::seconds,
    extract::Path,
    house::{House, Inside},
    problem::{Kind, Problem},
};

/// A strategy, as a model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Model {
    /// Its name.
    #[schema(examples("turnfold/planner"))]
    id: String,
    /// `model`.
    object: &'static str,
    /// When the api was started that offers it, in seconds since the Unix epoch.
    created: i64,
    /// `turnfold`.
    owned_by: &'static str,
    /// What it is for, in one line.
    description: &'static str,
}

/// All strategies, as models.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// `list`.
    object: &'static str,
    /// The models, by name.
    data: Vec<Model>,
}

impl Model {
    fn new(house: &House, it: &dyn Graph) -> Self {
        let (created, description) = (seconds(house.started), it.about());
        Self { id: model(it.name()), object: "model", created, owned_by: OWNER, description }
    }
}

/// Lists models
///
/// Every strategy is one.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai", operation_id = "list_models",
    responses((status = 200, description = "All of them, by name.", body = ModelList))
)]
pub(crate) async fn list(State(house): Inside) -> Json<ModelList> {
    Json(ModelList {
        object: "list",
        data: house.strategies.all().map(|it| Model::new(&house, it)).collect(),
    })
}

/// Shows a model
///
/// `turnfold/planner`, with its slash as it is or as `%2F`, or plain `planner`.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "openai", operation_id = "get_model",
    params(("model" = String, Path, description = "The model.", example = "turnfold/probe")),
    responses(
        (status = 200, description = "The model.", body = Model),
        (status = 404, description = "There is no such model.", body = ErrorReply)
    )
)]
pub(crate) async fn get(State(house): Inside, Path(name): Path<String>) -> Result<Json<Model>, Problem> {
    Ok(Json(Model::new(&house, known(&house, strategy(&name))?)))
}

/// The same, where the slash stands in the path as it is.
pub(crate) async fn get_of(
    State(house): Inside,
    Path((owner, name)): Path<(String, String)>,
) -> Result<Json<Model>, Problem> {
    get(State(house), Path(format!("{owner}/{name}"))).await
}

/// The strategy of this name, if it is a model.
pub(super) fn known(house: &House, name: &str) -> Result<&'static dyn Graph, Problem> {
    house.strategies.find(name).ok_or_else(|| {
        let known = house.strategies.names().iter().map(|it| model(it)).collect::<Vec<_>>().join(", ");
        Kind::UnknownModel.because(format!("model: none is called {name:?}; known: {known}")).about("model")
    })
}
