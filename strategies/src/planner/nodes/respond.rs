//! Writes the answer to the person when the work of the turn is over.

use std::borrow::Cow;

use crate::{
    endings::{DROPPED, STOPPED, Say, to_model, to_people},
    planner::{Ending, NOT_DONE, Planning, Progress, Task, nodes::list},
    prompt::fill,
};
use shared::{Chat, Message, Node, Reply, Sentence, Thread, Transition, verbatim};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/respond.md");

pub(crate) struct Respond;

impl<S: Planning> Node<S> for Respond {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<S>) -> Chat {
        let experts: Vec<String> =
            thread.servers.iter().map(|(name, what)| format!("- {name}: {what}")).collect();
        let blanks = [
            ("ending", &*ending(thread, to_model)),
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
    let say = to_people(&thread.messages);
    let ending = if is_done(thread) { say(NO_ANSWER).to_owned() } else { ending(thread, say) };
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

/// Ending of a plan whose results no model put into words.
const NO_ANSWER: Sentence = Sentence {
    english: "The model wrote no answer. This is what was done:",
    german: "Das Modell hat keine Antwort geschrieben. Das wurde getan:",
    french: "Le modèle n'a pas écrit de réponse. Voici ce qui a été fait :",
    spanish: "El modelo no escribió ninguna respuesta. Esto es lo que se hizo:",
};
const ALL_DONE: Sentence = Sentence {
    english: "Every task is done.",
    german: "Jede Aufgabe ist erledigt.",
    french: "Chaque tâche est accomplie.",
    spanish: "Cada tarea está hecha.",
};
const DONE_OR_SKIPPED: Sentence = Sentence {
    english: "Every task is done or was skipped.",
    german: "Jede Aufgabe ist erledigt oder wurde übersprungen.",
    french: "Chaque tâche est accomplie ou a été ignorée.",
    spanish: "Cada tarea está hecha o se omitió.",
};
/// Stands between the expert and the quoted task.
const COULD_NOT: Sentence = Sentence {
    english: "could not do the task",
    german: "konnte diese Aufgabe nicht erledigen:",
    french: "n'a pas pu accomplir la tâche",
    spanish: "no pudo hacer la tarea",
};
const UNSUITED: Sentence = Sentence {
    english: "Nothing was done, as no expert is suited to the request.",
    german: "Es wurde nichts getan, weil kein Experte zu der Anfrage passt.",
    french: "Rien n'a été fait, car aucun expert ne convient à la demande.",
    spanish: "No se hizo nada, porque ningún experto es adecuado para la petición.",
};

fn ending<S: Planning>(thread: &Thread<S>, say: impl Say) -> String {
    match &S::planned(thread).ending {
        Some(Ending::Finished) if is_done(thread) => say(ALL_DONE).to_owned(),
        Some(Ending::Finished) => say(DONE_OR_SKIPPED).to_owned(),
        Some(Ending::Failed { reason }) => {
            let Task { expert, task, .. } = S::planned(thread).task();
            format!("{} {expert} {} {task:?}: {reason}.", say(STOPPED), say(COULD_NOT))
        }
        Some(Ending::Dropped) => say(DROPPED).to_owned(),
        Some(Ending::Stuck { reason }) => format!("{} {reason}.", say(STOPPED)),
        Some(Ending::Unsuited) | None => say(UNSUITED).to_owned(),
    }
}
