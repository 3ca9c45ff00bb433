//! Writes the answer with its sources when the research is over.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    prompt::fill,
    research::{
        Ending, Research,
        citations::{resolve, resolve_beginning},
        links::{key, links},
        question,
    },
};
use shared::{Chat, Message, Node, Reply, Thread, Transition};

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
            ("ending", &*ending(thread)),
            ("sources", &sources),
            ("earlier", &question::earlier(thread)),
            ("time", &thread.turn.time),
        ];
        Chat::new(&thread.config.model, fill(PROMPT, &blanks), question::since(thread))
    }

    /// **Invariant:** a turn never ends in silence, even if the model returns no text.
    fn learn(&self, thread: &Thread<Research>, reply: Reply) -> Transition<Research> {
        let resolved = resolve(&reply.content, &thread.state.sources, spoken_of(thread, &reply.content));
        let why = resolved.why();
        let words = match &*resolved.text {
            "" => format!("No answer was composed. {}", ending(thread)),
            text => text.to_owned(),
        };
        let mut next = Transition::end().say(Message::assistant(words));
        if resolved.text.is_empty() {
            next = next.partial("no reply");
        }
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

fn ending(thread: &Thread<Research>) -> String {
    match &thread.state.ending {
        Some(Ending::Done) | None => "The research is done.".to_owned(),
        Some(Ending::Declined) => "Nothing was searched, as the person did not want it.".to_owned(),
        Some(Ending::Partial { reason }) => format!("The research stopped before its end: {reason}."),
    }
}
