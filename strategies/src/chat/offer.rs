//! Tools offered to the model, and the resolution of the names that it calls.

use shared::{READ_MORE, Thread};

use super::Chat;

/// Returns the servers whose tools are offered: none after the tools were withdrawn.
pub(super) fn offered(thread: &Thread<Chat>) -> Vec<&str> {
    if thread.state.withdrawn.is_some() {
        return Vec::new();
    }
    let has_tools = |server: &&str| thread.server_tools.get(*server).is_some_and(|tools| !tools.is_empty());
    let is_there = |server: &&str| !thread.state.unreachable.contains_key(*server);
    thread.servers.keys().map(String::as_str).filter(is_there).filter(has_tools).collect()
}

/// Resolves `name`, as a model wrote it, to a server and one of its tools.
pub(super) fn resolve<'a>(thread: &'a Thread<Chat>, name: &str) -> Option<(&'a str, &'a str)> {
    let tools = thread.offered_tools(&offered(thread));
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Some((tool.server, &tool.tool.name));
    }
    tools.first().filter(|_| name == READ_MORE).map(|tool| (tool.server, READ_MORE))
}
