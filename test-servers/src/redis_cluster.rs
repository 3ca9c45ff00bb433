//! A private Redis Cluster of three nodes.

use std::thread;
use std::time::{Duration, Instant};

use crate::redis::Redis;

/// Number of hash slots in a cluster.
const SLOTS: usize = 16_384;

/// Maximum time for the nodes to agree.
const AGREED_WITHIN: Duration = Duration::from_secs(60);

/// A Redis Cluster of three nodes without replicas. It ends when this is dropped, or with the process. Only the list
/// of nodes is written to disk.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts an empty cluster; installs Redis if it is missing. Requires Redis 7.
    ///
    /// # Panics
    ///
    /// If it cannot be installed, does not start, or the nodes do not agree.
    #[must_use]
    pub fn start() -> Self {
        let nodes: Vec<Redis> = (0..3).map(|_| Redis::node()).collect();
        for (nth, node) in nodes.iter().enumerate() {
            let (first, end) = (SLOTS * nth / nodes.len(), SLOTS * (nth + 1) / nodes.len());
            node.ask(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            if let (port, Some(bus)) = nodes[0].ports()
                && nth > 0
            {
                node.ask(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
            }
        }
        let this = Self { nodes };
        this.settle();
        this
    }

    /// URL of node `nth`. A client finds the others through it.
    #[must_use]
    pub fn url(&self, nth: usize) -> String {
        self.nodes[nth].url()
    }

    /// All nodes of the cluster.
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    /// Waits until every node knows all others and the place of every slot.
    ///
    /// # Panics
    ///
    /// If they do not agree.
    pub fn settle(&self) {
        let began = Instant::now();
        let agrees = |node: &Redis| {
            let info = node.ask("CLUSTER INFO");
            ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"]
                .iter()
                .all(|line| info.contains(line))
        };
        while !self.nodes.iter().all(agrees) {
            assert!(
                began.elapsed() < AGREED_WITHIN,
                "the nodes do not agree: {}",
                self.nodes[0].ask("CLUSTER INFO")
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}
