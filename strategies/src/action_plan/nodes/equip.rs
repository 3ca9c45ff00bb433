//! Lists the commands of all experts concurrently. An expert that does not answer is left out.

use std::collections::BTreeMap;

use crate::action_plan::{ActionPlan, Ending, Fact, NodeName};
use shared::{ListTools, Node, Thread, Transition};

pub(in crate::action_plan) struct Equip;

impl Node<ActionPlan> for Equip {
    type Effect = Vec<ListTools>;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Vec<ListTools> {
        thread.servers.keys().map(|server| ListTools { server: server.clone() }).collect()
    }

    /// The last turn determines the phase: an open plan is confirmed, otherwise a new one is made.
    fn learn(&self, thread: &Thread<ActionPlan>, listed: Vec<Result<(), String>>) -> Transition<ActionPlan> {
        let asked = thread.servers.keys().zip(listed);
        let unreachable: BTreeMap<String, String> =
            asked.filter_map(|(server, tools)| Some((server.clone(), tools.err()?))).collect();
        let answers = |server: &&String| !unreachable.contains_key(*server);
        let tools = |server: &String| thread.server_tools.get(server).map_or(0, Vec::len);
        let commands: usize = thread.servers.keys().filter(answers).map(tools).sum();
        let why =
            unreachable.iter().map(|(server, why)| format!("{server}: {why}")).collect::<Vec<_>>().join("; ");
        let next = if commands == 0 {
            let reason = if why.is_empty() { "there are no commands".to_owned() } else { why };
            let next = Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Stuck { reason }));
            if unreachable.is_empty() { next.declined("no commands") } else { next }
        } else if thread.state.plan.is_some() {
            Transition::to(NodeName::ConfirmPlan)
        } else {
            Transition::to(NodeName::GatherFacts)
        };
        if unreachable.is_empty() { next } else { next.learn(Fact::Unreachable(unreachable)) }
    }
}
