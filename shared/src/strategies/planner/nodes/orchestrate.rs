//! How should the current task be done: with a tool, with words, by asking, or not at all?

use serde_json::json;

use crate::{
    Chat, InterruptKind, Message, Node, Question, Reply, Safety, Thread, Tool, Transition,
    strategies::{
        planner::{Ending, Fact, NodeName, Planning, Task, of_the_task},
        prompt::fill,
        repeat::exhausted,
    },
};

pub(in crate::strategies) struct Orchestrate;

/// The tool by which the model asks the person.
const ASK_USER: &str = "ask_user";
/// The tool by which the model says that it cannot go on.
const GIVE_UP: &str = "give_up";
/// What models write that would rather not use those tools.
const ASK_TAG: &str = "[ask]";
const GIVE_UP_TAG: &str = "[give up]";

/// What a model's reply comes down to.
enum Move {
    Ask(String),
    GiveUp(String),
    Call(Reply),
    Say(String),
}

impl<S: Planning> Node<S> for Orchestrate {
    type Effect = Chat;

    fn ask(&self, thread: &Thread<S>) -> Chat {
        let Task { expert, task } = S::planned(thread).task();
        let advice = S::advice(thread);
        let blanks =
            [("expert", &**expert), ("task", task), ("advice", &advice), ("time", &thread.turn.time)];
        let system = fill(include_str!("../prompts/orchestrate.md"), &blanks);
        let chat = Chat::new(&S::tuned(thread).model, system, thread.all());
        chat.toolbox(expert).tool(ASK_USER).tool(GIVE_UP)
    }

    /// A model that was told that it repeats itself, and goes on to, is not asked once more.
    fn learn(&self, thread: &Thread<S>, reply: Reply) -> Transition<S> {
        if let Some(why) = exhausted(of_the_task(thread), &reply.tool_calls) {
            return give_up(thread, &why);
        }
        match read(reply) {
            Move::Ask(question) => {
                Transition::ask(Question::open(InterruptKind::SlotFill, question), NodeName::Orchestrate)
            }
            Move::GiveUp(why) => give_up(thread, &why),
            Move::Call(Reply { content, tool_calls, .. }) => {
                Transition::to(NodeName::CallTools).say(Message { tool_calls, ..Message::assistant(content) })
            }
            Move::Say(words) => Transition::to(NodeName::Assess).say(Message::assistant(words)),
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
                ASK_USER,
                "Ask the person for something that the task needs and nobody has said yet.",
                "question",
            ),
            tool(GIVE_UP, "Say that the task cannot be done with these tools, and why.", "reason"),
        ]
    }
}

fn give_up<S: Planning>(thread: &Thread<S>, why: &str) -> Transition<S> {
    let Task { expert, task } = S::planned(thread).task();
    let reason = format!("{expert} could not do the task {task:?}: {why}");
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason }))
}

/// A control call wins over other calls: what was asked for beside it has not happened and is asked for again.
fn read(reply: Reply) -> Move {
    let control = |name: &str, argument: &str| {
        let call = reply.tool_calls.iter().find(|it| it.name == name)?;
        let words = call.arguments[argument].as_str().filter(|it| !it.trim().is_empty());
        Some(words.unwrap_or(reply.content.trim()).to_owned())
    };
    if let Some(question) = control(ASK_USER, "question") {
        return Move::Ask(or(question, "What else should I know?"));
    }
    if let Some(why) = control(GIVE_UP, "reason") {
        return Move::GiveUp(or(why, "no reason was given"));
    }
    if !reply.tool_calls.is_empty() {
        return Move::Call(reply);
    }
    if let Some(question) = tagged(&reply.content, ASK_TAG) {
        return Move::Ask(or(question, "What else should I know?"));
    }
    match tagged(&reply.content, GIVE_UP_TAG) {
        Some(why) => Move::GiveUp(or(why, "no reason was given")),
        None => Move::Say(reply.content),
    }
}

/// The words around a tag, whatever its case and wherever it stands.
fn tagged(words: &str, tag: &str) -> Option<String> {
    let at = words.to_ascii_lowercase().find(tag)?;
    Some(format!("{}{}", &words[..at], &words[at + tag.len()..]).trim().to_owned())
}

fn or(words: String, otherwise: &str) -> String {
    if words.is_empty() { otherwise.to_owned() } else { words }
}
