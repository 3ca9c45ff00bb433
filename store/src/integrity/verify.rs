//! Verification of every stored event against the hash chain and the attested heads.

use std::sync::Arc;

use crate::{
    Error,
    integrity::{AttestedHeads, Finding, Mistyped, Wrong, chain_walk::Walk},
    log::{
        Store,
        database::statement,
        head::Head,
        ids::ThreadId,
        multi_reader::Reader,
        thread_ranges::{Pages, Range, ThreadScan},
    },
};

/// Maximum findings kept; all are counted.
const KEPT: usize = 100;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of threads verified.
    pub threads: u64,
    /// Number of events verified.
    pub events: u64,
    /// Bytes of payload verified.
    pub bytes: u64,
    /// Events that match attested heads; of the others only the chain was verified.
    pub attested: u64,
    /// Threads with events beyond their attested head.
    pub beyond: u64,
    /// Number of findings in all.
    pub found: u64,
    /// Findings that are only unreadable by this build.
    pub unreadable: u64,
    /// The first findings in logs, at most 100.
    pub findings: Vec<Finding>,
    /// Number of rows with a value of another type than its column.
    pub mistyped_rows: u64,
    /// The values of another type, of at most 100 rows of each table.
    pub mistyped: Vec<Mistyped>,
}

impl Verified {
    pub(crate) fn find(&mut self, findings: Vec<Finding>) {
        self.found += findings.len() as u64;
        self.unreadable += findings.iter().filter(|it| it.wrong == Wrong::Unreadable).count() as u64;
        self.findings.extend(findings);
        self.findings.truncate(KEPT);
    }

    /// Adds the result of a finished walk.
    pub(crate) fn walked(&mut self, walk: Walk) {
        let (events, attested) = (walk.end().0, walk.attested());
        self.attested += attested;
        self.beyond += u64::from(attested < events);
        self.find(walk.finish());
    }

    /// Adds the result of a finished walk, and its attachments to those that are verified next: thread, event, hash.
    fn end(&mut self, walk: Walk, attachments: &mut Vec<(ThreadId, u64, String)>, reader: &mut impl Reader) {
        let (thread, (seq, hash)) = (walk.thread(), walk.end());
        reader.end(Head { thread, seq, hash });
        attachments.extend(walk.attachments().map(|(sha256, seq)| (thread, *seq, sha256.clone())));
        self.walked(walk);
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        self.events += other.events;
        self.bytes += other.bytes;
        self.attested += other.attested;
        self.beyond += other.beyond;
        self.found += other.found;
        self.unreadable += other.unreadable;
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|finding| (finding.thread, finding.seq, finding.wrong));
        self.findings.truncate(KEPT);
        self.mistyped_rows += other.mistyped_rows;
        self.mistyped.extend(other.mistyped);
        self
    }
}

impl Store {
    /// Verifies that the stored events of all threads are those that were appended, complete and in order, and that
    /// this build can decode them. Holds at most one page per range in memory, and may run while the store is in use.
    ///
    /// The chain does not show events that were cut off at the end of a log, nor events that were changed with all
    /// later hashes recomputed: [`Store::verify_against`] detects both.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the only selected thread does not exist, [`Error::Unavailable`] if the database
    /// does not answer.
    pub async fn verify(&self, round: &ThreadScan) -> Result<Verified, Error> {
        self.verify_against(round, Arc::new(())).await
    }

    /// Verifies as [`Store::verify`] does, and compares the logs with attested heads. Threads without any row are not
    /// visited: `attested` knows which heads were never requested.
    ///
    /// # Errors
    ///
    /// As [`Store::verify`].
    pub async fn verify_against(
        &self,
        round: &ThreadScan,
        attested: Arc<dyn AttestedHeads>,
    ) -> Result<Verified, Error> {
        Ok(self.verify_reading(round, attested, || ()).await?.0)
    }

