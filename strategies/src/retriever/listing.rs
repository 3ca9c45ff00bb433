//! Lists of servers for a model.

use crate::retriever::{Refusal, Retriever, State};
use shared::Thread;

/// Maximum number of servers in a list with one line each. A longer list would distract from the details of the
/// candidates.
pub(super) const LISTED_MAX: usize = 100;

/// Lists the available servers that pass `wanted`, each with its one-line description.
pub(super) fn listed(thread: &Thread<Retriever>, wanted: impl Fn(&str) -> bool) -> String {
    let all: Vec<_> = thread.servers.iter().filter(|(name, _)| wanted(name)).collect();
    let mut lines: Vec<String> =
        all.iter().take(LISTED_MAX).map(|(name, what)| format!("- {name}: {what}")).collect();
    if LISTED_MAX < all.len() {
        lines.push(format!("- and {} more", all.len() - LISTED_MAX));
    }
    if lines.is_empty() { "- none".to_owned() } else { lines.join("\n") }
}

/// Lists the servers that refused, each with its reason, and whether it may be chosen again.
pub(super) fn refusals(state: &State) -> String {
    let line = |refusal: &Refusal| {
        let again = if state.is_excluded(&refusal.server) { "" } else { " (it may be chosen again)" };
        format!("- {}: {}{again}", refusal.server, refusal.reason)
    };
    let others = state.refused.iter().filter(|refusal| refusal.server != state.at());
    let lines: Vec<String> = others.map(line).collect();
    if lines.is_empty() { "- none".to_owned() } else { lines.join("\n") }
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    let servers = (0..LISTED_MAX + 2).map(|n| (format!("s{n:03}"), "x".to_owned())).collect();
    let thread = Thread::<Retriever> { servers, ..Thread::default() };
    assert_eq!(listed(&thread, |name| name != "s000").lines().last(), Some("- and 1 more"));
    assert_eq!(listed(&thread, |name| name < "s100").lines().last(), Some("- s099: x"));
    assert_eq!(listed(&thread, |_| false), "- none");
}
