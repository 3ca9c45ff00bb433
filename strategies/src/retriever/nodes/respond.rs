//! Writes the answer to the person if nothing more can be done.

use std::borrow::Cow;

use crate::{
    prompt::fill,
    retriever::{Ending, Refusal, Retriever, listing},
};
use shared::{Chat, Message, Node, Reply, Thread, Transition};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/respond.md");

pub(in crate::retriever) struct Respond;

impl Node<Retriever> for Respond {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Retriever>) -> Chat {
        let servers = listing::listed(thread, |_| true);
        let refused = listing::refusals(&thread.state);
        let blanks = [
            ("ending", &*ending(thread)),
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
            "" => ending(thread),
            words => words.to_owned(),
        };
        Transition::end().say(Message::assistant(format!("{words}{}", tried(&thread.state.refused))))
    }

    fn preview<'a>(&self, _: &Thread<Retriever>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(partial.trim().into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

fn ending(thread: &Thread<Retriever>) -> String {
    match &thread.state.ending {
        Some(Ending::Refused) => {
            "No server that was tried could do it, and no further one is tried.".to_owned()
        }
        Some(Ending::Dropped) => "The person no longer wants it, so the work was ended.".to_owned(),
        Some(Ending::Answered { answer }) => format!("The request is met. The answer in words: {answer}"),
        Some(Ending::Stuck { reason }) => format!("The work stopped before its end: {reason}."),
        Some(Ending::NothingRelevant) | None => "No server at hand fits the request.".to_owned(),
    }
}

/// Lists the servers that were tried, each with the reason that it failed.
pub(in crate::retriever) fn tried(refused: &[Refusal]) -> String {
    if refused.is_empty() {
        return String::new();
    }
    let each: Vec<String> =
        refused.iter().map(|refusal| format!("{} ({})", refusal.server, refusal.reason)).collect();
    format!("\n\nTried: {}.", each.join(", "))
}
