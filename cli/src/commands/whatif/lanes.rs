//! The threads of a what-if run: imports each up to its first difference, sends on what people wrote, and compares the ends.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use audit::whatif::{Changes, Comparison, Ending, Input, Prices, Start, ToolAnswers, inputs};
use futures::StreamExt as _;
use queue::{Schedule, clock};
use shared::{
    Event, Graph, Interrupt, InterruptKind, InvalidLog, Policy, Reconciled, Role, RunStatus, ThreadStatus,
    Verdict, open_calls,
};
use store::{
    AttachmentContent, Error, Head, Idempotency, NewTurn, Opening, Recorded, Store, Submitted, ThreadId,
};
use threads::{Backends, StrategyRegistry, ThreadLog, import_thread};

use super::world::{GAVE_UP, RunWorld};
use crate::commands::judge::Judge;

/// Interval between two looks at a thread whose end was not announced.
const LOOK: Duration = Duration::from_secs(2);

/// Runs the threads of a plan, each on its own.
pub(super) struct Lanes {
    pub(super) recorded: Store,
    pub(super) parts: Backends,
    pub(super) strategies: StrategyRegistry,
    pub(super) world: Arc<RunWorld>,
    pub(super) changes: Changes,
    /// Number of events of the record of each thread; all of them if there is no cohort.
    pub(super) heads: Option<BTreeMap<ThreadId, u64>>,
    pub(super) prices: Prices,
    /// Judge of answers that changed.
    pub(super) judge: Option<Judge>,
}

/// A thread and its record.
pub(super) struct Lane {
    pub(super) start: Start,
    pub(super) graph: &'static dyn Graph,
    pub(super) record: Vec<Recorded>,
    pub(super) tenant: String,
    pub(super) inputs: Vec<Input>,
    /// Index of the first input that was not sent yet.
    pub(super) next: usize,
}

/// Result of a look at a thread.
enum Look {
    /// A worker has it.
    Busy,
    /// It was given something to do.
    Moved,
    /// It ended; with the reason if that is no end of its own.
    Ended(Option<String>),
}

