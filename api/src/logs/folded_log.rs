//! Folds of logs up to an event.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use api_types::{BudgetExceeded, Interrupt, Message, Output, Usage};
use shared::{Asked, CallerId, DynThread, Event, Forked, Graph, Request, RunStatus, TurnKind, UsageTotal};
use store::{Recorded, ThreadId, Turn, TurnId};
use threads::ThreadLog;

use crate::server::{
    problem::{ApiError, Kind},
    state::AppState,
};

/// Number of folds that are kept along a log that is folded from its first event.
const CHECKPOINTS: u64 = 16;

/// Least number of events between two of them.
const CHECKPOINT_EVENTS: u64 = 500;

/// A thread folded up to an event of its log.
#[derive(Clone)]
pub(crate) struct Folded {
    pub(crate) thread: Box<dyn DynThread>,
    /// Slots of the requests that are in doubt.
    pub(crate) in_doubt: BTreeSet<usize>,
    /// Origin of a forked thread.
    pub(crate) forked: Option<Forked>,
    /// Requests of the node that asked last.
    pub(crate) asked: Option<Asked>,
    /// Caller who submitted the last new request, as its key proves it.
    pub(crate) submitter: Option<CallerId>,
    /// Last event of the fold. `None` before the first.
    last: Option<Recorded>,
}

impl Folded {
    /// Folds a log up to event `at`, or completely.
    pub(crate) async fn load(app: &AppState, id: ThreadId, at: Option<u64>) -> Result<Arc<Self>, ApiError> {
        let until = up_to(app, id, at).await?;
        Self::walk(app, id, until, until, |_| ()).await
    }

    /// Opens the log of a thread for an append, without reading again what is folded already.
    pub(crate) async fn open(app: &AppState, id: ThreadId) -> Result<ThreadLog, ApiError> {
        let head = app.parts.store.head(id).await?;
        let folded = Self::load(app, id, head.seq.checked_sub(1)).await?;
        let last = folded.last().ok_or(store::Error::UnknownThread(id))?;
        Ok(ThreadLog::folded_to(head, folded.thread.clone(), &last.event))
    }

    /// Folds a log up to event `until`, and calls `seen` after each event beyond `from`. Begins at the nearest fold that was
    /// kept, and keeps the result.
    ///
    /// Reads the log in pieces, so memory use does not grow with its length.
    pub(crate) async fn walk(
        app: &AppState,
        id: ThreadId,
        from: u64,
        until: u64,
        mut seen: impl FnMut(&Self),
    ) -> Result<Arc<Self>, ApiError> {
        let mut folded = app.folds.take(id, from);
        let begin = loop {
            let (mut is_same, begin) = (true, folded.as_ref().map_or(0, |folded| folded.seq()));
            let interval = ((until - begin) / CHECKPOINTS).max(CHECKPOINT_EVENTS);
            let each = |recorded: Recorded| {
                if let Some(folded) = folded.as_ref().filter(|folded| folded.seq() == recorded.seq) {
                    is_same = folded.last.as_ref() == Some(&recorded);
                    return Ok(if is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
                }
                let folded = match &mut folded {
                    Some(folded) => folded,
                    None => folded.insert(Arc::new(Self::new(graph(app, id, Some(&recorded.event))?))),
                };
                let seq = recorded.seq;
                // Copies the fold only if it is kept.
                Arc::make_mut(folded).apply(recorded)?;
                if from < seq {
                    seen(folded);
                }
                if seq.is_multiple_of(interval) && seq < until {
                    app.folds.keep(id, folded);
                }
                Ok::<_, ApiError>(ControlFlow::Continue(()))
            };
            app.parts.store.along_until(id, begin, Some(until), each).await?;
            if is_same {
                break begin;
            }
            // The thread was deleted, and another one was imported under its id.
            app.folds.forget(id);
            folded = None;
        };
        let folded = folded.ok_or(store::Error::UnknownThread(id))?;
        if begin < folded.seq() {
            app.folds.keep(id, &folded);
        }
        Ok(folded)
    }

    fn new(graph: &dyn Graph) -> Self {
        Self {
            thread: graph.begin(),
            in_doubt: BTreeSet::new(),
            forked: None,
            asked: None,
            submitter: None,
            last: None,
        }
    }

    /// Creates a fold that seems to end at event `seq`.
    #[cfg(test)]
    pub(super) fn at(seq: u64) -> Arc<Self> {
        let event = Event::Cancelled(shared::Cancelled { actor: String::new(), caller: None });
        Arc::new(Self { last: Some(Recorded { seq, at: 0, event }), ..Self::new(&strategies::probe::Probe) })
    }

    /// Returns the number of the last event of the fold.
    pub(crate) fn seq(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.seq)
    }

