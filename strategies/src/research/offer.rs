//! Tools offered to the planning agent, and the resolution of the names that it calls.

use shared::{READ_MORE, Thread, Tool};

use super::{Research, nodes::SUBMIT_PLAN};

/// Returns the servers whose tools are offered, in order.
///
/// A server that only searches is left out. Searches go through the plan, where their sources get tokens.
pub(super) fn offered(thread: &Thread<Research>) -> Vec<&str> {
    let of_use = |server: &&String| {
        !thread.state.unreachable.contains_key(*server)
            && toolbox(thread, server).iter().any(|tool| !is_search(thread, server, &tool.name))
    };
    thread.servers.keys().filter(of_use).map(String::as_str).collect()
}

/// Resolves `name`, as a model wrote it, to a server and one of its tools.
///
/// # Errors
///
/// The message for the model, if the name matches no tool.
pub(super) fn meant<'a>(thread: &'a Thread<Research>, name: &str) -> Result<(&'a str, &'a str), String> {
    let tools = thread.offered_tools(&offered(thread));
    let is_taken = tools.iter().any(|tool| tool.name == READ_MORE);
    if let Some(tool) = tools.first().filter(|_| name == READ_MORE && !is_taken) {
        return Ok((tool.server, READ_MORE));
    }
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) if is_search(thread, tool.server, &tool.tool.name) => Err(format!(
            "{name} is called by {SUBMIT_PLAN} for every query, so that what it finds can be cited"
        )),
        Some(tool) => Ok((tool.server, &tool.tool.name)),
        None => {
            let mut known: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
            known.push(SUBMIT_PLAN);
            Err(format!("there is no tool called {name:?}; there are {}", known.join(", ")))
        }
    }
}

fn toolbox<'a>(thread: &'a Thread<Research>, server: &str) -> &'a [Tool] {
    thread.server_tools.get(server).map_or(&[], Vec::as_slice)
}

fn is_search(thread: &Thread<Research>, server: &str, tool: &str) -> bool {
    thread.config.search.as_ref().is_some_and(|search| search.server == server && search.tool == tool)
}

/// Returns the reason that the configured search cannot be used, if there is one.
pub(super) fn no_search(thread: &Thread<Research>) -> Option<String> {
    let search = thread.config.search.as_ref()?;
    if let Some(reason) = thread.state.unreachable.get(&search.server) {
        return Some(reason.clone());
    }
    let tools = toolbox(thread, &search.server);
    let there = tools.iter().any(|tool| tool.name == search.tool);
    (!there).then(|| format!("{} has no tool called {:?}", search.server, search.tool))
}
