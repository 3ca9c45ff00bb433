//! Where a token waits: whose it is, and how urgent.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use shared::DEFAULT_TENANT;

/// The longest name that a tenant may have.
pub const TENANT_MAX: usize = 64;

/// How urgent a turn is. It is strict within one tenant: a lower one waits for as long as a higher one has anything to
/// do. Between tenants it means nothing, so nobody comes first by calling everything urgent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before all others of its tenant.
    High,
    /// As it comes.
    #[default]
    Normal,
    /// When its tenant has nothing else to do.
    Low,
}

/// A priority that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("priority {text:?} is unknown: it is one of high, normal, low")]
pub struct UnknownPriority {
    /// What was read.
    pub text: String,
}

impl Priority {
    /// Every one there is, the most urgent first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// Its place among [`Self::ALL`], as the database keeps it: the lower comes first.
    pub fn rank(self) -> u8 {
        match self {
            Self::High => 0,
            Self::Normal => 1,
            Self::Low => 2,
        }
    }

    /// The one with this place, if there is one.
    pub fn ranked(rank: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|it| i64::from(it.rank()) == rank)
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
        let known = Self::ALL.into_iter().find(|it| it.as_str() == text);
        known.ok_or_else(|| UnknownPriority { text: text.to_owned() })
    }
}

/// The lane in which a token waits. Lanes of one tenant are emptied in the order of their priorities; tenants take turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// Whose token it is.
    pub tenant: Arc<str>,
    /// How urgent it is.
    pub priority: Priority,
}

impl Lane {
    /// The lane of this tenant for what is that urgent.
    pub fn new(tenant: &str, priority: Priority) -> Self {
        Self { tenant: tenant.into(), priority }
    }

    /// The lane of the same tenant for what is that urgent.
    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { tenant: Arc::clone(&self.tenant), priority }
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new(DEFAULT_TENANT, Priority::default())
    }
}

/// As Redis has it: `high:acme`. The priority stands first, so that a tenant may have any name.
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

/// Whether a tenant may be called so: 1 to [`TENANT_MAX`] characters of `a-z 0-9 . _ -`.
pub fn is_tenant(name: &str) -> bool {
    let fits = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=TENANT_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// How many tokens each tenant is given a turn; 1, where nothing is said. Every process must be told the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<String, u32>);

impl Weights {
    /// The weights of these tenants; a weight of 0 counts as 1, as a tenant that is never served would be a trap.
    pub fn new(weights: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(weights.into_iter().filter(|(_, weight)| *weight > 1).collect())
    }

    /// How many tokens this tenant is given a turn.
    pub fn of(&self, tenant: &str) -> u32 {
        self.0.get(tenant).copied().unwrap_or(1)
    }

    /// The tenants with another weight than 1.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(tenant, weight)| (tenant.as_str(), *weight))
    }
}
