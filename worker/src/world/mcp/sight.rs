//! Which of a server's tools may be seen, and called, and where.

use std::collections::{BTreeMap, BTreeSet};

use shared::{Replay, Response, Tool, ToolCall, ToolOutput};

use super::{Server, Servers};

/// Which tools there are for somebody.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The only ones; all of them, if absent.
    pub allow: Option<BTreeSet<String>>,
    /// Those that are none.
    pub deny: BTreeSet<String>,
}

/// Which tools there are for single nodes: by strategy, by node.
pub type Nodes = BTreeMap<String, BTreeMap<String, Sight>>;

impl Sight {
    /// Whether this tool is one.
    pub(super) fn permits(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|it| it.contains(tool)) && !self.deny.contains(tool)
    }
}

impl Server {
    /// Whether a strategy has this tool: if none of its nodes is named, or one that is may see it.
    fn is_seen_in(&self, strategy: &str, tool: &str) -> bool {
        let named = self.nodes.get(strategy);
        self.sight.permits(tool) && named.is_none_or(|it| it.values().any(|it| it.permits(tool)))
    }

    /// Whether a node has this tool. One that is not named has those of its strategy: it may be the one that calls what
    /// another was offered.
    fn is_seen_at(&self, strategy: &str, node: &str, tool: &str) -> bool {
        let named = self.nodes.get(strategy).and_then(|it| it.get(node));
        self.is_seen_in(strategy, tool) && named.is_none_or(|it| it.permits(tool))
    }
}

impl Servers {
    /// Whether a node of a thread may be offered a tool. What is no MCP server keeps nothing from anybody.
    pub(in crate::world) fn offers(&self, thread: &dyn Replay, node: &str, server: &str, tool: &str) -> bool {
        let pool = self.pools.get(server);
        pool.is_none_or(|it| it.server.is_seen_at(thread.strategy(), node, tool))
    }

    /// The tools that a thread's strategy has.
    pub(super) fn seen(&self, server: &Server, thread: &dyn Replay, tools: Vec<Tool>) -> Vec<Tool> {
        tools.into_iter().filter(|it| server.is_seen_in(thread.strategy(), &it.name)).collect()
    }
}

/// Why a tool that the operator took away is not called.
pub(super) fn forbidden(name: &str, call: &ToolCall) -> Response {
    let words = format!("the operator does not let {} of {name} be called: do it in another way", call.name);
    Response::Output(ToolOutput::Refused(words))
}
