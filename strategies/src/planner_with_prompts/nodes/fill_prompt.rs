//! Asks the person for the missing arguments of the chosen prompt.

use super::NONE;
use crate::planner_with_prompts::{Fact, NodeName, PlannerWithPrompts};
use shared::{InterruptKind, Node, PromptArgument, Question, Sentence, Thread, Transition};

pub(in super::super) struct FillPrompt;

impl Node<PlannerWithPrompts> for FillPrompt {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    /// Asks for one argument at a time.
    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let chosen = thread.state.guide.chosen();
        let is_missing =
            |argument: &&PromptArgument| argument.required && !chosen.arguments.contains_key(&argument.name);
        match thread.state.takes(&chosen.prompt).iter().find(is_missing) {
            None => Transition::to(NodeName::FetchPrompt),
            Some(missing) => {
                let question =
                    Question::open(InterruptKind::SlotFill, question(thread, &chosen.prompt, missing));
                Transition::ask(question, NodeName::ReceiveArgument)
                    .learn(Fact::AskedFor { argument: missing.name.clone() })
            }
        }
    }
}

const NEEDED: Sentence = Sentence {
    english: "A value is needed for",
    german: "Es fehlt ein Wert für",
    french: "Il manque une valeur pour",
    spanish: "Falta un valor para",
};
/// Follows the name of the argument and the prompt.
const ASK: Sentence = Sentence {
    english: "What is it?",
    german: "Wie lautet er?",
    french: "Quelle est-elle ?",
    spanish: "¿Cuál es?",
};
/// Follows the option for no prompt.
const WITHOUT: Sentence = Sentence {
    english: "goes on without the prompt.",
    german: "macht ohne die Vorlage weiter.",
    french: "continue sans le modèle.",
    spanish: "sigue sin la plantilla.",
};

fn question(thread: &Thread<PlannerWithPrompts>, prompt: &str, missing: &PromptArgument) -> String {
    let what = match &*missing.description {
        "" => String::new(),
        description => format!(" ({description})"),
    };
    let name = &missing.name;
    let [needed, ask, without] =
        [NEEDED, ASK, WITHOUT].map(|sentence| sentence.for_readers_of(&thread.messages));
    format!("{prompt}: {needed} {name}{what}. {ask} “{NONE}” {without}")
}