impl Lanes {
    /// Imports a thread, unless that was done, and makes its record known to the world.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if a database does not answer. Another error is that of [`Self::run`].
    pub(super) async fn register(&self, start: Start) -> Result<(), Error> {
        match self.lane(start).await {
            Err(error @ Error::Unavailable(_)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Runs a thread to its end, and compares it with its record. A thread that cannot be run is not decided.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if a database does not answer.
    pub(super) async fn run(&self, start: Start) -> Result<Comparison, Error> {
        match self.run_to_end(start).await {
            Err(error @ Error::Unavailable(_)) => Err(error),
            Err(error) => Ok(Comparison {
                thread: start.thread,
                seq: start.seq,
                recorded: Ending::default(),
                changed: Ending::default(),
                not_decided: Some(format!("cannot be run: {error}")),
                judged: None,
            }),
            ended => ended,
        }
    }

    async fn run_to_end(&self, start: Start) -> Result<Comparison, Error> {
        let mut lane = self.lane(start).await?;
        let not_decided = self.to_end(&mut lane).await?;
        self.world.remove(start.thread);
        let own = own_log(&self.parts.store, start.thread).await?;
        let ending = |log: &[Recorded]| {
            let events = log.iter().map(|recorded| &recorded.event);
            Ending::of(lane.graph, events, start.seq, &*self.prices)
                .map_err(|error| stuck(start.thread, &error))
        };
        let (recorded, changed) = (ending(&lane.record)?, ending(&own)?);
        let mut compared =
            Comparison { thread: start.thread, seq: start.seq, recorded, changed, not_decided, judged: None };
        if let Some(judge) = &self.judge {
            compared.judged = self.judged(judge, &lane, &compared).await?;
        }
        Ok(compared)
    }

    /// Has the worker run a thread, until it ended. Returns the reason if that is no end of its own.
    pub(super) async fn to_end(&self, lane: &mut Lane) -> Result<Option<String>, Error> {
        let id = lane.start.thread;
        self.enqueue(id).await?;
        loop {
            let ends = self.parts.notifications.subscribe_to_ends(id).await;
            let mut ends = ends.map_err(|error| Error::Unavailable(error.to_string()))?;
            match self.look(lane).await? {
                Look::Ended(why) => return Ok(why),
                Look::Moved => {}
                Look::Busy => {
                    let _ = tokio::time::timeout(LOOK, ends.next()).await;
                }
            }
        }
    }

    async fn lane(&self, start: Start) -> Result<Lane, Error> {
        let id = start.thread;
        let record = self.record(id).await?;
        let Some(Event::Opened(opened)) = record.first().map(|first| &first.event) else {
            return Err(Error::UnknownThread(id));
        };
        let (strategy, tenant) = (opened.strategy.clone(), opened.tenant.clone());
        let Some(graph) = self.strategies.find(&strategy) else {
            let known = self.strategies.names().into_iter().map(str::to_owned).collect();
            return Err(Error::UnknownStrategy { thread: id, name: strategy, known });
        };
        if self.parts.store.thread(id).await?.is_none() {
            let beginning = self.changes.beginning(&strategy, &record, start.seq, clock::now());
            let beginning =
                beginning.map_err(|error| Error::Corrupt { thread: id, what: error.to_string() })?;
            let attachments = self.attachments(id, &record).await?;
            // The worker may take the thread as soon as it is imported.
            self.world.add(id, answers(&record), answers(&record[..start.seq.min(record.len())]));
            import_thread(&self.parts.store, &self.strategies, id, beginning, attachments).await?;
        }
        let inputs = inputs(graph, &record, start.seq).map_err(|error| stuck(id, &error))?;
        let mut lane = Lane { start, graph, record, tenant, inputs, next: 0 };
        lane.next = self.sent(&lane).await?;
        self.tell_world(&lane).await?;
        Ok(lane)
    }

    /// Reads the record of a thread: its log, or the part of it that the cohort has.
    async fn record(&self, id: ThreadId) -> Result<Vec<Recorded>, Error> {
        let events = self.heads.as_ref().and_then(|heads| heads.get(&id));
        let last = events.map(|events| events.saturating_sub(1));
        let mut record = Vec::new();
        let read = self.recorded.along(id, 0, last, |recorded| {
            record.push(recorded);
            Ok::<_, Error>(())
        });
        read.await?;
        Ok(record)
    }

    /// Makes the record of a thread known to the world, with what its run has used so far.
    async fn tell_world(&self, lane: &Lane) -> Result<(), Error> {
        let id = lane.start.thread;
        let own = own_log(&self.parts.store, id).await?;
        self.world.add(id, answers(&lane.record), answers(&own));
        Ok(())
    }

    /// Counts what earlier commands spent on a thread of the run.
    pub(super) async fn count_spent(&self, start: Start) -> Result<(), Error> {
        let own = own_log(&self.parts.store, start.thread).await?;
        let Some(Event::Opened(opened)) = own.first().map(|first| &first.event) else { return Ok(()) };
        let Some(graph) = self.strategies.find(&opened.strategy) else { return Ok(()) };
        let events = own.iter().map(|recorded| &recorded.event);
        let so_far = Ending::of(graph, events, start.seq, &*self.prices);
        self.world.spend(so_far.map_or(0, |ending| shared::micro_usd(ending.rest.usd)));
        Ok(())
    }

    /// Returns the images and files of a recorded thread.
    async fn attachments(&self, id: ThreadId, record: &[Recorded]) -> Result<Vec<AttachmentContent>, Error> {
        let mut contents = BTreeMap::new();
        for attachment in record.iter().flat_map(|recorded| recorded.event.attachments()) {
            if contents.contains_key(&attachment.sha256) {
                continue;
            }
            let Some(content) = self.recorded.attachment(id, &attachment.sha256).await? else {
                let what = format!("the content of attachment {} is missing", attachment.sha256);
                return Err(Error::Corrupt { thread: id, what });
            };
            contents.insert(attachment.sha256.clone(), AttachmentContent::new(content));
        }
        Ok(contents.into_values().collect())
    }

    /// Returns the index of the first input that was not sent before.
    async fn sent(&self, lane: &Lane) -> Result<usize, Error> {
        let keys: Vec<Idempotency> = (0..lane.inputs.len()).map(|nth| lane.key(nth)).collect();
        let sent = self.parts.store.submitted_many(&lane.tenant, &keys).await?;
        Ok(sent.iter().rposition(Option::is_some).map_or(0, |last| last + 1))
    }

    async fn enqueue(&self, id: ThreadId) -> Result<(), Error> {
        let Some(lane) = self.parts.store.lane(id).await? else { return Err(Error::UnknownThread(id)) };
        if let Err(error) = self.parts.queue.enqueue(id, &lane, Schedule::Now).await {
            tracing::warn!(%error, thread = %id, "cannot enqueue thread; the sweeper will retry");
        }
        Ok(())
    }

    /// Looks at a thread, and sends it what comes next.
    async fn look(&self, lane: &mut Lane) -> Result<Look, Error> {
        let id = lane.start.thread;
        let log = ThreadLog::open(&self.parts, &self.strategies, id).await?;
        if self.parts.store.next_queued(id).await?.is_some() {
            return Ok(Look::Busy);
        }
        match log.thread().status() {
            RunStatus::Busy => self.look_at_busy(id).await,
            RunStatus::Failed { node, reason } => {
                let cause = reason.split("; hint: ").next().unwrap_or_default();
                Ok(Look::Ended(Some(format!("{node} failed: {cause}"))))
            }
            RunStatus::Waiting(asked) if asked.kind == InterruptKind::InDoubt => self.settle(log).await,
            RunStatus::Waiting(asked) => self.answer(lane, &log, &asked).await,
            RunStatus::Idle if log.thread().is_cancelled() => {
                let own = own_log(&self.parts.store, id).await?;
                Ok(Look::Ended(Some(reason_of_cancellation(&own))))
            }
            RunStatus::Idle => self.go_on(lane, &log).await,
        }
    }

    async fn look_at_busy(&self, id: ThreadId) -> Result<Look, Error> {
        let is_parked =
            self.parts.store.thread(id).await?.is_some_and(|row| row.status == ThreadStatus::Error);
        Ok(if is_parked { Look::Ended(Some("the thread cannot continue".to_owned())) } else { Look::Busy })
    }

    /// Settles the calls in doubt. A run that was killed left them, and it makes no call that could have happened.
    async fn settle(&self, mut log: ThreadLog) -> Result<Look, Error> {
        let own = own_log(&self.parts.store, log.id()).await?;
        for slot in doubted(&own) {
            let actor = GAVE_UP.trim_end_matches([':', ' ']).to_owned();
            let verdict = Verdict::DidNotHappen;
            log.push(Reconciled { slot, verdict, actor, caller: None, read_back: None }.into())?;
        }
        log.flush(&self.parts).await?;
        self.enqueue(log.id()).await?;
        Ok(Look::Moved)
    }

    /// Answers a question as a person answered the same question in the record.
    async fn answer(&self, lane: &mut Lane, log: &ThreadLog, asked: &Interrupt) -> Result<Look, Error> {
        let is_answer = |input: &Input| input.question.as_ref() == Some(&asked.question);
        let Some(nth) = lane.inputs[lane.next..].iter().position(is_answer) else {
            let why = "asks a question that the record does not answer".to_owned();
            return Ok(Look::Ended(Some(why)));
        };
        let nth = lane.next + nth;
        self.send(lane, nth, Opening::Asking(log.id(), log.head().seq), Policy::Answer).await
    }

    /// Sends the next request of the record.
    async fn go_on(&self, lane: &mut Lane, log: &ThreadLog) -> Result<Look, Error> {
        let mut left = lane.inputs[lane.next..].iter();
        let Some(nth) = left.position(|input| input.question.is_none()) else { return Ok(Look::Ended(None)) };
        let nth = lane.next + nth;
        let is_result = lane.inputs[nth].messages.iter().any(|message| message.role == Role::Tool);
        if is_result || !open_calls(log.thread().messages()).is_empty() {
            return Ok(Look::Ended(Some("calls a tool of its client".to_owned())));
        }
        self.send(lane, nth, Opening::Existing(log.id()), Policy::Replan).await
    }

    async fn send(
        &self,
        lane: &mut Lane,
        nth: usize,
        opening: Opening,
        policy: Policy,
    ) -> Result<Look, Error> {
        let Input { messages, reply_options, author, .. } = lane.inputs[nth].clone();
        let turn = NewTurn {
            policy,
            reply_options,
            idempotency: Some(lane.key(nth)),
            ..NewTurn::of(opening, messages, author)
        };
        let submitted = self.parts.store.submit(turn).await?;
        lane.next = nth + 1;
        if let Submitted::New(_) = submitted {
            self.enqueue(lane.start.thread).await?;
        }
        Ok(Look::Moved)
    }
}

impl Lane {
    /// Key of the submission of an input, by which it is sent once.
    fn key(&self, nth: usize) -> Idempotency {
        Idempotency::ours(&format!("whatif:{}:{nth}", self.start.thread), String::new())
    }
}

fn answers(log: &[Recorded]) -> ToolAnswers {
    ToolAnswers::of(log.iter().map(|recorded| &recorded.event))
}

pub(super) async fn own_log(store: &Store, id: ThreadId) -> Result<Vec<Recorded>, Error> {
    Ok(store.load_since(&Head::start(id)).await?.1)
}

pub(super) fn stuck(thread: ThreadId, error: &InvalidLog) -> Error {
    Error::Stuck { thread, what: error.to_string() }
}

/// Slots of the calls in doubt at the end of a log.
fn doubted(log: &[Recorded]) -> Vec<usize> {
    let mut slots = Vec::new();
    for Recorded { event, .. } in log {
        if let Event::Asked(_) = event {
            slots.clear();
        } else if let Event::InDoubt(doubt) = event {
            slots.push(doubt.slot);
        } else if let Event::Reconciled(verdict) = event {
            slots.retain(|slot| *slot != verdict.slot);
        }
    }
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Reason why the turn at the end of a log was cancelled.
fn reason_of_cancellation(log: &[Recorded]) -> String {
    let actor_of = |recorded: &Recorded| {
        let Event::Cancelled(cancelled) = &recorded.event else { return None };
        Some(cancelled.actor.clone())
    };
    let actor = log.iter().rev().find_map(actor_of);
    actor
        .as_deref()
        .and_then(|actor| actor.strip_prefix(GAVE_UP))
        .unwrap_or("its turn was cancelled")
        .to_owned()
}
