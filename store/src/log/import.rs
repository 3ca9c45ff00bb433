//! Import of a whole log, either from another store or for a [fork](super::fork).
//!
//! **Invariant:** the rows of an imported thread are the fold of its log, so a rebuild finds no difference.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::EntityTrait;
use shared::Event;

use crate::{
    Error, StrategyRegistry,
    integrity::hash_chain,
    log::{
        Store,
        append::{Batch, Head, Row},
        attachments::{self, AttachmentContent},
        ids::ThreadId,
        pool::Transaction,
        read::Recorded,
        tables::threads,
    },
    read_models::{
        differences::{write_thread, write_turn},
        rebuild::{Folded, fold},
    },
};

/// Maximum events per insert statement.
const EVENTS: usize = 500;

/// An event to import, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedEvent {
    /// Time of the original append, in microseconds since the Unix epoch.
    pub at: i64,
    /// Type of the payload.
    pub kind: String,
    /// Payload as JSON.
    pub payload: String,
}

impl Store {
    /// Imports the log of a new thread with its rows and its attachments, all or nothing. The hashes are recomputed over the same bytes,
    /// so they equal the original ones.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadExists`] if the thread exists; [`Error::Unreadable`] and [`Error::Stuck`] if this version of
    /// turnfold could not have written the log.
    pub async fn import_thread(
        &self,
        strategies: &StrategyRegistry,
        thread: ThreadId,
        log: Vec<ImportedEvent>,
        attachments: Vec<AttachmentContent>,
    ) -> Result<Head, Error> {
        let arrived = Arrived::of(strategies, thread, log)?;
        let end = arrived.folded.head;
        self.database.transact(move |tx| write(tx, arrived, attachments).boxed()).await?;
        Ok(end)
    }
}

async fn write(tx: &Transaction, arrived: Arrived, attachments: Vec<AttachmentContent>) -> Result<(), Error> {
    let thread = arrived.folded.head.thread;
    arrived.write(tx).await?;
    attachments::insert(tx, thread, &attachments).await
}

/// A log to import, with its rows.
pub(crate) struct Arrived {
    pub(crate) folded: Folded,
    batches: Vec<Batch>,
}

impl Arrived {
    pub(crate) fn of(
        strategies: &StrategyRegistry,
        thread: ThreadId,
        log: Vec<ImportedEvent>,
    ) -> Result<Self, Error> {
        let (mut end, mut recorded, mut batches) = (Head::start(thread), Vec::new(), Vec::new());
        for ImportedEvent { at, kind, payload } in log {
            let event = Event::decode(&kind, &payload).map_err(|error| Error::Unreadable {
                thread,
                seq: end.seq,
                error,
            })?;
            let hash = hash_chain::link(&end.hash, end.seq, at, event.kind(), &payload);
            let (from, rows) = (end, vec![Row { kind: event.kind(), payload, hash }]);
            recorded.push(Recorded { seq: end.seq, at, event });
            end = Head { seq: end.seq + 1, hash, ..end };
            batches.push(Batch { from, end, at, rows });
        }
        let mut folded = fold(strategies, end, &recorded)?;
        // Retention counts from the time of the import.
        folded.updated_at = clock::now();
        Ok(Self { folded, batches })
    }

    pub(crate) async fn write(self, tx: &Transaction) -> Result<(), Error> {
        let Self { folded, batches } = self;
        let thread = folded.head.thread;
        if threads::Entity::find_by_id(thread).one(tx).await?.is_some() {
            return Err(Error::ThreadExists(thread));
        }
        for some in batches.chunks(EVENTS) {
            match Batch::insert(tx, &some.iter().collect::<Vec<_>>()).await {
                Err(Error::Stale { .. }) => return Err(Error::ThreadExists(thread)),
                inserted => inserted?,
            }
        }
        write_thread(tx, &folded, true).await?;
        for (id, turn) in &folded.turns {
            write_turn(tx, &folded, *id, turn, None).await?;
        }
        Ok(())
    }
}
