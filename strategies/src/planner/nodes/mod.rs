//! One file per node, in the order in which a thread visits them.

mod advance;
mod assess;
mod call_tools;
mod equip;
mod orchestrate;
mod plan;
mod receive_answer;
mod respond;
mod side_by_side;

use super::{Ending, Fact, NodeName, Planning, Progress};
use shared::{Thread, Transition};

pub(super) use self::plan::list;
pub(crate) use self::{
    advance::Advance, assess::Assess, call_tools::CallTools, equip::Equip, orchestrate::Orchestrate,
    plan::Plan, receive_answer::ReceiveAnswer, respond::Respond,
};

/// Ends the work before its end. The request is declined if nothing of it is done: no task, not even in words.
pub(crate) fn end_early<S: Planning>(thread: &Thread<S>, ending: Ending, cause: &str) -> Transition<S> {
    let next = Transition::to(NodeName::Respond).learn(Fact::Ended(ending));
    let mut tasks = S::planned(thread).plan.iter().flat_map(|plan| &plan.tasks);
    if tasks.any(|task| task.progress == Progress::Done) { next.partial(cause) } else { next.declined(cause) }
}
