//! The measured strategy: a sequence of nodes, each of which records a few hundred bytes. Either every node makes a
//! request, or none does.

use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{
    DynThread, Edge, Edges, Event, Graph, Message, Next, Node, Opened, Policy, Simulate, Simulation, Step,
    Strategy, Thread, Transition,
};
use uuid::Uuid;

/// Bytes that a node records. With its other fields an event has about 500.
const WORDS: usize = 430;

/// A strategy that walks through its nodes.
pub(crate) struct Walk;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeName {
    Step,
    /// Makes a request first.
    Asked,
}

/// Configuration of a walk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// Number of nodes in a turn.
    pub(crate) steps: u32,
    /// True if every node makes a request.
    #[serde(default)]
    pub(crate) asks: bool,
}

impl Config {
    fn node(self) -> NodeName {
        if self.asks { NodeName::Asked } else { NodeName::Step }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { steps: 10, asks: false }
    }
}

/// Progress of the walk.
#[derive(Clone, Default, Serialize)]
pub(crate) struct State {
    taken: u32,
}

/// The fact that a node records.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fact {
    words: String,
}

impl Strategy for Walk {
    const NAME: &'static str = "walk";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "takes steps that are measured";
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::Step, &[Edge::To(NodeName::Step), Edge::End]),
        (NodeName::Asked, &[Edge::To(NodeName::Asked), Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::Step, NodeName::Asked];

    fn enter(thread: &Thread<Self>) -> NodeName {
        thread.config.node()
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::Step => &OneStep,
            NodeName::Asked => &OneAsked,
        }
    }

    fn evolve(state: &mut State, _: &Fact) {
        state.taken += 1;
    }

    fn begin_turn(state: &mut State) {
        state.taken = 0;
    }
}

struct OneStep;

impl Node<Walk> for OneStep {
    type Effect = ();

    fn ask(&self, _: &Thread<Walk>) {}

    fn learn(&self, thread: &Thread<Walk>, (): ()) -> Transition<Walk> {
        go_on(thread)
    }
}

struct OneAsked;

impl Node<Walk> for OneAsked {
    type Effect = Simulate;

    fn ask(&self, _: &Thread<Walk>) -> Simulate {
        Simulate(Simulation::default())
    }

    fn learn(&self, thread: &Thread<Walk>, _: String) -> Transition<Walk> {
        go_on(thread)
    }
}

fn go_on(thread: &Thread<Walk>) -> Transition<Walk> {
    let taken = thread.state.taken + 1;
    let go_on =
        if taken < thread.config.steps { Transition::to(thread.config.node()) } else { Transition::end() };
    go_on.learn(Fact { words: words(taken) })
}

/// Words that differ from step to step, and that do not compress well.
fn words(step: u32) -> String {
    const SOME: [&str; 16] = [
        "calendar",
        "Tuesday",
        "the",
        "invoice",
        "moved",
        "because",
        "of",
        "a",
        "meeting",
        "which",
        "nobody",
        "had",
        "announced",
        "to",
        "her",
        "team",
    ];
    let mut seed = step;
    let mut words = String::with_capacity(WORDS + 16);
    while words.len() < WORDS {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        words.push_str(SOME[(seed >> 28) as usize]);
        words.push(' ');
    }
    words
}

/// The opening of a thread whose turns have this configuration.
pub(crate) fn opened(config: Config) -> Opened {
    Opened {
        format: shared::FORMAT,
        strategy: Walk::NAME.to_owned(),
        version: Walk::VERSION,
        config: serde_json::json!(config),
        servers: Default::default(),
        actor: "bench".to_owned(),
        budget: Default::default(),
        context: Default::default(),
        tenant: shared::DEFAULT_TENANT.to_owned(),
        caller: None,
    }
}

/// The message of a turn.
pub(crate) fn input() -> Vec<Message> {
    vec![Message::user("Walk.")]
}

/// The whole log of a thread with one turn that makes no requests.
pub(crate) fn log(steps: u32) -> Result<Vec<Event>> {
    let mut thread = (&Walk as &dyn Graph).begin();
    let mut log = vec![Event::from(opened(Config { steps, asks: false }))];
    thread.apply(&log[0])?;
    let heard =
        thread.accept_message(Uuid::from_u128(1), "bench", "2026-01-01T00:00:00Z", Policy::Auto, input());
    let heard = heard.context("an idle thread accepts a turn")?;
    thread.apply(&heard)?;
    log.push(heard);
    while let Some(event) = next(&*thread)? {
        thread.apply(&event)?;
        log.push(event);
    }
    Ok(log)
}

/// The whole log of a thread with this many turns of ten steps that make no requests.
pub(crate) fn long_log(turns: u64) -> Result<Vec<Event>> {
    let mut thread = (&Walk as &dyn Graph).begin();
    let mut log = vec![Event::from(opened(Config { steps: 10, asks: false }))];
    thread.apply(&log[0])?;
    for _ in 0..turns {
        let started = thread
            .accept_message(Uuid::now_v7(), "bench", "2026-01-01T00:00:00Z", Policy::Auto, input())
            .context("an idle thread accepts a turn")?;
        thread.apply(&started)?;
        log.push(started);
        while let Some(event) = next(&*thread)? {
            thread.apply(&event)?;
            log.push(event);
        }
    }
    Ok(log)
}

/// The next event of a thread that makes no requests; `None` if the thread is idle.
pub(crate) fn next(thread: &dyn DynThread) -> Result<Option<Event>> {
    match thread.next()? {
        Next::Append(event) => Ok(Some(event)),
        Next::Wait => Ok(None),
        Next::Perform(due) => anyhow::bail!("a walk asks nothing of the world, and this one asks {due:?}"),
    }
}
