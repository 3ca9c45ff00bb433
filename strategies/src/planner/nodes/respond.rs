//! Writes the answer to the person when the work of the turn is over.

use std::borrow::Cow;

use crate::{
    planner::{Ending, NOT_DONE, Planning, Progress, Task, nodes::list},
    prompt::fill,
};
use shared::{Chat, Message, Node, Reply, Thread, Transition, verbatim};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/respond.md");

/// Ending of a plan whose results no model put into words.
const NO_ANSWER: &str = "The model wrote no answer. This is what was done:";

pub(crate) struct Respond;

impl<S: Planning> Node<S> for Respond {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<S>) -> Chat {
        let experts: Vec<String> =
            thread.servers.iter().map(|(name, what)| format!("- {name}: {what}")).collect();
        let blanks = [
            ("ending", &*ending(thread)),
            ("plan", &worked_on(thread).unwrap_or_else(|| "none".to_owned())),
            ("experts", &*experts.join("\n")),
            ("time", &thread.turn.time),
        ];
        Chat::new(&S::settings(thread).model, fill(PROMPT, &blanks), thread.all())
            .as_client_asks(&thread.turn)
    }

    /// **Invariant:** a turn never ends in silence, even if the model returns no text.
    fn learn(&self, thread: &Thread<S>, reply: Reply) -> Transition<S> {
        let next = match reply.content.trim() {
            "" => Transition::end().say(Message::assistant(without_a_model(thread))),
            _ => Transition::end().say(Message::assistant(reply.content)),
        };
        // Of tasks side by side, some may fail while others are done.
        let is_failed = |task: &Task| matches!(task.progress, Progress::Failed { .. });
        let plan = S::planned(thread).plan.as_ref().filter(|it| !it.beside.is_empty());
        if plan.is_some_and(|it| it.tasks.iter().any(is_failed)) { next.partial("task failed") } else { next }
    }

    fn preview<'a>(&self, _: &Thread<S>, partial: &'a str) -> Option<Cow<'a, str>> {
        verbatim(partial)
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the answer in place of a model that returns no text: the ending, and the plan. Tasks that are done are no
/// answer.
fn without_a_model<S: Planning>(thread: &Thread<S>) -> String {
    let ending = if is_done(thread) { NO_ANSWER.to_owned() } else { ending(thread) };
    match worked_on(thread) {
        Some(plan) => format!("{ending}\n\n{plan}"),
        None => ending,
    }
}

/// Returns true if every task of the plan was worked on and is done.
fn is_done<S: Planning>(thread: &Thread<S>) -> bool {
    let plan = S::planned(thread).plan.as_ref();
    plan.is_some_and(|plan| plan.tasks.iter().all(|task| task.progress == Progress::Done))
}

/// Returns the plan with its progress, if the turn worked on one. A plan of an earlier turn that this one neither continues
/// nor replaces does not count.
fn worked_on<S: Planning>(thread: &Thread<S>) -> Option<String> {
    let state = S::planned(thread);
    let plan = state.plan.as_ref().filter(|_| state.problem.is_none())?;
    match &state.ending {
        Some(Ending::Finished | Ending::Failed { .. } | Ending::Stuck { .. }) => Some(list(plan, NOT_DONE)),
        Some(Ending::Unsuited | Ending::Dropped) | None => None,
    }
}

fn ending<S: Planning>(thread: &Thread<S>) -> String {
    match &S::planned(thread).ending {
        Some(Ending::Finished) if is_done(thread) => "Every task is done.".to_owned(),
        Some(Ending::Finished) => "Every task is done or was skipped.".to_owned(),
        Some(Ending::Failed { reason }) => {
            let Task { expert, task, .. } = S::planned(thread).task();
            format!("The work stopped before its end: {expert} could not do the task {task:?}: {reason}.")
        }
        Some(Ending::Dropped) => "The person no longer wants it, so the work was ended.".to_owned(),
        Some(Ending::Stuck { reason }) => format!("The work stopped before its end: {reason}."),
        Some(Ending::Unsuited) | None => {
            "Nothing was done, as no expert is suited to the request.".to_owned()
        }
    }
}
