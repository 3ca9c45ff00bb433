//! Writes the answer to the person if nothing more can be done.

use std::borrow::Cow;

use crate::{
    endings::{DROPPED, STOPPED, Say, to_model, to_people},
    prompt::fill,
    retriever::{Ending, Refusal, Retriever, listing},
};
use shared::{Chat, Message, Node, Reply, Sentence, Thread, Transition};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/respond.md");

pub(in crate::retriever) struct Respond;

impl Node<Retriever> for Respond {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Retriever>) -> Chat {
        let servers = listing::listed(thread, |_| true);
        let refused = listing::refusals(&thread.state);
        let blanks = [
            ("ending", &*ending(thread, to_model)),
            ("servers", &servers),
            ("refused", &refused),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Chat::new(&thread.config.model, system, thread.all()).as_client_asks(&thread.turn)
    }

    /// **Invariant:** a turn never ends in silence, and the engine itself lists the servers that were tried, whatever
    /// the model writes. Only a typed answer stays as it is.
    fn learn(&self, thread: &Thread<Retriever>, reply: Reply) -> Transition<Retriever> {
        if thread.turn.is_formatted() {
            return Transition::end().say(Message::assistant(reply.content));
        }
        let words = match reply.content.trim() {
            "" => ending(thread, to_people(&thread.messages)),
            words => words.to_owned(),
        };
        Transition::end().say(Message::assistant(format!("{words}{}", tried(thread))))
    }

    fn preview<'a>(&self, _: &Thread<Retriever>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(partial.trim().into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

const REFUSED: Sentence = Sentence {
    english: "No server that was tried could do it, and no further one is tried.",
    german: "Kein Server, der versucht wurde, konnte es tun, und es wird kein weiterer versucht.",
    french: "Aucun serveur essayé n'a pu le faire, et aucun autre n'est essayé.",
    spanish: "Ningún servidor que se probó pudo hacerlo, y no se prueba ninguno más.",
};
/// Precedes the answer.
const ANSWERED: Sentence = Sentence {
    english: "The request is met. The answer in words:",
    german: "Die Anfrage ist erfüllt. Die Antwort in Worten:",
    french: "La demande est satisfaite. La réponse en mots :",
    spanish: "La petición está cumplida. La respuesta en palabras:",
};
/// Precedes the servers, each with the reason that it failed.
const TRIED: Sentence =
    Sentence { english: "Tried:", german: "Versucht:", french: "Essayés :", spanish: "Probados:" };
const NOTHING_RELEVANT: Sentence = Sentence {
    english: "No server at hand fits the request.",
    german: "Kein verfügbarer Server passt zu der Anfrage.",
    french: "Aucun serveur disponible ne convient à la demande.",
    spanish: "Ningún servidor disponible se ajusta a la petición.",
};

fn ending(thread: &Thread<Retriever>, say: impl Say) -> String {
    match &thread.state.ending {
        Some(Ending::Refused) => say(REFUSED).to_owned(),
        Some(Ending::Dropped) => say(DROPPED).to_owned(),
        Some(Ending::Answered { answer }) => format!("{} {answer}", say(ANSWERED)),
        Some(Ending::Stuck { reason }) => format!("{} {reason}.", say(STOPPED)),
        Some(Ending::NothingRelevant) | None => say(NOTHING_RELEVANT).to_owned(),
    }
}

/// Lists the servers that were tried, each with the reason that it failed.
pub(in crate::retriever) fn tried(thread: &Thread<Retriever>) -> String {
    let name = |refusal: &Refusal| format!("{} ({})", refusal.server, refusal.reason);
    let each: Vec<String> = thread.state.refused.iter().map(name).collect();
    match &*each {
        [] => String::new(),
        each => format!("\n\n{} {}.", TRIED.for_readers_of(&thread.messages), each.join(", ")),
    }
}
