//! Reads the person's answer to the plan.

use crate::{
    InterruptKind, Message, Node, Question, Thread, Transition,
    strategies::action_plan::{
        ActionPlan, Ending, Fact, NodeName,
        route::{CHANGE, NO, YES, exhausted, onward},
    },
};

pub(in crate::strategies::action_plan) struct ReceiveApproval;

impl Node<ActionPlan> for ReceiveApproval {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    /// **Invariant:** only the exact word approves a plan, only from a person, and only the plan that was shown.
    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        let options = [YES, NO, CHANGE].map(str::to_owned);
        let shown = thread.state.shown.clone().filter(|it| Some(it) == thread.state.hash().as_ref());
        match (Question::chosen(&options, thread.user_message()), shown) {
            (Some(YES), Some(plan)) => {
                let words = || Message::assistant("The plan is approved; I carry it out now.");
                let begins = exhausted(thread, &thread.state).is_none();
                onward(thread, begins.then(words), Fact::Approved { plan })
            }
            (Some(NO), _) => Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Declined)),
            (Some(CHANGE), _) => {
                let question = Question::open(InterruptKind::Clarification, "What should be different?");
                let because = "the person wants it changed".to_owned();
                Transition::ask(question, NodeName::ConfirmPlan).learn(Fact::Reopened { because })
            }
            (Some(_) | None, _) => {
                let because =
                    format!("the person answered {:?}, which may ask for a change", thread.user_message());
                let why =
                    format!("{:?} is neither {YES} nor {NO}: taken for a change", thread.user_message());
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { because }).because(why)
            }
        }
    }
}
