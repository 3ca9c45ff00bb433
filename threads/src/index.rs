//! Fills the search index with what this process appends, off the hot path.

use std::{pin::pin, time::Duration};

use store::Store;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::log::Log;

/// Rest after a round that failed.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Time that a stopping process waits for the database.
const LAST_WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Indexes what this process appends until `stop`. What is left is indexed by another process, or after the next start.
pub async fn keep_indexing<L: Log>(store: L, stop: impl Future<Output = ()> + Send) {
    store.keep_indexing(stop).await;
}

/// Indexes in rounds until `stop`, if no other task of this process does.
pub(crate) async fn index_until(store: &Store, stop: impl Future<Output = ()> + Send) {
    let mut stop = pin!(stop);
    if !store.has_search() {
        return stop.await;
    }
    // A worker and an API in one process share the store, and one of them indexes.
    let task = store.join_indexing();
    let alone = tokio::select! {
        alone = store.index_alone() => Some(alone),
        () = &mut stop => None,
    };
    if alone.is_some() {
        tokio::select! {
            () = index(store) => {}
            () = &mut stop => {}
        }
    }
    // Otherwise the other task goes on with what is marked.
    let is_last = task.leave();
    if is_last && !matches!(timeout(LAST_WRITE_LIMIT, store.end_indexing()).await, Ok(Ok(()))) {
        debug!("cannot write in time up to when the search index is filled; another process finds out");
    }
}

/// Indexes in rounds, with a rest after each. Never returns.
async fn index(store: &Store) {
    while let Err(error) = store.begin_indexing().await {
        debug!(%error, "cannot begin to fill the search index; retrying");
        sleep(RETRY_DELAY).await;
    }
    loop {
        match store.index_round().await {
            Ok(round) => sleep(round.rest).await,
            Err(error) => {
                debug!(%error, "cannot fill the search index; retrying");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}
