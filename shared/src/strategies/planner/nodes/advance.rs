//! Moves on to the next task, or to the summary.

use crate::{
    Node, Thread, Transition,
    strategies::planner::{Ending, Fact, NodeName, Planning},
};

pub(in crate::strategies) struct Advance;

impl<S: Planning> Node<S> for Advance {
    type Effect = ();

    fn ask(&self, _: &Thread<S>) {}

    fn learn(&self, thread: &Thread<S>, (): ()) -> Transition<S> {
        let more = S::planned(thread).plan.as_ref().is_some_and(|it| it.current + 1 < it.tasks.len());
        if !more {
            return Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Finished));
        }
        let next = Fact::Advanced { since: thread.messages.len() };
        let limit = S::tuned(thread).model_calls;
        if limit <= thread.turn.model_calls {
            let why = format!("the limit of {limit} model calls for a turn is reached");
            let reason = format!("not every task was worked on: {why}");
            let ended = Fact::Ended(Ending::Stuck { reason });
            return Transition::to(NodeName::Respond).learn(next).learn(ended).because(why);
        }
        Transition::to(S::begins()).learn(next)
    }
}
