//! The keys of a partition.

use std::sync::LazyLock;

use redis::{Script, ScriptInvocation};

/// The consumer group on each stream.
pub const GROUP: &str = "workers";

/// The keys of one partition: what `RedisQueue` says of each.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The stream of tokens that are taken.
    pub stream: String,
    /// The sorted set of delayed rings.
    pub later: String,
    /// The hash of what delayed rings say.
    pub notes: String,
    /// The ring of tenants.
    pub tenants: String,
    /// What is left of a tenant's turn.
    pub credit: String,
    /// The sorted set of tickets.
    pub hungry: String,
    /// What the key of each lane begins with.
    pub lane: String,
}

impl Keys {
    /// Where there is one partition.
    pub fn of_all() -> Self {
        Self::tagged("jobs")
    }

    /// Of partition `number`, where there are many: Redis Cluster spreads them, as their tags differ.
    pub fn of(number: usize) -> Self {
        Self::tagged(&format!("jobs:{number}"))
    }

    fn tagged(tag: &str) -> Self {
        let key = |name: &str| format!("turnfold:{{{tag}}}:v3:{name}");
        Self {
            stream: key("stream"),
            later: key("later"),
            notes: key("notes"),
            tenants: key("tenants"),
            credit: key("credit"),
            hungry: key("hungry"),
            lane: key("lane:"),
        }
    }

    /// A script on these keys, in the order in which all scripts name them.
    pub(super) fn prepare(&self, script: &'static LazyLock<Script>) -> ScriptInvocation<'static> {
        let Self { stream, later, notes, tenants, credit, hungry, lane } = self;
        let mut script = script.prepare_invoke();
        for key in [stream, later, notes, tenants, credit, hungry, lane] {
            script.key(key);
        }
        script
    }
}
