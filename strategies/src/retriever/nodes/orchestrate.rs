//! Decides how to work on the request: with a tool, with a text, with a question, or by handing it to another server.

use std::borrow::Cow;

use crate::{
    answer_mark::{answer, preview},
    control_tool::{ControlTool, asking, parse_control},
    loop_guard::exhausted,
    prompt::fill,
    retriever::{Ending, Fact, NodeName, Retriever, listing, reroute::hand_over},
};
use shared::{Chat, InterruptKind, Message, Node, Question, Reply, Thread, Tool, Transition};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/orchestrate.md");

pub(in crate::retriever) struct Orchestrate;

const ASK_USER: ControlTool<Move> =
    asking("Ask the person for something that is needed and that nobody has said yet.", Move::Ask);
const HAND_OVER: ControlTool<Move> = ControlTool {
    name: "hand_over",
    about: "Give the request to another server: one that fits better, or any, as this one cannot do it. Say why in a sentence.",
    argument: "reason",
    tags: &["[hand over]", "[hand_over]"],
    otherwise: "no reason was given",
    means: Move::HandOver,
};

/// Interpretation of a model's reply.
enum Move {
    Ask(String),
    HandOver(String),
    Call(Reply),
    Say(String),
    Nothing,
}

impl Node<Retriever> for Orchestrate {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<Retriever>) -> Chat {
        let server = thread.state.at();
        let what = thread.servers.get(server).map_or("", String::as_str);
        let others = listing::listed(thread, |other| other != server && !thread.state.is_excluded(other));
        let refused = listing::refusals(&thread.state);
        let blanks = [
            ("server", server),
            ("what", what),
            ("others", &others),
            ("refused", &refused),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        let chat = Chat::new(&thread.config.model, system, thread.all());
        chat.server_tools(server).tool(HAND_OVER.name).tool(ASK_USER.name)
    }

    /// A marked answer without calls ends the turn. A model that repeats a call after the refusal is not asked again. Refusals for
    /// another server do not count.
    fn learn(&self, thread: &Thread<Retriever>, reply: Reply) -> Transition<Retriever> {
        let reply = match answer(reply) {
            Ok(words) => return ended(thread, words),
            Err(reply) => reply,
        };
        let before = if thread.state.took_over { &[][..] } else { &thread.messages };
        if let Some(why) = exhausted(before, &reply.tool_calls) {
            return stuck(why, "repeated calls");
        }
        match read(reply) {
            Move::Ask(question) => {
                Transition::ask(Question::open(InterruptKind::SlotFill, question), NodeName::ReceiveAnswer)
            }
            Move::HandOver(reason) => hand_over(thread, reason),
            Move::Call(Reply { content, tool_calls, .. }) => {
                Transition::to(NodeName::CallTools).say(Message { tool_calls, ..Message::assistant(content) })
            }
            Move::Say(words) => ended(thread, words),
            Move::Nothing => stuck("the model sent an empty reply".to_owned(), "no reply"),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        vec![HAND_OVER.tool(), ASK_USER.tool()]
    }

    fn preview<'a>(&self, _: &Thread<Retriever>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(preview(partial).into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Ends the turn with an answer, or has it put into the form that the client asks for.
fn ended(thread: &Thread<Retriever>, answer: String) -> Transition<Retriever> {
    match thread.turn.is_formatted() {
        true => Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Answered { answer })),
        false => Transition::end().say(Message::assistant(answer)),
    }
}

fn stuck(reason: String, cause: &str) -> Transition<Retriever> {
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason })).partial(cause)
}

fn read(reply: Reply) -> Move {
    match parse_control(&reply, &[&ASK_USER, &HAND_OVER]) {
        Some(found) => found,
        None if !reply.tool_calls.is_empty() => Move::Call(reply),
        None if reply.content.trim().is_empty() => Move::Nothing,
        None => Move::Say(reply.content),
    }
}
