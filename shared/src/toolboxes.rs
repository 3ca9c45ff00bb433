//! Toolboxes of a client: each list of its tools that a thread received, once.

use std::sync::Arc;

use crate::{client_tools::ClientTool, event::TurnStarted, reply_options::ReplyOptions};

/// Toolboxes of a client, in the order in which its turns carried them.
///
/// ## Why the log names them by number
///
/// Clients send all of their tools with every request, and a conversation has many. The log has each list once, so it grows with
/// what is said.
#[derive(Clone, Debug, Default)]
pub struct Toolboxes(Vec<Arc<[ClientTool]>>);

impl Toolboxes {
    /// Returns the number of the toolbox with these tools; `None` if there is none, or no tool.
    pub fn number_of(&self, tools: &[ClientTool]) -> Option<usize> {
        self.0.iter().position(|known| !tools.is_empty() && **known == *tools)
    }

    /// Returns the demands of a turn with all of its tools, and keeps its toolbox. `None` if the turn makes no demands.
    pub fn options_of(&mut self, started: &TurnStarted) -> Option<ReplyOptions> {
        let mut options = started.reply_options.as_deref().cloned();
        if let Some(tools) = started.toolbox.and_then(|number| self.0.get(number)) {
            options.get_or_insert_default().tools = tools.to_vec();
        } else if let Some(carried) = options.as_ref().filter(|options| !options.tools.is_empty()) {
            self.0.push(carried.tools.clone().into());
        }
        options
    }

    /// Returns true if any toolbox has a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().flat_map(|tools| tools.iter()).any(|tool| tool.function().name == name)
    }

    /// Returns true if a turn names a toolbox that the thread does not have.
    pub(crate) fn lacks(&self, started: &TurnStarted) -> bool {
        started.toolbox.is_some_and(|number| self.0.len() <= number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started(name: Option<&str>, toolbox: Option<usize>) -> TurnStarted {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let options = name.map(|name| json!({"tools": [tool(name)]}));
        serde_json::from_value(json!({"messages": [], "reply_options": options, "toolbox": toolbox})).unwrap()
    }

    #[test]
    fn each_list_of_tools_has_a_number() {
        let mut toolboxes = Toolboxes::default();
        let tools = |options: Option<ReplyOptions>| options.map(|options| options.tools).unwrap_or_default();
        let first = tools(toolboxes.options_of(&started(Some("a"), None)));
        let second = tools(toolboxes.options_of(&started(Some("b"), None)));
        assert_eq!(tools(toolboxes.options_of(&started(None, Some(0)))), first);
        assert_eq!((toolboxes.number_of(&second), toolboxes.number_of(&[])), (Some(1), None));
        assert!(toolboxes.lacks(&started(None, Some(2))) && !toolboxes.lacks(&started(None, Some(1))));
        assert_eq!(toolboxes.options_of(&started(None, None)), None);
    }
}
