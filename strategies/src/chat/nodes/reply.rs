//! Asks the model for the next message.

use std::borrow::Cow;

use crate::{
    chat::{Chat, Fact, NodeName, offer::offered},
    loop_guard::exhausted,
    prompt::fill,
};
use shared::{Message, Node, Reply as ModelReply, Sentence, Thread, ToolCall, Transition};

/// Template of the system prompt: empty, unless there is something to say about the tools.
const PROMPT: &str = include_str!("../prompts/reply.md");

/// Reply to the person if the model gives none.
const NO_REPLY: Sentence = Sentence {
    english: "The model gave no reply.",
    german: "Das Modell hat nicht geantwortet.",
    french: "Le modèle n'a pas répondu.",
    spanish: "El modelo no respondió.",
};

pub(in crate::chat) struct Reply;

impl Node<Chat> for Reply {
    type Effect = shared::Chat;

    fn ask(&self, thread: &Thread<Chat>) -> shared::Chat {
        let system = fill(PROMPT, &[("notes", &notes(thread))]);
        let chat = shared::Chat::new(&thread.config.model, system, thread.all()).as_client_asks(&thread.turn);
        let chat = offered(thread).into_iter().fold(chat, shared::Chat::server_tools);
        chat.client_tools(&thread.turn, thread.state.rounds == 0)
    }

    /// The tools of a model that repeats a call after its refusal are withdrawn: it must answer.
    fn learn(&self, thread: &Thread<Chat>, reply: ModelReply) -> Transition<Chat> {
        let ModelReply { content, tool_calls, .. } = reply;
        let may_call = !offered(thread).is_empty();
        if let Some(reason) = exhausted(&thread.messages, &tool_calls).filter(|_| may_call) {
            let next = Transition::to(NodeName::Reply).because(reason.clone());
            return next.learn(Fact::Withdrawn { reason }).partial("repeated calls");
        }
        let is_of_client = |call: &ToolCall| thread.turn.reply_options.tool(&call.name).is_some();
        if !tool_calls.is_empty() && tool_calls.iter().all(is_of_client) {
            return Transition::end().say(Message { tool_calls, ..Message::assistant(content) });
        }
        if !tool_calls.is_empty() && (may_call || tool_calls.iter().any(is_of_client)) {
            return Transition::to(NodeName::CallTools)
                .say(Message { tool_calls, ..Message::assistant(content) });
        }
        if content.trim().is_empty() {
            let words = NO_REPLY.for_readers_of(&thread.messages);
            return Transition::end().say(Message::assistant(words)).partial("no reply");
        }
        Transition::end().say(Message::assistant(content))
    }

    fn preview<'a>(&self, _: &Thread<Chat>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(partial.into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns what the model must know about its tools: those that are missing, and why none is offered any more.
fn notes(thread: &Thread<Chat>) -> String {
    let missing = |(server, reason): (&String, &String)| {
        format!("The tools of {server} cannot be used now ({reason}). Say so if they are needed.")
    };
    let withdrawn = thread.state.withdrawn.as_ref().map(|reason| {
        format!("No more tools can be called: {reason}. Answer with what you know, and say what is missing.")
    });
    thread.state.unreachable.iter().map(missing).chain(withdrawn).collect::<Vec<_>>().join("\n")
}
