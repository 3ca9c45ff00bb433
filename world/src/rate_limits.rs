//! Rate limits of models, providers, MCP servers and tenants, as configured by the operator and shared by all workers.

use std::collections::BTreeMap;

use queue::rate_limits::{Demand, MoneyPart, RateLimit, Subject};
use shared::{COMMANDS, Request};

/// Maximum bytes of a model's or server's name whose availability is recorded. Tenants may name any model.
const MAX_NAME_BYTES: usize = 256;

/// Returns the model or server to which a request goes. The HTTP commands have no subject, because each may go to another
/// server.
pub(super) fn subject(request: &Request) -> Option<Subject> {
    let subject = match request {
        Request::Chat { model, .. } => Subject::Model(model.clone()),
        Request::ListTools { server }
        | Request::CallTool { server, .. }
        | Request::ListPrompts { server }
        | Request::GetPrompt { server, .. }
        | Request::Describe { server } => Subject::Server(server.clone()),
        Request::ReadMore { .. } | Request::Search { .. } | Request::Index { .. } | Request::Simulate(_) => {
            return None;
        }
    };
    let (Subject::Model(name)
    | Subject::Provider(name)
    | Subject::Server(name)
    | Subject::Writes(name)
    | Subject::Tenant(name)
    | Subject::Turns(name)) = &subject;
    (name != COMMANDS && name.len() <= MAX_NAME_BYTES).then_some(subject)
}

/// Configured rate limits. Anything not named is unlimited.
#[derive(Clone, Debug, Default)]
pub struct RateLimitConfig {
    /// Limits of models, by `provider/model`.
    pub models: BTreeMap<String, RateLimit>,
    /// Limits of a provider's models together, by provider name.
    pub providers: BTreeMap<String, RateLimit>,
    /// Limits of MCP servers, by name.
    pub servers: BTreeMap<String, RateLimit>,
    /// Limits of tenants.
    pub tenants: TenantLimits,
}

/// Limits of tenants. The default limits no tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantLimits {
    /// Tenants with limits of their own, by name.
    pub named: BTreeMap<String, TenantLimit>,
    /// Limits of each other tenant.
    pub others: TenantLimit,
}

/// Limits of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimit {
    /// Limits of its requests to models and MCP servers together.
    pub requests: RateLimit,
    /// Share of what is divided among tenants.
    pub weight: u32,
}

impl Default for TenantLimit {
    fn default() -> Self {
        Self { requests: RateLimit::default(), weight: 1 }
    }
}

impl TenantLimits {
    /// Returns the limits of a tenant.
    pub fn of(&self, tenant: &str) -> &TenantLimit {
        self.named.get(tenant).unwrap_or(&self.others)
    }

    /// Returns the tenant's part of the money that all tenants may spend on a subject per day. Half of it is divided by weight. The
    /// tenants without limits of their own have one part together.
    fn part_of(&self, tenant: &str, micro_usd_per_day: u64) -> Option<MoneyPart> {
        if self.named.is_empty() {
            return None;
        }
        let all = micro_usd_per_day / 2;
        let (owner, limit) =
            self.named.get_key_value(tenant).map_or(("", &self.others), |(name, tenant)| (name, tenant));
        let weights =
            self.named.values().chain([&self.others]).map(|tenant| u128::from(tenant.weight)).sum::<u128>();
        let own = u128::from(all) * u128::from(limit.weight) / weights.max(1);
        Some(MoneyPart { owner: owner.to_owned(), own: u64::try_from(own).unwrap_or(all), all })
    }
}

impl RateLimitConfig {
    /// Returns the demands of a tenant's request, without estimates.
    pub(super) fn demands(&self, request: &Request, tenant: &str) -> Vec<Demand> {
        let limits = match request {
            Request::Chat { model, .. } => {
                let provider = model.split_once('/').map_or(model.as_str(), |(provider, _)| provider);
                let of_model = self.models.get(model).map(|limit| (Subject::Model(model.clone()), *limit));
                let of_provider = self
                    .providers
                    .get(provider)
                    .map(|limit| (Subject::Provider(provider.to_owned()), *limit));
                [of_model, of_provider]
            }
            Request::ListTools { server }
            | Request::CallTool { server, .. }
            | Request::ListPrompts { server }
            | Request::GetPrompt { server, .. }
            | Request::Describe { server } => {
                [self.servers.get(server).map(|limit| (Subject::Server(server.clone()), *limit)), None]
            }
            Request::ReadMore { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => return Vec::new(),
        };
        let shared = limits.into_iter().flatten().map(|(subject, limit)| Demand {
            part: limit.micro_usd_per_day.and_then(|limit| self.tenants.part_of(tenant, limit)),
            ..Demand::of(subject, tenant, limit)
        });
        let own = self.tenants.of(tenant).requests;
        let own = (own != RateLimit::default())
            .then(|| Demand::of(Subject::Tenant(tenant.to_owned()), tenant, own));
        shared.chain(own).collect()
    }
}

#[test]
fn the_parts_of_all_tenants_are_half_of_the_money() {
    let limit = |weight| TenantLimit { weight, ..TenantLimit::default() };
    let named = [("acme".to_owned(), limit(3)), ("bell".to_owned(), limit(1))].into();
    let limits = TenantLimits { named, others: limit(1) };
    let part = |tenant: &str| limits.part_of(tenant, 1_000).map(|part| (part.owner, part.own, part.all));
    assert_eq!(part("acme"), Some(("acme".to_owned(), 300, 500)));
    assert_eq!(part("bell"), Some(("bell".to_owned(), 100, 500)));
    for other in ["default", "x"] {
        assert_eq!(part(other), Some((String::new(), 100, 500)));
    }
    assert_eq!(TenantLimits::default().part_of("default", 1_000), None, "nobody shares it");
}
