//! Parking of a thread that cannot continue.

use metrics::metrics;
use store::{Error, ReadModelUpdate, ThreadId, ThreadStatus, TurnStatus, TurnUpdate};

use crate::{announce::report, backends::Backends, log::Log};

/// Fails the running and all queued turns of a thread that cannot continue, so that it is not enqueued again.
///
/// # Errors
///
/// [`Error::Stale`] if the thread changed meanwhile; [`Error::Unavailable`].
pub async fn park<L: Log>(parts: &Backends<L>, thread: ThreadId, error: &str) -> Result<(), Error> {
    let head = parts.store.head(thread).await?;
    let failed =
        |turn| TurnUpdate { turn, status: TurnStatus::Failed, error: Some(error.to_owned()), outcome: None };
    let turn = parts.store.running(thread).await?.map(failed);
    let update = ReadModelUpdate { status: ThreadStatus::Error, turn };
    parts.store.update_read_model(&head, &update).await?;
    metrics().jobs.parked.inc();
    report(thread, &update, None);
    while let Some(queued) = parts.store.next_queued(thread).await? {
        parts.store.refuse_queued(queued.id, error).await?;
    }
    Ok(())
}
