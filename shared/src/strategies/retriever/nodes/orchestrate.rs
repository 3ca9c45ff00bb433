//! How should the matter be brought on: with a tool, with words, by asking, or by another server?

use serde_json::{Value, json};

use crate::{
    Chat, InterruptKind, Message, Node, Question, Reply, Safety, Thread, Tool, Transition,
    strategies::{
        prompt::fill,
        repeat::exhausted,
        retriever::{Ending, Fact, NodeName, Retriever, listing, reroute::reroute},
    },
};

pub(in crate::strategies::retriever) struct Orchestrate;

/// The tool by which the model asks the person.
const ASK_USER: &str = "ask_user";
/// The tool by which the model gives the matter to another server.
const HAND_OVER: &str = "hand_over";
/// What models write that would rather not use those tools.
const ASK_TAGS: &[&str] = &["[ask]", "[ask user]", "[ask_user]"];
const HAND_OVER_TAGS: &[&str] = &["[hand over]", "[hand_over]"];

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
        chat.toolbox(server).tool(HAND_OVER).tool(ASK_USER)
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
        let tool = |name: &str, description: &str, argument: &str| Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { argument: { "type": "string" } },
                "required": [argument],
                "additionalProperties": false,
            }),
            safety: Safety::Read,
        };
        vec![
            tool(
                HAND_OVER,
                "Give the request to another server: one that fits better, or any, as this one cannot do it. \
                 Say why in a sentence.",
                "reason",
            ),
            tool(
                ASK_USER,
                "Ask the person for something that is needed and that nobody has said yet.",
                "question",
            ),
        ]
    }
}

fn stuck(reason: String) -> Transition<Retriever> {
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason }))
}

/// A control call wins over other calls: what was asked for beside it has not happened and is asked for again.
fn read(reply: Reply) -> Move {
    let called = |name: &str| {
        let call = reply.tool_calls.iter().find(|it| it.name == name)?;
        Some(words(&call.arguments).unwrap_or_else(|| reply.content.trim().to_owned()))
    };
    let question = |words: String| Move::Ask(or(words, "What else should I know?"));
    let reason = |words: String| Move::HandOver(or(words, "no reason was given"));
    if let Some(it) = called(ASK_USER) {
        return question(it);
    }
    if let Some(it) = called(HAND_OVER) {
        return reason(it);
    }
    if !reply.tool_calls.is_empty() {
        return Move::Call(reply);
    }
    if let Some(it) = without(&reply.content, ASK_TAGS) {
        return question(it);
    }
    if let Some(it) = without(&reply.content, HAND_OVER_TAGS) {
        return reason(it);
    }
    if reply.content.trim().is_empty() { Move::Nothing } else { Move::Say(reply.content) }
}

/// The words of a control call, whatever its one argument is called and even if it is no object.
fn words(arguments: &Value) -> Option<String> {
    let said = match arguments {
        Value::Object(fields) => fields.values().find_map(Value::as_str),
        Value::String(text) => Some(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    said.map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned)
}

/// The words around the first of `tags` that is there, whatever its case and wherever it stands.
fn without(words: &str, tags: &[&str]) -> Option<String> {
    let lower = words.to_ascii_lowercase();
    let (at, tag) = tags.iter().find_map(|tag| Some((lower.find(tag)?, tag)))?;
    Some(format!("{}{}", &words[..at], &words[at + tag.len()..]).trim().to_owned())
}

fn or(words: String, otherwise: &str) -> String {
    if words.is_empty() { otherwise.to_owned() } else { words }
}
