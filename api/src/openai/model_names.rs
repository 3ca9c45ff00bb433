//! Names of models: strategies, and the models of providers, which the strategy `chat` asks.

use serde_json::{Map, Value, json};
use shared::{Graph, Opened, closest};

use crate::{
    server::{
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
    turns::opening::{completed, operator_config, usable_strategies},
};

/// Owner of all models, and prefix of their names. Clients may omit the prefix.
pub(super) const OWNER: &str = "turnfold";

/// Strategy that asks a model of a provider, and its node that does.
pub(super) const CHAT: &str = "chat";
const REPLY: &str = "reply";

/// Returns the strategy of a model.
pub(super) fn strategy(model: &str) -> &str {
    model.strip_prefix(OWNER).and_then(|rest| rest.strip_prefix('/')).unwrap_or(model)
}

/// Returns the model of a strategy.
pub(super) fn model(strategy: &str) -> String {
    format!("{OWNER}/{strategy}")
}

/// Returns the model of a turn whose request is not at hand: for a strategy that asks a model for the client, the one that `answered`.
pub(crate) fn model_of_turn(strategy: &str, answered: Option<&str>) -> String {
    match answered {
        Some(answered) if strategy == CHAT => answered.to_owned(),
        Some(_) | None => model(strategy),
    }
}

/// Returns the model that a thread asks for the client, as its provider names it, and the parameters; none of a strategy that
/// chooses its models itself.
pub(super) fn asked_by(opened: &Opened) -> (Option<String>, Value) {
    if opened.strategy != CHAT {
        return (None, Value::Null);
    }
    let model = opened.config["model"].as_str().and_then(|model| Some(model.split_once('/')?.1.to_owned()));
    (model, opened.config["nodes"][REPLY].clone())
}

/// The strategy that a request is for.
pub(super) struct Target {
    pub(super) graph: &'static dyn Graph,
    /// Model of a provider that the strategy `chat` asks, as `provider/model`.
    pub(super) asked: Option<String>,
}

impl Target {
    /// Finds the strategy for a model: the strategy of that name, or `chat` for a model of a provider.
    ///
    /// A name without a provider is a model of the provider that `chat` is configured with. Names that look like a
    /// mistyped strategy are refused.
    pub(super) fn of(app: &AppState, submitter: Submitter<'_>, name: &str) -> Result<Self, ApiError> {
        let unknown = match find_model(app, submitter, strategy(name)) {
            Ok(graph) => return Ok(Self { graph, asked: None }),
            Err(unknown) => unknown,
        };
        let graph = usable_strategies(app, submitter).find(|graph| graph.name() == CHAT);
        let Some(graph) = graph else { return Err(unknown) };
        let asked = match name.split_once('/') {
            Some((OWNER, _)) => None,
            Some(_) => Some(name.to_owned()),
            None if closest(name, usable_strategies(app, submitter).map(|graph| graph.name())).is_some() => {
                None
            }
            None => {
                let config = completed(graph, &operator_config(app, submitter.tenant, graph.name()));
                let provider = config["model"].as_str().and_then(|model| model.split_once('/'));
                provider.map(|(provider, _)| format!("{provider}/{name}"))
            }
        };
        let is_configured = |model: &String| {
            let provider = model.split_once('/').map_or(model.as_str(), |parts| parts.0);
            app.providers.as_ref().is_none_or(|providers| providers.contains(provider))
        };
        match asked.filter(is_configured) {
            Some(asked) => Ok(Self { graph, asked: Some(asked) }),
            None => Err(unknown),
        }
    }

    /// Returns the configuration for the model and the parameters of a request. Only `chat` takes parameters.
    pub(super) fn config(&self, parameters: Map<String, Value>) -> Map<String, Value> {
        let mut config = self.parameters(parameters);
        config.extend(self.asked.clone().map(|model| ("model".to_owned(), model.into())));
        config
    }

    /// Returns the place of a parameter in the configuration.
    pub(super) fn place_of(parameter: &str) -> String {
        format!("nodes.{REPLY}.{parameter}")
    }

    /// Returns the configuration for the parameters of a request.
    pub(super) fn parameters(&self, parameters: Map<String, Value>) -> Map<String, Value> {
        let is_used = self.graph.name() == CHAT && !parameters.is_empty();
        is_used.then(|| ("nodes".to_owned(), json!({ REPLY: parameters }))).into_iter().collect()
    }
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
