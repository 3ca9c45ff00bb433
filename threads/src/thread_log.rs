//! The log of one thread, open for writing: its folded state and its head.
//!
//! Workers and the API both write through this module, so the read model changes together with the events in one
//! place.

use std::{collections::BTreeMap, time::Duration};

use shared::{DynThread, Event, InDoubt, Reconciled};
use store::{Error, Head, ModelResponse, Queued, ReadModelUpdate, Recorded, ThreadId};
use tracing::debug;

use crate::{
    announce::Appended,
    asked_models::AskedModels,
    backends::Backends,
    job_note::JobNote,
    log::Log,
    registry::{StrategyRegistry, begin},
    status::{Status, status},
    turn_end::RunningTurn,
};

/// The log of one thread, open for writing.
pub struct ThreadLog {
    thread: Box<dyn DynThread>,
    head: Head,
    /// Approximate size in bytes.
    weight: usize,
    /// Number of the last event by which a person let the thread work.
    set_off: usize,
    /// Events that are folded but not yet stored.
    unwritten: Vec<Event>,
    /// Models of the requests of the last node.
    asked: AskedModels,
    /// Responses of models that are folded but not yet counted.
    responses: Vec<ModelResponse>,
    /// The turn that runs.
    running: RunningTurn,
    /// The turn that starts next, if it is known.
    queued: Option<Queued>,
    /// Status in the read model.
    read_model: Status,
    /// The delay before the last failed attempt is repeated.
    wait: Option<Delay>,
    /// Since when requests wait for their model or server, by slot, in microseconds since the Unix epoch.
    waiting: BTreeMap<usize, i64>,
    /// Since when servers work on requests as tasks, by slot, in microseconds since the Unix epoch.
    tasks: BTreeMap<usize, i64>,
}

/// A delay before a failed attempt is repeated.
struct Delay {
    /// End of the delay, in microseconds since the Unix epoch.
    until: i64,
    /// First line of the attempt's error.
    why: String,
}

impl ThreadLog {
    /// Reads a log and folds it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`]; [`Error::UnknownStrategy`]; [`Error::Unreadable`] and [`Error::Stuck`] if this
    /// version of turnfold could not have written the log; [`Error::Unavailable`].
    pub async fn open<L: Log>(
        parts: &Backends<L>,
        strategies: &StrategyRegistry,
        id: ThreadId,
    ) -> Result<Self, Error> {
        let (head, recorded) = parts.store.load_since(&Head::start(id)).await?;
        let thread = begin(strategies, id, recorded.first().map(|recorded| &recorded.event))?;
        let mut this = Self::at(Head::start(id), thread, Status::START);
        this.apply_stored(head, &recorded, parts.store.now())?;
        Ok(this)
    }

    /// Opens the log of a new thread from the note of its job; `None` if the log must be read.
    pub fn noted(strategies: &StrategyRegistry, id: ThreadId, note: &str, now: i64) -> Option<Self> {
        let (head, opened, queued) = JobNote::parse(id, note)?;
        let thread = begin(strategies, id, Some(&opened.event)).ok()?;
        let mut this = Self::at(Head::start(id), thread, Status::START);
        this.apply_stored(head, &[opened], now).ok()?;
        this.queued = Some(queued);
        Some(this)
    }

    /// Returns the turn that the thread starts next, if the note of its job names it. The caller must start it, or read again.
    pub fn take_queued(&mut self) -> Option<Queued> {
        self.queued.take()
    }

    /// Opens a log that was folded elsewhere up to `head`.
    ///
    /// Delays, sizes and limits are counted from here, so this is for the API, which appends events of people. A worker opens
    /// the log with [`Self::open`].
    pub fn folded_to(head: Head, thread: Box<dyn DynThread>) -> Self {
        let read_model = status(&*thread);
        Self::at(head, thread, read_model)
    }

    fn at(head: Head, thread: Box<dyn DynThread>, read_model: Status) -> Self {
        Self {
            thread,
            head,
            weight: 0,
            set_off: 0,
            unwritten: Vec::new(),
            asked: AskedModels::default(),
            responses: Vec::new(),
            running: RunningTurn::default(),
            queued: None,
            read_model,
            wait: None,
            waiting: BTreeMap::new(),
            tasks: BTreeMap::new(),
        }
    }

    /// Reads and folds the events that others have appended since.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; this log must then be dropped.
    pub async fn refresh<L: Log>(&mut self, parts: &Backends<L>) -> Result<(), Error> {
        self.queued = None;
        let (head, recorded) = parts.store.load_since(&self.head).await?;
        self.apply_stored(head, &recorded, parts.store.now())
    }

