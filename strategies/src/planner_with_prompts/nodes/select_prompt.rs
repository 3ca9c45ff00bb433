//! Decides whether a prompt is good enough to take, or at least to offer.

use crate::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts};
use shared::{Node, Thread, Transition};

pub(in super::super) struct SelectPrompt;

impl Node<PlannerWithPrompts> for SelectPrompt {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// **Invariant:** both thresholds come from the thread's configuration, here and in the node that offers the
    /// prompts.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let (taken, offered) = (thread.config.confidence_threshold, thread.config.suggestion_threshold);
        let Some(best) = thread.state.guide.candidates.first() else {
            return Transition::to(NodeName::Equip).because("none of the offered prompts was rated");
        };
        let fits = format!("the best prompt, {}, fits with confidence {}", best.prompt, best.confidence);
        if taken <= best.confidence {
            let chosen = Fact::Chosen { prompt: best.prompt.clone() };
            return Transition::to(NodeName::FillPrompt).learn(chosen).because(format!("{fits} ≥ {taken}"));
        }
        if offered <= best.confidence {
            let why = format!("{fits} < {taken} and ≥ {offered}");
            return Transition::to(NodeName::AskUserForPrompt).because(why);
        }
        Transition::to(NodeName::Equip).because(format!("{fits} < {offered}"))
    }
}
