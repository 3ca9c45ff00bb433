//! The Redis keys of a partition.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation};

use super::prefix::Prefix;

/// Name of the consumer group on every stream.
pub const GROUP: &str = "workers";

/// The Redis keys of one partition. The [module](crate::redis) describes their contents.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Stream of claimed jobs.
    pub claimed: String,
    /// Sorted set of delayed threads.
    pub delayed: String,
    /// Hash of the lane and block reason of each delayed thread.
    pub delayed_details: String,
    /// Sorted set of tenants in the order of their turns.
    pub tenants: String,
    /// Jobs left in the current turn.
    pub deficit: String,
    /// Sorted set of consumers that wait for a job.
    pub waiting_consumers: String,
    /// Prefix of the keys of the lanes.
    pub lane_prefix: String,
}

impl Keys {
    /// The keys of a queue with a single partition.
    pub fn single(prefix: &Prefix) -> Self {
        Self::tagged(prefix, "jobs")
    }

    /// The keys of one of several partitions. Each has its own hash tag, so Redis Cluster spreads them over its nodes.
    pub fn partition(prefix: &Prefix, number: usize) -> Self {
        Self::tagged(prefix, &format!("jobs:{number}"))
    }

    fn tagged(prefix: &Prefix, tag: &str) -> Self {
        let key = |name: &str| prefix.key(tag, name);
        Self {
            claimed: key("claimed"),
            delayed: key("delayed"),
            delayed_details: key("delayed_details"),
            tenants: key("tenants"),
            deficit: key("deficit"),
            waiting_consumers: key("waiting_consumers"),
            lane_prefix: key("lane:"),
        }
    }

    /// Prepares a script on these keys, in the order in which all scripts unpack them.
    pub(super) fn prepare(&self, script: &'static LazyLock<Script>) -> ScriptInvocation<'static> {
        let Self { claimed, delayed, delayed_details, tenants, deficit, waiting_consumers, lane_prefix } =
            self;
        let mut script = script.prepare_invoke();
        for key in [claimed, delayed, delayed_details, tenants, deficit, waiting_consumers, lane_prefix] {
            script.key(key);
        }
        script
    }
}
