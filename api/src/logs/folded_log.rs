//! Folds of logs, complete or up to an event.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{BudgetExceeded, Interrupt, Message, Output, Usage};
use shared::{DynThread, Event, Forked, Graph, RunStatus, UsageTotal};
use store::{Recorded, ThreadId, Turn, TurnId};

use crate::server::{
    problem::{ApiError, Kind},
    state::AppState,
};

/// A log with the graph that wrote it.
pub(crate) struct Log {
    pub(crate) graph: &'static dyn Graph,
    pub(crate) recorded: Vec<Recorded>,
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

impl Log {
    pub(crate) async fn load(app: &AppState, thread: ThreadId) -> Result<Self, ApiError> {
        let (_, recorded) = app.parts.store.load(thread).await?;
        let graph = graph(app, thread, &recorded)?;
        Ok(Self { graph, recorded })
    }

    /// Returns the origin of a forked thread.
    pub(crate) fn forked(&self) -> Option<&Forked> {
        self.recorded
            .iter()
            .rev()
            .find_map(|it| if let Event::Forked(forked) = &it.event { Some(forked) } else { None })
    }

    /// Reports whether the last turn was cancelled.
    pub(crate) fn ends_cancelled(&self) -> bool {
        self.recorded.last().is_some_and(|it| matches!(it.event, Event::Cancelled(_)))
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> u64 {
        u64::try_from(self.recorded.len()).unwrap_or(u64::MAX)
    }

    /// Folds all events.
    pub(crate) fn thread(&self) -> Result<Box<dyn DynThread>, ApiError> {
        let log = self.recorded.iter().map(|it| &it.event);
        self.graph.fold(log).map_err(|err| invalid_log(&err))
    }

    /// Returns the result of each of these turns that has ended.
    pub(crate) fn outcomes(&self, turns: &[&Turn]) -> Result<BTreeMap<TurnId, Outcome>, ApiError> {
        let started: BTreeMap<u64, TurnId> =
            turns.iter().filter_map(|turn| Some((turn.started_seq?, turn.id))).collect();
        let ended: BTreeMap<u64, &Turn> =
            turns.iter().filter_map(|turn| Some((turn.ended_seq?, *turn))).collect();
        let Some(last) = ended.keys().next_back() else { return Ok(BTreeMap::new()) };
        let mut thread = self.graph.begin();
        let (mut first_message, mut outcomes) = (BTreeMap::new(), BTreeMap::new());
        for it in self.recorded.iter().take_while(|it| it.seq <= *last) {
            thread.apply(&it.event).map_err(|err| invalid_log(&err))?;
            if let Some(turn) = started.get(&it.seq) {
                first_message.insert(*turn, thread.messages().len());
            }
            if let Some(turn) = ended.get(&it.seq) {
                let first = first_message.get(&turn.id).copied().unwrap_or_default();
                outcomes.insert(turn.id, self.outcome(turn, &*thread, first, &it.event));
            }
        }
        Ok(outcomes)
    }

    fn outcome(&self, turn: &Turn, thread: &dyn DynThread, first_message: usize, last: &Event) -> Outcome {
        let messages = thread.messages().iter().skip(first_message).map(Message::from).collect();
        let output = Some(Output { messages, reply: thread.reply().map(str::to_owned) });
        let interrupt = interrupt(thread, || self.in_doubt(turn.ended_seq));
        let budget_exceeded =
            if let Event::Decided(it) = last { it.budget_exceeded.map(BudgetExceeded::from) } else { None };
        let (usage, thread_usage) = (Some(Usage::from(thread.turn_usage())), *thread.usage());
        Outcome { output, interrupt, usage, budget_exceeded, thread_usage }
    }

    /// Returns the slots of the requests that are in doubt after event `at`; none means the last event.
    pub(crate) fn in_doubt(&self, at: Option<u64>) -> BTreeSet<usize> {
        let until = at.unwrap_or(u64::MAX);
        in_doubt(self.recorded.iter().take_while(|it| it.seq <= until).map(|it| &it.event))
    }
}

/// A thread folded up to an event of its log.
pub(crate) struct Folded {
    /// Last event of the fold.
    pub(crate) seq: u64,
    pub(crate) thread: Box<dyn DynThread>,
    /// Slots of the requests that are in doubt.
    pub(crate) in_doubt: BTreeSet<usize>,
}

impl Folded {
    /// Folds a log up to event `at`, or completely. Reads the log in pieces, so memory use does not grow with its length.
    pub(crate) async fn load(app: &AppState, id: ThreadId, at: Option<u64>) -> Result<Self, ApiError> {
        let seq = up_to(app, id, at).await?;
        let mut folded = Self { seq, thread: graph_of(app, id).await?.begin(), in_doubt: BTreeSet::new() };
        let each = |it: Recorded| {
            update_in_doubt(&mut folded.in_doubt, &it.event);
            folded.thread.apply(&it.event).map_err(|err| invalid_log(&err))
        };
        app.parts.store.along(id, 0, Some(seq), each).await?;
        Ok(folded)
    }
}

/// Returns the open question of a thread.
pub(crate) fn interrupt(
    thread: &dyn DynThread,
    in_doubt: impl FnOnce() -> BTreeSet<usize>,
) -> Option<Interrupt> {
    match thread.status() {
        RunStatus::Waiting(it) => {
            Some(Interrupt::new(&it, thread.proposed_calls(), in_doubt().first().copied()))
        }
        RunStatus::Idle | RunStatus::Busy | RunStatus::Failed { .. } => None,
    }
}

fn in_doubt<'a>(log: impl Iterator<Item = &'a Event>) -> BTreeSet<usize> {
    log.fold(BTreeSet::new(), |mut slots, event| {
        update_in_doubt(&mut slots, event);
        slots
    })
}

/// Applies an event to the set of requests in doubt.
fn update_in_doubt(slots: &mut BTreeSet<usize>, event: &Event) {
    match event {
        Event::InDoubt(it) => drop(slots.insert(it.slot)),
        Event::Reconciled(it) => drop(slots.remove(&it.slot)),
        // Late outcomes.
        Event::TaskStarted(it) => drop(slots.remove(&it.slot)),
        Event::Answered(it) => drop(slots.remove(&it.slot)),
        Event::AttemptFailed(it) => drop(slots.remove(&it.slot)),
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
    graph(app, id, &app.parts.store.events(id, None, 1).await?)
}

fn graph(app: &AppState, thread: ThreadId, recorded: &[Recorded]) -> Result<&'static dyn Graph, ApiError> {
    let Some(Event::Opened(opened)) = recorded.first().map(|it| &it.event) else {
        return Err(Kind::Damaged.because(format!("the log of thread {thread} does not start with `opened`")));
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
