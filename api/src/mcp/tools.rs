//! The tools: one for each strategy, and those for turns that take long or ask a person.

use api_types::Scope;
use rmcp::model::{Tool, ToolAnnotations, object};
use serde_json::{Value, json};
use shared::{Graph, InterruptKind};

use super::own_tool::OwnTool;
use crate::{
    server::{principal::Principal, state::AppState},
    turns::opening::usable_strategies,
};

impl OwnTool {
    fn about(self) -> &'static str {
        match self {
            Self::TurnStatus => {
                "Show a turn: its status, its answer, or the question that it asks. Waits until it has ended."
            }
            Self::ListWaiting => "List the questions that wait for a person, the most recent one first.",
            Self::Answer => {
                "Answer the open question of a thread. Returns the turn that continues, once it has ended."
            }
            Self::ThreadEvents => {
                "List the events of a thread: everything that was asked, answered, decided and done."
            }
        }
    }

    fn schema(self) -> Value {
        let (properties, required) = match self {
            Self::TurnStatus => {
                (json!({"turn_id": id("Id of the turn."), "wait_seconds": wait()}), json!(["turn_id"]))
            }
            Self::ListWaiting => (
                json!({
                    "kind": {"type": "string", "enum": InterruptKind::ALL.map(InterruptKind::name), "description": "Only questions of this kind."},
                    "after": id("Only questions asked before that of this thread: the last one of the previous page."),
                    "limit": limit(),
                }),
                json!([]),
            ),
            Self::Answer => (
                json!({
                    "thread_id": id("Id of the thread."),
                    "type": {"type": "string", "enum": ["respond", "accept", "edit", "ignore"], "description": "`respond`: a text, or the number of an option. `accept`: yes. `edit`: a text, or a form. `ignore`: no answer, which cancels the turn. Default: `respond`."},
                    "answer": {"type": "string", "description": "The answer. Omit it for `accept`, `ignore` and a form."},
                    "form": {"type": "object", "description": "Fields of a tool's form, instead of `answer`."},
                    "turn_id": id("Turn that asked. If another question is open, the answer is refused."),
                    "seq": {"type": "integer", "minimum": 0, "description": "`seq` of the question. If another question is open, the answer is refused."},
                    "wait_seconds": wait(),
                }),
                json!(["thread_id"]),
            ),
            Self::ThreadEvents => (
                json!({
                    "thread_id": id("Id of the thread."),
                    "after": {"type": "integer", "minimum": 0, "description": "Only events after this position."},
                    "limit": limit(),
                }),
                json!(["thread_id"]),
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    fn tool(self) -> Tool {
        let hints = ToolAnnotations::new().read_only(self != Self::Answer).open_world(self == Self::Answer);
        Tool::new(self.name(), self.about(), object(self.schema())).with_annotations(hints)
    }
}

/// Returns the tools that the principal may call, sorted by name of the strategy.
///
/// ## Why each argument has one type, and none is named `config`
///
/// Clients change what they cannot express, without a word. AutoGen 0.7.5 loads no tool if the type of one property is a list, LangChain's
/// adapters for JavaScript 1.1.4 make one object of types of which one is an object, and those for Python 0.3.2 drop arguments that are
/// named like their own: `config`, `runtime` and `run_manager`.
pub(super) fn tools(app: &AppState, principal: &Principal) -> Vec<Tool> {
    let strategies = usable_strategies(app, principal.into()).filter(|_| principal.has(Scope::Submit));
    let own = OwnTool::ALL.into_iter().filter(|tool| principal.has(tool.scope()));
    strategies.map(strategy).chain(own.map(OwnTool::tool)).collect()
}

fn strategy(graph: &dyn Graph) -> Tool {
    let keys = graph.config_schema();
    let keys: Vec<&str> =
        keys["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let settings = format!(
        "Configuration of a new thread, over that of the operator. Keys: {}. GET /v1/strategies/{} describes them.",
        keys.join(", "),
        graph.name()
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "input": {"type": "string", "minLength": 1, "description": "What the agent is asked to do."},
            "thread_id": id("Thread to continue. Default: a new thread."),
            "settings": {"type": "object", "description": settings},
            "budget": {"type": "object", "description": "Budget of a new thread: {\"turn\": {\"tokens\", \"usd\", \"seconds\"}, \"thread\": {…}}."},
            "response_format": {"type": "object", "description": "Format of the answer, as in OpenAI's API: {\"type\": \"json_schema\", \"json_schema\": {…}}."},
            "metadata": {"type": "object", "description": "Data stored with the turn."},
            "wait_seconds": wait(),
        },
        "required": ["input"],
        "additionalProperties": false,
    });
    let about =
        format!("{}. Runs as a durable turn, which goes on if the client disconnects.", graph.about());
    Tool::new(graph.name(), about, object(schema)).with_annotations(ToolAnnotations::new().open_world(true))
}

fn id(about: &str) -> Value {
    json!({"type": "string", "format": "uuid", "description": about})
}

fn wait() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 60, "description": "Maximum time to wait for the end of the turn, in seconds. Default: 50."})
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 1000, "description": "Maximum number. Default: 50."})
}
