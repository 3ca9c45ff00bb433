//! One step of a thread: lets at most one node happen.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use shared::{Attempted, Due, Event, Next, Request, Standing, Unheard};
use store::{
    Error, Head, Log, News, Notice, Parts, PauseKind, Priority, Store, Strategies, ThreadId, ThreadLog,
    limits::{LONGEST_PAUSE, Reserved},
    queue::{HeldBy, Why},
    time,
};
use tokio::sync::Notify;
use tracing::{Span, debug, info, warn};

use crate::{
    backoff::Backoff,
    bounds::{Bounds, Place},
    world::{Ask, Deltas, NoDeltas, World},
};

/// The pause before the books of the limits are asked again when they could not be.
const BOOKS_PAUSE: Duration = Duration::from_secs(1);

/// Why an answer is not heard that came too late.
const SETTLED: &str =
    "what this answers was settled before it was heard; if something else is asked now, answer that";

/// What is left to do about a thread once a job is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The next node is due: ring again.
    Moved,
    /// The turn is over and the next waits, which is that urgent: ring again, where such turns wait.
    Next(Priority),
    /// A person speaks next, or another worker is ahead.
    Rested,
    /// Something faltered: ring again later.
    Faltered {
        /// After this pause.
        after: Duration,
        /// What it was, in words.
        why: String,
    },
    /// Nothing of the node may be sent now: ring again later. Nothing was tried, so no try is counted.
    Held {
        /// After this pause.
        after: Duration,
        /// What holds it.
        why: Why,
    },
}

/// What a job needs: the log, the strategies, the world.
pub struct Hands<L = Store> {
    /// Where events, rings and news go.
    pub parts: Parts<L>,
    /// The graphs this worker knows.
    pub strategies: Strategies,
    /// Who carries out requests.
    pub world: Arc<dyn World>,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// What holds requests back.
    pub bounds: Bounds,
    /// Who this worker is, in the log.
    pub name: String,
}

impl<L: Log> Hands<L> {
    /// Does one job of a thread that nobody has folded yet: hears a waiting turn if the thread is at rest, then lets at
    /// most one node happen.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store cannot be reached: the job may be done later.
    pub async fn work(&self, thread: ThreadId, rung: &Notify) -> Result<Done, Error> {
        let done = async {
            let mut log = self.open(thread).await?;
            let done = self.step(&mut log, rung).await?;
            log.flush(&self.parts).await?;
            Ok(done)
        };
        self.sorted(thread, done.await).await
    }

    /// A thread's log, as it is stored.
    pub(crate) async fn open(&self, thread: ThreadId) -> Result<ThreadLog, Error> {
        ThreadLog::open(&self.parts, &self.strategies, thread).await
    }

    /// What an error means for the thread: to be behind another worker is none, and a log that cannot be continued is
    /// parked with the reason.
    pub(crate) async fn sorted(&self, thread: ThreadId, done: Result<Done, Error>) -> Result<Done, Error> {
        match done {
            Err(Error::Stale { seq, .. }) => {
                info!(seq, "another worker is ahead");
                Ok(Done::Rested)
            }
            Err(
                err @ (Error::Stuck { .. }
                | Error::UnknownStrategy { .. }
                | Error::Unreadable { .. }
                | Error::Corrupt { .. }
                | Error::TooNew { .. }),
            ) => {
                warn!(error = %err, "the thread cannot go on and is parked");
                store::park(&self.parts, thread, &err.to_string()).await?;
                Ok(Done::Rested)
            }
            other => other,
        }
    }

    /// Hears a waiting turn if the thread is at rest, then lets at most one node happen.
    ///
    /// Whenever `rung` is notified, it looks whether the thread was moved by others, as by a cancellation, and stops if
    /// it was: calls under way are dropped.
    ///
    /// **Invariant:** nothing is asked of the world before all that led to it is stored, and the end of a turn is stored when
    /// this returns. What else a node decided may be only folded in, and is the caller's to store before it does anything
    /// but take the next step ([`ThreadLog::flush`]): it follows from the log before it, and goes with what comes next.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store cannot be reached: the job may be done later. After any error but
    /// [`Error::Stuck`] the log is out of date and must be dropped.
    pub(crate) async fn step(&self, log: &mut ThreadLog, rung: &Notify) -> Result<Done, Error> {
        let thread = log.id();
        if let Some(why) = self.bounds.pauses.hold(thread, PauseKind::Strategy, log.thread().strategy()) {
            return Ok(Done::Held { after: LONGEST_PAUSE, why });
        }
        if log.thread().standing() == Standing::Busy {
            if let Some(waits) = self.waits(log) {
                return Ok(waits);
            }
        } else if !self.hear(log).await? {
            return Ok(Done::Rested);
        }
        note(log);
        loop {
            match log.thread().next().map_err(|err| stuck(thread, &err))? {
                Next::Append(event) => {
                    let over = over(&event);
                    log.push(event)?;
                    if over {
                        break;
                    }
                }
                Next::Perform(due) => {
                    if let Some(done) = self.perform(log, due, rung).await? {
                        return Ok(done);
                    }
                }
                Next::Rest => break,
            }
        }
        self.after(log).await
    }

