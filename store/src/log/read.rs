//! What reads a log: its end, its events, the bytes as they stand, and whether the chain holds.

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use shared::Event;

use super::{Head, Store, ThreadId, at_most, chain, corrupt, signed, tables::events, unsigned};
use crate::Error;

/// How events are stored now.
const CODEC: &str = "json";

/// How many events [`Store::verify_chain`] holds at once.
const PAGE: u64 = 500;

/// An event, with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its number.
    pub seq: u64,
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// What happened.
    pub event: Event,
}

/// An event as the database holds it, byte for byte: what is audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub seq: u64,
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// Which kind.
    pub kind: String,
    /// How the payload is stored.
    pub codec: String,
    /// The payload.
    pub payload: String,
    /// What chains it to all before it.
    pub hash: [u8; 32],
}

/// Whether the stored bytes of a log are those that were appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// They are, as far as the log goes; compare the last hash with one kept elsewhere to know that it goes
    /// far enough.
    Intact {
        /// How many events.
        events: u64,
        /// The hash of the last.
        head: [u8; 32],
    },
    /// They are not.
    Broken {
        /// The first number at which they are not.
        seq: u64,
        /// What is wrong there.
        what: String,
    },
}

impl Store {
    /// The end of a log. Reads its last row only.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event.
    pub async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        head(&self.db, thread).await
    }

    /// A whole log and its end.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event, [`Error::Unreadable`] if this build cannot read one.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn load(&self, thread: ThreadId) -> Result<(Head, Vec<Recorded>), Error> {
        let rows = of(thread).all(&self.db).await?;
        let last = rows.last().ok_or(Error::UnknownThread(thread))?;
        let head = Head { thread, seq: unsigned(last.seq)? + 1, hash: digest(last)? };
        let log = rows.iter().map(recorded).collect::<Result<_, _>>()?;
        Ok((head, log))
    }

    /// Events after number `after`, or from the first, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read one.
    pub async fn events(
        &self,
        thread: ThreadId,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let from = after.map_or(0, |it| it.saturating_add(1));
        self.page(thread, from, limit).await?.iter().map(recorded).collect()
    }

    /// Events from number `from`, at most `limit`, as the database holds them.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
    pub async fn stored(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<Stored>, Error> {
        let rows = self.page(thread, from, limit).await?;
        let stored = |row: events::Model| {
            let (seq, hash) = (unsigned(row.seq)?, digest(&row)?);
            Ok(Stored { seq, at: row.at, kind: row.kind, codec: row.codec, payload: row.payload, hash })
        };
        rows.into_iter().map(stored).collect()
    }

    /// Whether the stored bytes of a log are those that were appended.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn verify_chain(&self, thread: ThreadId) -> Result<Chain, Error> {
        let mut head = Head::start(thread);
        loop {
            let rows = self.page(thread, head.seq, PAGE).await?;
            for row in &rows {
                if let Err(what) = advance(&mut head, row) {
                    return Ok(Chain::Broken { seq: head.seq, what });
                }
            }
            if rows.is_empty() {
                break;
            }
        }
        match head.seq {
            0 => Err(Error::UnknownThread(thread)),
            events => Ok(Chain::Intact { events, head: head.hash }),
        }
    }

    async fn page(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<events::Model>, Error> {
        let rows = of(thread).filter(events::Column::Seq.gte(signed(from))).limit(at_most(limit));
        Ok(rows.all(&self.db).await?)
    }
}

/// The end of a log, as a transaction sees it.
pub(super) async fn head(db: &impl ConnectionTrait, thread: ThreadId) -> Result<Head, Error> {
    let rows = events::Entity::find().filter(events::Column::ThreadId.eq(thread));
    let last = rows.order_by_desc(events::Column::Seq).one(db).await?.ok_or(Error::UnknownThread(thread))?;
    Ok(Head { thread, seq: unsigned(last.seq)? + 1, hash: digest(&last)? })
}

fn of(thread: ThreadId) -> sea_orm::Select<events::Entity> {
    events::Entity::find().filter(events::Column::ThreadId.eq(thread)).order_by_asc(events::Column::Seq)
}

fn recorded(row: &events::Model) -> Result<Recorded, Error> {
    let seq = unsigned(row.seq)?;
    if row.codec != CODEC {
        let what = format!("event {seq} of thread {} is stored as {:?}", row.thread_id, row.codec);
        return Err(Error::TooNew { what });
    }
    let event = Event::decode(&row.kind, &row.payload);
    let event = event.map_err(|error| Error::Unreadable { thread: row.thread_id, seq, error })?;
    Ok(Recorded { seq, at: row.at, event })
}

fn digest(row: &events::Model) -> Result<[u8; 32], Error> {
    let wrong = |_| {
        let (seq, bytes) = (row.seq, row.hash.len());
        corrupt(row.thread_id, format_args!("the hash of event {seq} has {bytes} bytes and not 32"))
    };
    row.hash.as_slice().try_into().map_err(wrong)
}

/// Walks over one row, or says what is wrong with it.
fn advance(head: &mut Head, row: &events::Model) -> Result<(), String> {
    if row.seq != signed(head.seq) {
        return Err(format!("event {} is missing: the next one is {}", head.seq, row.seq));
    }
    let hash = chain::link(&head.hash, head.seq, row.at, &row.kind, &row.payload);
    if row.hash != hash {
        return Err(format!("event {} is not what was appended: its hash does not fit", head.seq));
    }
    *head = Head { seq: head.seq + 1, hash, ..*head };
    Ok(())
}
