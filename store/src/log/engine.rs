//! What a worker needs of a log, whatever keeps it.
//!
//! [`Store`] is the log of every process that runs. The simulation lives on one of its own, which does nothing but what
//! is said here, and fails in all the ways that are said here.

use super::{
    Head, Mark, Queued, Recorded, Runnable, Store, ThreadId, TurnFilter, TurnId, TurnStatus, Withdrawal,
};
use crate::{Error, Lane, Pause, time};

/// A log: events appended under the fence, and the turns that wait for their thread's rest.
pub trait Log: Clone + Send + Sync + 'static {
    /// The time, in microseconds since the Unix epoch, as this process has it.
    fn now(&self) -> i64;

    /// As [`Store::head`].
    fn head(&self, thread: ThreadId) -> impl Future<Output = Result<Head, Error>> + Send;

    /// As [`Store::load_since`].
    fn load_since(&self, head: &Head) -> impl Future<Output = Result<(Head, Vec<Recorded>), Error>> + Send;

    /// As [`Store::append`].
    fn append(
        &self,
        head: &Head,
        events: &[shared::Event],
        mark: Option<&Mark>,
    ) -> impl Future<Output = Result<Head, Error>> + Send;

    /// As [`Store::mend`].
    fn mend(&self, head: &Head, mark: &Mark) -> impl Future<Output = Result<(), Error>> + Send;

    /// The turn that a thread has heard and not ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    fn running(&self, thread: ThreadId) -> impl Future<Output = Result<Option<TurnId>, Error>> + Send;

    /// As [`Store::next_queued`].
    fn next_queued(&self, thread: ThreadId) -> impl Future<Output = Result<Option<Queued>, Error>> + Send;

    /// As [`Store::refuse_queued`].
    fn refuse_queued(
        &self,
        turn: TurnId,
        error: &str,
    ) -> impl Future<Output = Result<Withdrawal, Error>> + Send;

    /// As [`Store::runnable_after`].
    fn runnable_after(
        &self,
        after: Option<ThreadId>,
        limit: u64,
    ) -> impl Future<Output = Result<Vec<Runnable>, Error>> + Send;

    /// As [`Store::lane`].
    fn lane(&self, thread: ThreadId) -> impl Future<Output = Result<Option<Lane>, Error>> + Send;

    /// As [`Store::pauses`].
    fn pauses(&self) -> impl Future<Output = Result<Vec<Pause>, Error>> + Send;
}

impl Log for Store {
    fn now(&self) -> i64 {
        time::now()
    }

    async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        Store::head(self, thread).await
    }

    async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        Store::load_since(self, head).await
    }

    async fn append(
        &self,
        head: &Head,
        events: &[shared::Event],
        mark: Option<&Mark>,
    ) -> Result<Head, Error> {
        Store::append(self, head, events, mark).await
    }

    async fn mend(&self, head: &Head, mark: &Mark) -> Result<(), Error> {
        Store::mend(self, head, mark).await
    }

    async fn running(&self, thread: ThreadId) -> Result<Option<TurnId>, Error> {
        let running =
            TurnFilter { thread: Some(thread), status: Some(TurnStatus::Running), ..TurnFilter::default() };
        Ok(self.turns(running, None, 1).await?.pop().map(|it| it.id))
    }

    async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        Store::next_queued(self, thread).await
    }

    async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        Store::refuse_queued(self, turn, error).await
    }

    async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        Store::runnable_after(self, after, limit).await
    }

    async fn lane(&self, thread: ThreadId) -> Result<Option<Lane>, Error> {
        Store::lane(self, thread).await
    }

    async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        Store::pauses(self).await
    }
}
