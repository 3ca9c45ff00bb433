//! Several tasks that are worked on side by side: each round asks for all of them at once, and one decision records what came
//! of it.
//!
//! ## Why one node serves them all
//!
//! The conversation of a thread is one line. The tasks of a round share a message with all their calls, so that a provider
//! sees every call followed by its result, and a crash loses no part of a round.

use super::orchestrate::Move;
use crate::planner::{Ending, Fact, NodeName, Plan, Planning, Progress};
use shared::{InterruptKind, Message, Question, ToolCall, Transition};

/// Returns the ending of a turn in which a task failed beside others.
pub(super) fn over() -> Fact {
    Fact::Ended(Ending::Stuck { reason: "at least one task could not be done".to_owned() })
}

/// Turns the replies for several tasks into one decision. A question waits until no other task has calls to make: its task is
/// asked again in the next round.
pub(super) fn decide<S: Planning>(plan: &Plan, moves: Vec<(usize, Move)>) -> Transition<S> {
    let (mut facts, mut said, mut questions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut calls, mut callers) = (Vec::new(), Vec::<ToolCall>::new(), Vec::new());
    for (task, action) in moves {
        match action {
            Move::GiveUp(why) => facts.push(Fact::Settled { task, progress: Progress::Failed { why } }),
            Move::Say(words) => said.push(Message::assistant(words)),
            Move::OtherWish(wish) => {
                return Transition::to(NodeName::Plan)
                    .because(format!("the person wants something else: {wish}"));
            }
            Move::Ask(question) => questions.push(format!("{}: {question}", plan.tasks[task].expert)),
            Move::Call(reply) => {
                texts.extend(Some(reply.content).filter(|text| !text.is_empty()));
                for call in reply.tool_calls {
                    callers.push(task);
                    calls.push(ToolCall { id: distinct(&call.id, &calls), ..call });
                }
            }
        }
    }
    let next = if !calls.is_empty() {
        facts.push(Fact::Called { tasks: callers });
        said.push(Message { tool_calls: calls, ..Message::assistant(texts.join("\n")) });
        Transition::to(NodeName::CallTools)
    } else if !questions.is_empty() {
        let question = Question::open(InterruptKind::SlotFill, questions.join("\n"));
        Transition::ask(question, NodeName::ReceiveAnswer)
    } else if !said.is_empty() {
        Transition::to(NodeName::Assess)
    } else {
        facts.push(over());
        Transition::to(NodeName::Respond)
    };
    next.preceded_by(said, facts.into_iter().map(Into::into))
}

/// Returns an id that none of `calls` has. Models give ids without knowing of each other.
fn distinct(id: &str, calls: &[ToolCall]) -> String {
    let taken = |id: &str| calls.iter().any(|other| other.id == id);
    let mut candidates = std::iter::once(id.to_owned()).chain((2..).map(|n| format!("{id}_{n}")));
    candidates.find(|id| !taken(id)).unwrap_or_default()
}
