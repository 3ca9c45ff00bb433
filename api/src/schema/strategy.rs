//! A strategy, as somebody who wants to use it sees it.

use serde::Serialize;
use serde_json::Value;
use shared::{Edge, Graph};
use utoipa::ToSchema;

/// A strategy in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StrategyLine {
    /// Its name.
    #[schema(examples("probe"))]
    name: &'static str,
    /// Its version: raised when old logs would be continued differently.
    version: u32,
    /// What it is for, in one line.
    #[schema(examples("exercises the engine without a model: waits, asks, falters, fails, calls, streams"))]
    about: &'static str,
}

impl From<&dyn Graph> for StrategyLine {
    fn from(it: &dyn Graph) -> Self {
        Self { name: it.name(), version: it.version(), about: it.about() }
    }
}

/// All strategies.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StrategyPage {
    /// The strategies, by name.
    pub(crate) data: Vec<StrategyLine>,
    /// Never: there are few.
    pub(crate) has_more: bool,
}

/// A strategy with its shape and what may be tuned.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StrategyView {
    #[serde(flatten)]
    line: StrategyLine,
    /// Its configuration where nobody tunes it.
    defaults: Value,
    /// The JSON Schema of its configuration.
    config_schema: Value,
    /// The nodes at which a turn may start.
    entrances: Vec<String>,
    /// Every node.
    nodes: Vec<String>,
    /// Where control may go from each.
    edges: Vec<StrategyEdge>,
}

/// Where control may go from a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StrategyEdge {
    /// From this node.
    #[schema(examples("read"))]
    from: String,
    /// To another node, to a person, or nowhere.
    kind: EdgeKind,
    /// The node that follows, or that hears the answer.
    #[schema(examples("step"))]
    to: Option<String>,
}

/// What kind of way it is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EdgeKind {
    /// To another node.
    To,
    /// To a person, whose answer is heard there.
    Ask,
    /// Nowhere: the turn is over.
    End,
}

impl From<&dyn Graph> for StrategyView {
    fn from(it: &dyn Graph) -> Self {
        let topology = it.topology();
        let edges =
            topology.edges.iter().flat_map(|(from, edges)| edges.iter().map(move |to| edge(from, to)));
        Self {
            line: it.into(),
            defaults: it.defaults(),
            config_schema: it.config_schema(),
            edges: edges.collect(),
            nodes: topology.edges.iter().map(|(node, _)| node.clone()).collect(),
            entrances: topology.entrances,
        }
    }
}

fn edge(from: &str, edge: &Edge<String>) -> StrategyEdge {
    let (kind, to) = match edge {
        Edge::To(node) => (EdgeKind::To, Some(node.clone())),
        Edge::Ask(node) => (EdgeKind::Ask, Some(node.clone())),
        Edge::End => (EdgeKind::End, None),
    };
    StrategyEdge { from: from.to_owned(), kind, to }
}
