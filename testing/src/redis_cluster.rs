//! A private Redis Cluster.

use std::thread;
use std::time::{Duration, Instant};

use crate::redis::Redis;

/// How many slots a cluster has.
const SLOTS: usize = 16_384;

/// How long the nodes may take to agree.
const AGREED_WITHIN: Duration = Duration::from_secs(60);

/// A Redis Cluster of three nodes without replicas; it ends when this is dropped, or with the process. It writes nothing
/// to disk but who its nodes are.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts an empty cluster; installs Redis when there is none. Needs Redis 7.
    ///
    /// # Panics
    ///
    /// When it cannot be installed, does not start, or does not become one.
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

    /// The address of node `nth`, by which a client finds all.
    #[must_use]
    pub fn url(&self, nth: usize) -> String {
        self.nodes[nth].url()
    }

    /// The nodes.
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    /// Waits until every node knows all others and where every slot is.
    ///
    /// # Panics
    ///
    /// When they do not agree.
    pub fn settle(&self) {
        let began = Instant::now();
        let agrees = |node: &Redis| {
            let info = node.ask("CLUSTER INFO");
            ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"]
                .iter()
                .all(|it| info.contains(it))
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