    fn apply_stored(&mut self, head: Head, recorded: &[Recorded], now: i64) -> Result<(), Error> {
        for (wanted, event) in (self.head.seq..).zip(recorded) {
            if event.seq != wanted {
                let what =
                    format!("event {} was found in place of event {wanted}: events are missing", event.seq);
                return Err(Error::Corrupt { thread: self.head.thread, what });
            }
            // The process that appended the event has counted its response.
            let _ = self.fold(&event.event)?;
            self.running.stored(event.at, &event.event);
            self.record_delay(&event.event, event.at, now);
        }
        if !recorded.is_empty() {
            self.head = head;
            self.read_model = status(&*self.thread);
        }
        Ok(())
    }

    /// Folds an event, and returns the response of a model that it records.
    fn fold(&mut self, event: &Event) -> Result<Option<ModelResponse>, Error> {
        let stuck =
            |err: shared::InvalidLog| Error::Stuck { thread: self.head.thread, what: err.to_string() };
        self.weight = self.weight.saturating_add(event.retained_bytes());
        if matches!(
            event,
            Event::TurnStarted(_)
                | Event::InputProvided(_)
                | Event::Retried(_)
                | Event::Reconciled(Reconciled { read_back: None, .. })
        ) {
            self.set_off = self.thread.seq();
        }
        self.thread.apply(event).map_err(stuck)?;
        self.running.folded(event, &*self.thread);
        Ok(self.asked.read(event))
    }

    /// Records the delay that an event demands, as of `now`.
    ///
    /// ## Why a delay may be skipped
    ///
    /// The clock of another worker may be ahead. If it is ahead by more than the delay, the end of the delay cannot
    /// be known, and waiting for that worker's clock would be worse than one early attempt.
    fn record_delay(&mut self, event: &Event, at: i64, now: i64) {
        if ends_delay(event) {
            self.wait = None;
            self.waiting.clear();
            self.tasks.clear();
        }
        if let Event::TaskStarted(started) = event {
            self.tasks.insert(started.slot, at);
        }
        if let Event::Answered(shared::Answered { slot, .. })
        | Event::InDoubt(InDoubt { slot, .. })
        | Event::Reconciled(Reconciled { slot, .. }) = event
        {
            self.waiting.remove(slot);
        }
        if let Event::InDoubt(InDoubt { read_back_after_ms: Some(after_ms), reason, .. }) = event {
            self.delay_until(at, now, *after_ms, reason);
        }
        if let Event::AttemptFailed(failed_attempt) = event {
            if failed_attempt.waiting {
                self.waiting.entry(failed_attempt.slot).or_insert(at);
            } else {
                self.waiting.remove(&failed_attempt.slot);
            }
            let delay_ms = failed_attempt.retry_after_ms.unwrap_or(0);
            self.delay_until(at, now, delay_ms, &failed_attempt.error);
        }
    }

