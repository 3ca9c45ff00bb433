//! Performs the requests of a node: admits them, sends them concurrently, and records their results.

use std::collections::BTreeSet;

use futures::{StreamExt, stream::FuturesUnordered};
use queue::Priority;
use shared::{Attempted, Cancelled, Event, PendingRequest, says_stop};
use store::{Error, Head, Queued};
use threads::{Log, ThreadLog};
use tokio::{sync::Notify, time::Instant};
use tracing::warn;
use world::{DeltaSink, DiscardDeltas, RequestContext};

use crate::{
    admission::PermitGuard,
    admitted::{Admitted, idempotency_key},
    answer_stream::AnswerStream,
    blocked::{Blocked, keep_soonest},
    step::{StepOutcome, StepRunner},
};

/// A request that was sent, and its outcome; the delay if it waits for its model or server.
pub(crate) type Sent = (usize, Result<Event, Blocked>);

/// Results of the requests of a node.
#[derive(Default)]
struct Results {
    /// Events that are stored already.
    stored: Vec<Event>,
    /// The last events, which are not.
    last: Vec<Event>,
    /// Shortest delay of the requests that were refused.
    blocked: Option<Blocked>,
}

impl<L: Log> StepRunner<L> {
    /// Performs requests concurrently and appends their results. Returns an outcome if the job ends here.
    ///
    /// Each answer is stored as soon as it arrives, so a crash pays for no request twice. The last answers are stored
    /// together with the decisions that follow from them.
    ///
    /// Requests without a free permit, or whose model or server refuses requests, are left as they are: they come up again
    /// once the others have finished. If none can be sent, the job ends.
    pub(crate) async fn perform(
        &self,
        log: &mut ThreadLog,
        due: Vec<PendingRequest>,
        priority: Priority,
        wake: &Notify,
    ) -> Result<Option<StepOutcome>, Error> {
        // A permit may take long, and paid answers must not wait for it unstored. The delay of a failed attempt also
        // counts from when it is stored.
        log.flush(&self.parts).await?;
        if let Some(outcome) = self.retry_wait(log) {
            return Ok(Some(outcome));
        }
        if due.iter().any(PendingRequest::is_write) && self.obey_stop(log).await? {
            return self.outcome_after(log).await.map(Some);
        }
        // **Invariant:** a write has its permit before it is attempted, so waiting for a permit never leaves it in
        // doubt.
        let Admitted { requests, events, blocked } = self.admit(log, due, priority).await;
        let gives_up = events.iter().any(is_final);
        events.into_iter().try_for_each(|event| log.push(event))?;
        if requests.is_empty() {
            let blocked = blocked.filter(|_| !gives_up);
            return Ok(blocked.map(|(after, why)| StepOutcome::Blocked { after, why }));
        }
        for (attempt, _) in requests.iter().filter(|(attempt, _)| attempt.is_write()) {
            log.push(Attempted { slot: attempt.slot, worker: self.name.clone() }.into())?;
        }
        log.flush(&self.parts).await?;
        let mut head = *log.head();
        let Results { stored, last, blocked } = self.send(log, &mut head, requests, priority, wake).await?;
        let nothing_recorded = stored.is_empty() && last.is_empty();
        log.settle(&self.parts, head, &stored)?;
        last.into_iter().try_for_each(|event| log.push(event))?;
        // Otherwise the refused requests come up again, and their model or server is paused by then.
        let blocked = blocked.filter(|_| nothing_recorded);
        Ok(blocked.map(|(after, why)| StepOutcome::Blocked { after, why }))
    }

    /// Cancels the turn if the next message of the thread says stop.
    ///
    /// **Invariant:** no write is sent after a message of this kind was stored, whatever became of the process that stored it.
    async fn obey_stop(&self, log: &mut ThreadLog) -> Result<bool, Error> {
        let queued = self.parts.store.next_queued(log.id()).await?;
        let is_stop = |turn: &Queued| turn.answers_seq.is_none() && says_stop(&turn.messages);
        let Some(stop) = queued.filter(is_stop) else { return Ok(false) };
        log.push(Cancelled { actor: stop.author, caller: stop.caller, rolled_back: false }.into())?;
        log.flush(&self.parts).await?;
        Ok(true)
    }

