//! Asks the person to choose one of the prompts that may fit.

use crate::planner_with_prompts::{Candidate, NodeName, PlannerWithPrompts, nodes::NONE};
use shared::{Node, Question, Sentence, Thread, Transition, visible_start};

pub(in super::super) struct AskUserForPrompt;

/// The option for no prompt follows.
const ASK: Sentence = Sentence {
    english: "Which one should guide the work? Answer with its number or its name, or with",
    german: "Welcher soll die Arbeit leiten? Antworten Sie mit der Nummer oder dem Namen, oder mit",
    french: "Lequel doit guider le travail ? Répondez par son numéro ou son nom, ou par",
    spanish: "¿Cuál debe guiar el trabajo? Responda con su número o su nombre, o con",
};

impl Node<PlannerWithPrompts> for AskUserForPrompt {
    type Effect = ();

    fn ask(&self, _: &Thread<PlannerWithPrompts>) {}

    fn learn(&self, thread: &Thread<PlannerWithPrompts>, (): ()) -> Transition<PlannerWithPrompts> {
        let task = thread.state.planned.task();
        let offers = thread.state.offers.get(&task.expert).map_or(&[][..], Vec::as_slice);
        let line = |(n, candidate): (usize, &Candidate)| {
            let offered = offers.iter().find(|prompt| prompt.name == candidate.prompt);
            let about = offered.map_or(String::new(), |prompt| about(&prompt.description));
            let texts: Vec<&str> =
                [about.as_str(), &candidate.reason].into_iter().filter(|text| !text.is_empty()).collect();
            let colon = if texts.is_empty() { "" } else { ": " };
            format!("{}. {}{colon}{}", n + 1, candidate.prompt, texts.join(" — "))
        };
        let suggested: Vec<String> = suggested(thread).into_iter().enumerate().map(line).collect();
        let again = match &thread.state.guide.unknown_choice {
            Some(answer) => format!("“{answer}” is none of the options. "),
            None => String::new(),
        };
        let question = format!(
            "{again}For the task {:?}, {} offers prompts that may fit:\n{}\n{} “{NONE}”.",
            task.task,
            task.expert,
            suggested.join("\n"),
            ASK.for_readers_of(&thread.messages)
        );
        Transition::ask(Question::choice(question, options(thread)).open_ended(), NodeName::ReceiveChoice)
    }
}

/// Maximum length of a description in the question, in characters.
const DESCRIPTION_MAX: usize = 200;

/// Returns the server's own description of a prompt on one line.
fn about(description: &str) -> String {
    visible_start(&description.split_whitespace().collect::<Vec<_>>().join(" "), DESCRIPTION_MAX)
}

/// Returns the prompts to offer to the person, best first.
pub(super) fn suggested(thread: &Thread<PlannerWithPrompts>) -> Vec<&Candidate> {
    let threshold = thread.config.suggestion_threshold;
    thread.state.guide.candidates.iter().filter(|candidate| threshold <= candidate.confidence).collect()
}

/// Returns the options of the question: these prompts, and no prompt.
pub(super) fn options(thread: &Thread<PlannerWithPrompts>) -> Vec<String> {
    let named = suggested(thread)
        .into_iter()
        .map(|candidate| format!("{} ({:.2})", candidate.prompt, candidate.confidence));
    named.chain([NONE.to_owned()]).collect()
}
