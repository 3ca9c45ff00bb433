//! Reads the person's answer to the queries.

use crate::{
    Node, Question, Thread, Transition,
    strategies::research::{
        Ending, Fact, NodeName, Research,
        queries::{Approval, approval},
    },
};

use super::confirm_queries::question;

pub(in crate::strategies::research) struct ReceiveApproval;

impl Node<Research> for ReceiveApproval {
    type Effect = ();

    fn ask(&self, _: &Thread<Research>) {}

    fn learn(&self, thread: &Thread<Research>, (): ()) -> Transition<Research> {
        match approval(thread.user_message(), thread.config.queries()) {
            Approval::Yes => Transition::to(NodeName::WebResearch),
            Approval::No => Transition::to(NodeName::FinalizeAnswer)
                .learn(Fact::Ended(Ending::Declined))
                .declined("person declined"),
            Approval::Change => again(thread, "Which queries shall I search instead?"),
            Approval::Wish => Transition::to(NodeName::PlanningAgent).because(format!(
                "{:?} is an instruction: the queries are planned again",
                thread.user_message()
            )),
            Approval::Rather(queries) => Transition::to(NodeName::WebResearch)
                .learn(Fact::Planned { queries, rationale: "the person's own".to_owned() }),
            Approval::Unclear(why) => again(thread, &format!("I cannot take that: {why}.")).because(why),
        }
    }
}

/// Asks for approval again, after `words`.
fn again(thread: &Thread<Research>, words: &str) -> Transition<Research> {
    let asked = question(thread);
    let again = Question { question: format!("{words}\n{}", asked.question), ..asked };
    Transition::ask(again, NodeName::ReceiveApproval)
}
