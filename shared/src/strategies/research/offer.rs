//! Whose tools the planning agent is offered, and whom a call of it means.

use crate::{Thread, Tool};

use super::{Research, nodes::SUBMIT_PLAN};

/// The servers whose tools are offered, in order.
///
/// A server that can do nothing but search is not among them: what is searched goes through the plan, where its sources
/// get their tokens.
pub(super) fn offered(thread: &Thread<Research>) -> Vec<&str> {
    let of_use = |server: &&String| {
        !thread.state.unreachable.contains_key(*server)
            && toolbox(thread, server).iter().any(|it| !is_search(thread, server, &it.name))
    };
    thread.experts.keys().filter(of_use).map(String::as_str).collect()
}

/// Which server and which of its tools a model means by `name`.
///
/// # Errors
///
/// What to tell the model, if it means none.
pub(super) fn meant<'a>(thread: &'a Thread<Research>, name: &str) -> Result<(&'a str, &'a str), String> {
    let servers = offered(thread);
    let several = servers.len() > 1;
    let all =
        || servers.iter().flat_map(|server| toolbox(thread, server).iter().map(move |it| (*server, it)));
    let called =
        |server: &str, it: &Tool| if several { format!("{server}__{}", it.name) } else { it.name.clone() };
    match all().find(|(server, it)| called(server, it) == name) {
        Some((server, it)) if is_search(thread, server, &it.name) => Err(format!(
            "{name} is called by {SUBMIT_PLAN} for every query, so that what it finds can be cited"
        )),
        Some((server, it)) => Ok((server, &it.name)),
        None => {
            let mut known: Vec<String> = all().map(|(server, it)| called(server, it)).collect();
            known.push(SUBMIT_PLAN.to_owned());
            Err(format!("there is no tool called {name:?}; there are {}", known.join(", ")))
        }
    }
}

fn toolbox<'a>(thread: &'a Thread<Research>, server: &str) -> &'a [Tool] {
    thread.toolboxes.get(server).map_or(&[], Vec::as_slice)
}

fn is_search(thread: &Thread<Research>, server: &str, tool: &str) -> bool {
    thread.config.search.as_ref().is_some_and(|it| it.server == server && it.tool == tool)
}

/// Why the configured search cannot be used, if that is so.
pub(super) fn no_search(thread: &Thread<Research>) -> Option<String> {
    let search = thread.config.search.as_ref()?;
    if let Some(reason) = thread.state.unreachable.get(&search.server) {
        return Some(reason.clone());
    }
    let tools = toolbox(thread, &search.server);
    let there = tools.iter().any(|it| it.name == search.tool);
    (!there).then(|| format!("{} has no tool called {:?}", search.server, search.tool))
}
