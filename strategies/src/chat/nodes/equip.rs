//! Lists the tools of the servers. An unreachable server is left out of this turn.

use std::collections::BTreeMap;

use crate::chat::{Chat, Fact, NodeName};
use shared::{ListTools, Node, Thread, Transition};

pub(in crate::chat) struct Equip;

impl Node<Chat> for Equip {
    type Effect = Vec<ListTools>;

    fn ask(&self, thread: &Thread<Chat>) -> Self::Effect {
        thread.servers.keys().map(|server| ListTools { server: server.clone() }).collect()
    }

    fn learn(&self, thread: &Thread<Chat>, listed: Vec<Result<(), String>>) -> Transition<Chat> {
        let heard = thread.servers.keys().zip(listed);
        let unreachable: BTreeMap<String, String> =
            heard.filter_map(|(server, tools)| Some((server.clone(), tools.err()?))).collect();
        let next = Transition::to(NodeName::Reply);
        if unreachable.is_empty() { next } else { next.learn(Fact::Unreachable(unreachable)) }
    }
}
