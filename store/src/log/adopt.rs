//! A whole log taken in at once: one that was kept elsewhere, or a [copy](super::fork) of another thread's.
//!
//! **Invariant:** its rows are the fold of it, so nothing is left for a rebuild to find.

use futures::FutureExt as _;
use sea_orm::{DatabaseTransaction, EntityTrait};
use shared::Event;

use super::{
    Head, Recorded, Store, ThreadId,
    append::{Batch, Row},
    chain,
    differences::{write_thread, write_turn},
    tables::threads,
};
use crate::{
    Error, Strategies,
    rebuild::{Folded, fold},
    time,
};

/// How many events one statement inserts at most.
const EVENTS: usize = 500;

/// An event on its way into a log that is not there yet, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// Which kind.
    pub kind: String,
    /// Its payload.
    pub payload: String,
}

impl Store {
    /// Takes in the log of a thread that is not here yet, with the rows that follow from it: all or nothing. Its hashes are
    /// taken anew over the same bytes, so they are what they were elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadExists`] if it is here; [`Error::Unreadable`] and [`Error::Stuck`] if no turnfold of this version could
    /// have written it.
    pub async fn adopt(
        &self,
        strategies: &Strategies,
        thread: ThreadId,
        log: Vec<Foreign>,
    ) -> Result<Head, Error> {
        let arrived = Arrived::of(strategies, thread, log)?;
        let end = arrived.folded.head;
        self.database.transact(move |tx| arrived.write(tx).boxed()).await?;
        Ok(end)
    }
}

/// A log that is not here yet, with the rows that follow from it.
pub(super) struct Arrived {
    pub(super) folded: Folded,
    batches: Vec<Batch>,
}

impl Arrived {
    pub(super) fn of(strategies: &Strategies, thread: ThreadId, log: Vec<Foreign>) -> Result<Self, Error> {
        let (mut end, mut recorded, mut batches) = (Head::start(thread), Vec::new(), Vec::new());
        for Foreign { at, kind, payload } in log {
            let event = Event::decode(&kind, &payload).map_err(|error| Error::Unreadable {
                thread,
                seq: end.seq,
                error,
            })?;
            let hash = chain::link(&end.hash, end.seq, at, event.kind(), &payload);
            let (from, rows) = (end, vec![Row { kind: event.kind(), payload, hash }]);
            recorded.push(Recorded { seq: end.seq, at, event });
            end = Head { seq: end.seq + 1, hash, ..end };
            batches.push(Batch { from, end, at, rows });
        }
        let mut folded = fold(strategies, end, &recorded)?;
        // Retention counts from when it came here.
        folded.updated_at = time::now();
        Ok(Self { folded, batches })
    }

    pub(super) async fn write(self, tx: &DatabaseTransaction) -> Result<(), Error> {
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
