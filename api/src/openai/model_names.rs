//! Names of strategies as models.

use shared::Graph;

use crate::{
    server::{
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
    turns::opening::usable_strategies,
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

/// Returns the graph of a strategy. Fails if there is no such model, or the submitter may not use it.
pub(super) fn find_model(
    app: &AppState,
    submitter: Submitter<'_>,
    strategy: &str,
) -> Result<&'static dyn Graph, ApiError> {
    usable_strategies(app, submitter).find(|graph| graph.name() == strategy).ok_or_else(|| {
        let known: Vec<String> = usable_strategies(app, submitter).map(|graph| model(graph.name())).collect();
        let detail = format!("model: {strategy:?} does not exist; known models: {}", known.join(", "));
        Kind::UnknownModel.because(detail).with_param("model")
    })
}
