//! Filters: the tools of a server that are visible and callable, by strategy and node.

use std::collections::{BTreeMap, BTreeSet};

use shared::{DynThread, Response, Tool, ToolCall, ToolOutput};

use super::{Server, Servers};

/// Allow list and deny list of tools.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    /// Visible tools; all, if absent.
    pub allow: Option<BTreeSet<String>>,
    /// Hidden tools; takes precedence over `allow`.
    pub deny: BTreeSet<String>,
}

/// Filters for single nodes, by strategy and node.
pub type NodeToolFilters = BTreeMap<String, BTreeMap<String, ToolFilter>>;

impl ToolFilter {
    /// Returns true if the tool is visible.
    pub(super) fn permits(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool)) && !self.deny.contains(tool)
    }
}

impl Server {
    /// Returns true if a strategy sees the tool: none of its nodes has a filter, or at least one of those that have
    /// permits the tool.
    fn is_visible_to_strategy(&self, strategy: &str, tool: &str) -> bool {
        let named = self.node_tool_filters.get(strategy);
        self.tool_filter.permits(tool)
            && named.is_none_or(|filters| filters.values().any(|filter| filter.permits(tool)))
    }

    /// Returns true if a strategy sees no tool of the server, whatever their names. It then need not wait for the server.
    pub(super) fn is_hidden_from_strategy(&self, strategy: &str) -> bool {
        let hides_all = |filter: &ToolFilter| filter.allow.as_ref().is_some_and(BTreeSet::is_empty);
        let named = self.node_tool_filters.get(strategy);
        hides_all(&self.tool_filter) || named.is_some_and(|filters| filters.values().all(hides_all))
    }

    /// Returns true if a node sees the tool. A node without a filter sees the tools of its strategy: it may call what
    /// another node offered.
    fn is_visible_to_node(&self, strategy: &str, node: &str, tool: &str) -> bool {
        let named = self.node_tool_filters.get(strategy).and_then(|filters| filters.get(node));
        self.is_visible_to_strategy(strategy, tool) && named.is_none_or(|filter| filter.permits(tool))
    }
}

impl Servers {
    /// Returns true if a node of a thread may be offered a tool. HTTP commands are never filtered.
    pub(crate) fn is_offered(&self, thread: &dyn DynThread, node: &str, server: &str, tool: &str) -> bool {
        let pool = self.pools.get(server);
        pool.is_none_or(|pool| pool.server.is_visible_to_node(thread.strategy(), node, tool))
    }

    /// Returns the tools visible to a thread's strategy.
    pub(super) fn visible_tools(
        &self,
        server: &Server,
        thread: &dyn DynThread,
        tools: Vec<Tool>,
    ) -> Vec<Tool> {
        let tools = server.with_read_backs(tools);
        tools.into_iter().filter(|it| server.is_visible_to_strategy(thread.strategy(), &it.name)).collect()
    }
}

/// Response to the call of a tool that the operator has disabled.
pub(super) fn forbidden(name: &str, call: &ToolCall) -> Response {
    let message = format!("the operator has disabled {} of {name}; use another way", call.name);
    Response::Output(ToolOutput::Refused(message))
}
