//! The sections `[tenants.NAME]`: keys of a tenant, its share of what is divided, and its limits.

use std::collections::BTreeMap;

use queue::{MAX_TENANT_LEN, is_valid_tenant};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;
use shared::{Graph, MultitaskStrategy, overlay};

use super::{
    check_limits::is_priced, error::ConfigError, key::join, origins::Origins, secret::SecretRef,
    settings::Settings,
};

/// Name of the section that holds for every tenant, unless the section of the tenant sets a key itself.
pub const EVERY_TENANT: &str = "*";

/// One section `[tenants.NAME]`. `None`: as in `[tenants."*"]`, or no limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantSettings {
    /// Keys that act for this tenant and see only its data.
    pub keys: Vec<SecretRef>,
    /// Share of the workers and of divided money relative to other tenants. `None`: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub weight: Option<u32>,
    /// Maximum cost in US dollars per UTC day.
    #[schemars(range(min = 0.000_001))]
    pub usd_per_day: Option<f64>,
    /// Maximum number of requests to models and MCP servers in any minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
    /// Maximum number of input and output tokens in any minute.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// Maximum number of queued turns. `None`: only `api.waiting_max` applies.
    #[schemars(range(min = 1))]
    pub max_waiting_turns: Option<u64>,
    /// Maximum number of turns that run at the same time.
    #[schemars(range(min = 1))]
    pub max_running_turns: Option<u64>,
    /// Maximum size of files, logs and attachments, in MiB.
    #[schemars(range(min = 1))]
    pub storage_mib: Option<u64>,
    /// True if an approval must be answered with another key. `None`: as `api.require_other_approver`.
    pub require_other_approver: Option<bool>,
    /// Treatment of turns that its keys submit while another one of the thread is in progress. `None`: as
    /// `api.multitask_strategy`.
    pub multitask_strategy: Option<MultitaskStrategy>,
    /// Strategies that may be run. `None`: all but `index_builder`.
    pub strategies: Option<Vec<String>>,
    /// Models that threads may use, as patterns of `provider/model`. `None`: those that the configuration of the strategy names.
    pub models: Option<Vec<String>>,
    /// MCP servers that threads may use. `None`: all.
    pub servers: Option<Vec<String>>,
    /// Configuration by strategy, over that of `[strategies.NAME]`.
    pub config: BTreeMap<String, Json>,
}

impl TenantSettings {
    /// Completes the section by that of every tenant.
    fn or(&self, every: &Self) -> Self {
        Self {
            keys: self.keys.clone(),
            weight: self.weight,
            usd_per_day: self.usd_per_day.or(every.usd_per_day),
            requests_per_minute: self.requests_per_minute.or(every.requests_per_minute),
            tokens_per_minute: self.tokens_per_minute.or(every.tokens_per_minute),
            max_waiting_turns: self.max_waiting_turns.or(every.max_waiting_turns),
            max_running_turns: self.max_running_turns.or(every.max_running_turns),
            storage_mib: self.storage_mib.or(every.storage_mib),
            require_other_approver: self.require_other_approver.or(every.require_other_approver),
            multitask_strategy: self.multitask_strategy.or(every.multitask_strategy),
            strategies: self.strategies.clone().or_else(|| every.strategies.clone()),
            models: self.models.clone().or_else(|| every.models.clone()),
            servers: self.servers.clone().or_else(|| every.servers.clone()),
            config: merged(&every.config, &self.config),
        }
    }
}

/// Merges the configurations of two sections, key by key.
fn merged(under: &BTreeMap<String, Json>, over: &BTreeMap<String, Json>) -> BTreeMap<String, Json> {
    let mut all = under.clone();
    for (strategy, config) in over {
        overlay(all.entry(strategy.clone()).or_default(), config.clone());
    }
    all
}

impl Settings {
    /// The settings of every tenant without a section.
    pub(crate) fn other_tenants(&self) -> TenantSettings {
        self.tenants.get(EVERY_TENANT).cloned().unwrap_or_default()
    }

    /// The tenants that have a section, with their complete settings.
    pub(crate) fn named_tenants(&self) -> BTreeMap<String, TenantSettings> {
        let every = self.other_tenants();
        let named = self.tenants.iter().filter(|(name, _)| *name != EVERY_TENANT);
        named.map(|(name, tenant)| (name.clone(), tenant.or(&every))).collect()
    }
}

/// Checks the names of the tenants, that a limit in dollars has a price, and that strategies and their configuration are valid.
pub(super) fn check_tenants(
    strategies: &[&'static dyn Graph],
    settings: &Settings,
    origins: &Origins,
) -> Result<(), ConfigError> {
    let refused =
        |key: String, why: String| Err(ConfigError::Refused { origin: origins.of_key(&key), key, why });
    let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name()).collect();
    if let Some(unknown) = settings.api.multitask_strategy.keys().find(|name| !names.contains(&name.as_str()))
    {
        let why = format!("names {unknown:?}, which is not a strategy (available: {})", names.join(", "));
        return refused("api.multitask_strategy".to_owned(), why);
    }
    for (name, tenant) in &settings.tenants {
        let section = join("tenants", name);
        if name == EVERY_TENANT {
            if !tenant.keys.is_empty() || tenant.weight.is_some() {
                let why = "holds for every tenant, so it can have neither keys nor a weight";
                return refused(section, why.to_owned());
            }
        } else if !is_valid_tenant(name) {
            let why = format!(
                "is not a valid tenant name: use 1 to {MAX_TENANT_LEN} characters of a-z 0-9 . _ -, or \"*\" for every tenant"
            );
            return refused(section, why);
        }
        if tenant.usd_per_day.is_some()
            && !settings.providers.values().any(|settings| is_priced(settings, |_| true))
        {
            let why = "is a limit in US dollars, but no model has a price: set providers.NAME.prices";
            return refused(format!("{section}.usd_per_day"), why.to_owned());
        }
        let unknown = |strategy: &&String| !names.contains(&strategy.as_str());
        if let Some(unknown) = tenant.strategies.iter().flatten().find(unknown) {
            let why = format!("names {unknown:?}, which is not a strategy (available: {})", names.join(", "));
            return refused(format!("{section}.strategies"), why);
        }
        for graph in strategies {
            let Some(own) = tenant.config.get(graph.name()) else { continue };
            let mut config = settings.strategies.get(graph.name()).cloned().unwrap_or_default();
            overlay(&mut config, own.clone());
            if let Err(why) = graph.check_config(&config) {
                let why = format!("is refused by the strategy: {why}");
                return refused(format!("{section}.config.{}", graph.name()), why);
            }
        }
    }
    Ok(())
}
