//! Holds every stored event against the chain of its log and against what was attested of it, and reads it.

use std::sync::Arc;

use super::{
    Attested, Finding, Store, ThreadId, Wrong,
    database::statement,
    round::{Pages, Range, Round},
    walk::Walk,
};
use crate::Error;

/// How many findings are kept; all are counted.
const KEPT: usize = 100;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many threads were looked at.
    pub threads: u64,
    /// How many events.
    pub events: u64,
    /// How many bytes of payload.
    pub bytes: u64,
    /// How many of the events are as they were attested; of the others only the chain was held.
    pub attested: u64,
    /// How many threads have others.
    pub beyond: u64,
    /// How much is not as it was appended.
    pub found: u64,
    /// How much of that is only that this build cannot read it.
    pub unreadable: u64,
    /// The first of that, at most a hundred.
    pub findings: Vec<Finding>,
}

impl Verified {
    pub(super) fn find(&mut self, findings: Vec<Finding>) {
        self.found += findings.len() as u64;
        self.unreadable += findings.iter().filter(|it| it.wrong == Wrong::Unreadable).count() as u64;
        self.findings.extend(findings);
        self.findings.truncate(KEPT);
    }

    /// Takes the end of a walk along one log.
    pub(super) fn walked(&mut self, walk: Walk) {
        let (events, attested) = (walk.end().0, walk.attested());
        self.attested += attested;
        self.beyond += u64::from(attested < events);
        self.find(walk.finish());
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        self.events += other.events;
        self.bytes += other.bytes;
        self.attested += other.attested;
        self.beyond += other.beyond;
        self.found += other.found;
        self.unreadable += other.unreadable;
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|it| (it.thread, it.seq, it.wrong));
        self.findings.truncate(KEPT);
        self
    }
}

impl Store {
    /// Whether the stored events of all threads are those that were appended, all of them, in their order, and whether
    /// this build can read them. It never holds more than a page of each range, whatever the size of the store, and
    /// looks at a store in use as well.
    ///
    /// Events that were cut off at the end of a log leave no trace in it, nor does what was changed and hashed anew:
    /// [`Store::verify_against`] shows both.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is not the one that alone was to be looked at, [`Error::Unavailable`] if the
    /// database does not answer.
    pub async fn verify(&self, round: &Round) -> Result<Verified, Error> {
        self.verify_against(round, Arc::new(())).await
    }

    /// The same, and whether the logs are those that somebody attested. Threads that are gone with all their rows are
    /// not among them: `attested` knows which it was not asked for.
    ///
    /// # Errors
    ///
    /// As [`Store::verify`].
    pub async fn verify_against(
        &self,
        round: &Round,
        attested: Arc<dyn Attested>,
    ) -> Result<Verified, Error> {
        let store = self.clone();
        let ranges = round.go(self, move |range| {
            let (store, attested) = (store.clone(), Arc::clone(&attested));
            async move { store.verify_range(range, &*attested).await }
        });
        let all = ranges.await?.into_iter().fold(Verified::default(), Verified::and);
        match round.thread {
            Some(thread) if all.threads == 0 => Err(Error::UnknownThread(thread)),
            Some(_) | None => Ok(all),
        }
    }

    async fn verify_range(&self, range: Range, attested: &dyn Attested) -> Result<Verified, Error> {
        let mut verified = Verified::default();
        let mut seen = Vec::new();
        let mut walk: Option<Walk> = None;
        let mut pages = Pages::of(range.clone());
        loop {
            let page = pages.next(&self.database.pool).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                verified.events += 1;
                verified.bytes += row.payload.len() as u64;
                if walk.as_ref().is_none_or(|it| it.thread() != row.thread_id) {
                    seen.push(row.thread_id);
                    let before = walk.replace(Walk::new(row.thread_id, attested.heads(row.thread_id)));
                    before.into_iter().for_each(|it| verified.walked(it));
                }
                if let Some(walk) = &mut walk {
                    walk.step(row);
                }
            }
            // A page is work without a pause: others want to live too.
            tokio::task::yield_now().await;
        }
        walk.into_iter().for_each(|it| verified.walked(it));
        verified.threads = seen.len() as u64;
        for thread in range.threads.into_iter().filter(|it| seen.binary_search(it).is_err()) {
            if self.lost_its_log(thread).await? {
                verified.threads += 1;
                let attested = attested.heads(thread).iter().map(|it| it.seq).max();
                verified.find(vec![gone(thread, attested)]);
            }
        }
        Ok(verified)
    }

    /// Whether a thread has a row, or turns that have one, and no event. One statement: a thread may be deleted
    /// meanwhile.
    pub(crate) async fn lost_its_log(&self, thread: ThreadId) -> Result<bool, Error> {
        use sea_orm::ConnectionTrait as _;
        let db = &self.database.pool;
        let sql = "SELECT 1 WHERE (EXISTS (SELECT 1 FROM threads WHERE id = $1) \
                   OR EXISTS (SELECT 1 FROM turns WHERE thread_id = $1)) \
                   AND NOT EXISTS (SELECT 1 FROM events WHERE thread_id = $1)";
        Ok(db.query_one_raw(statement(db, sql, [thread.into()])).await?.is_some())
    }
}

/// A log that is gone, while something in the store still speaks of its thread.
pub(super) fn gone(thread: ThreadId, attested: Option<u64>) -> Finding {
    let left = "the whole log is missing: only rows of the thread or of its turns are left";
    let (wrong, what) = match attested {
        Some(events) => (Wrong::Removed, format!("{left}, and {events} events were attested")),
        None => (Wrong::Missing, left.to_owned()),
    };
    Finding { thread, seq: 0, wrong, what }
}