    /// Returns the last event of the fold.
    pub(crate) fn last(&self) -> Option<&Recorded> {
        self.last.as_ref()
    }

    /// Estimates the size in memory in bytes: that of the conversation and of the state of the strategy.
    ///
    /// The events themselves would be a poor estimate: most of their facts only change a number in the state.
    pub(super) fn bytes(&self) -> usize {
        let messages = self.thread.messages().iter().map(shared::Message::retained_bytes).sum::<usize>();
        messages + self.thread.state().map_or(0, |state| state.to_string().len())
    }

    /// Reports whether the fold ends with a cancelled turn.
    pub(crate) fn ends_cancelled(&self) -> bool {
        self.last.as_ref().is_some_and(|last| matches!(last.event, Event::Cancelled(_)))
    }

    /// Returns a request of the node that asked last.
    pub(crate) fn request(&self, slot: usize) -> Option<&Request> {
        self.asked.as_ref()?.requests.get(slot)
    }

    /// Folds the next event.
    fn apply(&mut self, recorded: Recorded) -> Result<(), ApiError> {
        self.thread.apply(&recorded.event).map_err(|err| invalid_log(&err))?;
        update_in_doubt(&mut self.in_doubt, &recorded.event);
        if let Event::Asked(asked) = &recorded.event {
            self.asked = Some(asked.clone());
        }
        if let Event::TurnStarted(started) = &recorded.event
            && started.kind == TurnKind::New
        {
            self.submitter = started.caller.clone();
        }
        if let Event::Forked(forked) = &recorded.event {
            self.forked = Some(forked.clone());
        }
        self.last = Some(recorded);
        Ok(())
    }

    /// Returns the result of a turn that ended with the last event. `first_message` is the turn's first message.
    fn outcome(&self, first_message: usize) -> Outcome {
        let thread = &*self.thread;
        let messages = thread.messages().iter().skip(first_message).map(Message::from).collect();
        let budget_exceeded = match self.last.as_ref().map(|last| &last.event) {
            Some(Event::Decided(decided)) => decided.budget_exceeded.map(BudgetExceeded::from),
            Some(_) | None => None,
        };
        Outcome {
            output: Some(Output { messages, reply: thread.reply().map(str::to_owned) }),
            interrupt: interrupt(thread, &self.in_doubt),
            usage: Some(Usage::from(thread.turn_usage())),
            budget_exceeded,
            thread_usage: *thread.usage(),
        }
    }
}

/// Result of a turn.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) output: Option<Output>,
    pub(crate) interrupt: Option<Interrupt>,
    pub(crate) usage: Option<Usage>,
    pub(crate) budget_exceeded: Option<BudgetExceeded>,
    /// Usage of all turns of the thread up to the end of this turn.
    pub(crate) thread_usage: UsageTotal,
}

