//! Writes the counts of this process to the store, off the hot path.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::log::Log;

/// Interval between two writes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time that a stopping process waits for the database.
const LAST_WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Writes what this process counts every second until `stop`, and then once more.
pub async fn keep_writing_counts<L: Log>(store: L, stop: impl Future<Output = ()> + Send) {
    let write = async || {
        if let Err(error) = store.write_counts().await {
            debug!(%error, "cannot write the counts of turns and usage; retrying in 1 s");
        }
    };
    let forever = async {
        loop {
            sleep(INTERVAL).await;
            write().await;
        }
    };
    tokio::select! {
        () = forever => {}
        () = stop => {}
    }
    if timeout(LAST_WRITE_LIMIT, write()).await.is_err() {
        debug!("cannot write the last counts in time; `turnfold store rebuild` counts again");
    }
}
