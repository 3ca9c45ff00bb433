//! Checks that a budget in dollars can hold: the cost of a model without a price is unknown.

use serde_json::Value;
use shared::{Budget, Graph, matches_pattern, models_of, price_setting};

use super::opening::completed;
use crate::server::{
    problem::{ApiError, Kind},
    state::AppState,
};

/// Checks that every model of a configuration has a price if a budget limits dollars.
pub(crate) fn check_prices(
    app: &AppState,
    graph: &dyn Graph,
    config: &Value,
    budget: &Budget,
) -> Result<(), ApiError> {
    let scope = [("turn", &budget.turn), ("thread", &budget.thread)];
    let Some((scope, _)) = scope.into_iter().find(|(_, limits)| limits.usd.is_some()) else { return Ok(()) };
    let Some(priced) = &app.priced_models else { return Ok(()) };
    let config = completed(graph, config);
    let summary = app.context.summary_model.as_deref().map(|model| ("summary_model".to_owned(), model));
    let is_priced = |model: &str| priced.iter().any(|pattern| matches_pattern(pattern, model));
    let Some((key, model)) = models_of(&config).chain(summary).find(|(_, model)| !is_priced(model)) else {
        return Ok(());
    };
    let why =
        format!("budget.{scope}.usd: the model {model:?} of {key} has no price, so its cost is not known");
    Err(Kind::Invalid
        .because(why)
        .hint(format!("an operator can set {}; or use `tokens` instead of `usd`", price_setting(model))))
}