/// Returns the strategy of a thread, and the results of those of these turns that have ended; `None` if none has ended. Reads
/// the log from the first of them to the last.
pub(crate) async fn outcomes(
    app: &AppState,
    id: ThreadId,
    turns: &[&Turn],
) -> Result<Option<(&'static str, BTreeMap<TurnId, Outcome>)>, ApiError> {
    let ended: BTreeMap<u64, &Turn> =
        turns.iter().filter_map(|turn| Some((turn.ended_seq?, *turn))).collect();
    let started: BTreeMap<u64, TurnId> =
        ended.values().filter_map(|turn| Some((turn.started_seq?, turn.id))).collect();
    let Some(last) = ended.keys().next_back() else { return Ok(None) };
    let first = started.keys().chain(ended.keys()).min().copied().unwrap_or_default();
    // The log begins with `opened`, which starts no turn.
    let before = first.saturating_sub(1);
    let (mut first_message, mut outcomes) = (BTreeMap::new(), BTreeMap::new());
    let seen = |folded: &Folded| {
        if let Some(turn) = started.get(&folded.seq()) {
            first_message.insert(*turn, folded.thread.messages().len());
        }
        if let Some(turn) = ended.get(&folded.seq()) {
            let first = first_message.get(&turn.id).copied().unwrap_or_default();
            outcomes.insert(turn.id, folded.outcome(first));
        }
    };
    let folded = Folded::walk(app, id, before, *last, seen).await?;
    Ok(Some((folded.thread.strategy(), outcomes)))
}

/// Returns the open question of a thread.
pub(crate) fn interrupt(thread: &dyn DynThread, in_doubt: &BTreeSet<usize>) -> Option<Interrupt> {
    match thread.status() {
        RunStatus::Waiting(interrupt) => {
            Some(Interrupt::new(&interrupt, thread.proposed_calls(), in_doubt.first().copied()))
        }
        RunStatus::Idle | RunStatus::Busy | RunStatus::Failed { .. } => None,
    }
}

/// Applies an event to the set of requests in doubt.
fn update_in_doubt(slots: &mut BTreeSet<usize>, event: &Event) {
    match event {
        Event::InDoubt(in_doubt) => drop(slots.insert(in_doubt.slot)),
        Event::Reconciled(reconciled) => drop(slots.remove(&reconciled.slot)),
        // Late outcomes.
        Event::TaskStarted(started) => drop(slots.remove(&started.slot)),
        Event::Answered(answered) => drop(slots.remove(&answered.slot)),
        Event::AttemptFailed(failed) => drop(slots.remove(&failed.slot)),
        Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::TurnStarted(_) => slots.clear(),
        Event::Opened(_)
        | Event::Attempted(_)
        | Event::Abandoned(_)
        | Event::InputRequired(_)
        | Event::InputProvided(_)
        | Event::Summarised(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Forked(_) => (),
    }
}

/// Returns the requested event, or the last one. Fails if the log has no such event yet.
pub(crate) async fn up_to(app: &AppState, id: ThreadId, at: Option<u64>) -> Result<u64, ApiError> {
    let last = app.parts.store.head(id).await?.seq - 1;
    match at {
        Some(at) if last < at => {
            Err(Kind::Invalid.because(format!("event {at} does not exist yet: the last event is {last}")))
        }
        Some(at) => Ok(at),
        None => Ok(last),
    }
}

/// Returns the graph that wrote the log of a thread.
pub(crate) async fn graph_of(app: &AppState, id: ThreadId) -> Result<&'static dyn Graph, ApiError> {
    let recorded = app.parts.store.events(id, None, 1).await?;
    graph(app, id, recorded.first().map(|recorded| &recorded.event))
}

fn graph(app: &AppState, id: ThreadId, first: Option<&Event>) -> Result<&'static dyn Graph, ApiError> {
    let Some(Event::Opened(opened)) = first else {
        return Err(Kind::Damaged.because(format!("the log of thread {id} does not start with `opened`")));
    };
    app.strategies.find(&opened.strategy).ok_or_else(|| {
        let known = app.strategies.names().join(", ");
        let detail = format!("this build has no strategy {:?}; it has: {known}", opened.strategy);
        Kind::Damaged.because(detail).hint("start a build of the API with this strategy")
    })
}

/// Creates the error for a log that cannot be folded.
pub(crate) fn invalid_log(error: &shared::InvalidLog) -> ApiError {
    tracing::error!(%error, "cannot fold a log");
    Kind::Damaged
        .because(format!("the log cannot be folded: {error}"))
        .hint("run `turnfold thread verify` to check the log")
}
