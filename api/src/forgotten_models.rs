//! Routes that forget what was learned about models.

use api_types::{Page, Problem};
use axum::{Json, extract::State};
use queue::{ALL_WORKERS, Notification};
use shared::visible_start;
use store::ForgottenModel;

use crate::{
    server::{
        extract::Path,
        pagination::whole,
        principal::{Actor, Operator},
        problem::{ApiError, Kind},
        state::SharedState,
    },
    views,
};

/// Maximum bytes of a model's name.
const MAX_NAME_BYTES: usize = 200;

/// List forgotten models
///
/// Returns the last request to forget each model, sorted by name. Requires an operator.
#[utoipa::path(
    get, path = "/v1/forgotten_models", tag = "pauses", operation_id = "list_forgotten_models",
    responses((status = 200, description = "All requests.", body = Page<api_types::ForgottenModel>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    _: Operator,
) -> Result<Json<Page<api_types::ForgottenModel>>, ApiError> {
    let models = app.backends.store.forgotten_models().await?;
    Ok(Json(whole(models.into_iter().map(views::forgotten_model).collect())))
}

/// Forget what was learned about a model
///
/// Clears what turnfold learned from refusals of the model's endpoint: the context window and the number of images in each
/// thread, parameters and schemas that it refused, and the rate at which it took requests. All workers are notified at once. A
/// thread forgets when its next turn starts, or when a failed turn is retried. Requires an operator.
#[utoipa::path(
    put, path = "/v1/forgotten_models/{name}", tag = "pauses", operation_id = "forget_model",
    params(
        ("name" = String, Path, description = "Model, as `provider/model`. Write the slash as `%2F`.", example = "openai/gpt-4o"),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who makes the request. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The request.", body = api_types::ForgottenModel),
        (status = 422, description = "The name is not that of a model of a configured provider.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn put(
    State(app): SharedState,
    _: Operator,
    Actor { name: by, caller, .. }: Actor,
    Path(name): Path<String>,
) -> Result<Json<api_types::ForgottenModel>, ApiError> {
    let Some((provider, _)) = name.split_once('/').filter(|_| name.len() <= MAX_NAME_BYTES) else {
        let detail = format!(
            "model: {:?} does not name a provider, or has more than {MAX_NAME_BYTES} bytes",
            visible_start(&name, MAX_NAME_BYTES)
        );
        return Err(Kind::Invalid.because(detail).hint("write provider/model, with the slash as %2F"));
    };
    if let Some(known) = app.providers.as_ref().filter(|known| !known.contains(provider)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let detail = format!("model: no provider named {provider:?} is configured");
        return Err(Kind::Invalid
            .because(detail)
            .hint(format!("configured providers: {}", known.join(", "))));
    }
    let forgotten = ForgottenModel::new(&name, &by);
    app.backends.store.forget_model(&forgotten, caller).await?;
    tracing::info!(model = name, by, "what was learned about the model is to be forgotten");
    app.backends.notifications.publish(ALL_WORKERS, Notification::PausesChanged).await;
    Ok(Json(views::forgotten_model(forgotten)))
}
