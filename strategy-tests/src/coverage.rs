//! Coverage of a strategy by logs: nodes, edges, errors, kinds of events and versions.

use std::collections::BTreeSet;

use serde::Serialize;
use shared::{Edge, Event, FORMAT, Graph, InputResponse, Response, SUMMARISE_NODE, Scope, ToolOutput};

use crate::{
    generic::{edge_text, edges, taken_edge},
    suite::{Broken, Suite},
};

/// One thing that a log can cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A node of the graph.
    Node(String),
    /// An edge, with the node that it leaves.
    Edge(String, Edge<String>),
    /// A kind of error.
    Trouble(&'static str),
    /// A kind of event, and a version of the log format.
    Event(&'static str, u32),
    /// A version of the strategy.
    Version(u32),
}

/// Groups of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Nodes of the graph.
    Nodes,
    /// Edges of the graph.
    Edges,
    /// Kinds of errors.
    Errors,
    /// Kinds of events.
    Events,
    /// Versions of the strategy.
    Versions,
}

/// Errors that can happen in every strategy.
const TROUBLES: &[&str] = &[
    ATTEMPT_RETRIED,
    ATTEMPT_FAILED,
    GAVE_UP,
    FAILED,
    CANCELLED,
    DOUBTED,
    DECLINED,
    TOOL_ERROR,
    TOOL_REFUSED,
    TURN_SPENT,
    THREAD_SPENT,
];

const ATTEMPT_RETRIED: &str = "an attempt failed and was retried";
const ATTEMPT_FAILED: &str = "an attempt failed and was not retried";
const GAVE_UP: &str = "a request was abandoned";
const FAILED: &str = "a node failed";
const CANCELLED: &str = "a turn was cancelled";
const DOUBTED: &str = "a write was in doubt";
const DECLINED: &str = "a person declined to give input";
const TOOL_ERROR: &str = "a tool returned an error";
const TOOL_REFUSED: &str = "arguments did not fit a tool";
const TURN_SPENT: &str = "the budget of a turn was spent";
const THREAD_SPENT: &str = "the budget of a thread was spent";

impl Point {
    /// The group that the point belongs to.
    pub fn aspect(&self) -> Aspect {
        match self {
            Point::Node(_) => Aspect::Nodes,
            Point::Edge(..) => Aspect::Edges,
            Point::Trouble(_) => Aspect::Errors,
            Point::Event(..) => Aspect::Events,
            Point::Version(_) => Aspect::Versions,
        }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Point::Node(name) => write!(f, "{name}"),
            Point::Edge(from, to) => write!(f, "{}", edge_text(from, to)),
            Point::Trouble(what) => write!(f, "{what}"),
            Point::Event(kind, format) => write!(f, "{kind} v{format}"),
            Point::Version(version) => write!(f, "v{version}"),
        }
    }
}

/// All points that logs of a strategy can cover.
pub fn known(graph: &'static dyn Graph) -> BTreeSet<Point> {
    let nodes = graph.topology().edges.into_iter().map(|(node, _)| Point::Node(node));
    let edges = edges(graph).into_iter().map(|(from, to)| Point::Edge(from, to));
    let troubles = TROUBLES.iter().map(|trouble| Point::Trouble(trouble));
    let events = Event::KINDS.iter().flat_map(|kind| (1..=FORMAT).map(|format| Point::Event(kind, format)));
    let versions = (1..=graph.version()).map(Point::Version);
    nodes.chain(edges).chain(troubles).chain(events).chain(versions).collect()
}

/// Points covered by one log, read event by event.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Name of the strategy; `None` before `opened`.
    pub strategy: Option<String>,
    /// Number of events read.
    pub events: usize,
    /// The covered points.
    pub points: BTreeSet<Point>,
    pub(crate) format: u32,
}

