//! Reading a log: its head, its events, the stored bytes, and the hash chain.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use crate::{
    Error,
    integrity::{Finding, Wrong, chain_walk::Walk},
    log::{
        Store,
        head::Head,
        ids::{ThreadId, at_most, signed, unsigned},
        loader::Wanted,
        rows::{Recorded, Stored, digest, head, recorded, undecodable},
        tables::events,
        thread_ranges::{Pages, Range},
    },
};

/// Result of verifying the hash chain of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// All events up to the last are as appended. Compare `head` with a hash kept elsewhere to detect that later
    /// events were deleted.
    Intact {
        /// Number of events.
        events: u64,
        /// Hash of the last event.
        head: [u8; 32],
    },
    /// The chain is broken.
    Broken {
        /// Number of the first bad event.
        seq: u64,
        /// Description of the fault.
        what: String,
    },
}

impl Store {
    /// Returns the head of a log. Reads only its last row.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event.
    pub async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        head(&self.database.hot, thread).await
    }

    /// Returns all events of a log, and its head.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event, [`Error::Unreadable`] if this build cannot read an event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn load(&self, thread: ThreadId) -> Result<(Head, Vec<Recorded>), Error> {
        let start = Head::start(thread);
        match self.load_since(&start).await? {
            (head, _) if head == start => Err(Error::UnknownThread(thread)),
            loaded => Ok(loaded),
        }
    }

    /// Returns the events after `head`, and the new head. Concurrent calls are batched into one query.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        let wanted = Wanted { thread: head.thread, from: signed(head.seq), until: i64::MAX };
        let logs = self.loader.submit(wanted).await.ok_or_else(Error::gone)??;
        let rows = wanted.of(&logs)?;
        let head = match rows.last() {
            Some(last) => Head { seq: unsigned(last.seq)? + 1, hash: digest(last)?, ..*head },
            None => *head,
        };
        let log = rows.iter().map(recorded).collect::<Result<_, _>>()?;
        Ok((head, log))
    }

    /// Returns the events from number `from` up to `until`. Concurrent calls are batched into one query.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub(crate) async fn between(
        &self,
        thread: ThreadId,
        from: u64,
        until: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let wanted = Wanted { thread, from: signed(from), until: signed(until) };
        let logs = self.loader.submit(wanted).await.ok_or_else(Error::gone)??;
        wanted.of(&logs)?.iter().map(recorded).collect()
    }

    /// Returns at most `limit` events after number `after`, or from the first.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub async fn events(
        &self,
        thread: ThreadId,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let from = after.map_or(0, |seq| seq.saturating_add(1));
        self.page(thread, from, limit).await?.iter().map(recorded).collect()
    }

    /// Returns the stored columns of at most `limit` events from number `from`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written a row.
    pub async fn stored(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<Stored>, Error> {
        let rows = self.page(thread, from, limit).await?;
        let stored = |row: events::Model| {
            let (seq, hash) = (unsigned(row.seq)?, digest(&row)?);
            Ok(Stored { seq, at: row.at, kind: row.kind, codec: row.codec, payload: row.payload, hash })
        };
        rows.into_iter().map(stored).collect()
    }

    /// Verifies the hash chain of a log.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn verify_chain(&self, thread: ThreadId) -> Result<Chain, Error> {
        let mut walk = Walk::new(thread, Vec::new());
        let mut pages = Pages::of(Range::of(thread, 0));
        loop {
            let page = pages.next(&self.database.pool).await?;
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|row| drop(walk.step(row)));
        }
        let (events, head) = walk.end();
        if events == 0 {
            return Err(Error::UnknownThread(thread));
        }
        let broken = walk.finish().into_iter().find(|finding| finding.wrong != Wrong::Unreadable);
        Ok(match broken {
            Some(Finding { seq, what, .. }) => Chain::Broken { seq, what },
            None => Chain::Intact { events, head },
        })
    }

    async fn page(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<events::Model>, Error> {
        let rows = of(thread).filter(events::Column::Seq.gte(signed(from))).limit(at_most(limit));
        rows.all(&self.database.pool).await.map_err(|error| undecodable(thread, error))
    }
}

fn of(thread: ThreadId) -> sea_orm::Select<events::Entity> {
    events::Entity::find().filter(events::Column::ThreadId.eq(thread)).order_by_asc(events::Column::Seq)
}
