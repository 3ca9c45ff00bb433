//! Retry policies: how often a failed request is repeated, and how long a request waits for a model or server that takes none.

use std::{collections::BTreeMap, time::Duration};

use queue::{Priority, rate_limits::Subject};
use shared::{ATTEMPTS_MAX, Event};

use crate::backoff::Backoff;

/// Policy for the requests to one provider or MCP server.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Maximum attempts of one request. Attempts that were refused because the provider or server takes no request do not count.
    pub attempts: u32,
    /// Delays between attempts, and the pauses of all workers between refusals. Absent: those of the worker.
    pub backoff: Option<Backoff>,
    /// Time after which a request that waits for its provider or server is given up.
    pub give_up_after: Duration,
    /// The same for turns of low priority, which batches have by default.
    pub low_priority_give_up_after: Duration,
}

impl RetryPolicy {
    /// Default policy for models: a turn without its model cannot continue, so it waits.
    pub const MODEL: Self = Self {
        attempts: ATTEMPTS_MAX,
        backoff: None,
        give_up_after: Duration::from_secs(15 * 60),
        low_priority_give_up_after: Duration::from_secs(6 * 60 * 60),
    };

    /// Default policy for MCP servers: most nodes continue without one of them.
    pub const SERVER: Self = Self {
        give_up_after: Duration::from_secs(30),
        low_priority_give_up_after: Duration::from_secs(10 * 60),
        ..Self::MODEL
    };

    /// Time after which a request of a turn with this priority is given up.
    pub(crate) fn give_up_after(&self, priority: Priority) -> Duration {
        match priority {
            Priority::Low => self.low_priority_give_up_after,
            Priority::Normal | Priority::High => self.give_up_after,
        }
    }

    /// Writes the number of attempts into a failed attempt, unless it is the default. The log decides when they are used up.
    pub(crate) fn limit_attempts(&self, mut event: Event) -> Event {
        if let Event::AttemptFailed(failed) = &mut event {
            failed.attempts_max = (self.attempts != ATTEMPTS_MAX).then_some(self.attempts);
        }
        event
    }
}

/// Policies that differ from the defaults.
#[derive(Clone, Debug, Default)]
pub struct RetryPolicies {
    /// Policies of providers, by name.
    pub providers: BTreeMap<String, RetryPolicy>,
    /// Policies of MCP servers, by name.
    pub servers: BTreeMap<String, RetryPolicy>,
}

impl RetryPolicies {
    /// Returns the policy for requests to a subject.
    pub(crate) fn of(&self, subject: &Subject) -> RetryPolicy {
        let of_provider = |name: &str| self.providers.get(name).copied().unwrap_or(RetryPolicy::MODEL);
        match subject {
            Subject::Model(model) => {
                of_provider(model.split_once('/').map_or(model, |(provider, _)| provider))
            }
            Subject::Provider(name) => of_provider(name),
            // Tenants refuse no requests.
            Subject::Server(name) | Subject::Writes(name) | Subject::Tenant(name) | Subject::Turns(name) => {
                self.servers.get(name).copied().unwrap_or(RetryPolicy::SERVER)
            }
        }
    }
}
