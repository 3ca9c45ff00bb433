//! Counts from the logs what killed processes counted and did not write.

use store::{Error, Head, Store, Tally, ThreadId};
use tracing::{debug, info};

use crate::{expected::expected_rows, registry::StrategyRegistry};

/// Adds to the statistics what the logs have more than the counts, in the complete minutes since a process was killed. Returns
/// true if a process was killed.
///
/// A thread that this process cannot fold is not counted, as in a rebuild.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer; any process tries again after a minute.
pub async fn count_lost(store: &Store, strategies: &StrategyRegistry, now: i64) -> Result<bool, Error> {
    let Some(lost) = store.lost_counts(now).await? else { return Ok(false) };
    let (mut tally, mut after) = (Tally::default(), None);
    loop {
        let page = store.threads_changed_since(lost.since, after).await?;
        let Some(last) = page.last().copied() else { break };
        for thread in page {
            tally.add_between(count(store, strategies, thread).await?, lost.since, lost.until);
        }
        after = Some(last);
    }
    let added = store.add_lost_counts(lost, tally, now).await?;
    if added {
        info!("the statistics now include what a killed process had counted but not written");
    }
    Ok(added)
}

async fn count(store: &Store, strategies: &StrategyRegistry, thread: ThreadId) -> Result<Tally, Error> {
    let counted = match store.load_since(&Head::start(thread)).await {
        Ok((head, recorded)) if !recorded.is_empty() => expected_rows(strategies, head, &recorded),
        Ok(_) => return Ok(Tally::default()),
        Err(error) => Err(error),
    };
    match counted {
        Ok((_, tally)) => Ok(tally),
        Err(error @ Error::Unavailable(_)) => Err(error),
        Err(error) => {
            debug!(%thread, %error, "cannot count the turns of a thread");
            Ok(Tally::default())
        }
    }
}
