//! Decides how to work on the current task: with a tool, with a text, with a question, or not at all.

use crate::{
    Chat, InterruptKind, Message, Node, Question, Reply, Thread, Tool, Transition,
    strategies::{
        control_tool::{ControlTool, asking, parse_control},
        loop_guard::exhausted,
        planner::{Ending, Fact, NodeName, Planning, Task, of_the_task},
        prompt::fill,
    },
};

pub(in crate::strategies) struct Orchestrate;

const ASK_USER: ControlTool<Move> =
    asking("Ask the person for something that the task needs and nobody has said yet.", Move::Ask);
const GIVE_UP: ControlTool<Move> = ControlTool {
    name: "give_up",
    about: "Say that the task cannot be done with these tools, and why.",
    argument: "reason",
    tags: &["[give up]", "[give_up]"],
    otherwise: "no reason was given",
    means: Move::GiveUp,
};

/// Interpretation of a model's reply.
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
        chat.server_tools(expert).tool(ASK_USER.name).tool(GIVE_UP.name)
    }

    /// A model that repeats a call after the refusal is not asked again.
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
        vec![ASK_USER.tool(), GIVE_UP.tool()]
    }
}

fn give_up<S: Planning>(thread: &Thread<S>, why: &str) -> Transition<S> {
    let Task { expert, task } = S::planned(thread).task();
    let reason = format!("{expert} could not do the task {task:?}: {why}");
    Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason }))
}

fn read(reply: Reply) -> Move {
    match parse_control(&reply, &[&ASK_USER, &GIVE_UP]) {
        Some(it) => it,
        None if reply.tool_calls.is_empty() => Move::Say(reply.content),
        None => Move::Call(reply),
    }
}
