//! Opening of threads: the first event, from a request, the operator's configuration and the rule of the tenant.

use serde_json::{Map, Value};
use shared::{Budget, EngineConfig, FORMAT, Graph, Opened, ServerScope, models_of, overlay, unknown_server};
use store::{Thread, ThreadId};

use super::{
    bounds::{Configs, check_budget, check_config},
    prices::check_prices,
};
use crate::{
    logs::lookup::find_thread,
    server::{
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
};

/// Configuration and budget that a client sets for a new thread.
pub(crate) struct Overrides {
    pub(crate) config: Option<Map<String, Value>>,
    pub(crate) budget: Option<Budget>,
}

/// Returns the first event of a new thread.
pub(crate) fn opened(
    app: &AppState,
    submitter: Submitter<'_>,
    name: &str,
    overrides: Overrides,
    by: &Actor,
) -> Result<Opened, ApiError> {
    let graph = find_strategy(app, submitter, name, Kind::NamesNoStrategy)?;
    let operator = operator_config(app, submitter.tenant, name);
    let chosen = overrides.config.as_ref().is_some_and(|config| config.contains_key("servers"));
    let has_changes = overrides.config.as_ref().is_some_and(|config| !config.is_empty());
    let config = configure(graph, &operator, overrides.config)?;
    check_change(app, submitter, graph, &Change { has_changes, before: &Value::Null, after: &config })?;
    let servers = usable_servers(app, submitter.tenant, graph, &operator, chosen.then_some(&config))?;
    if graph.server_scope() == ServerScope::AllTenants && servers.len() < app.experts.len() {
        let why =
            format!("strategy {name} needs every MCP server, and this tenant may use only some of them");
        return Err(Kind::Invalid.because(why).hint("run it as an operator, for a tenant without `servers`"));
    }
    let is_usable = |(name, _): &(&String, &String)| servers.contains(&name.as_str());
    let servers =
        app.experts.iter().filter(is_usable).map(|(name, expert)| (name.clone(), expert.clone())).collect();
    let budget = budget_of(app, submitter, overrides.budget.unwrap_or_default())?;
    check_prices(app, graph, &config, &budget)?;
    Ok(Opened {
        format: FORMAT,
        strategy: graph.name().to_owned(),
        version: graph.version(),
        config,
        servers,
        budget,
        context: app.context.clone(),
        actor: by.name.clone(),
        tenant: submitter.tenant.to_owned(),
        caller: by.caller.clone(),
    })
}

/// Finds a thread that the principal may continue with another turn.
pub(crate) async fn continued(
    app: &AppState,
    principal: &Principal,
    id: ThreadId,
) -> Result<Thread, ApiError> {
    let thread = find_thread(app, principal, id).await?;
    // A strategy that this build does not know is refused where the log is read.
    if app.strategies.find(&thread.strategy).is_some() {
        find_strategy(app, principal.into(), &thread.strategy, Kind::NamesNoStrategy)?;
    }
    Ok(thread)
}

/// Returns the strategies that the submitter may run, sorted by name.
pub(crate) fn usable_strategies<'a>(
    app: &'a AppState,
    submitter: Submitter<'_>,
) -> impl Iterator<Item = &'static dyn Graph> + use<'a> {
    let rule = (!submitter.is_operator).then(|| app.tenant_rules.of(submitter.tenant));
    app.strategies.all().filter(move |graph| rule.is_none_or(|rule| rule.may_run(*graph)))
}

/// Finds a strategy by name. One that the submitter may not run does not exist for it.
pub(crate) fn find_strategy(
    app: &AppState,
    submitter: Submitter<'_>,
    name: &str,
    kind: Kind,
) -> Result<&'static dyn Graph, ApiError> {
    usable_strategies(app, submitter).find(|graph| graph.name() == name).ok_or_else(|| {
        let known: Vec<&str> = usable_strategies(app, submitter).map(|graph| graph.name()).collect();
        let known = known.join(", ");
        if app.strategies.find(name).is_none() {
            return kind.because(format!("strategy: {name:?} does not exist; known strategies: {known}"));
        }
        kind.because(format!("strategy: this tenant may not run {name:?}; it may run: {known}"))
            .hint(format!("an operator can add it to `strategies` under [tenants.{}]", submitter.tenant))
    })
}

/// Returns the configuration of the operator: that of the strategy, and over it that of the tenant. Null if there is none.
pub(crate) fn operator_config(app: &AppState, tenant: &str, strategy: &str) -> Value {
    let mut config = app.strategy_configs.get(strategy).cloned().unwrap_or_default();
    if let Some(own) = app.tenant_rules.of(tenant).config.get(strategy) {
        overlay(&mut config, own.clone());
    }
    config
}

/// Returns the budget of a new thread. Only an operator may exceed that of the configuration.
pub(crate) fn budget_of(app: &AppState, submitter: Submitter<'_>, asked: Budget) -> Result<Budget, ApiError> {
    let refused = |why| Kind::Invalid.because(format!("budget.{why}")).hint("leave it out for no limit");
    asked.check().map_err(refused)?;
    if !submitter.is_operator {
        check_budget(&asked, &app.budget)?;
    }
    Ok(asked.or(&app.budget))
}

