//! Reads the person's answer to the plan, or to payloads.

use crate::action_plan::{
    ActionPlan, Ending, Fact, NodeName,
    approval::{propose, propose_payloads, repeat},
    route::{exhausted, onward},
};
use shared::{
    Answer, InterruptKind, Message, ModelReading, Node, Question, ReadAnswer, Sentence, Thread, Transition,
    visible_line,
};

pub(in crate::action_plan) struct ReceiveApproval;

/// Maximum number of times that one question is repeated after answers that could not be read.
const REPEATS_MAX: u32 = 2;

impl Node<ActionPlan> for ReceiveApproval {
    type Effect = ReadAnswer;

    /// The table of phrases reads most answers. A model reads the others, and can never approve.
    fn ask(&self, thread: &Thread<ActionPlan>) -> ReadAnswer {
        ReadAnswer::new(thread, &thread.config.model, exhausted(thread, &thread.state).is_none())
    }

    /// **Invariant:** only words that mean nothing but yes approve, only from a person, and only what is shown.
    fn learn(&self, thread: &Thread<ActionPlan>, reading: ModelReading) -> Transition<ActionPlan> {
        let text = thread.user_message();
        match reading.of(text) {
            Answer::Yes => approve(thread),
            Answer::No => Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Declined))
                .declined("person declined"),
            Answer::Stop => Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Dropped))
                .declined("person declined"),
            Answer::Change => {
                let question =
                    Question::open(InterruptKind::Clarification, ASK_CHANGE.for_readers_of(&thread.messages));
                let reason = "the person wants it changed".to_owned();
                Transition::ask(question, NodeName::ReceiveAnswer).learn(Fact::Reopened { reason })
            }
            Answer::Wish => {
                let reason = format!("the person answered {text:?}");
                let why = format!("{text:?} asks for a change or for something else");
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { reason }).because(why)
            }
            Answer::Unclear => ask_again(thread),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(ReadAnswer::PROMPT)
    }
}

const ASK_CHANGE: Sentence = Sentence {
    english: "What should be different?",
    german: "Was soll anders sein?",
    french: "Que faut-il changer ?",
    spanish: "¿Qué debe ser diferente?",
};
const APPROVED: Sentence = Sentence {
    english: "The plan is approved; I carry it out now.",
    german: "Der Plan ist genehmigt; ich führe ihn jetzt aus.",
    french: "Le plan est approuvé ; je l'exécute maintenant.",
    spanish: "El plan está aprobado; lo ejecuto ahora.",
};
const CHANGED: Sentence = Sentence {
    english: "The plan was changed after it was shown.",
    german: "Der Plan wurde geändert, nachdem er gezeigt worden war.",
    french: "Le plan a été modifié après avoir été montré.",
    spanish: "El plan se cambió después de mostrarse.",
};
/// Follows the quoted answer.
const UNCLEAR: Sentence = Sentence {
    english: "is not clear, and I carry nothing out without a clear yes. Please answer yes, no or change.",
    german: "ist nicht eindeutig, und ohne ein klares Ja führe ich nichts aus. Bitte antworten Sie ja, nein oder ändern.",
    french: "n'est pas clair, et je n'exécute rien sans un oui clair. Répondez oui, non ou modifier.",
    spanish: "no está claro, y no ejecuto nada sin un sí claro. Responda sí, no o cambiar.",
};

/// Carries out what is shown. A plan that was changed after it was shown is shown again.
fn approve(thread: &Thread<ActionPlan>) -> Transition<ActionPlan> {
    let state = &thread.state;
    let Some(plan) = &state.plan else {
        return Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Finished));
    };
    let hash = plan.hash();
    if state.shown.as_ref().is_none_or(|shown| shown.plan != hash) {
        let why = "the plan is not the one that was shown";
        return match state.approved {
            None => propose(thread, plan.clone(), CHANGED.for_readers_of(&thread.messages)),
            Some(_) => propose_payloads(thread, state),
        }
        .because(why);
    }
    let words = || Message::assistant(APPROVED.for_readers_of(&thread.messages));
    let begins = state.approved.is_none() && exhausted(thread, state).is_none();
    onward(thread, begins.then(words), Fact::Approved { plan: hash })
}

/// Repeats the question, or ends the turn after too many answers that could not be read. The plan stays for a later
/// turn then.
fn ask_again(thread: &Thread<ActionPlan>) -> Transition<ActionPlan> {
    let answer = visible_line(thread.user_message().trim());
    let why = format!("“{answer}” is not clear");
    let words = format!("“{answer}” {}", UNCLEAR.for_readers_of(&thread.messages));
    match repeat(thread, &words).filter(|_| thread.state.unclear < REPEATS_MAX) {
        Some(question) => {
            Transition::ask(question, NodeName::ReceiveApproval).learn(Fact::Unclear).because(why)
        }
        None => {
            let reason = "no answer to the plan could be read as a yes or a no".to_owned();
            Transition::to(NodeName::Report)
                .learn(Fact::Ended(Ending::Stuck { reason }))
                .because(why)
                .declined("no clear answer")
        }
    }
}
