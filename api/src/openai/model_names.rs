//! Names of strategies as models.

use shared::Graph;

use crate::server::{
    problem::{ApiError, Kind},
    state::AppState,
};

/// Owner of all models, and prefix of their names. Clients may omit the prefix.
pub(super) const OWNER: &str = "turnfold";

/// Returns the strategy of a model.
pub(super) fn strategy(model: &str) -> &str {
    model.strip_prefix(OWNER).and_then(|rest| rest.strip_prefix('/')).unwrap_or(model)
}

/// Returns the model of a strategy.
pub(super) fn model(strategy: &str) -> String {
    format!("{OWNER}/{strategy}")
}

/// Returns the graph of a strategy. Fails if there is no such model.
pub(super) fn find_model(app: &AppState, strategy: &str) -> Result<&'static dyn Graph, ApiError> {
    app.strategies.find(strategy).ok_or_else(|| {
        let known = app.strategies.names().iter().map(|name| model(name)).collect::<Vec<_>>().join(", ");
        let detail = format!("model: {strategy:?} does not exist; known models: {known}");
        Kind::UnknownModel.because(detail).with_param("model")
    })
}
