//! Lanes, priorities and tenant weights: the order in which waiting jobs are claimed.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use shared::{DEFAULT_TENANT, Priority, UnknownStatus};

/// Longest tenant name, in characters.
pub const MAX_TENANT_LEN: usize = 64;

/// The line in which a job waits. Within a tenant, lanes are emptied in the order of their priorities; tenants take turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// Tenant of the job.
    pub tenant: Arc<str>,
    /// Priority within the tenant.
    pub priority: Priority,
}

impl Lane {
    /// Creates the lane of a tenant and a priority.
    pub fn new(tenant: &str, priority: Priority) -> Self {
        Self { tenant: tenant.into(), priority }
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new(DEFAULT_TENANT, Priority::default())
    }
}

/// The form stored in Redis: `high:acme`. The priority comes first, so a tenant's name may contain a colon.
impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.priority, self.tenant)
    }
}

impl FromStr for Lane {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let (priority, tenant) = text.split_once(':').unwrap_or(("", text));
        Ok(Self::new(tenant, priority.parse()?))
    }
}

/// Returns whether a tenant name has 1 to [`MAX_TENANT_LEN`] characters of `a-z 0-9 . _ -`.
pub fn is_valid_tenant(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=MAX_TENANT_LEN).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Number of jobs in each tenant's turn; 1 for tenants that are not listed. Every process needs the same weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<String, u32>);

impl Weights {
    /// Creates weights. A weight of 0 counts as 1, because a tenant that is never served would be a trap.
    pub fn new(weights: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(weights.into_iter().filter(|(_, weight)| *weight > 1).collect())
    }

    /// The weight of a tenant, at least 1.
    pub fn of(&self, tenant: &str) -> u32 {
        self.0.get(tenant).copied().unwrap_or(1)
    }

    /// The tenants whose weight is not 1.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(tenant, weight)| (tenant.as_str(), *weight))
    }
}
