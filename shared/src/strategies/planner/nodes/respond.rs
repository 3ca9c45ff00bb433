//! Writes the answer to the person when the work of the turn is over.

use crate::{
    Chat, Message, Node, Reply, Thread, Transition,
    strategies::{
        planner::{Ending, Planning},
        prompt::fill,
    },
};

pub(in crate::strategies) struct Respond;

impl<S: Planning> Node<S> for Respond {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<S>) -> Chat {
        let experts: Vec<String> =
            thread.servers.iter().map(|(name, what)| format!("- {name}: {what}")).collect();
        let blanks =
            [("ending", &*ending(thread)), ("experts", &*experts.join("\n")), ("time", &thread.turn.time)];
        Chat::new(&S::tuned(thread).model, fill(include_str!("../prompts/respond.md"), &blanks), thread.all())
    }

    /// **Invariant:** a turn never ends in silence, even if the model returns no text.
    fn learn(&self, thread: &Thread<S>, reply: Reply) -> Transition<S> {
        let words = if reply.content.trim().is_empty() { ending(thread) } else { reply.content };
        Transition::end().say(Message::assistant(words))
    }
}

fn ending<S: Planning>(thread: &Thread<S>) -> String {
    match &S::planned(thread).ending {
        Some(Ending::Finished) => "Every task is done.".to_owned(),
        Some(Ending::Stuck { reason }) => format!("The work stopped before its end: {reason}."),
        Some(Ending::Unsuited) | None => {
            "Nothing was done, as no expert is suited to the request.".to_owned()
        }
    }
}
