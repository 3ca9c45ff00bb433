//! Imports a whole log from another store.

use shared::Event;
use store::{AttachmentContent, Error, Head, NewLog, NewThread, Recorded, Store, ThreadId};

use crate::{expected::expected_rows, registry::StrategyRegistry};

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

/// Imports the log of a new thread with its rows and its attachments, all or nothing, and returns its head.
///
/// # Errors
///
/// [`Error::ThreadExists`] if the thread exists; [`Error::Unreadable`] and [`Error::Stuck`] if this version of turnfold could
/// not have written the log.
pub async fn import_thread(
    store: &Store,
    strategies: &StrategyRegistry,
    thread: ThreadId,
    log: Vec<ImportedEvent>,
    attachments: Vec<AttachmentContent>,
) -> Result<Head, Error> {
    let (new, head) = new_thread(strategies, thread, log)?;
    store.insert_thread(new, attachments).await?;
    Ok(head)
}

/// Decodes and folds a log that is to be imported. Returns its rows with its head.
pub(crate) fn new_thread(
    strategies: &StrategyRegistry,
    thread: ThreadId,
    log: Vec<ImportedEvent>,
) -> Result<(NewThread, Head), Error> {
    let (mut new, mut recorded) = (NewLog::new(thread), Vec::new());
    for ImportedEvent { at, kind, payload } in log {
        let seq = new.head().seq;
        let event =
            Event::decode(&kind, &payload).map_err(|error| Error::Unreadable { thread, seq, error })?;
        new.push(at, event.kind(), payload);
        recorded.push(Recorded { seq, at, event });
    }
    let head = new.head();
    let (expected, tally) = expected_rows(strategies, head, &recorded)?;
    Ok((NewThread::new(new, expected, &tally), head))
}
