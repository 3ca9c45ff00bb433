//! Import of a whole log, either from another store or for a [fork](super::fork).
//!
//! **Invariant:** the rows of an imported thread are those that its log demands, so a rebuild finds no difference.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::EntityTrait;

use crate::{
    Error,
    integrity::hash_chain,
    log::{
        Store,
        attachments::{self, AttachmentContent},
        batch::{Batch, Row},
        head::Head,
        ids::ThreadId,
        insert_events::insert_events,
        pool::Transaction,
        tables::threads,
    },
    read_models::{
        ExpectedThread,
        differences::{write_thread, write_turn},
    },
    search::scan_imported,
    stats::{Intervals, Tally, add_counts},
};

/// Maximum events per insert statement.
const EVENTS: usize = 500;

/// A log to import. Its hashes are computed anew over the same bytes, so they equal the original ones.
pub struct NewLog {
    end: Head,
    batches: Vec<Batch>,
}

impl NewLog {
    /// Creates an empty log.
    pub fn new(thread: ThreadId) -> Self {
        Self { end: Head::start(thread), batches: Vec::new() }
    }

    /// Adds an event, byte for byte. `at` is the time of its original append, in microseconds since the Unix epoch.
    pub fn push(&mut self, at: i64, kind: &'static str, payload: String) {
        let from = self.end;
        let hash = hash_chain::link(&from.hash, from.seq, at, kind, &payload);
        self.end = Head { seq: from.seq + 1, hash, ..from };
        self.batches.push(Batch { from, end: self.end, at, rows: vec![Row { kind, payload, hash }] });
    }

    /// Returns the head after the last event.
    pub fn head(&self) -> Head {
        self.end
    }
}

/// A thread to import: its log, and the rows that the log demands.
pub struct NewThread {
    expected: ExpectedThread,
    log: NewLog,
    /// Counts of the statistics, as the log demands them.
    counts: Intervals,
}

impl NewThread {
    /// Creates a thread, of whose turns and responses the statistics count `tally`. Retention counts from now.
    pub fn new(log: NewLog, expected: ExpectedThread, tally: &Tally) -> Self {
        let (now, mut counts) = (clock::now(), Intervals::default());
        counts.add(tally, now);
        Self { expected: ExpectedThread { updated_at: now, ..expected }, log, counts }
    }

    pub(crate) fn id(&self) -> ThreadId {
        self.log.end.thread
    }

    pub(crate) fn tenant(&self) -> &str {
        &self.expected.tenant
    }

    pub(crate) async fn write(self, tx: &Transaction) -> Result<(), Error> {
        let thread = self.id();
        if threads::Entity::find_by_id(thread).one(tx).await?.is_some() {
            return Err(Error::ThreadExists(thread));
        }
        for chunk in self.log.batches.chunks(EVENTS) {
            match insert_events(tx, &chunk.iter().collect::<Vec<_>>()).await {
                Err(Error::Stale { .. }) => return Err(Error::ThreadExists(thread)),
                inserted => inserted?,
            }
        }
        write_thread(tx, &self.expected, true).await?;
        for (id, turn) in &self.expected.turns {
            write_turn(tx, &self.expected, *id, turn, None).await?;
        }
        add_counts(tx, self.counts).await
    }
}

impl Store {
    /// Inserts a thread with its log, its rows and its attachments, all or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadExists`] if the thread exists; [`Error::Unavailable`] if the database does not answer.
    pub async fn insert_thread(
        &self,
        thread: NewThread,
        attachments: Vec<AttachmentContent>,
    ) -> Result<(), Error> {
        let (id, unattended) = (thread.id(), self.search.is_unattended());
        self.database
            .transact(move |tx| {
                async move {
                    insert(tx, thread, attachments).await?;
                    if unattended { scan_imported(tx).await } else { Ok(()) }
                }
                .boxed()
            })
            .await?;
        self.search.appended(id, clock::now());
        Ok(())
    }
}

async fn insert(
    tx: &Transaction,
    thread: NewThread,
    attachments: Vec<AttachmentContent>,
) -> Result<(), Error> {
    let id = thread.id();
    thread.write(tx).await?;
    attachments::rows::insert(tx, id, &attachments).await
}
