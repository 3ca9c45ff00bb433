//! Verification of logs and rows in one pass: the events whose hashes are checked are folded, and the rows are compared with the fold.

use std::sync::Arc;

use store::{
    AttestedHeads, DryRun, Error, ExpectedThread, Head, Reader, Recorded, Store, ThreadId, ThreadScan,
    Verified,
};

use crate::{
    expected::ExpectedRows,
    rebuild::{Rebuilt, rebuild_one},
    registry::StrategyRegistry,
};

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
) -> Result<(Verified, Rebuilt), Error> {
    let (shared, strategies) = (store.clone(), Arc::new(strategies.clone()));
    let make = move || RowReader {
        store: shared.clone(),
        strategies: Arc::clone(&strategies),
        log: None,
        folded: Vec::new(),
        others: Vec::new(),
        rebuilt: Rebuilt::default(),
    };
    let (verified, readers) = store.verify_reading(round, attested, make).await?;
    let rebuilt = readers.into_iter().map(|reader| reader.rebuilt).fold(Rebuilt::default(), Rebuilt::and);
    Ok((verified, rebuilt))
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
    rebuilt: Rebuilt,
}

impl Reader for RowReader {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        let event = event.ok();
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
            Some((_, Some(rows))) => self.folded.push(rows.end(head).0),
            Some((thread, None)) => self.others.push(thread),
            None => {}
        }
    }

    /// Compares a thread once more, while it is locked, if its rows differ: it may have changed since its log was read.
    async fn pause(&mut self) -> Result<(), Error> {
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
