//! Turns, and what they cost each tenant.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::{counter::Counter, family::Family};

use crate::{
    bounded::Bounded,
    catalog::Catalog,
    labels::{CounterFamily, Labels},
};

/// A counter of US dollars.
pub(crate) type UsdCounter = Counter<f64, AtomicU64>;

/// Turns that ended, and usage by tenant.
#[derive(Debug)]
pub struct Turns {
    ended: CounterFamily<2>,
    tenants: Bounded,
    tenant_turns: CounterFamily<2>,
    tenant_tokens: CounterFamily<2>,
    tenant_cost: Family<Labels<1>, UsdCounter>,
}

impl Turns {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            ended: of.counter(
                "turns_total",
                &["strategy", "outcome"],
                "Turns that ended in this process. The outcome of a turn that did not complete is its status.",
                Family::default(),
            ),
            tenants: Bounded::default(),
            tenant_turns: of.counter(
                "tenant_turns_total",
                &["tenant", "outcome"],
                "Turns that ended in this process, by tenant. All tenants after the first 100 are `other`.",
                Family::default(),
            ),
            tenant_tokens: of.counter(
                "tenant_tokens_total",
                &["tenant", "direction"],
                "Tokens that models read (`input`) and wrote (`output`), by tenant.",
                Family::default(),
            ),
            tenant_cost: of.counter(
                "tenant_cost_usd_total",
                &["tenant"],
                "Cost of requests to models in US dollars, by tenant.",
                Family::default(),
            ),
        }
    }

    /// Gives these tenants a series of their own before any other tenant.
    pub fn name_tenants<'a>(&self, tenants: impl IntoIterator<Item = &'a str>) {
        self.tenants.reserve(tenants);
    }

    /// Counts a turn that ended. `outcome` is that of a completed turn, or the status of one that ended otherwise.
    pub fn ended(&self, tenant: &str, strategy: &'static str, outcome: &'static str) {
        self.ended.get_or_create(&[("strategy", strategy.into()), ("outcome", outcome.into())]).inc();
        let tenant = self.tenants.label(tenant).into();
        self.tenant_turns.get_or_create(&[("tenant", tenant), ("outcome", outcome.into())]).inc();
    }

    pub(crate) fn add_tokens(&self, tenant: &str, direction: &'static str, tokens: u64) {
        let labels = [("tenant", self.tenants.label(tenant).into()), ("direction", direction.into())];
        self.tenant_tokens.get_or_create(&labels).inc_by(tokens);
    }

    pub(crate) fn add_cost(&self, tenant: &str, usd: f64) {
        self.tenant_cost.get_or_create(&[("tenant", self.tenants.label(tenant).into())]).inc_by(usd);
    }
}
