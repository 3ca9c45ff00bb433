//! Lanes, priorities and tenant weights: the order in which waiting jobs are claimed.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use shared::DEFAULT_TENANT;

/// Longest tenant name, in characters.
pub const MAX_TENANT_LEN: usize = 64;

/// Priority of a turn within its tenant. It is strict: a lower priority waits while any higher one has work. Across tenants
/// it has no effect, so no tenant gains by marking everything as urgent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before all others of its tenant.
    High,
    /// The default.
    #[default]
    Normal,
    /// After all others of its tenant.
    Low,
}

/// A text that is not a priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown priority {text:?}; hint: use high, normal or low")]
pub struct UnknownPriority {
    /// The text that was parsed.
    pub text: String,
}

impl Priority {
    /// All priorities, highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The name used in JSON, SQL and Redis.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// The index in [`Self::ALL`], which the database stores so that rows sort by priority.
    pub fn rank(self) -> u8 {
        match self {
            Self::High => 0,
            Self::Normal => 1,
            Self::Low => 2,
        }
    }

    /// The priority with this [rank](Self::rank); `None` if there is none.
    pub fn from_rank(rank: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| i64::from(priority.rank()) == rank)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(text: &str) -> Result<Self, UnknownPriority> {
        let known = Self::ALL.into_iter().find(|priority| priority.as_str() == text);
        known.ok_or_else(|| UnknownPriority { text: text.to_owned() })
    }
}

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
    type Err = UnknownPriority;

    fn from_str(text: &str) -> Result<Self, UnknownPriority> {
        let (priority, tenant) =
            text.split_once(':').ok_or_else(|| UnknownPriority { text: text.to_owned() })?;
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
