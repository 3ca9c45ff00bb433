//! Rebuilds the read models: the rows of `threads` and `turns` must equal the fold of the log.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use queue::clock;
use store::{Difference, Differs, DryRun, Error, Head, Intervals, Store, Tally, ThreadId, ThreadScan};

use crate::{expected::expected_rows, registry::StrategyRegistry};

/// Maximum number of differences kept; all are counted.
const KEPT: usize = 100;

/// Number of threads that are folded and compared together, whose logs are then in memory.
const AT_ONCE: usize = 32;

/// Number of attempts for a thread that changes while it is compared.
const TRIES: usize = 3;

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Number of threads compared.
    pub threads: u64,
    /// Number of differences, by kind.
    pub found: BTreeMap<Differs, u64>,
    /// The first differences, at most 100.
    pub differences: Vec<Difference>,
}

impl Rebuilt {
    pub(crate) fn find(&mut self, differences: Vec<Difference>) {
        for difference in &differences {
            *self.found.entry(difference.differs).or_default() += 1;
        }
        self.differences.extend(differences);
        self.differences.truncate(KEPT);
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        for (differs, count) in other.found {
            *self.found.entry(differs).or_default() += count;
        }
        self.differences.extend(other.differences);
        self.differences.sort_by_key(|difference| (difference.thread, difference.turn, difference.differs));
        self.differences.truncate(KEPT);
        self
    }
}

/// Folds every log and repairs the rows of its thread and turns where they differ; a dry run writes nothing. Safe
/// while workers run, because rows are compared and written only while their thread is locked and unchanged. A turn
/// that has not started is in no log, so a lost row of it cannot be restored.
///
/// A thread that was parked because a worker could not continue it returns to the status in its log, and will be
/// tried once more.
///
/// A rebuild of all threads also counts again what the statistics show, up to the last complete interval.
///
/// # Errors
///
/// [`Error::UnknownThread`] if only one thread was requested and it does not exist, and [`Error::Unavailable`] if
/// the database does not answer.
pub async fn rebuild(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    dry_run: DryRun,
) -> Result<Rebuilt, Error> {
    let alone = round.only().is_some();
    let shared = (store.clone(), strategies.clone());
    let ranges = round.for_each(store, move |range| {
        let (store, strategies) = shared.clone();
        async move {
            let (mut rebuilt, mut counts) = (Rebuilt::default(), Intervals::default());
            let now = clock::now();
            for threads in range.threads.chunks(AT_ONCE) {
                let mut agreeing = agreeing(&store, &strategies, threads).await?;
                for thread in threads {
                    let (differences, tally) = match agreeing.remove(thread) {
                        Some(tally) => (Vec::new(), tally),
                        None => match rebuild_one(&store, &strategies, *thread, dry_run).await {
                            Err(Error::UnknownThread(_)) if !alone => continue,
                            outcome => outcome?,
                        },
                    };
                    rebuilt.find(differences);
                    counts.add(&tally, now);
                    rebuilt.threads += 1;
                }
            }
            Ok((rebuilt, counts))
        }
    });
    let (mut rebuilt, mut counts) = (Rebuilt::default(), Intervals::default());
    for (more, more_counts) in ranges.await? {
        rebuilt = rebuilt.and(more);
        counts.merge(more_counts);
    }
    if round.is_of_all() && dry_run == DryRun::No {
        store.replace_counts(counts).await?;
    }
    Ok(rebuilt)
}

/// Folds the logs of these threads, and returns what is counted of those whose rows agree with them. The store reads all together.
async fn agreeing(
    store: &Store,
    strategies: &StrategyRegistry,
    threads: &[ThreadId],
) -> Result<BTreeMap<ThreadId, Tally>, Error> {
    let fold = async |thread: &ThreadId| match store.load_since(&Head::start(*thread)).await {
        Ok((head, recorded)) => Ok(expected_rows(strategies, head, &recorded).ok()),
        Err(error @ Error::Unavailable(_)) => Err(error),
        Err(_) => Ok(None),
    };
    let folded = try_join_all(threads.iter().map(fold)).await?.into_iter().flatten();
    let (expected, tallies): (Vec<_>, Vec<_>) = folded.unzip();
    let agreeing = store.agreeing(&expected).await?;
    let tallies = expected.iter().map(|expected| expected.head.thread).zip(tallies);
    Ok(tallies.filter(|(thread, _)| agreeing.contains(thread)).collect())
}

/// Compares the rows of one thread while it is locked, and repairs them unless this is a dry run.
pub(crate) async fn rebuild_one(
    store: &Store,
    strategies: &StrategyRegistry,
    thread: ThreadId,
    dry_run: DryRun,
) -> Result<(Vec<Difference>, Tally), Error> {
    let left = |differs, what| Ok((vec![Difference { thread, turn: None, differs, what }], Tally::default()));
    for _ in 0..TRIES {
        let folded = match store.load_since(&Head::start(thread)).await {
            Ok((head, recorded)) if !recorded.is_empty() => expected_rows(strategies, head, &recorded),
            Ok(_) if store.lost_its_log(thread).await? => {
                return left(Differs::NoLog, "it has rows but no events".to_owned());
            }
            Ok(_) => return Err(Error::UnknownThread(thread)),
            Err(error) => Err(error),
        };
        let (expected, tally) = match folded {
            Ok(expected) => expected,
            Err(
                error @ (Error::Stuck { .. }
                | Error::Unreadable { .. }
                | Error::UnknownStrategy { .. }
                | Error::TooNew { .. }
                | Error::Corrupt { .. }),
            ) => return left(Differs::Unfolded, error.to_string()),
            Err(error) => return Err(error),
        };
        match store.put_right(expected, dry_run).await {
            Err(Error::Stale { .. }) => {}
            outcome => return Ok((outcome?, tally)),
        }
    }
    left(Differs::Moving, "it changed during every comparison".to_owned())
}
