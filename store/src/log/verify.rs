//! Holds every stored event against the chain of its log, and reads it.

use super::{
    Store, ThreadId,
    database::statement,
    round::{Pages, Range, Round},
    walk::{Finding, Walk, Wrong},
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
    /// How much is not as it was appended.
    pub found: u64,
    /// The first of that, at most a hundred.
    pub findings: Vec<Finding>,
}

impl Verified {
    fn find(&mut self, findings: Vec<Finding>) {
        self.found += findings.len() as u64;
        self.findings.extend(findings);
        self.findings.truncate(KEPT);
    }

    fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        self.events += other.events;
        self.bytes += other.bytes;
        self.found += other.found;
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
    /// Events that were cut off at the end of a log leave no trace in it: whoever must know keeps the last hashes
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is not the one that alone was to be looked at, [`Error::Unavailable`] if the
    /// database does not answer.
    pub async fn verify(&self, round: &Round) -> Result<Verified, Error> {
        let store = self.clone();
        let ranges = round.go(self, move |range| {
            let store = store.clone();
            async move { store.verify_range(range).await }
        });
        let all = ranges.await?.into_iter().fold(Verified::default(), Verified::and);
        match round.thread {
            Some(thread) if all.threads == 0 => Err(Error::UnknownThread(thread)),
            Some(_) | None => Ok(all),
        }
    }

    async fn verify_range(&self, range: Range) -> Result<Verified, Error> {
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
                    let before = walk.replace(Walk::new(row.thread_id));
                    verified.find(before.map(Walk::finish).unwrap_or_default());
                }
                if let Some(walk) = &mut walk {
                    walk.step(row);
                }
            }
            // A page is work without a pause: others want to live too.
            tokio::task::yield_now().await;
        }
        verified.find(walk.map(Walk::finish).unwrap_or_default());
        verified.threads = seen.len() as u64;
        for thread in range.threads.into_iter().filter(|it| seen.binary_search(it).is_err()) {
            if self.lost_its_log(thread).await? {
                verified.threads += 1;
                let what = "the whole log is missing: only the row of the thread is left".to_owned();
                verified.find(vec![Finding { thread, seq: 0, wrong: Wrong::Missing, what }]);
            }
        }
        Ok(verified)
    }

    /// Whether a thread has a row and no event. One statement: a thread may be deleted meanwhile.
    pub(crate) async fn lost_its_log(&self, thread: ThreadId) -> Result<bool, Error> {
        use sea_orm::ConnectionTrait as _;
        let db = &self.database.pool;
        let sql = "SELECT 1 FROM threads WHERE id = $1 \
                   AND NOT EXISTS (SELECT 1 FROM events WHERE events.thread_id = threads.id)";
        Ok(db.query_one_raw(statement(db, sql, [thread.into()])).await?.is_some())
    }
}
