//! Late answers: answers to calls that another worker found unanswered, because this worker was stopped or lost its lease.
//!
//! The other worker asks a person whether the call happened. Its answer settles that question too, unless the person was
//! faster. It is appended like any event, so of two writers only one succeeds.

use std::{collections::BTreeSet, time::Duration};

use futures::{Stream, StreamExt as _, stream};
use queue::Schedule;
use shared::{Attempt, Event, RunStatus};
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

/// Answers of a worker whose log is out of date.
struct LateAnswers {
    /// End of the log as this worker knows it. The attempts that are answered began before it.
    head: Head,
    answers: Vec<Event>,
    /// Slots of calls that are not answered yet.
    in_flight: BTreeSet<usize>,
}

impl<L: Log> StepRunner<L> {
    /// Settles doubts with the answers that could not be stored in `log`, because it is out of date.
    pub(crate) async fn settle_doubts_of(&self, log: &ThreadLog) {
        let is_outcome = |event: &&Event| {
            matches!(event, Event::Answered(_) | Event::AttemptFailed(_) | Event::TaskStarted(_))
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
        let mut late = LateAnswers { head, answers, in_flight };
        let mut deadline = Instant::now() + PATIENCE;
        loop {
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
                () = sleep(RETRY_DELAY), if !late.answers.is_empty() => (),
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
        // While another worker makes other calls of the node, an append would discard their answers.
        let is_busy = log.thread().status() == RunStatus::Busy && !log.thread().is_only_reading_back();
        if late.answers.is_empty() || is_busy {
            return Ok(());
        }
        // An outcome that leaves the doubt cannot be folded.
        let settled = late.answers.iter().filter(|answer| log.push((*answer).clone()).is_ok()).count();
        match log.flush(&self.parts).await {
            Err(Error::Stale { .. }) => return Ok(()),
            other => other?,
        }
        late.answers.clear();
        if 0 < settled {
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

    /// Forgets calls that are not in doubt, or that were attempted again.
    fn forget_settled(&mut self, log: &ThreadLog) {
        let before = usize::try_from(self.head.seq).unwrap_or(usize::MAX);
        let in_doubt = |slot: usize| matches!(log.thread().last_attempt(slot), Some(Attempt { seq, is_in_doubt: true }) if seq < before);
        self.answers.retain(|answer| answer.slot().is_some_and(in_doubt));
        self.in_flight.retain(|slot| in_doubt(*slot));
    }
}
