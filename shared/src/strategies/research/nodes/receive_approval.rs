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
            Approval::No => Transition::to(NodeName::FinalizeAnswer).learn(Fact::Ended(Ending::Declined)),
            Approval::Rather(queries) => Transition::to(NodeName::WebResearch)
                .learn(Fact::Planned { queries, rationale: "the person's own".to_owned() }),
            Approval::Unclear(why) => {
                let Question { kind, question, options } = question(thread);
                let again =
                    Question { kind, question: format!("I cannot take that: {why}.\n{question}"), options };
                Transition::ask(again, NodeName::ReceiveApproval).because(why)
            }
        }
    }
}
