//! Writes the answer with its sources when the research is over.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    endings::{Say, to_model, to_people},
    prompt::fill,
    research::{
        Ending, Research,
        citations::{Resolved, resolve, resolve_beginning, resolve_fields},
        links::{key, links},
        question,
    },
};
use shared::{Chat, Message, Node, Reply, Sentence, Thread, Transition};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/answer.md");

pub(in crate::research) struct FinalizeAnswer;

impl Node<Research> for FinalizeAnswer {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Research>) -> Chat {
        let sources = match thread.state.sources.len() {
            0 => "No source was found, so there is nothing to cite.".to_owned(),
            1 => "The only source is [s1].".to_owned(),
            n => format!("The sources are [s1] to [s{n}]."),
        };
        let blanks = [
            ("ending", &*ending(thread, to_model)),
            ("sources", &sources),
            ("earlier", &question::earlier(thread)),
            ("time", &thread.turn.time),
        ];
        let chat = Chat::new(&thread.config.model, fill(PROMPT, &blanks), question::since(thread));
        chat.as_client_asks(&thread.turn)
    }

    /// **Invariant:** a turn never ends in silence, even if the model returns no text.
    fn learn(&self, thread: &Thread<Research>, reply: Reply) -> Transition<Research> {
        let resolved = match thread.turn.is_formatted() {
            true => typed(thread, &reply.content),
            false => resolve(&reply.content, &thread.state.sources, spoken_of(thread, &reply.content)),
        };
        let why = resolved.why();
        let words = match &*resolved.text {
            "" => without_a_model(thread),
            text => text.to_owned(),
        };
        let mut next = Transition::end().say(Message::assistant(words));
        // An answer that cites nothing, although searches succeeded, is no full answer, whatever the model writes.
        let searched = thread.state.searched.iter().any(|search| search.problem.is_none());
        if searched && thread.state.sources.is_empty() {
            next = next.partial("no sources");
        }
        if let Some(why) = why { next.because(why) } else { next }
    }

    fn preview<'a>(&self, thread: &Thread<Research>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(resolve_beginning(partial, &thread.state.sources).into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns a typed answer whose texts link to their sources. Where a link does not fit the form, the text stays as it was.
fn typed(thread: &Thread<Research>, reply: &str) -> Resolved {
    let known = spoken_of(thread, reply);
    let format = &thread.turn.reply_options.response_format;
    let resolved = resolve_fields(reply, &thread.state.sources, &known);
    match format.check_reply(&resolved.text) {
        Ok(()) => resolved,
        Err(_) => Resolved { text: reply.to_owned(), ..resolved },
    }
}

/// Returns a test for the addresses in `words`: true if the address appears in the conversation.
pub(in crate::research) fn spoken_of(
    thread: &Thread<Research>,
    words: &str,
) -> impl Fn(&str) -> bool + use<> {
    let told = |text: &str| links(text).into_iter().map(|link| key(&link.url)).collect::<Vec<_>>();
    let known: BTreeSet<String> = match links(words).is_empty() {
        true => BTreeSet::new(),
        false => thread.messages.iter().flat_map(|message| told(&message.content)).collect(),
    };
    move |url| known.contains(&key(url))
}

/// Returns the answer in place of a model that returns no text: the ending.
fn without_a_model(thread: &Thread<Research>) -> String {
    let say = to_people(&thread.messages);
    format!("{} {}", say(NO_ANSWER), ending(thread, say))
}

const NO_ANSWER: Sentence = Sentence {
    english: "No answer was composed.",
    german: "Es wurde keine Antwort verfasst.",
    french: "Aucune réponse n'a été rédigée.",
    spanish: "No se redactó ninguna respuesta.",
};
const DONE: Sentence = Sentence {
    english: "The research is done.",
    german: "Die Recherche ist abgeschlossen.",
    french: "La recherche est terminée.",
    spanish: "La investigación está terminada.",
};
const DECLINED: Sentence = Sentence {
    english: "Nothing was searched, as the person did not want it.",
    german: "Es wurde nichts gesucht, weil es nicht gewünscht war.",
    french: "Aucune recherche n'a été faite, car elle n'était pas souhaitée.",
    spanish: "No se buscó nada, porque no se deseaba.",
};
/// Precedes the answer.
const KNOWN: Sentence = Sentence {
    english: "Nothing had to be searched. The answer in words:",
    german: "Es musste nichts gesucht werden. Die Antwort in Worten:",
    french: "Il n'y avait rien à rechercher. La réponse en mots :",
    spanish: "No hacía falta buscar nada. La respuesta en palabras:",
};
/// Precedes the reason.
const STOPPED: Sentence = Sentence {
    english: "The research stopped before its end:",
    german: "Die Recherche wurde vor ihrem Ende abgebrochen:",
    french: "La recherche s'est arrêtée avant la fin :",
    spanish: "La investigación se detuvo antes de terminar:",
};

fn ending(thread: &Thread<Research>, say: impl Say) -> String {
    match &thread.state.ending {
        Some(Ending::Done) | None => say(DONE).to_owned(),
        Some(Ending::Declined) => say(DECLINED).to_owned(),
        Some(Ending::Known { answer }) => format!("{} {answer}", say(KNOWN)),
        Some(Ending::Partial { reason }) => format!("{} {reason}.", say(STOPPED)),
    }
}
