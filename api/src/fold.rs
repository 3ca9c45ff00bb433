//! What a log says: the fold of it, whole or up to some event.

use std::collections::{BTreeMap, BTreeSet};

use shared::{Event, Forked, Graph, Replay, Standing, Tally};
use store::{Recorded, ThreadId, Turn, TurnId};

use crate::{
    house::House,
    problem::{Kind, Problem},
    schema::{Interrupt, Message, Output, Spent, Took},
};

/// A log, and the graph that wrote it.
pub(crate) struct Log {
    pub(crate) graph: &'static dyn Graph,
    pub(crate) recorded: Vec<Recorded>,
}

/// What came of a turn.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) output: Option<Output>,
    pub(crate) interrupt: Option<Interrupt>,
    pub(crate) took: Option<Took>,
    pub(crate) spent: Option<Spent>,
    /// What all turns of the thread took by then.
    pub(crate) thread_took: Tally,
}

impl Log {
    pub(crate) async fn load(house: &House, thread: ThreadId) -> Result<Self, Problem> {
        let (_, recorded) = house.parts.store.load(thread).await?;
        let graph = graph(house, thread, &recorded)?;
        Ok(Self { graph, recorded })
    }

    /// What it begins with a copy of, if it was forked.
    pub(crate) fn forked(&self) -> Option<&Forked> {
        self.recorded
            .iter()
            .rev()
            .find_map(|it| if let Event::Forked(it) = &it.event { Some(it) } else { None })
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> u64 {
        u64::try_from(self.recorded.len()).unwrap_or(u64::MAX)
    }

    /// The thread after all of them.
    pub(crate) fn thread(&self) -> Result<Box<dyn Replay>, Problem> {
        let log = self.recorded.iter().map(|it| &it.event);
        self.graph.replay(log).map_err(|err| corrupt(&err))
    }

    /// What came of each of these turns that has ended.
    pub(crate) fn outcomes(&self, turns: &[&Turn]) -> Result<BTreeMap<TurnId, Outcome>, Problem> {
        let heard: BTreeMap<u64, TurnId> =
            turns.iter().filter_map(|it| Some((it.heard_seq?, it.id))).collect();
        let ended: BTreeMap<u64, &Turn> = turns.iter().filter_map(|it| Some((it.ended_seq?, *it))).collect();
        let Some(last) = ended.keys().next_back() else { return Ok(BTreeMap::new()) };
        let mut thread = self.graph.begin();
        let (mut from, mut outcomes) = (BTreeMap::new(), BTreeMap::new());
        for it in self.recorded.iter().take_while(|it| it.seq <= *last) {
            thread.apply(&it.event).map_err(|err| corrupt(&err))?;
            if let Some(turn) = heard.get(&it.seq) {
                from.insert(*turn, thread.messages().len());
            }
            if let Some(turn) = ended.get(&it.seq) {
                let from = from.get(&turn.id).copied().unwrap_or_default();
                outcomes.insert(turn.id, self.outcome(turn, &*thread, from, &it.event));
            }
        }
        Ok(outcomes)
    }

    fn outcome(&self, turn: &Turn, thread: &dyn Replay, from: usize, last: &Event) -> Outcome {
        let messages = thread.messages().iter().skip(from).map(Message::from).collect();
        let output = Some(Output { messages, reply: thread.reply().map(str::to_owned) });
        let interrupt = interrupt(&thread.standing(), || self.doubted(turn.ended_seq));
        let spent = if let Event::Decided(it) = last { it.spent.map(Spent::from) } else { None };
        let (took, thread_took) = (Some(Took::from(thread.turn_took())), *thread.took());
        Outcome { output, interrupt, took, spent, thread_took }
    }

    /// The requests that are in doubt after event `at`.
    pub(crate) fn doubted(&self, at: Option<u64>) -> BTreeSet<usize> {
        let until = at.unwrap_or(u64::MAX);
        doubted(self.recorded.iter().take_while(|it| it.seq <= until).map(|it| &it.event))
    }
}

/// A thread after some event of its log.
pub(crate) struct Folded {
    /// The number of that event.
    pub(crate) seq: u64,
    pub(crate) thread: Box<dyn Replay>,
    /// The requests that were in doubt.
    pub(crate) doubted: BTreeSet<usize>,
}

impl Folded {
    /// After event `at`, or after the last; however long the log is, little of it is held.
    pub(crate) async fn load(house: &House, id: ThreadId, at: Option<u64>) -> Result<Self, Problem> {
        let seq = up_to(house, id, at).await?;
        let mut folded = Self { seq, thread: graph_of(house, id).await?.begin(), doubted: BTreeSet::new() };
        let each = |it: Recorded| {
            doubt(&mut folded.doubted, &it.event);
            folded.thread.apply(&it.event).map_err(|err| corrupt(&err))
        };
        house.parts.store.along(id, 0, Some(seq), each).await?;
        Ok(folded)
    }
}

/// The question of a thread that waits for a person.
pub(crate) fn interrupt(standing: &Standing, doubted: impl FnOnce() -> BTreeSet<usize>) -> Option<Interrupt> {
    match standing {
        Standing::Waiting(it) => Some(Interrupt::new(it, doubted().first().copied())),
        Standing::Idle | Standing::Busy | Standing::Failed { .. } => None,
    }
}

/// The requests that a log leaves in doubt.
fn doubted<'a>(log: impl Iterator<Item = &'a Event>) -> BTreeSet<usize> {
    log.fold(BTreeSet::new(), |mut slots, event| {
        doubt(&mut slots, event);
        slots
    })
}

