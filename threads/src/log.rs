//! The log interface that workers use.
//!
//! In production [`Store`] implements it. The simulation has its own implementation, which guarantees no more than what
//! is documented here and produces every documented error.

use std::collections::BTreeMap;

use queue::{Deaths, Lane, clock};
use shared::TurnStatus;
use store::{
    CancelRequest, Counted, DeadWorker, EndedTurn, Error, ForgottenModel, Head, Pause, Queued,
    ReadModelUpdate, Recorded, Runnable, Store, ThreadId, TurnFilter, TurnId, Withdrawal, WorkerRecord,
};
use uuid::Uuid;

use crate::{index, lost_counts, registry::StrategyRegistry};

/// An event log with fenced appends, and the turns that wait for their threads.
pub trait Log: Clone + Send + Sync + 'static {
    /// Returns the current time by the store's clock, in microseconds since the Unix epoch.
    fn now(&self) -> i64;

    /// Returns the head of a log, as [`Store::head`] does.
    fn head(&self, thread: ThreadId) -> impl Future<Output = Result<Head, Error>> + Send;

    /// Loads the events after `head`, as [`Store::load_since`] does.
    fn load_since(&self, head: &Head) -> impl Future<Output = Result<(Head, Vec<Recorded>), Error>> + Send;

    /// Appends events at this time, as [`Store::append_at`] does.
    fn append(
        &self,
        head: &Head,
        events: &[shared::Event],
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> impl Future<Output = Result<Head, Error>> + Send;

    /// Updates the read model, as [`Store::update_read_model`] does.
    fn update_read_model(
        &self,
        head: &Head,
        update: &ReadModelUpdate,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns the thread's turn that has started and not ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    fn running(&self, thread: ThreadId) -> impl Future<Output = Result<Option<TurnId>, Error>> + Send;

    /// Returns the next queued turn, as [`Store::next_queued`] does.
    fn next_queued(&self, thread: ThreadId) -> impl Future<Output = Result<Option<Queued>, Error>> + Send;

    /// Fails a queued turn, as [`Store::refuse_queued`] does.
    fn refuse_queued(
        &self,
        turn: TurnId,
        error: &str,
    ) -> impl Future<Output = Result<Withdrawal, Error>> + Send;

    /// Lists runnable threads, as [`Store::runnable_after`] does.
    fn runnable_after(
        &self,
        after: Option<ThreadId>,
        limit: u64,
    ) -> impl Future<Output = Result<Vec<Runnable>, Error>> + Send;

    /// Returns the lane of a thread, as [`Store::lane`] does.
    fn lane(&self, thread: ThreadId) -> impl Future<Output = Result<Option<Lane>, Error>> + Send;

    /// Returns the request to cancel the thread's turn, as [`Store::cancel_request`] does.
    fn cancel_request(
        &self,
        thread: ThreadId,
    ) -> impl Future<Output = Result<Option<CancelRequest>, Error>> + Send;

    /// Deletes a request to cancel, as [`Store::drop_cancel_request`] does.
    fn drop_cancel_request(&self, request: &CancelRequest) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reports a turn that ended. Must not wait.
    fn turn_ended(&self, _ended: EndedTurn) {}

    /// Counts what an append recorded, as [`Store::count_recorded`] does. Must not wait.
    fn count_recorded(&self, _counted: &Counted<'_>) {}

    /// Writes what this process has counted, as [`Store::write_counts`] does.
    fn write_counts(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Keeps the texts of built-in prompts, as [`Store::keep_templates`] does.
    fn keep_templates(
        &self,
        _templates: &BTreeMap<String, &'static str>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Writes it for the last time, as [`Store::end_counting`] does.
    fn end_counting(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Fills the search index until `stop`.
    fn keep_indexing(&self, stop: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send {
        stop
    }

    /// Counts what killed processes did not write, as [`count_lost`] does.
    ///
    /// [`count_lost`]: crate::count_lost
    fn count_lost(&self, _strategies: &StrategyRegistry) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Returns all pauses, as [`Store::pauses`] does.
    fn pauses(&self) -> impl Future<Output = Result<Vec<Pause>, Error>> + Send;

    /// Returns the models that were forgotten, as [`Store::forgotten_models`] does.
    fn forgotten_models(&self) -> impl Future<Output = Result<Vec<ForgottenModel>, Error>> + Send;

    /// Records that a worker runs, as [`Store::record_worker`] does.
    fn record_worker(&self, _worker: &WorkerRecord) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Records a sign of life of a worker, as [`Store::show_life`] does.
    fn show_life(&self, _id: Uuid, _at: i64) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Returns the last sign of life of a worker, as [`Store::last_sign_of_life`] does.
    fn last_sign_of_life(
        &self,
        _name: &str,
        _except: Uuid,
        _running_at: Option<i64>,
    ) -> impl Future<Output = Result<Option<i64>, Error>> + Send {
        async { Ok(None) }
    }

    /// Forgets a worker that stopped, as [`Store::remove_worker`] does.
    fn remove_worker(&self, _id: Uuid) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Records the start of a worker with a queue in memory, as [`Store::worker_starts`] does.
    fn worker_starts(&self, _name: &str) -> impl Future<Output = Result<Option<DeadWorker>, Error>> + Send {
        async { Ok(None) }
    }

    /// Records its orderly stop, as [`Store::worker_stops`] does.
    fn worker_stops(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Records the deaths of a thread, as [`Store::set_deaths`] does.
    fn set_deaths(
        &self,
        _thread: ThreadId,
        _deaths: &Deaths,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Forgets the deaths of a thread, as [`Store::forget_deaths`] does.
    fn forget_deaths(&self, _thread: ThreadId) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }
}

impl Log for Store {
    fn now(&self) -> i64 {
        clock::now()
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
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        self.append_at(head, events, at, update).await
    }

    async fn update_read_model(&self, head: &Head, update: &ReadModelUpdate) -> Result<(), Error> {
        Store::update_read_model(self, head, update).await
    }

    async fn running(&self, thread: ThreadId) -> Result<Option<TurnId>, Error> {
        let running =
            TurnFilter { thread: Some(thread), status: Some(TurnStatus::Running), ..TurnFilter::default() };
        Ok(self.turns(running, None, 1).await?.pop().map(|turn| turn.id))
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

    async fn cancel_request(&self, thread: ThreadId) -> Result<Option<CancelRequest>, Error> {
        Store::cancel_request(self, thread).await
    }

    async fn drop_cancel_request(&self, request: &CancelRequest) -> Result<(), Error> {
        Store::drop_cancel_request(self, request).await
    }

    fn turn_ended(&self, ended: EndedTurn) {
        Store::turn_ended(self, ended);
    }

    fn count_recorded(&self, counted: &Counted<'_>) {
        Store::count_recorded(self, counted);
    }

    async fn write_counts(&self) -> Result<(), Error> {
        Store::write_counts(self).await
    }

    async fn keep_templates(&self, templates: &BTreeMap<String, &'static str>) -> Result<(), Error> {
        Store::keep_templates(self, templates).await
    }

    async fn end_counting(&self) -> Result<(), Error> {
        Store::end_counting(self).await
    }

    async fn keep_indexing(&self, stop: impl Future<Output = ()> + Send) {
        index::index_until(self, stop).await;
    }

    async fn count_lost(&self, strategies: &StrategyRegistry) -> Result<(), Error> {
        lost_counts::count_lost(self, strategies, clock::now()).await.map(drop)
    }

    async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        Store::pauses(self).await
    }

    async fn forgotten_models(&self) -> Result<Vec<ForgottenModel>, Error> {
        Store::forgotten_models(self).await
    }

    async fn record_worker(&self, worker: &WorkerRecord) -> Result<(), Error> {
        Store::record_worker(self, worker).await
    }

    async fn show_life(&self, id: Uuid, at: i64) -> Result<(), Error> {
        Store::show_life(self, id, at).await
    }

    async fn last_sign_of_life(
        &self,
        name: &str,
        except: Uuid,
        running_at: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        Store::last_sign_of_life(self, name, except, running_at).await
    }

    async fn remove_worker(&self, id: Uuid) -> Result<(), Error> {
        Store::remove_worker(self, id).await
    }

    async fn worker_starts(&self, name: &str) -> Result<Option<DeadWorker>, Error> {
        Store::worker_starts(self, name).await
    }

    async fn worker_stops(&self) -> Result<(), Error> {
        Store::worker_stops(self).await
    }

    async fn set_deaths(&self, thread: ThreadId, deaths: &Deaths) -> Result<(), Error> {
        Store::set_deaths(self, thread, deaths).await
    }

    async fn forget_deaths(&self, thread: ThreadId) -> Result<(), Error> {
        Store::forget_deaths(self, thread).await
    }
}
