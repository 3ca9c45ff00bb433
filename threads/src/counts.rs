//! Writes the counts of this process to the store, off the hot path.

use std::{collections::BTreeMap, time::Duration};

use shared::{SUMMARISE_PROMPT, template_hash};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::{log::Log, registry::StrategyRegistry};

/// Interval between two writes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two searches for processes that were killed.
const LOST_INTERVAL: Duration = Duration::from_secs(30);

/// Time that a stopping process waits for the database.
const LAST_WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Writes what this process counts every second until `stop`, and then once more. Also counts what killed processes
/// did not write.
pub async fn keep_writing_counts<L: Log>(
    store: L,
    strategies: StrategyRegistry,
    stop: impl Future<Output = ()> + Send,
) {
    let templates = templates(&strategies);
    let write = async {
        let mut are_kept = false;
        loop {
            // First, because a process that is killed before it has a row loses its counts.
            if let Err(error) = store.write_counts().await {
                debug!(%error, "cannot write the counts of turns and usage; retrying in 1 s");
            }
            are_kept = are_kept || store.keep_templates(&templates).await.is_ok();
            sleep(INTERVAL).await;
        }
    };
    let count_lost = async {
        loop {
            if let Err(error) = store.count_lost(&strategies).await {
                debug!(%error, "cannot count what a killed process did not write; retrying in 30 s");
            }
            sleep(LOST_INTERVAL).await;
        }
    };
    tokio::select! {
        () = write => {}
        () = count_lost => {}
        () = stop => {}
    }
    if !matches!(timeout(LAST_WRITE_LIMIT, store.end_counting()).await, Ok(Ok(()))) {
        debug!("cannot write the last counts in time; another process counts them from the logs");
    }
}

/// Returns the templates of built-in prompts, by name.
fn templates(strategies: &StrategyRegistry) -> BTreeMap<String, &'static str> {
    let of_nodes = strategies.all().flat_map(|graph| graph.nodes()).filter_map(|node| node.prompt);
    let others = strategies.all().flat_map(|graph| graph.prompts()).copied();
    let all = of_nodes.chain(others).chain([SUMMARISE_PROMPT]);
    all.map(|text| (template_hash(text), text)).collect()
}
