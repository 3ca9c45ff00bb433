//! Lists the tools of the experts. An unreachable expert is left out of this turn.

use std::collections::{BTreeMap, BTreeSet};

use crate::research::{Fact, NodeName, Research};
use shared::{ListTools, Node, Thread, Transition};

pub(in crate::research) struct Equip;

impl Node<Research> for Equip {
    type Effect = Vec<ListTools>;

    fn ask(&self, thread: &Thread<Research>) -> Self::Effect {
        servers(thread).into_iter().map(|server| ListTools { server: server.to_owned() }).collect()
    }

    fn learn(&self, thread: &Thread<Research>, listed: Vec<Result<(), String>>) -> Transition<Research> {
        let heard = servers(thread).into_iter().zip(listed);
        let unreachable: BTreeMap<String, String> =
            heard.filter_map(|(server, tools)| Some((server.to_owned(), tools.err()?))).collect();
        let why: Vec<String> = unreachable
            .iter()
            .map(|(server, reason)| format!("goes on without {server}: {reason}"))
            .collect();
        let question = thread.turn.from..thread.messages.len();
        let next = Transition::to(NodeName::PlanningAgent).learn(Fact::Equipped { question, unreachable });
        if why.is_empty() { next } else { next.because(why.join("; ")) }
    }
}

/// Returns the experts and the search server. An unlisted tool counts as a write, and a search must not count as one.
fn servers(thread: &Thread<Research>) -> BTreeSet<&str> {
    let search = thread.config.search.as_ref().map(|search| &search.server);
    thread.servers.keys().chain(search).map(String::as_str).collect()
}
