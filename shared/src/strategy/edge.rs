//! Edges of a graph.

/// Edge from a node to the next place of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge<P> {
    /// To this node.
    To(P),
    /// To a person. This node receives the answer.
    Ask(P),
    /// To the end of the turn.
    End,
}

/// Every node with its outgoing edges.
pub type Edges<P> = &'static [(P, &'static [Edge<P>])];
