//! Appending to a log: all events of a step or none, numbered from the head that the writer last saw.
//!
//! ## Why one statement
//!
//! A single statement is atomic, so a step that changes no status needs no transaction and only one round trip. The
//! text for PostgreSQL does not depend on the number of events, so each connection prepares it once.
//!
//! ## Why a deleted thread stays deleted
//!
//! Deleting a thread's events also deletes the fence ([`Store::prune`]): a writer that was suspended meanwhile would
//! find every number free. But only an idle thread is deleted, and the first step of a turn updates the thread's row.
//! Without the row, the step is rejected. Reading the row at every step as well would add a seventh to the insert.

use futures::FutureExt as _;
use queue::clock;
use shared::Event;

use crate::{
    Error,
    log::{
        Store,
        batch::Batch,
        cancel_requests::rows,
        head::Head,
        insert_events::insert_events,
        pool::Transaction,
        read_model_update::ReadModelUpdate,
        step::Step,
        write_step::{lock_thread, write_one, write_read_model},
    },
    webhooks::{Notice, announce_turn, notices},
};

impl Store {
    /// Appends all `events` or none now, as [`Store::append_at`] does.
    ///
    /// # Errors
    ///
    /// As [`Store::append_at`].
    pub async fn append(
        &self,
        head: &Head,
        events: &[Event],
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        self.append_at(head, events, clock::now(), update).await
    }

    /// Appends all `events` or none, and returns the new head. The read model changes in the same transaction. `at` is the time
    /// of the events and of the changed rows, in microseconds since the Unix epoch.
    ///
    /// An append that has begun completes even if the caller stops waiting.
    ///
    /// **Invariant:** a turn starts once. If `events` contain the event that starts the turn of `update`, the turn
    /// must still be queued, or nothing is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is no longer the head of the log, or the turn was started or cancelled before;
    /// [`Error::CancelRequested`] if the running turn of the thread is to be cancelled and no event does so;
    /// [`Error::UnknownThread`] if there is an `update` and the thread was deleted; [`Error::Unavailable`] if the
    /// database was unreachable for 20 s.
    #[tracing::instrument(level = "debug", skip_all, fields(thread = %head.thread, seq = head.seq))]
    pub async fn append_at(
        &self,
        head: &Head,
        events: &[Event],
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        let batch = Batch::new(head, events, at)?;
        let end = batch.end;
        if batch.is_empty() {
            return Ok(end);
        }
        let mut step = Step::new(batch, events, update);
        let notices = notices(events, update.and_then(|update| update.turn.as_ref()));
        if !notices.is_empty() && self.has_turn_webhooks().await {
            step.notices = notices;
        }
        if events.iter().any(|event| matches!(event, Event::Cancelled(_))) {
            self.database.transact(move |tx| write_cancelled(tx, step).boxed()).await?;
        } else {
            self.committer.submit(step).await.ok_or_else(Error::gone)??;
        }
        self.search.appended(end.thread, at);
        Ok(end)
    }

    /// Changes the read model without appending.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is not the head of the log.
    pub async fn update_read_model(&self, head: &Head, update: &ReadModelUpdate) -> Result<(), Error> {
        let (head, update) = (*head, update.clone());
        let notices = notices(&[], update.turn.as_ref());
        self.database.transact(move |tx| write_update(tx, head, update, notices).boxed()).await
    }
}

/// Writes a step that cancels the running turn, and deletes the request to do so.
async fn write_cancelled(tx: &Transaction, step: Step) -> Result<(), Error> {
    rows::delete(tx, step.batch.from.thread).await?;
    match &step.update {
        Some(update) => write_one(tx, &step.batch, step.started, update).await,
        None => insert_events(tx, &[&step.batch]).await,
    }
}

async fn write_update(
    tx: &Transaction,
    head: Head,
    update: ReadModelUpdate,
    notices: Vec<Notice>,
) -> Result<(), Error> {
    lock_thread(tx, &head).await?;
    write_read_model(tx, [&head, &head], clock::now(), None, &update).await?;
    match &update.turn {
        Some(turn) => announce_turn(tx, head.thread, turn, &notices).await,
        None => Ok(()),
    }
}