    /// Sends requests concurrently and returns their results.
    async fn send(
        &self,
        log: &ThreadLog,
        head: &mut Head,
        admitted: Vec<(PendingRequest, Option<PermitGuard>)>,
        priority: Priority,
        wake: &Notify,
    ) -> Result<Results, Error> {
        let (id, thread) = (log.id(), log.thread());
        let node = &thread.node().unwrap_or_default();
        let answer = match &admitted[..] {
            [(due, _)] => AnswerStream::of(&*self.parts.notifications, thread, id, node, due),
            _ => None,
        };
        let answer = &answer;
        let send_one = |(due, permit): (PendingRequest, Option<PermitGuard>)| async move {
            let deltas = answer.as_ref().map_or(&DiscardDeltas as &dyn DeltaSink, |stream| stream);
            let key = &idempotency_key(id, &due);
            let context = RequestContext { thread: id, due: &due, key, node, deltas };
            let sent = Instant::now();
            let request = self.admission.with_timeout(self.world.perform(thread, &context));
            let outcome = match permit {
                Some(permit) => permit.hold_during(request).await,
                None => request.await,
            };
            let concluded = self.conclude(log, &due, priority, sent, outcome).await;
            if let Ok(event) = &concluded {
                self.admission.learned_limits.note(id, &due.request, event);
            }
            (due.slot, concluded)
        };
        let mut writes: BTreeSet<usize> = admitted
            .iter()
            .filter(|(attempt, _)| attempt.is_write())
            .map(|(attempt, _)| attempt.slot)
            .collect();
        let mut left = admitted.len();
        let in_flight: FuturesUnordered<_> = admitted.into_iter().map(send_one).collect();
        let mut arriving = in_flight.ready_chunks(left);
        let mut results = Results::default();
        loop {
            let arrived = tokio::select! {
                biased;
                arrived = arriving.next() => arrived,
                () = wake.notified() => match self.parts.store.head(id).await {
                    Ok(now) if now == *head => {
                        if let Some(answer) = answer {
                            answer.repeat().await;
                        }
                        continue;
                    }
                    Ok(_) => {
                        Box::pin(self.settle_doubts(*head, Vec::new(), writes, arriving, wake)).await;
                        return Err(Error::Stale { thread: id, seq: head.seq });
                    }
                    Err(error) => {
                        // Finishing the requests in flight is worth more than knowing now: the append fails if the log
                        // moved.
                        warn!(%error, "cannot check whether another worker wrote to the thread; continuing");
                        continue;
                    }
                },
            };
            let Some(mut arrived) = arrived else { return Ok(results) };
            arrived.sort_by_key(|(slot, _)| *slot);
            left -= arrived.len();
            for (slot, sent) in arrived {
                writes.remove(&slot);
                match sent {
                    Ok(event) => results.last.push(event),
                    Err(blocked) => keep_soonest(&mut results.blocked, blocked),
                }
            }
            if left > 0 && !results.last.is_empty() {
                if let Err(error) = log.store_landed(head, &self.parts, &results.last).await {
                    let is_cancelled = self.obey_cancel_of(id, &error).await?;
                    if is_cancelled || matches!(error, Error::Stale { .. }) {
                        Box::pin(self.settle_doubts(*head, results.last, writes, arriving, wake)).await;
                    }
                    return Err(error);
                }
                results.stored.append(&mut results.last);
            }
        }
    }
}

/// Returns true for the last attempt of a request that is not repeated.
fn is_final(event: &Event) -> bool {
    matches!(event, Event::AttemptFailed(failed) if failed.retry_after_ms.is_none())
}