/// Change of a configuration that a client asks for.
pub(crate) struct Change<'a> {
    /// True if the client sets anything.
    pub(crate) has_changes: bool,
    /// Configuration of the source of a fork; null for a new thread.
    pub(crate) before: &'a Value,
    /// Configuration that shall apply.
    pub(crate) after: &'a Value,
}

/// Checks that a change stays within the operator's bounds, and that the providers of its models exist.
pub(crate) fn check_change(
    app: &AppState,
    submitter: Submitter<'_>,
    graph: &dyn Graph,
    change: &Change<'_>,
) -> Result<(), ApiError> {
    let operator = completed(graph, &operator_config(app, submitter.tenant, graph.name()));
    let after = completed(graph, change.after);
    let is_known = |(key, model): &(String, &str)| {
        let mut set = models_of(&operator).chain(models_of(change.before));
        let provider = model.split_once('/').map(|parts| parts.0);
        set.any(|entry| entry == (key.clone(), *model))
            || app
                .providers
                .as_ref()
                .is_none_or(|providers| provider.is_some_and(|name| providers.contains(name)))
    };
    if let Some((key, model)) = models_of(&after).find(|entry| !is_known(entry)) {
        return Err(unknown_provider(app, &key, model));
    }
    if submitter.is_operator {
        return Ok(());
    }
    if graph.server_scope() == ServerScope::AllTenants && change.has_changes {
        let why =
            format!("the configuration of {} is the operator's, because it serves all tenants", graph.name());
        return Err(invalid_config(&why).hint("remove it"));
    }
    let configs = Configs { operator: &operator, before: change.before, after: &after };
    check_config(app.tenant_rules.of(submitter.tenant), graph, &configs)
}

fn unknown_provider(app: &AppState, key: &str, model: &str) -> ApiError {
    let names: Vec<&str> = app.providers.iter().flatten().map(String::as_str).collect();
    let (known, provider) = (names.join(", "), model.split_once('/').map_or(model, |parts| parts.0));
    match model.contains('/') {
        false => invalid_config(&format!("{key}: the model {model:?} names no provider"))
            .hint(format!("write it as provider/model; configured providers: {known}")),
        true => invalid_config(&format!("{key}: the provider of the model {model:?} is not configured")).hint(
            format!("configured providers: {known}; an operator can add [providers.{provider}] to the configuration"),
        ),
    }
}

/// Completes a configuration by the defaults of the strategy. Null takes a key back to its default.
pub(crate) fn completed(graph: &dyn Graph, config: &Value) -> Value {
    fn fill(under: &mut Value, over: &Value) {
        match (under, over) {
            (Value::Object(under), Value::Object(over)) => {
                for (key, value) in over {
                    fill(under.entry(key).or_insert(Value::Null), value);
                }
            }
            (_, Value::Null) => (),
            (under, over) => *under = over.clone(),
        }
    }
    let mut all = graph.defaults();
    fill(&mut all, config);
    all
}

/// Merges the configuration of a client over that of the operator. Null if neither sets anything.
fn configure(
    graph: &dyn Graph,
    operator: &Value,
    client: Option<Map<String, Value>>,
) -> Result<Value, ApiError> {
    let mut config = operator.clone();
    if let Some(client) = client {
        overlay(&mut config, Value::Object(client));
    }
    graph.check_config(&config).map_err(|err| {
        invalid_config(&err).hint(format!("GET /v1/strategies/{} shows the configuration", graph.name()))
    })?;
    Ok(config)
}

/// Returns the servers that a new thread may use. A client can only choose among those of its tenant and of the strategy.
fn usable_servers<'a>(
    app: &'a AppState,
    tenant: &str,
    graph: &dyn Graph,
    operator: &Value,
    chosen: Option<&Value>,
) -> Result<Vec<&'a str>, ApiError> {
    let listed = |config: &Value| {
        let split = EngineConfig::split(config).map_err(|err| invalid_config(&err.to_string()))?;
        Ok::<_, ApiError>(split.0.servers)
    };
    let of_strategy = listed(operator)?;
    let limits = [app.tenant_rules.of(tenant).servers.as_ref(), of_strategy.as_ref()];
    let may = |server: &&str| limits.iter().flatten().all(|names| names.iter().any(|name| name == server));
    let mut usable: Vec<&str> = app.experts.keys().map(String::as_str).filter(may).collect();
    if let Some(chosen) = chosen.map(listed).transpose()?.flatten() {
        if let Some(why) = unknown_server(&chosen, &usable) {
            return Err(invalid_config(&why));
        }
        usable.retain(|server| chosen.iter().any(|name| name == server));
    } else if graph.server_scope() == ServerScope::Named && of_strategy.is_none() {
        usable.clear();
    }
    Ok(usable)
}

fn invalid_config(why: &str) -> ApiError {
    Kind::Invalid.because(format!("config: {why}"))
}