impl Seen {
    /// Reads the next event.
    pub fn observe(&mut self, event: &Event) {
        self.events += 1;
        if let Event::Opened(opened) = event {
            self.strategy = Some(opened.strategy.clone());
            self.format = opened.format;
            self.points.insert(Point::Version(opened.version));
        }
        self.points.insert(Point::Event(event.kind(), self.format));
        self.points.extend(taken_edge(event).map(|(from, to)| Point::Edge(from, to)));
        self.points.extend(trouble(event).map(Point::Trouble));
        let node = match event {
            // The engine's own node is on no strategy's map.
            Event::Asked(asked) if asked.node == SUMMARISE_NODE => None,
            Event::Asked(asked) => Some(&asked.node),
            Event::Decided(decided) => Some(&decided.node),
            Event::Failed(failed) => Some(&failed.node),
            Event::Opened(_)
            | Event::TurnStarted(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Summarised(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => None,
        };
        self.points.extend(node.cloned().map(Point::Node));
    }
}

fn trouble(event: &Event) -> Option<&'static str> {
    match event {
        Event::AttemptFailed(failed) if failed.retry_after_ms.is_none() => Some(ATTEMPT_FAILED),
        Event::AttemptFailed(_) => Some(ATTEMPT_RETRIED),
        Event::Abandoned(_) => Some(GAVE_UP),
        Event::Failed(_) => Some(FAILED),
        Event::Cancelled(_) => Some(CANCELLED),
        Event::InDoubt(_) => Some(DOUBTED),
        Event::InputProvided(provided) if !matches!(provided.response, InputResponse::Accept(_)) => {
            Some(DECLINED)
        }
        Event::Answered(answered) => match &answered.response {
            Response::Output(ToolOutput::Error(_)) => Some(TOOL_ERROR),
            Response::Output(ToolOutput::Refused(_)) => Some(TOOL_REFUSED),
            Response::Output(ToolOutput::Ok(_))
            | Response::Reply(_)
            | Response::Tools { .. }
            | Response::ToolsUnchanged
            | Response::OutputWithExtras { .. }
            | Response::Working { .. }
            | Response::InputRequired { .. }
            | Response::Prompts { .. }
            | Response::Prompt { .. }
            | Response::Described(_)
            | Response::SearchResults { .. }
            | Response::Indexed { .. }
            | Response::Echo { .. }
            | Response::Unavailable { .. } => None,
        },
        Event::Decided(decided) => decided.budget_exceeded.map(|spent| match spent.scope {
            Scope::Turn => TURN_SPENT,
            Scope::Thread => THREAD_SPENT,
        }),
        Event::Opened(_)
        | Event::TurnStarted(_)
        | Event::Asked(_)
        | Event::Attempted(_)
        | Event::Reconciled(_)
        | Event::TaskStarted(_)
        | Event::InputRequired(_)
        | Event::InputProvided(_)
        | Event::Summarised(_)
        | Event::Retried(_)
        | Event::WriteEnded(_)
        | Event::Forked(_)
        | Event::TakenOver(_)
        | Event::Rated(_) => None,
    }
}

/// Coverage of a strategy by its fixtures.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Number of fixtures.
    pub fixtures: usize,
    /// All points that can be covered.
    pub known: BTreeSet<Point>,
    /// Points that the fixtures cover.
    pub seen: BTreeSet<Point>,
}

impl Coverage {
    /// Coverage of a strategy without fixtures.
    pub fn none(graph: &'static dyn Graph) -> Self {
        Self { strategy: graph.name(), fixtures: 0, known: known(graph), seen: BTreeSet::new() }
    }

    /// Computes the coverage of a suite.
    ///
    /// # Errors
    ///
    /// [`Broken`] if today's code rejects a fixture.
    pub fn of(suite: &Suite) -> Result<Self, Broken> {
        let mut coverage = Self { fixtures: suite.fixtures.len(), ..Self::none(suite.graph) };
        for fixture in &suite.fixtures {
            let mut seen = Seen::default();
            suite.rerun(fixture)?.log.iter().for_each(|event| seen.observe(event));
            coverage.seen.extend(seen.points.into_iter().filter(|point| coverage.known.contains(point)));
        }
        Ok(coverage)
    }

    /// Number of covered points of an aspect, and number of all its points.
    pub fn count(&self, aspect: Aspect) -> (usize, usize) {
        let count = |points: &BTreeSet<Point>| points.iter().filter(|point| point.aspect() == aspect).count();
        (count(&self.seen), count(&self.known))
    }

    /// Points that no fixture covers.
    pub fn unseen(&self) -> impl Iterator<Item = &Point> {
        self.known.difference(&self.seen)
    }
}
