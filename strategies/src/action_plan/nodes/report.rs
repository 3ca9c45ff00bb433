//! Reports at the end of a turn which steps were done and which were not.

use std::borrow::Cow;

use crate::{
    action_plan::{ActionPlan, Ending, Fact, StepResult, commands},
    endings::{STOPPED, Say, to_model, to_people},
    prompt::fill,
};
use shared::{Chat, Message, Node, Reply, Sentence, Thread, Transition, verbatim};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/report.md");

pub(in crate::action_plan) struct Report;

impl Node<ActionPlan> for Report {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Chat {
        let state = &thread.state;
        let plan = state.plan.as_ref().filter(|plan| !plan.steps.is_empty());
        let plan = plan.map_or("none".to_owned(), |plan| plan.told(&state.outcomes));
        let (ending, names) = (ending(thread, to_model), commands::names(thread));
        let blanks =
            [("ending", &*ending), ("plan", &plan), ("commands", &names), ("time", &thread.turn.time)];
        let system = fill(PROMPT, &blanks);
        Chat::new(&thread.config.model, system, thread.all()).as_client_asks(&thread.turn)
    }

    /// **Invariant:** a turn never ends in silence, even if the model returns no text. An unfinished plan stays for a
    /// later turn; any other plan is closed.
    fn learn(&self, thread: &Thread<ActionPlan>, reply: Reply) -> Transition<ActionPlan> {
        let words = if reply.content.trim().is_empty() { ledger(thread) } else { reply.content };
        let mut next = Transition::end().say(Message::assistant(words));
        if thread.state.outcomes.values().any(|outcome| matches!(outcome, StepResult::Skipped { .. })) {
            next = next.partial("step skipped");
        }
        match thread.state.ending {
            Some(Ending::Stuck { .. }) | None => next,
            Some(Ending::Finished | Ending::Unsuited | Ending::Declined | Ending::Dropped) => {
                next.learn(Fact::Closed)
            }
        }
    }

    fn preview<'a>(&self, _: &Thread<ActionPlan>, partial: &'a str) -> Option<Cow<'a, str>> {
        verbatim(partial)
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Describes the ending and the outcome of each step without a model.
fn ledger(thread: &Thread<ActionPlan>) -> String {
    let plan = thread.state.plan.as_ref().map_or(String::new(), |plan| plan.shown(&thread.state.outcomes));
    format!("{}\n{plan}", ending(thread, to_people(&thread.messages))).trim_end().to_owned()
}

const FINISHED: Sentence = Sentence {
    english: "No step is left to do.",
    german: "Es ist kein Schritt mehr zu tun.",
    french: "Il ne reste aucune étape à faire.",
    spanish: "No queda ningún paso por hacer.",
};
const DECLINED: Sentence = Sentence {
    english: "The person said no to the plan, so it was not carried out any further.",
    german: "Der Plan wurde abgelehnt und deshalb nicht weiter ausgeführt.",
    french: "Le plan a été refusé et n'a donc pas été exécuté plus avant.",
    spanish: "El plan fue rechazado y por eso no se siguió ejecutando.",
};
const DROPPED: Sentence = Sentence {
    english: "The plan is no longer wanted.",
    german: "Der Plan ist nicht mehr gewünscht.",
    french: "Le plan n'est plus souhaité.",
    spanish: "El plan ya no se desea.",
};
const UNSUITED: Sentence = Sentence {
    english: "Nothing was done, as no command is suited to the request.",
    german: "Es wurde nichts getan, weil kein Befehl zu der Anfrage passt.",
    french: "Rien n'a été fait, car aucune commande ne convient à la demande.",
    spanish: "No se hizo nada, porque ningún comando es adecuado para la petición.",
};

fn ending(thread: &Thread<ActionPlan>, say: impl Say) -> String {
    match &thread.state.ending {
        Some(Ending::Finished) => say(FINISHED).to_owned(),
        Some(Ending::Declined) => say(DECLINED).to_owned(),
        Some(Ending::Dropped) => say(DROPPED).to_owned(),
        Some(Ending::Stuck { reason }) => format!("{} {}.", say(STOPPED), reason.trim_end_matches('.')),
        Some(Ending::Unsuited) | None => say(UNSUITED).to_owned(),
    }
}
