//! Nodes and edges of a strategy, and their diagram.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{event::Goto, strategy::Edge};

/// Map of a strategy: the entrances of a turn, and every node with its outgoing edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Nodes at which a turn may start.
    pub entrances: Vec<String>,
    /// Every node with its outgoing edges.
    pub edges: Vec<(String, Vec<Edge<String>>)>,
}

/// Edges that at least one log has taken.
pub type Walked = BTreeSet<(String, Edge<String>)>;

/// A node of a strategy: its name, and its request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: String,
    /// True if the node may ask a model.
    pub asks_model: bool,
    /// Template of the system prompt, if the node declares one.
    pub prompt: Option<&'static str>,
    /// Key of the strategy's configuration that names the model.
    pub model_key: &'static str,
}

impl Edge<String> {
    /// Returns the edge that a decision took.
    pub fn taken(to: &Goto) -> Self {
        match to {
            Goto::Node(node) => Edge::To(node.clone()),
            Goto::Interrupt(interrupt) => Edge::Ask(interrupt.resume.clone()),
            Goto::End => Edge::End,
        }
    }
}

/// Draws the map of a strategy as a Mermaid flowchart. With `walked`, edges outside that set are dashed.
///
/// Nodes whose names share the part before a dot are drawn together in a box.
pub fn map(topology: &Topology, walked: Option<&Walked>) -> String {
    let mut out = String::from("flowchart TD\n");
    let id = |node: &str| node.replace('.', "_");
    let mut parts = BTreeMap::<&str, String>::new();
    for (node, _) in &topology.edges {
        if let Some((part, _)) = node.split_once('.') {
            *parts.entry(part).or_default() += &format!("        {}[{node}]\n", id(node));
        }
    }
    for (part, nodes) in parts {
        let _ = writeln!(out, "    subgraph {part}\n{nodes}    end");
    }
    for entrance in &topology.entrances {
        let _ = writeln!(out, "    start([turn started]) --> {}", id(entrance));
    }
    for (from, edges) in &topology.edges {
        for edge in edges {
            let known = walked.is_none_or(|edges| edges.contains(&(from.clone(), edge.clone())));
            let line = if known { "-->" } else { "-.->" };
            let _ = match edge {
                Edge::To(to) => writeln!(out, "    {} {line} {}", id(from), id(to)),
                Edge::Ask(to) => writeln!(out, "    {} {line}|asks a person| {}", id(from), id(to)),
                Edge::End => writeln!(out, "    {} {line} finish([end])", id(from)),
            };
        }
    }
    out
}
