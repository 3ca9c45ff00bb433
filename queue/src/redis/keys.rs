//! The Redis keys of a partition.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation};

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
    pub fn single() -> Self {
        Self::tagged("jobs")
    }

    /// The keys of one of several partitions. Each has its own hash tag, so Redis Cluster spreads them over its nodes.
    pub fn partition(number: usize) -> Self {
        Self::tagged(&format!("jobs:{number}"))
    }

    fn tagged(tag: &str) -> Self {
        let key = |name: &str| format!("turnfold:{{{tag}}}:v1:{name}");
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
