//! Verification of logs and rows in one pass: the events whose hashes are checked are folded, and the rows are compared with the fold.

use std::{collections::BTreeSet, sync::Arc};

use queue::clock;
use shared::Event;
use store::{
    AttestedHeads, DryRun, Error, ExpectedThread, Head, Intervals, LowCounts, Reader, Recorded, RowFinding,
    Store, ThreadId, ThreadScan, Verified,
};

use crate::{
    expected::{ExpectedRows, expected_rows},
    rebuild::{Rebuilt, rebuild_one},
    registry::StrategyRegistry,
};

/// Result of a verification of logs and rows.
#[derive(Clone, Debug, Default)]
pub struct Audited {
    /// Result for the logs.
    pub verified: Verified,
    /// Result for the rows of threads and turns.
    pub rebuilt: Rebuilt,
    /// Findings in rows of other tables.
    pub rows: Vec<RowFinding>,
    /// Counts of the statistics below those of the logs, if all threads were read.
    pub low_counts: LowCounts,
}

/// Verifies the logs of a scan against their hash chains and the attested heads, and compares the rows with the logs. Reads each log
/// once. Rows without a log are findings of the verification, and not among the differences.
///
/// # Errors
///
/// As [`Store::verify_against`].
pub async fn verify(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    attested: Arc<dyn AttestedHeads>,
) -> Result<Audited, Error> {
    let (began, has_batches) = (clock::now(), store.has_batches().await?);
    let (shared, strategies) = (store.clone(), Arc::new(strategies.clone()));
    let make = move || RowReader {
        store: shared.clone(),
        strategies: Arc::clone(&strategies),
        log: None,
        folded: Vec::new(),
        others: Vec::new(),
        forks: Vec::new(),
        counts: Intervals::default(),
        has_batches,
        rows: Vec::new(),
        began,
        rebuilt: Rebuilt::default(),
    };
    let (verified, readers) = store.verify_reading(round, attested, make).await?;
    let mut audited = Audited { verified, ..Audited::default() };
    let (mut forks, mut counts) = (BTreeSet::new(), Intervals::default());
    for reader in readers {
        audited.rebuilt = audited.rebuilt.and(reader.rebuilt);
        forks.extend(reader.forks);
        counts.merge(reader.counts);
        audited.rows.extend(reader.rows);
    }
    if round.is_of_all() {
        audited.rows.extend(store.batch_findings().await?);
        audited.rows.extend(store.pin_findings().await?);
        audited.rows.extend(fork_findings(store, &forks).await?);
        audited.low_counts = store.low_counts(&counts, began).await?;
    }
    Ok(audited)
}

/// Finds the rows of forks whose thread is no fork by its log. `forks` are those that were read; a later one is read here.
async fn fork_findings(store: &Store, forks: &BTreeSet<ThreadId>) -> Result<Vec<RowFinding>, Error> {
    let mut findings = Vec::new();
    for (key, thread) in store.forks_with_key().await? {
        if forks.contains(&thread) || is_fork(store, thread).await? {
            continue;
        }
        let what = format!("the row of the key {key:?} names thread {thread}, which is no fork by its log");
        findings.push(RowFinding { table: "forks", columns: &["thread_id"], what });
    }
    Ok(findings)
}

async fn is_fork(store: &Store, thread: ThreadId) -> Result<bool, Error> {
    let mut found = false;
    let read = store.along(thread, 0, None, |recorded| {
        found |= matches!(recorded.event, Event::Forked(_));
        Ok::<_, Error>(())
    });
    match read.await {
        // The walk through the log has reported it.
        Err(Error::Corrupt { .. } | Error::Unreadable { .. } | Error::TooNew { .. }) => Ok(true),
        read => read.map(|()| found),
    }
}

/// Folds logs, and compares the rows of a range of threads at its end.
struct RowReader {
    store: Store,
    strategies: Arc<StrategyRegistry>,
    /// The log that is being read; without a fold if it cannot be folded.
    log: Option<(ThreadId, Option<ExpectedRows>)>,
    folded: Vec<ExpectedThread>,
    /// Threads whose logs cannot be folded.
    others: Vec<ThreadId>,
    /// Threads that are forks.
    forks: Vec<ThreadId>,
    /// Counts of the statistics, as the logs demand them.
    counts: Intervals,
    /// True if there is a batch, whose lines may have opened threads.
    has_batches: bool,
    /// Findings in items of batches.
    rows: Vec<RowFinding>,
    /// Time at which the verification began.
    began: i64,
    rebuilt: Rebuilt,
}

impl Reader for RowReader {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        let event = event.ok();
        if event.as_ref().is_some_and(|recorded| matches!(recorded.event, Event::Forked(_))) {
            self.forks.push(thread);
        }
        let (_, fold) = self.log.get_or_insert_with(|| {
            (thread, ExpectedRows::begin(&self.strategies, thread, event.as_ref()).ok())
        });
        let folds = match (fold.as_mut(), &event) {
            (Some(rows), Some(event)) => rows.add(event).is_ok(),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !folds {
            *fold = None;
        }
    }

    fn end(&mut self, head: Head) {
        match self.log.take() {
            Some((_, Some(rows))) => {
                let (rows, tally) = rows.end(head);
                self.folded.push(rows);
                self.counts.add(&tally, self.began);
            }
            Some((thread, None)) => self.others.push(thread),
            None => {}
        }
    }

    /// Compares a thread once more, while it is locked, if its rows differ: it may have changed since its log was read.
    async fn pause(&mut self) -> Result<(), Error> {
        if self.has_batches {
            self.compare_items().await?;
        }
        let agreeing = self.store.agreeing(&self.folded).await?;
        let folded = std::mem::take(&mut self.folded).into_iter().map(|rows| rows.head.thread);
        let differing = folded.filter(|thread| !agreeing.contains(thread));
        self.rebuilt.threads += agreeing.len() as u64;
        for thread in differing.chain(std::mem::take(&mut self.others)) {
            match rebuild_one(&self.store, &self.strategies, thread, DryRun::Yes).await {
                Err(Error::UnknownThread(_)) => {}
                outcome => {
                    self.rebuilt.find(outcome?.0);
                    self.rebuilt.threads += 1;
                }
            }
        }
        Ok(())
    }
}

impl RowReader {
    /// Compares the items of batches whose lines opened the threads. A thread with a finding is folded once more: it may have changed
    /// since its log was read.
    async fn compare_items(&mut self) -> Result<(), Error> {
        let found = self.store.item_findings(&self.folded).await?;
        let threads: BTreeSet<ThreadId> = found.into_iter().map(|(thread, _)| thread).collect();
        for thread in threads {
            let loaded = match self.store.load_since(&Head::start(thread)).await {
                Err(error @ Error::Unavailable(_)) => return Err(error),
                loaded => loaded.ok(),
            };
            let again = loaded.and_then(|(head, log)| expected_rows(&self.strategies, head, &log).ok());
            if let Some((expected, _)) = again {
                let found = self.store.item_findings(&[expected]).await?;
                self.rows.extend(found.into_iter().map(|(_, finding)| finding));
            }
        }
        Ok(())
    }
}
