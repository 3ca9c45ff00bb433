//! Decides how to work on the current task: with a tool, with a text, with a question, or not at all.

use crate::{
    control_tool::{ControlTool, asking, parse_control},
    loop_guard::exhausted,
    planner::{
        Ending, NodeName, Planning, Task,
        nodes::{end_early, list, side_by_side::decide},
        of_the_task,
    },
    prompt::fill,
};
use shared::{Chat, InterruptKind, Message, Node, Question, Reply, Role, Thread, Tool, Transition};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/orchestrate.md");

pub(crate) struct Orchestrate;

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

const OTHER_WISH: ControlTool<Move> = ControlTool {
    name: "other_wish",
    about: "Say that the person answered with a different wish instead of what was asked, and which.",
    argument: "wish",
    tags: &["[other wish]", "[other_wish]"],
    otherwise: "another wish",
    means: Move::OtherWish,
};

/// Interpretation of a model's reply.
pub(super) enum Move {
    Ask(String),
    GiveUp(String),
    OtherWish(String),
    Call(Reply),
    Say(String),
}

impl<S: Planning> Node<S> for Orchestrate {
    type Effect = Vec<Chat>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let advice = S::advice(thread);
        let Some(plan) = &S::planned(thread).plan else { return Vec::new() };
        let listed = list(plan, "in work");
        let answered = was_answered(thread);
        let chat = |n: usize| {
            let Task { expert, task, .. } = &plan.tasks[n];
            let blanks = [
                ("expert", &**expert),
                ("task", task),
                ("plan", &listed),
                ("advice", &advice),
                ("time", &thread.turn.time),
            ];
            let system = fill(PROMPT, &blanks);
            let chat = Chat::new(&S::tuned(thread).model, system, thread.all());
            let chat = chat.server_tools(expert).tool(ASK_USER.name).tool(GIVE_UP.name);
            if answered { chat.tool(OTHER_WISH.name) } else { chat }
        };
        plan.in_work().into_iter().map(chat).collect()
    }

    fn learn(&self, thread: &Thread<S>, replies: Vec<Reply>) -> Transition<S> {
        let repeats = |reply: &Reply| exhausted(of_the_task(thread), &reply.tool_calls).is_some();
        let cause = if replies.iter().any(repeats) { "repeated calls" } else { "gave up" };
        let mut moves: Vec<Move> = replies.into_iter().map(|reply| read(thread, reply)).collect();
        if let Some(plan) = S::planned(thread).plan.as_ref().filter(|plan| !plan.beside.is_empty()) {
            return decide(plan, plan.in_work().into_iter().zip(moves).collect());
        }
        match moves.remove(0) {
            Move::Ask(question) => {
                Transition::ask(Question::open(InterruptKind::SlotFill, question), NodeName::ReceiveAnswer)
            }
            Move::OtherWish(wish) => {
                Transition::to(NodeName::Plan).because(format!("the person wants something else: {wish}"))
            }
            Move::GiveUp(why) => give_up(thread, why, cause),
            Move::Call(Reply { content, tool_calls, .. }) => {
                Transition::to(NodeName::CallTools).say(Message { tool_calls, ..Message::assistant(content) })
            }
            Move::Say(words) => Transition::to(NodeName::Assess).say(Message::assistant(words)),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        vec![ASK_USER.tool(), GIVE_UP.tool(), OTHER_WISH.tool()]
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

fn give_up<S: Planning>(thread: &Thread<S>, reason: String, cause: &str) -> Transition<S> {
    end_early(thread, Ending::Failed { reason }, cause)
}

/// Returns whether a person has answered a question about the current task.
fn was_answered<S: Planning>(thread: &Thread<S>) -> bool {
    of_the_task(thread).iter().any(|message| message.role == Role::User)
}

/// Reads a reply. A model that repeats a call after the refusal is not asked again.
fn read<S: Planning>(thread: &Thread<S>, reply: Reply) -> Move {
    if let Some(why) = exhausted(of_the_task(thread), &reply.tool_calls) {
        return Move::GiveUp(why);
    }
    let controls: &[&ControlTool<Move>] =
        if was_answered(thread) { &[&ASK_USER, &GIVE_UP, &OTHER_WISH] } else { &[&ASK_USER, &GIVE_UP] };
    match parse_control(&reply, controls) {
        Some(found) => found,
        None if reply.tool_calls.is_empty() => Move::Say(reply.content),
        None => Move::Call(reply),
    }
}
