//! Comparison of logs with heads that are kept outside the store.
//!
//! A chain binds earlier events to its head and nothing else: an attacker with write access can recompute a whole
//! log. Heads are therefore kept where writers of the store cannot reach them, and logs are compared with them.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    Error,
    integrity::{Verified, chain_walk::Walk, verify::gone},
    log::{
        Store,
        head::Head,
        ids::ThreadId,
        rows::head,
        tables::events,
        thread_ranges::{Pages, Range, ThreadScan},
    },
};

/// Heads of logs at earlier times, kept outside the store.
pub trait AttestedHeads: Send + Sync {
    /// Returns all attested heads of a thread, in any order; empty if there are none. Called once per thread that has
    /// any row in the store.
    fn heads(&self, thread: ThreadId) -> Vec<Head>;
}

/// No attested heads.
impl AttestedHeads for () {
    fn heads(&self, _: ThreadId) -> Vec<Head> {
        Vec::new()
    }
}

/// Heads to attest, and the findings of their verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadCheck {
    /// Heads that differ from the last attested ones, ordered by thread.
    pub heads: Vec<Head>,
    /// Findings. A log with a finding has no entry in `heads`.
    pub verified: Verified,
}

impl Store {
    /// Returns the heads of all logs that have grown since they were attested. A log that has grown is verified from
    /// its beginning, against its chain and the attested heads; of the others only the head is read.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn grown(
        &self,
        round: &ThreadScan,
        attested: Arc<dyn AttestedHeads>,
    ) -> Result<HeadCheck, Error> {
        let store = self.clone();
        let ranges = round.for_each(self, move |range| {
            let (store, attested) = (store.clone(), Arc::clone(&attested));
            async move {
                let mut grown = HeadCheck::default();
                for thread in range.threads {
                    store.grown_one(thread, attested.heads(thread), &mut grown).await?;
                }
                Ok(grown)
            }
        });
        let mut all = HeadCheck::default();
        for range in ranges.await? {
            all.heads.extend(range.heads);
            all.verified = all.verified.and(range.verified);
        }
        all.heads.sort_by_key(|head| head.thread);
        Ok(all)
    }

    async fn grown_one(
        &self,
        thread: ThreadId,
        known: Vec<Head>,
        grown: &mut HeadCheck,
    ) -> Result<(), Error> {
        let db = &self.database.pool;
        let last = known.iter().max_by_key(|head| head.seq).copied();
        grown.verified.threads += 1;
        match head(db, thread).await {
            Ok(end) if Some(end) == last => return Ok(()),
            Ok(_) => {}
            Err(Error::UnknownThread(_)) => {
                if self.lost_its_log(thread).await? {
                    grown.verified.find(vec![gone(thread, last.map(|head| head.seq))]);
                }
                return Ok(());
            }
            // The walk reports an invalid hash.
            Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut walk = Walk::new(thread, known);
        let mut pages = Pages::of(Range::of(thread, 0));
        loop {
            let page = pages.next(db).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                grown.verified.events += 1;
                grown.verified.bytes += row.columns.payload.len() as u64;
                drop(walk.step(&row));
            }
        }
        let (seq, hash) = walk.end();
        let before = grown.verified.found;
        grown.verified.walked(walk);
        if before == grown.verified.found && 0 < seq {
            grown.heads.push(Head { thread, seq, hash });
        }
        Ok(())
    }
}

/// Attested heads of one log during a walk.
#[derive(Default)]
pub(crate) struct Heads {
    /// Heads not yet reached, nearest first.
    pub(crate) ahead: VecDeque<Head>,
    /// Length of the longest attested head.
    pub(crate) last: u64,
    /// Length up to which the log matches.
    pub(crate) good: u64,
    /// Range between the last matching head and the first mismatch.
    pub(crate) amiss: Option<(u64, u64)>,
    /// Hash of the last event that the walk has passed.
    pub(crate) seen: Vec<u8>,
}

impl Heads {
    pub(crate) fn new(mut heads: Vec<Head>) -> Self {
        heads.sort_by_key(|head| head.seq);
        Self { last: heads.last().map_or(0, |head| head.seq), ahead: heads.into(), ..Self::default() }
    }

    /// Passes one event; `next` is the length of the log after it.
    pub(crate) fn pass(&mut self, row: &events::Model, next: u64) {
        while let Some(head) = self.ahead.front()
            && head.seq <= next
        {
            if head.seq == next && head.hash.as_slice() == row.hash {
                self.good = next;
            } else {
                self.amiss = self.amiss.or(Some((self.good, head.seq)));
            }
            self.ahead.pop_front();
        }
        self.seen.clone_from(&row.hash);
    }
}
