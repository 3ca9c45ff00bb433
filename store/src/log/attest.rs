//! What is kept of logs outside of the store, and what of them has grown beyond that.
//!
//! A chain binds the past to its head and nothing else: whoever can write to the store can hash a log anew. So heads are
//! kept where the store's writers cannot reach, and the logs are held against them.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Head, Round, Store, ThreadId, Verified,
    read::head,
    round::{Pages, Range},
    tables::events,
    verify::gone,
    walk::Walk,
};
use crate::Error;

/// What somebody keeps of logs: how far each went once, and the hash of its last event then.
pub trait Attested: Send + Sync {
    /// All that was attested of this thread, in any order; nothing, if it never was. It is asked once for each thread of
    /// which the store has anything.
    fn heads(&self, thread: ThreadId) -> Vec<Head>;
}

/// Nothing was attested.
impl Attested for () {
    fn heads(&self, _: ThreadId) -> Vec<Head> {
        Vec::new()
    }
}

/// What there is to attest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grown {
    /// The ends of the logs that are not where they were attested last, in the order of their threads.
    pub heads: Vec<Head>,
    /// What was found on the way. Of a log with a finding no head is given.
    pub verified: Verified,
}

impl Store {
    /// The heads of all logs that have grown since they were attested. A log that has is verified from its beginning,
    /// against its chain and against what was attested; of the others only the end is read.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn grown(&self, round: &Round, attested: Arc<dyn Attested>) -> Result<Grown, Error> {
        let store = self.clone();
        let ranges = round.go(self, move |range| {
            let (store, attested) = (store.clone(), Arc::clone(&attested));
            async move {
                let mut grown = Grown::default();
                for thread in range.threads {
                    store.grown_one(thread, attested.heads(thread), &mut grown).await?;
                }
                Ok(grown)
            }
        });
        let mut all = Grown::default();
        for it in ranges.await? {
            all.heads.extend(it.heads);
            all.verified = all.verified.and(it.verified);
        }
        all.heads.sort_by_key(|it| it.thread);
        Ok(all)
    }

    async fn grown_one(&self, thread: ThreadId, known: Vec<Head>, grown: &mut Grown) -> Result<(), Error> {
        let db = &self.database.pool;
        let last = known.iter().max_by_key(|it| it.seq).copied();
        grown.verified.threads += 1;
        match head(db, thread).await {
            Ok(end) if Some(end) == last => return Ok(()),
            Ok(_) => {}
            Err(Error::UnknownThread(_)) => {
                if self.lost_its_log(thread).await? {
                    grown.verified.find(vec![gone(thread, last.map(|it| it.seq))]);
                }
                return Ok(());
            }
            // A hash that is none: the walk says so.
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
                grown.verified.bytes += row.payload.len() as u64;
                walk.step(row);
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

/// What was attested of one log, along which somebody walks.
#[derive(Default)]
pub(super) struct Heads {
    /// What is still ahead, the nearest first.
    pub(super) ahead: VecDeque<Head>,
    /// How far any of it goes.
    pub(super) last: u64,
    /// How far the log was seen to be as attested.
    pub(super) good: u64,
    /// Between where it was as attested and where it first was not.
    pub(super) amiss: Option<(u64, u64)>,
    /// The hash of the last event that was seen.
    pub(super) seen: Vec<u8>,
}

impl Heads {
    pub(super) fn new(mut heads: Vec<Head>) -> Self {
        heads.sort_by_key(|it| it.seq);
        Self { last: heads.last().map_or(0, |it| it.seq), ahead: heads.into(), ..Self::default() }
    }

    /// Goes on by one event, after which the log has so many.
    pub(super) fn pass(&mut self, row: &events::Model, next: u64) {
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