    /// Delays the next attempt until `delay_ms` after `at`, unless it is delayed longer already.
    fn delay_until(&mut self, at: i64, now: i64, delay_ms: u64, why: &str) {
        let delay = i64::try_from(delay_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
        let until = at.saturating_add(delay);
        if at.saturating_sub(now) <= delay && self.wait.as_ref().is_none_or(|wait| wait.until < until) {
            let why = why.lines().next().unwrap_or_default().to_owned();
            self.wait = Some(Delay { until, why });
        }
    }

    /// Returns the folded state.
    pub fn thread(&self) -> &dyn DynThread {
        &*self.thread
    }

    /// Returns the id of the thread.
    pub fn id(&self) -> ThreadId {
        self.head.thread
    }

    /// Returns the approximate size in memory in bytes, without the fixed size of every thread.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the number of events since a person last let the thread work: by a message, an input, a retry or a verdict.
    pub fn events_in_a_row(&self) -> usize {
        self.thread.seq() - self.set_off
    }

    /// Returns the remaining delay as of `now` (microseconds since the Unix epoch) and the error that caused it; `None`
    /// if a new attempt may start. A delay begins when its event is stored.
    pub fn waits(&self, now: i64) -> Option<(Duration, &str)> {
        let Delay { until, why } = self.wait.as_ref()?;
        let left = u64::try_from(until.saturating_sub(now)).ok().filter(|left| *left > 0)?;
        Some((Duration::from_micros(left), why))
    }

    /// Returns how long the request at `slot` has waited for its model or server, as of `now` (microseconds since the Unix
    /// epoch); `None` if it does not wait. The time of the first event counts, so a restart does not begin it anew.
    pub fn waited(&self, slot: usize, now: i64) -> Option<Duration> {
        let since = self.waiting.get(&slot)?;
        Some(Duration::from_micros(u64::try_from(now.saturating_sub(*since)).unwrap_or(0)))
    }

    /// Returns how long a server has worked on the request at `slot` as a task, as of `now` (microseconds since the Unix
    /// epoch).
    pub fn task_age(&self, slot: usize, now: i64) -> Duration {
        let since = self.tasks.get(&slot).copied().unwrap_or(now);
        Duration::from_micros(u64::try_from(now.saturating_sub(since)).unwrap_or(0))
    }

    /// Folds an event; [`Self::flush`] stores it.
    ///
    /// # Errors
    ///
    /// [`Error::Stuck`] if the event is impossible in this state.
    pub fn push(&mut self, event: Event) -> Result<(), Error> {
        let response = self.fold(&event)?;
        self.responses.extend(response);
        // At once, because the next step does not wait until this event is stored.
        if ends_delay(&event) {
            self.wait = None;
            self.waiting.clear();
            self.tasks.clear();
        }
        self.unwritten.push(event);
        Ok(())
    }

    /// Stores the folded events, all or none, and updates the read model with them.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if another writer was faster: this log is then out of date and must be dropped.
    pub async fn flush<L: Log>(&mut self, parts: &Backends<L>) -> Result<(), Error> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let now = status(&*self.thread);
        let update =
            (now != self.read_model).then(|| ReadModelUpdate { status: now.thread, turn: now.turn.clone() });
        let appended_at = parts.store.now();
        self.head = parts.store.append(&self.head, &self.unwritten, appended_at, update.as_ref()).await?;
        debug!(thread = %self.head.thread, seq = self.head.seq, events = self.unwritten.len(), "appended");
        let at = parts.store.now();
        self.unwritten.iter().for_each(|event| self.running.stored(appended_at, event));
        let appended = Appended {
            at: appended_at,
            head: self.head,
            thread: &*self.thread,
            update: update.as_ref(),
            last: self.unwritten.last(),
            responses: std::mem::take(&mut self.responses),
            asked: Some(&self.asked),
            running: Some(&self.running),
        };
        let notification = appended.announce(parts);
        for event in std::mem::take(&mut self.unwritten) {
            self.record_delay(&event, at, at);
        }
        self.read_model = now;
        parts.notifications.publish(self.head.thread, notification).await;
        Ok(())
    }

    /// Writes the current read-model row again, to test whether the store accepts writes.
    ///
    /// # Errors
    ///
    /// As [`Self::flush`], and any error that prevents a write.
    pub async fn rewrite<L: Log>(&self, parts: &Backends<L>) -> Result<(), Error> {
        let update = ReadModelUpdate { status: self.read_model.thread, turn: self.read_model.turn.clone() };
        parts.store.update_read_model(&self.head, &update).await
    }

    /// Stores answers when they arrive, while the thread is borrowed by the requests in flight. The caller folds them
    /// with [`Self::settle`] afterwards.
    ///
    /// # Errors
    ///
    /// As [`Self::flush`].
    pub async fn store_landed<L: Log>(
        &self,
        head: &mut Head,
        parts: &Backends<L>,
        landed: &[Event],
    ) -> Result<(), Error> {
        let at = parts.store.now();
        *head = parts.store.append(head, landed, at, None).await?;
        let responses = landed.iter().filter_map(|event| self.asked.response(event)).collect();
        let (head, thread) = (*head, &*self.thread);
        let (update, last, running, asked) = (None, None, None, None);
        let appended = Appended { at, head, thread, update, last, responses, asked, running };
        let notification = appended.announce(parts);
        parts.notifications.publish(head.thread, notification).await;
        Ok(())
    }

    /// Folds the events that [`Self::store_landed`] stored up to `head`.
    ///
    /// # Errors
    ///
    /// [`Error::Stuck`] if an event is impossible in this state.
    pub fn settle<L: Log>(&mut self, parts: &Backends<L>, head: Head, landed: &[Event]) -> Result<(), Error> {
        let at = parts.store.now();
        for event in landed {
            // Its response was counted when it was stored.
            let _ = self.fold(event)?;
            self.running.stored(at, event);
            self.record_delay(event, at, at);
        }
        self.head = head;
        Ok(())
    }

    /// Returns true if an event that starts a turn is folded but not yet stored.
    pub fn begins_turn(&self) -> bool {
        self.unwritten.iter().any(|event| event.turn_started().is_some())
    }

    /// Returns the events that are folded but not yet stored.
    pub fn unwritten(&self) -> &[Event] {
        &self.unwritten
    }

    /// Returns the time of the last stored event in microseconds since the Unix epoch; `None` if it was folded elsewhere.
    pub fn last_at(&self) -> Option<i64> {
        self.running.last_at()
    }

    /// Returns the head of the stored log.
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// Returns true if this event ends the delay of a failed attempt.
fn ends_delay(event: &Event) -> bool {
    matches!(
        event,
        Event::Asked(_)
            | Event::Summarised(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
    )
}