    /// Hears the turn that is next; `false` if there is none that can be heard.
    async fn hear(&self, log: &mut ThreadLog) -> Result<bool, Error> {
        while let Some(turn) = self.parts.store.next_queued(log.id()).await? {
            let head = log.head();
            match turn.answers_seq.map(|it| it.cmp(&head.seq)) {
                // Somebody else was first, and what is asked now may be something they never saw.
                Some(Ordering::Less) => {
                    self.parts.store.refuse_queued(turn.id, SETTLED).await?;
                    continue;
                }
                // The thread went on since it was looked at.
                Some(Ordering::Greater) => return Err(Error::Stale { thread: head.thread, seq: head.seq }),
                Some(Ordering::Equal) | None => {}
            }
            let time = time::rfc3339(turn.created_at);
            match log.thread().hear(turn.id, &turn.author, &time, turn.policy, turn.messages) {
                Ok(event) => {
                    // Stored with what follows from it: nothing is asked of the world before that.
                    log.push(event)?;
                    debug!(turn = %turn.id, "heard");
                    return Ok(true);
                }
                Err(Unheard::Busy) => return Ok(false),
                Err(unheard @ (Unheard::NothingAsked | Unheard::Unfit(_))) => {
                    self.parts.store.refuse_queued(turn.id, &unheard.to_string()).await?;
                }
            }
        }
        Ok(false)
    }

    /// Whether the thread, at rest or not, has more to do.
    async fn after(&self, log: &mut ThreadLog) -> Result<Done, Error> {
        match log.thread().standing() {
            Standing::Busy => Ok(Done::Moved),
            Standing::Idle | Standing::Waiting(_) | Standing::Failed { .. } => {
                // A turn that was heard is among the queued until then.
                log.flush(&self.parts).await?;
                match self.parts.store.next_queued(log.id()).await? {
                    Some(turn) => Ok(Done::Next(turn.priority)),
                    None => Ok(Done::Rested),
                }
            }
        }
    }

    /// Carries requests out side by side and takes in what comes back; what becomes of the job, if it ends with that.
    ///
    /// Every answer is stored the moment it lands, so that a crash pays for nothing twice; the last ones wait for
    /// what follows from them at once, up to the next request.
    ///
    /// Those for which there is no place are left as they are: they come up again once the others have landed, and if
    /// there is a place for none, the job ends.
    async fn perform(
        &self,
        log: &mut ThreadLog,
        due: Vec<Due>,
        rung: &Notify,
    ) -> Result<Option<Done>, Error> {
        // A place may be long in coming, and what was paid is not kept waiting for it. And what has just faltered waits from when
        // that is stored.
        log.flush(&self.parts).await?;
        if let Some(waits) = self.waits(log) {
            return Ok(Some(waits));
        }
        // **Invariant:** a write has its place before it is attempted, so that waiting for one never leaves it in doubt.
        let admitted = match self.admit(log, due).await {
            Ok(admitted) => admitted,
            Err(held) => return Ok(Some(held)),
        };
        for (attempt, _) in admitted.iter().filter(|(it, _)| it.is_write()) {
            log.push(Attempted { slot: attempt.slot, worker: self.name.clone() }.into())?;
        }
        log.flush(&self.parts).await?;
        let mut head = *log.head();
        let (stored, last) = self.ask(log, &mut head, admitted, rung).await?;
        log.settle(head, &stored, self.parts.store.now())?;
        last.into_iter().try_for_each(|event| log.push(event))?;
        Ok(None)
    }

    /// What becomes of the job if what faltered has its pause.
    fn waits(&self, log: &ThreadLog) -> Option<Done> {
        let (after, why) = log.waits(self.parts.store.now())?;
        // Whoever waits for long looks now and then, as for whatever else holds a ring back: a person may have called it off
        // meanwhile, and what they say next may be due sooner.
        Some(Done::Faltered { after: after.min(LONGEST_PAUSE), why: why.to_owned() })
    }

    /// Which requests may be sent now, each with its place where it needs one.
    ///
    /// # Errors
    ///
    /// What the job comes to, if none may.
    async fn admit(&self, log: &ThreadLog, due: Vec<Due>) -> Result<Vec<(Due, Option<Place>)>, Done> {
        let mut admitted = Vec::new();
        let mut soonest: Option<(Duration, Why)> = None;
        for due in due {
            match self.place(log, &due).await {
                Ok(place) => admitted.push((due, place)),
                Err((after, why)) => {
                    if soonest.as_ref().is_none_or(|(before, _)| after < *before) {
                        soonest = Some((after, why));
                    }
                }
            }
        }
        match soonest {
            Some((after, why)) if admitted.is_empty() => Err(Done::Held { after, why }),
            Some(_) | None => Ok(admitted),
        }
    }

