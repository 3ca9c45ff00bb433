//! Gathers background from tools, then plans the queries or answers at once.

use std::borrow::Cow;

use serde_json::json;
use shared::{Chat, Message, Node, Reply, Safety, Thread, Tool, ToolCall, Transition};

use crate::{
    answer_mark,
    loop_guard::exhausted,
    prompt::fill,
    research::{
        Ending, Fact, NodeName, Research,
        citations::{resolve, resolve_beginning},
        offer::offered,
        queries::{distinct, submitted},
        question,
    },
};

use super::finalize_answer::spoken_of;

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/plan.md");

pub(in crate::research) struct PlanningAgent;

/// Tool by which the model submits its queries.
pub(in crate::research) const SUBMIT_PLAN: &str = "submit_plan";

impl Node<Research> for PlanningAgent {
    type Effect = Chat;

    /// The last call leaves the model only two choices: to submit or to answer.
    fn ask(&self, thread: &Thread<Research>) -> Chat {
        let last = is_last(thread);
        let what = |(name, what): (&String, &String)| match thread.state.unreachable.get(name) {
            Some(_) => format!("- {name}: cannot be reached"),
            None => format!("- {name}: {what}"),
        };
        let experts: Vec<String> = thread.servers.iter().map(what).collect();
        let hurry = if last {
            "There is no time left to look things up: submit the plan now, or answer."
        } else {
            ""
        };
        let blanks = [
            ("experts", &*experts.join("\n")),
            ("queries", &*thread.config.queries().to_string()),
            ("hurry", hurry),
            ("time", &thread.turn.time),
        ];
        let chat = Chat::new(&thread.config.model, fill(PROMPT, &blanks), thread.all());
        let servers = if last { Vec::new() } else { offered(thread) };
        servers.into_iter().fold(chat, Chat::server_tools).tool(SUBMIT_PLAN)
    }

    /// A marked answer without calls ends the turn.
    fn learn(&self, thread: &Thread<Research>, reply: Reply) -> Transition<Research> {
        let reply = match answer_mark::answer(reply) {
            Ok(words) => return answer(thread, &words),
            Err(reply) => reply,
        };
        if reply.tool_calls.iter().any(is_plan) {
            return submit(thread, reply);
        }
        if reply.tool_calls.is_empty() {
            return answer(thread, &reply.content);
        }
        let repeats = || exhausted(&thread.messages, &reply.tool_calls);
        if let Some(why) = enough(thread).or_else(repeats) {
            return search_topic(thread, why);
        }
        Transition::to(NodeName::ExecuteTools).learn(Fact::Considered).say(said(reply))
    }

    fn tools(&self) -> Vec<Tool> {
        vec![Tool {
            name: SUBMIT_PLAN.to_owned(),
            description: "Submit the queries that shall be searched on the web, all at once. Call it alone."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "queries": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Each can be understood alone and asks for something else.",
                    },
                    "rationale": { "type": "string", "description": "Why these, in a sentence." },
                },
                "required": ["queries", "rationale"],
                "additionalProperties": false,
            }),
            safety: Safety::Read,
            max_repeats: None,
            read_back: None,
        }]
    }

    fn preview<'a>(&self, _: &Thread<Research>, partial: &'a str) -> Option<Cow<'a, str>> {
        Some(resolve_beginning(answer_mark::preview(partial), &[]).into())
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

fn is_plan(call: &ToolCall) -> bool {
    call.name == SUBMIT_PLAN
}

/// Accepts the plan, or returns its error to the model.
///
/// **Invariant:** every call of the message gets one result. Calls beside the plan are reported as not carried out.
fn submit(thread: &Thread<Research>, reply: Reply) -> Transition<Research> {
    let plan = submitted(reply.tool_calls.iter().filter(|call| is_plan(call)), thread.config.queries());
    let (next, told, beside) = match plan {
        Ok(plan) => {
            let told = format!("accepted: {} queries", plan.queries.len());
            let planned = Fact::Planned { queries: plan.queries, rationale: plan.rationale };
            (search(thread).learn(planned), told, "skipped: the plan was submitted".to_owned())
        }
        Err(problem) => {
            if let Some(limit) = enough(thread) {
                return search_topic(thread, format!("{limit}, and the plan was refused: {problem}"));
            }
            let next = Transition::to(NodeName::PlanningAgent).learn(Fact::Considered);
            let told = format!("error: the plan was refused: {problem}");
            (next, told, format!("skipped: {SUBMIT_PLAN} was called beside it, and refused"))
        }
    };
    let results: Vec<Message> = reply
        .tool_calls
        .iter()
        .map(|call| Message::tool(call, if is_plan(call) { told.clone() } else { beside.clone() }))
        .collect();
    results.into_iter().fold(next.say(said(reply)), Transition::say)
}

/// A text without a call is the answer. An empty reply is not.
fn answer(thread: &Thread<Research>, words: &str) -> Transition<Research> {
    let resolved = resolve(words, &[], spoken_of(thread, words));
    if resolved.text.is_empty() {
        return search_topic(thread, "the planning agent neither called a tool nor answered".to_owned());
    }
    let why = resolved.why();
    if thread.turn.is_formatted() {
        return Transition::to(NodeName::FinalizeAnswer)
            .learn(Fact::Ended(Ending::Known { answer: resolved.text }));
    }
    let next = Transition::end().say(Message::assistant(resolved.text));
    if let Some(why) = why { next.because(why) } else { next }
}

/// Moves a plan on: to the person who must approve it, or to the search.
fn search(thread: &Thread<Research>) -> Transition<Research> {
    let node = if thread.config.approve_queries { NodeName::ConfirmQueries } else { NodeName::WebResearch };
    Transition::to(node)
}

/// Searches the question itself, as there is no plan, unless the question is empty or no model call is left to read the
/// findings.
fn search_topic(thread: &Thread<Research>, why: String) -> Transition<Research> {
    let queries = distinct([question::topic(thread).to_owned()], &[]);
    let spent = question::spent(thread).is_some();
    if queries.is_empty() || spent {
        let ended = Fact::Ended(Ending::Partial { reason: why.clone() });
        let next = Transition::to(NodeName::FinalizeAnswer).learn(ended).because(why);
        return next.partial(if spent { "model_calls" } else { "nothing to search" });
    }
    let planned = Fact::Planned { queries, rationale: "the topic itself".to_owned() };
    search(thread).learn(planned).because(format!("{why}: the topic itself is searched"))
}

/// Returns the reason not to call the planning agent again, if there is one.
fn enough(thread: &Thread<Research>) -> Option<String> {
    let limit = thread.config.iterations;
    let last = is_last(thread).then(|| format!("the limit of {limit} iterations is reached"));
    question::spent(thread).or(last)
}

fn is_last(thread: &Thread<Research>) -> bool {
    thread.config.iterations <= thread.state.iterations + 1
}

fn said(reply: Reply) -> Message {
    Message { tool_calls: reply.tool_calls, ..Message::assistant(reply.content) }
}
