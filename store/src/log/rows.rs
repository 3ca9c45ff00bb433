//! Rows of events: decoding, and the head of a log.

use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};
use shared::Event;

use crate::{
    Error,
    log::{
        head::Head,
        ids::{ThreadId, corrupt, unsigned},
        tables::events,
        types::is_of_another_type,
    },
};

/// Encoding of the payloads that this build writes.
pub(crate) const CODEC: &str = "json";

/// An event with its number and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Number in the log.
    pub seq: u64,
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// The decoded payload.
    pub event: Event,
}

/// The stored columns of an event, byte for byte, for audits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Number in the log.
    pub seq: u64,
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// Type of the payload.
    pub kind: String,
    /// Encoding of the payload.
    pub codec: String,
    /// Payload in this encoding.
    pub payload: String,
    /// Hash that chains the event to all earlier ones.
    pub hash: [u8; 32],
}

/// Returns the head of a log as the transaction sees it.
pub(crate) async fn head(db: &impl ConnectionTrait, thread: ThreadId) -> Result<Head, Error> {
    let rows = events::Entity::find().filter(events::Column::ThreadId.eq(thread));
    let last = rows.order_by_desc(events::Column::Seq).one(db).await;
    let last = last.map_err(|error| undecodable(thread, error))?.ok_or(Error::UnknownThread(thread))?;
    Ok(Head { thread, seq: unsigned(last.seq)? + 1, hash: digest(&last)? })
}

/// Builds the error for rows of a thread that were not read: a value of another type is damage to the thread.
pub(crate) fn undecodable(thread: ThreadId, error: DbErr) -> Error {
    match is_of_another_type(&error) {
        true => corrupt(thread, format_args!("an event cannot be read: {error}")),
        false => error.into(),
    }
}

/// Decodes an event.
pub(crate) fn recorded(row: &events::Model) -> Result<Recorded, Error> {
    let seq = u64::try_from(row.seq)
        .map_err(|_| corrupt(row.thread_id, format_args!("the number of event {} is negative", row.seq)))?;
    if row.codec != CODEC {
        let what =
            format!("event {seq} of thread {} has the unknown encoding {:?}", row.thread_id, row.codec);
        return Err(Error::TooNew { what });
    }
    let event = Event::decode(&row.kind, &row.payload);
    let event = event.map_err(|error| Error::Unreadable { thread: row.thread_id, seq, error })?;
    Ok(Recorded { seq, at: row.at, event })
}

/// Returns the hash of an event.
pub(crate) fn digest(row: &events::Model) -> Result<[u8; 32], Error> {
    let wrong = |_| {
        let (seq, bytes) = (row.seq, row.hash.len());
        corrupt(row.thread_id, format_args!("the hash of event {seq} has {bytes} bytes instead of 32"))
    };
    row.hash.as_slice().try_into().map_err(wrong)
}