    /// The place of a request, if it needs one.
    ///
    /// # Errors
    ///
    /// When to come back, and why, if it may not be sent now.
    async fn place(&self, log: &ThreadLog, due: &Due) -> Result<Option<Place>, (Duration, Why)> {
        let (id, thread) = (log.id(), log.thread());
        if let Request::Chat { model, .. } = &due.request
            && let Some(why) = self.bounds.pauses.hold(id, PauseKind::Model, model)
        {
            return Err((LONGEST_PAUSE, why));
        }
        let (key, node) = (key(id, due), thread.node().unwrap_or_default());
        let ask = Ask { thread: id, due, key: &key, node: &node, deltas: &NoDeltas };
        let wants = self.world.wants(thread, &ask);
        if wants.is_empty() {
            return Ok(None);
        }
        match self.bounds.limits.reserve(&key, &wants).await {
            Ok(Reserved::Granted(permit)) => Ok(Some(Place::new(self.bounds.limits.clone(), permit))),
            // Those who were refused together shall not come back together.
            Ok(Reserved::Wait { after, why }) => {
                Err((after.mul_f64(1.0 + fastrand::f64() / 4.0), HeldBy::Limit.because(why)))
            }
            Err(error) => {
                warn!(%error, "cannot reserve a place, so nothing is sent; trying again");
                Err((BOOKS_PAUSE, HeldBy::Limit.because(error.to_string())))
            }
        }
    }

    /// Sends requests side by side; what was stored of their answers already, and the last ones, which were not.
    async fn ask(
        &self,
        log: &ThreadLog,
        head: &mut Head,
        admitted: Vec<(Due, Option<Place>)>,
        rung: &Notify,
    ) -> Result<(Vec<Event>, Vec<Event>), Error> {
        let (id, thread) = (log.id(), log.thread());
        let node = &thread.node().unwrap_or_default();
        let ask = |(due, place): (Due, Option<Place>)| async move {
            let deltas = Listeners { news: &*self.parts.news, thread: id, node, slot: due.slot };
            let ask = Ask { thread: id, due: &due, key: &key(id, &due), node, deltas: &deltas };
            let asking = self.bounds.in_time(self.world.perform(thread, &ask));
            let outcome = match place {
                Some(place) => place.during(asking).await,
                None => asking.await,
            };
            (due.slot, thread.receive(due.slot, outcome, self.backoff.pause_ms(due.tries)))
        };
        let mut left = admitted.len();
        let under_way: FuturesUnordered<_> = admitted.into_iter().map(ask).collect();
        let mut landings = under_way.ready_chunks(left);
        let (mut stored, mut last) = (Vec::new(), Vec::new());
        loop {
            let landed = tokio::select! {
                biased;
                landed = landings.next() => landed,
                () = rung.notified() => match self.parts.store.head(id).await {
                    Ok(now) if now == *head => continue,
                    Ok(_) => return Err(Error::Stale { thread: id, seq: head.seq }),
                    Err(error) => {
                        // What is under way is worth more than to know it now: the append will tell.
                        warn!(%error, "cannot look whether another worker is ahead; going on");
                        continue;
                    }
                },
            };
            let Some(mut landed) = landed else { return Ok((stored, last)) };
            landed.sort_by_key(|(slot, _)| *slot);
            left -= landed.len();
            last = landed.into_iter().map(|(_, event)| event).collect();
            if left > 0 {
                ThreadLog::store_landed(head, &self.parts, &last).await?;
                stored.append(&mut last);
            }
        }
    }
}

/// What a request is called wherever it is sent again.
fn key(thread: ThreadId, due: &Due) -> String {
    format!("{thread}:{}:{}", due.asked, due.slot)
}

/// Tells the traces where the job stands.
fn note(log: &ThreadLog) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("seq", log.head().seq);
    if let Some(node) = log.thread().node() {
        span.record("node", node);
    }
    if let Some(turn) = log.thread().turn() {
        span.record("turn", turn.to_string());
    }
}

fn stuck(thread: ThreadId, err: &shared::Corrupt) -> Error {
    Error::Stuck { thread, what: err.to_string() }
}

/// Whether a job is over with this event: a node has decided, or cannot.
fn over(event: &Event) -> bool {
    matches!(event, Event::Decided(_) | Event::Failed(_))
}

/// Passes pieces of a reply on to whoever listens to the thread.
struct Listeners<'a> {
    news: &'a dyn News,
    thread: ThreadId,
    node: &'a str,
    slot: usize,
}

#[async_trait]
impl Deltas for Listeners<'_> {
    async fn delta(&self, text: &str) {
        let (node, slot, text) = (self.node.to_owned(), self.slot, text.to_owned());
        self.news.publish(self.thread, Notice::Delta { node, slot, text }).await;
    }
}
