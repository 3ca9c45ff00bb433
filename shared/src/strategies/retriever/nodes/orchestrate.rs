//! How should the matter be brought on: with a tool, with words, by asking, or by another server?

use crate::{
    Chat, InterruptKind, Message, Node, Question, Reply, Thread, Tool, Transition,
    strategies::{
        control::{Control, asking, heard},
        prompt::fill,
        repeat::exhausted,
        retriever::{Ending, Fact, NodeName, Retriever, listing, reroute::reroute},
    },
};

pub(in crate::strategies::retriever) struct Orchestrate;

const ASK_USER: Control<Move> =
    asking("Ask the person for something that is needed and that nobody has said yet.", Move::Ask);
const HAND_OVER: Control<Move> = Control {
    name: "hand_over",
    about: "Give the request to another server: one that fits better, or any, as this one cannot do it. Say why in a sentence.",
    argument: "reason",
    tags: &["[hand over]", "[hand_over]"],
    otherwise: "no reason was given",
    means: Move::HandOver,
};

/// What a model's reply comes down to.
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
        let what = thread.experts.get(server).map_or("", String::as_str);
        let others = listing::listed(thread, |it| it != server && !thread.state.has_refused(it));
        let refused = listing::refusals(&thread.state);
        let blanks = [
            ("server", server),
            ("what", what),
            ("others", &others),
            ("refused", &refused),
            ("time", &thread.turn.time),
        ];
        let system = fill(include_str!("../prompts/orchestrate.md"), &blanks);
        let chat = Chat::new(&thread.config.model, system, thread.all());
        chat.toolbox(server).tool(HAND_OVER.name).tool(ASK_USER.name)
    }

    /// A model that was told that it repeats itself, and goes on to, is not asked once more. What was said to the model
    /// of another server was not said to this one.
    fn learn(&self, thread: &Thread<Retriever>, reply: Reply) -> Transition<Retriever> {
        let before = if thread.state.took_over { &[][..] } else { &thread.messages };
        if let Some(why) = exhausted(before, &reply.tool_calls) {
            return stuck(why);
        }
        match read(reply) {
            Move::Ask(question) => {
                Transition::ask(Question::open(InterruptKind::SlotFill, question), NodeName::Orchestrate)
            }
            Move::HandOver(reason) => reroute(thread, reason),
            Move::Call(Reply { content, tool_calls, .. }) => {
                Transition::to(NodeName::CallTools).say(Message { tool_calls, ..Message::assistant(content) })
            }
            Move::Say(words) => Transition::end().say(Message::assistant(words)),
            Move::Nothing => stuck("the model said nothing".to_owned()),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        vec![HAND_OVER.tool(), ASK_USER.tool()]
    }
}

fn stuck(reason: String) -> Transition<Retriever> {
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason }))
}

fn read(reply: Reply) -> Move {
    match heard(&reply, &[&ASK_USER, &HAND_OVER]) {
        Some(it) => it,
        None if !reply.tool_calls.is_empty() => Move::Call(reply),
        None if reply.content.trim().is_empty() => Move::Nothing,
        None => Move::Say(reply.content),
    }
}
