//! Reads the person's decision about a failed command.

use super::assess_failure::{failure, options};
use crate::action_plan::{
    ActionPlan, Ending, Fact, NodeName,
    failure_answer::{Meaning, PROMPT, RETRY, Reading, meaning, reading},
    route::{consult, exhausted, onward},
};
use shared::{Extract, Node, Question, Sentence, Thread, Transition, visible_line};

pub(in crate::action_plan) struct ReceiveFailureChoice;

/// Maximum number of times that the question is repeated after answers that could not be read.
const REPEATS_MAX: u32 = 2;

/// Follows the quoted answer. The options follow.
const UNCLEAR: Sentence = Sentence {
    english: "is not among the options. Please answer",
    german: "ist keine der Möglichkeiten. Bitte antworten Sie",
    french: "n'est pas parmi les choix. Répondez",
    spanish: "no está entre las opciones. Responda",
};

impl Node<ActionPlan> for ReceiveFailureChoice {
    type Effect = Option<Extract<Reading>>;

    /// The table of phrases reads most answers. A model reads the others.
    fn ask(&self, thread: &Thread<ActionPlan>) -> Option<Extract<Reading>> {
        let options = options(failure(thread).1);
        reading(thread, &options, exhausted(thread, &thread.state).is_none())
    }

    /// A change reopens the plan, which then needs a new approval. A command whose outcome is unknown is not retried.
    fn learn(&self, thread: &Thread<ActionPlan>, read: Option<Reading>) -> Transition<ActionPlan> {
        let (reason, cause) = failure(thread);
        let (options, text) = (options(cause), thread.user_message());
        let may_retry = options.iter().any(|option| option == RETRY);
        match meaning(&options, text, read) {
            Meaning::Retry if may_retry => consult(thread, NodeName::NextPayload, Fact::Again),
            Meaning::Skip => onward(thread, None, Fact::Skipped),
            Meaning::Stop => Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Stuck { reason }))
                .partial("command failed"),
            Meaning::Change => {
                let why = format!("{text:?} asks for a change or for something else");
                let reason = format!("{reason}; the person said to that: {text}");
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { reason }).because(why)
            }
            Meaning::Retry | Meaning::Unclear => ask_again(thread, &reason, options),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Repeats the question about the one step, or ends the turn after too many answers that could not be read. The plan stays
/// for a later turn then.
fn ask_again(thread: &Thread<ActionPlan>, reason: &str, options: Vec<String>) -> Transition<ActionPlan> {
    let answer = visible_line(thread.user_message().trim());
    let why = format!("“{answer}” is not among the options");
    if thread.state.unclear < REPEATS_MAX {
        let unclear = UNCLEAR.for_readers_of(&thread.messages);
        let question = format!("“{answer}” {unclear} {}.\n\n{reason}", options.join(", "));
        let question = Question::choice(question, options).open_ended();
        return Transition::ask(question, NodeName::ReceiveFailureChoice).learn(Fact::Unclear).because(why);
    }
    Transition::to(NodeName::Report)
        .learn(Fact::Ended(Ending::Stuck { reason: reason.to_owned() }))
        .because(why)
        .declined("no clear answer")
}
