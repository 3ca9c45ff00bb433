//! Rules of tenants: what each may use, and its limits.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::{DEFAULT_TENANT, Graph, MultitaskStrategy, ServerScope, matches_pattern};

use super::principal::Principal;

/// Rules of all tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantRules {
    /// Rules of the tenants that have their own, by name.
    pub named: BTreeMap<String, TenantRule>,
    /// Rule of each other tenant.
    pub others: TenantRule,
}

/// Rule of a tenant: what it may use, and its limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantRule {
    /// Strategies that it may run. `None`: all but those that serve all tenants.
    pub strategies: Option<Vec<String>>,
    /// Models that its threads may use, as patterns of `provider/model`. `None`: those that the operator's configuration of the
    /// strategy names.
    pub models: Option<Vec<String>>,
    /// MCP servers that its threads may use. `None`: all.
    pub servers: Option<Vec<String>>,
    /// Configuration by strategy. It takes precedence over that for all tenants.
    pub config: BTreeMap<String, Value>,
    /// Maximum number of queued turns, without those submitted by batches. `None`: no limit of its own.
    pub max_waiting_turns: Option<u64>,
    /// Maximum size of its files, logs and attachments, in bytes. `None`: no limit.
    pub max_stored_bytes: Option<u64>,
    /// Requires that an approval is answered with another key than the one that submitted the request.
    pub require_other_approver: bool,
    /// Treatment of turns that its keys submit while another one of the thread is in progress. `None`: that of the strategy.
    pub multitask_strategy: Option<MultitaskStrategy>,
}

impl TenantRules {
    /// Returns the rule of a tenant.
    pub(crate) fn of(&self, tenant: &str) -> &TenantRule {
        self.named.get(tenant).unwrap_or(&self.others)
    }
}

impl TenantRule {
    /// Reports whether the tenant may run this strategy.
    pub(crate) fn may_run(&self, graph: &dyn Graph) -> bool {
        match &self.strategies {
            Some(names) => names.iter().any(|name| name == graph.name()),
            None => graph.server_scope() != ServerScope::AllTenants,
        }
    }

    /// Reports whether the tenant's threads may use this model. `named` are those that the operator's configuration names.
    pub(crate) fn may_use(&self, model: &str, named: &[&str]) -> bool {
        match &self.models {
            Some(patterns) => patterns.iter().any(|pattern| matches_pattern(pattern, model)),
            None => named.contains(&model),
        }
    }
}

/// The tenant of a new thread, and whether an operator creates it without acting for one. No rule restricts that operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitter<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) is_operator: bool,
}

impl Submitter<'static> {
    /// An operator who acts for no tenant.
    pub(crate) const OPERATOR: Self = Self { tenant: DEFAULT_TENANT, is_operator: true };
}

impl<'a> From<&'a Principal> for Submitter<'a> {
    fn from(principal: &'a Principal) -> Self {
        Self { tenant: principal.tenant(), is_operator: principal.only().is_none() }
    }
}