/// What an event makes of the requests that are in doubt.
fn doubt(slots: &mut BTreeSet<usize>, event: &Event) {
    match event {
        Event::Doubted(it) => drop(slots.insert(it.slot)),
        Event::Reconciled(it) => drop(slots.remove(&it.slot)),
        Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::Heard(_) => slots.clear(),
        Event::Opened(_)
        | Event::Attempted(_)
        | Event::Answered(_)
        | Event::Faltered(_)
        | Event::GaveUp(_)
        | Event::Wanted(_)
        | Event::Supplied(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Forked(_) => (),
    }
}

/// The number of the event that is asked for, or of the last.
pub(crate) async fn up_to(house: &House, id: ThreadId, at: Option<u64>) -> Result<u64, Problem> {
    let last = house.parts.store.head(id).await?.seq - 1;
    match at {
        Some(at) if last < at => {
            Err(Kind::Invalid.because(format!("there is no event {at} yet: the last is {last}")))
        }
        Some(at) => Ok(at),
        None => Ok(last),
    }
}

/// The graph that wrote the log of a thread.
pub(crate) async fn graph_of(house: &House, id: ThreadId) -> Result<&'static dyn Graph, Problem> {
    graph(house, id, &house.parts.store.events(id, None, 1).await?)
}

fn graph(house: &House, thread: ThreadId, recorded: &[Recorded]) -> Result<&'static dyn Graph, Problem> {
    let Some(Event::Opened(opened)) = recorded.first().map(|it| &it.event) else {
        return Err(Kind::Damaged.because(format!("the log of thread {thread} has no beginning")));
    };
    house.strategies.find(&opened.strategy).ok_or_else(|| {
        let known = house.strategies.names().join(", ");
        let words = format!("no strategy is called {:?} here; known: {known}", opened.strategy);
        Kind::Damaged.because(words).mend("start an api that knows the strategy")
    })
}

pub(crate) fn corrupt(error: &shared::Corrupt) -> Problem {
    tracing::error!(%error, "a log cannot be folded");
    Kind::Damaged
        .because(format!("the log cannot be folded: {error}"))
        .mend("`turnfold thread verify` tells more")
}