    /// Verifies as [`Store::verify_against`] does, and passes every event to a reader in the same pass. Each reader that `make`
    /// creates receives some of the logs, each of them complete, also events that do not fit their log.
    ///
    /// # Errors
    ///
    /// As [`Store::verify`].
    pub async fn verify_reading<R, M>(
        &self,
        round: &ThreadScan,
        attested: Arc<dyn AttestedHeads>,
        make: M,
    ) -> Result<(Verified, Vec<R>), Error>
    where
        R: Reader,
        M: Fn() -> R + Clone + Send + 'static,
    {
        let store = self.clone();
        let ranges = round.for_each(self, move |range| {
            let (store, attested, mut reader) = (store.clone(), Arc::clone(&attested), make());
            async move {
                let verified = store.verify_range(range, &*attested, &mut reader).await?;
                reader.pause().await?;
                Ok((verified, reader))
            }
        });
        let (parts, readers): (Vec<_>, Vec<_>) = ranges.await?.into_iter().unzip();
        let mut all = parts.into_iter().fold(Verified::default(), Verified::and);
        if round.only().is_some() || round.is_of_all() {
            (all.mistyped_rows, all.mistyped) = self.mistyped(round.only()).await?;
            all.found += all.mistyped_rows;
        }
        match round.only() {
            Some(thread) if all.threads == 0 => Err(Error::UnknownThread(thread)),
            Some(_) | None => Ok((all, readers)),
        }
    }

    async fn verify_range(
        &self,
        range: Range,
        attested: &dyn AttestedHeads,
        reader: &mut impl Reader,
    ) -> Result<Verified, Error> {
        let mut verified = Verified::default();
        let mut seen = Vec::new();
        let mut walk: Option<Walk> = None;
        let mut attachments = Vec::new();
        let mut pages = Pages::of(range.clone());
        loop {
            let page = pages.next(&self.database.pool).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                verified.events += 1;
                let thread = row.columns.thread_id;
                verified.bytes += row.columns.payload.len() as u64;
                if walk.as_ref().is_none_or(|walk| walk.thread() != thread) {
                    seen.push(thread);
                    let before = walk.replace(Walk::new(thread, attested.heads(thread)));
                    before.into_iter().for_each(|walk| verified.end(walk, &mut attachments, reader));
                }
                if let Some(walk) = &mut walk {
                    reader.read(thread, walk.step(&row));
                }
            }
            // Yields between pages, because verifying one is pure computation.
            tokio::task::yield_now().await;
        }
        walk.into_iter().for_each(|walk| verified.end(walk, &mut attachments, reader));
        for (thread, seq, sha256) in attachments {
            if let Some(difference) = self.attachment_finding(thread, &sha256).await? {
                let what = format!("the attachment {sha256} of event {seq} {difference}");
                verified.find(vec![Finding { thread, seq, wrong: Wrong::Attachment, what }]);
            }
        }
        verified.threads = seen.len() as u64;
        for thread in range.threads.into_iter().filter(|thread| seen.binary_search(thread).is_err()) {
            if self.lost_its_log(thread).await? {
                verified.threads += 1;
                let attested = attested.heads(thread).iter().map(|head| head.seq).max();
                verified.find(vec![gone(thread, attested)]);
            }
        }
        Ok(verified)
    }

    /// Returns true if a thread has rows but no event. One statement, because the thread may be deleted concurrently.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn lost_its_log(&self, thread: ThreadId) -> Result<bool, Error> {
        use sea_orm::ConnectionTrait as _;
        let db = &self.database.pool;
        let sql = "SELECT 1 WHERE (EXISTS (SELECT 1 FROM threads WHERE id = $1) \
                   OR EXISTS (SELECT 1 FROM turns WHERE thread_id = $1)) \
                   AND NOT EXISTS (SELECT 1 FROM events WHERE thread_id = $1)";
        Ok(db.query_one_raw(statement(db, sql, [thread.into()])).await?.is_some())
    }
}

/// Builds the finding for a missing log of a thread that still has rows.
pub(crate) fn gone(thread: ThreadId, attested: Option<u64>) -> Finding {
    let left = "the whole log is missing: only rows of the thread or of its turns are left";
    let (wrong, what) = match attested {
        Some(events) => (Wrong::Removed, format!("{left}, and {events} events were attested")),
        None => (Wrong::Missing, left.to_owned()),
    };
    Finding { thread, seq: 0, wrong, what }
}
