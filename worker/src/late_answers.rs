//! Late answers: answers to calls that another worker found unanswered, because this worker was stopped or lost its lease, and to
//! calls whose turn was cancelled.
//!
//! The other worker asks a person whether the call happened. Its answer settles that question too, unless the person was
//! faster. It is appended like any event, so of two writers only one succeeds. The answer to a call of a cancelled turn is recorded
//! as its end.
//!
//! ## Why a cancelled turn waits for its writes
//!
//! A write that was sent cannot be called back. The next turn of the thread must know what was done. Its server has a moment to
//! answer; then it receives a cancellation, and the log says no more than that the write may have happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use queue::Schedule;
use shared::{Attempt, Event, RunStatus, UnendedWrite, WriteEnded};
use store::{Error, Head};
use threads::{Log, ThreadLog};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use crate::{perform::Sent, step::StepRunner};

/// Delay before a thread is read again that another worker runs, or that could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum time during which an answer waits for the thread. After that a person has to answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// Maximum time that the thread of a cancelled turn waits for the answers to its writes.
const CANCELLED_PATIENCE: Duration = Duration::from_secs(10);

/// Answers of a worker whose log is out of date.
struct LateAnswers {
    /// End of the log as this worker knows it. The attempts that are answered began before it.
    head: Head,
    answers: Vec<Event>,
    /// Slots of calls that are not answered yet.
    in_flight: BTreeSet<usize>,
    /// True if the turn of the calls was cancelled meanwhile.
    of_cancelled: bool,
}

impl<L: Log> StepRunner<L> {
    /// Settles doubts with the answers that could not be stored in `log`, because it is out of date.
    pub(crate) async fn settle_doubts_of(&self, log: &ThreadLog) {
        let is_outcome = |event: &&Event| {
            matches!(
                event,
                Event::Answered(_) | Event::AttemptFailed(_) | Event::InDoubt(_) | Event::TaskStarted(_)
            )
        };
        let answers: Vec<Event> = log.unwritten().iter().take_while(is_outcome).cloned().collect();
        let none = stream::empty::<Vec<Sent>>();
        self.settle_doubts(*log.head(), answers, BTreeSet::new(), none, &Notify::new()).await;
    }

    /// Settles doubts with `answers`, and with those of the calls still in flight. `head` is the end of the log as this
    /// worker knows it. Returns when no answer can settle a doubt any more.
    pub(crate) async fn settle_doubts(
        &self,
        head: Head,
        answers: Vec<Event>,
        in_flight: BTreeSet<usize>,
        mut arriving: impl Stream<Item = Vec<Sent>> + Unpin,
        wake: &Notify,
    ) {
        let mut late = LateAnswers { head, answers, in_flight, of_cancelled: false };
        let given_up = Instant::now() + CANCELLED_PATIENCE;
        let mut deadline = Instant::now() + PATIENCE;
        loop {
            if late.of_cancelled && given_up < Instant::now() {
                late.in_flight.clear();
            }
            if let Err(error) = self.try_settle(&mut late).await {
                warn!(%error, "cannot store an answer that arrived late, retrying in 1 s");
            }
            if late.answers.is_empty() && late.in_flight.is_empty() || deadline < Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                arrived = arriving.next(), if !late.in_flight.is_empty() => {
                    late.receive(arrived);
                    deadline = Instant::now() + PATIENCE;
                }
                () = wake.notified() => (),
                () = sleep(RETRY_DELAY), if !late.answers.is_empty() || late.of_cancelled => (),
            }
        }
    }

    /// Appends the answers whose calls are in doubt, if nothing else is under way, and forgets those that are of no use.
    async fn try_settle(&self, late: &mut LateAnswers) -> Result<(), Error> {
        if late.answers.is_empty() && late.in_flight.is_empty() {
            return Ok(());
        }
        let mut log = self.open(late.head.thread).await?;
        late.forget_settled(&log);
        // While another worker makes other calls of the node, an append would discard their answers. An open question must stay
        // the last event, or its answer is refused.
        let status = log.thread().status();
        let is_busy = status == RunStatus::Busy && !log.thread().is_only_reading_back();
        let is_idle = status == RunStatus::Idle;
        let events = if late.of_cancelled { late.endings(&log) } else { late.answers.clone() };
        if is_busy || late.of_cancelled && !is_idle {
            return Ok(());
        }
        if events.is_empty() {
            // Nothing of them ends a call.
            late.answers.clear();
            return Ok(());
        }
        // An outcome that leaves the doubt cannot be folded.
        let settled = events.into_iter().filter(|event| log.push(event.clone()).is_ok()).count();
        match log.flush(&self.parts).await {
            Err(Error::Stale { .. }) => return Ok(()),
            other => other?,
        }
        late.answers.clear();
        if 0 < settled && !late.of_cancelled {
            info!(thread = %log.id(), settled, "answers arrived late and settled doubts");
            let lane = self.parts.store.lane(log.id()).await?.unwrap_or_default();
            if let Err(error) = self.parts.queue.enqueue(log.id(), &lane, Schedule::Now).await {
                warn!(thread = %log.id(), %error, "cannot enqueue thread; the sweeper will retry");
            }
        }
        Ok(())
    }
}

impl LateAnswers {
    fn receive(&mut self, arrived: Option<Vec<Sent>>) {
        let Some(arrived) = arrived else { return self.in_flight.clear() };
        for (slot, outcome) in arrived {
            if self.in_flight.remove(&slot) {
                self.answers.extend(outcome);
            }
        }
    }

    /// Forgets calls that are not in doubt, or that were attempted again, unless their turn was cancelled.
    fn forget_settled(&mut self, log: &ThreadLog) {
        let before = usize::try_from(self.head.seq).unwrap_or(usize::MAX);
        let in_doubt = |slot: usize| matches!(log.thread().last_attempt(slot), Some(Attempt { seq, is_in_doubt: true }) if seq < before);
        let unended = self.unended(log);
        self.of_cancelled = !unended.is_empty();
        let is_open = |slot: usize| match self.of_cancelled {
            true => unended.contains_key(&slot),
            false => in_doubt(slot),
        };
        self.answers.retain(|answer| answer.slot().is_some_and(is_open));
        self.in_flight.retain(|slot| is_open(*slot));
    }

    /// Returns the calls of this worker, by their slots, whose turn was cancelled and whose end is not known.
    fn unended(&self, log: &ThreadLog) -> BTreeMap<usize, UnendedWrite> {
        let before = usize::try_from(self.head.seq).unwrap_or(usize::MAX);
        let is_own = |write: &UnendedWrite| write.attempted < before && before <= write.cancelled;
        let own = log.thread().unended_writes().into_iter().filter(is_own);
        own.map(|write| (write.slot, write)).collect()
    }

    /// Returns the events of calls that have ended.
    fn endings(&self, log: &ThreadLog) -> Vec<Event> {
        let unended = self.unended(log);
        let ended = self.answers.iter().filter_map(|answer| {
            let write = unended.get(&answer.slot()?)?;
            WriteEnded::of(write.attempted, answer)
        });
        ended.map(Event::from).collect()
    }
}
