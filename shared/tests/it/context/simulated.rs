//! Endpoint and tools, simulated.

use serde_json::{Value, json};
use shared::{
    DynThread, Fault, FaultKind, Message, PendingRequest, Reply, Request, Response, Role, SUMMARISE_NODE,
    Tool, ToolCall, ToolOutput, Usage,
};

/// Endpoint and tools, simulated.
pub(super) struct Simulated {
    /// Tokens that the model takes.
    pub(super) window: u64,
    /// Images and files that the model takes.
    pub(super) attachments: usize,
    /// A refusal of a request that is too large.
    pub(super) refusal: FaultKind,
    /// Node whose requests are all refused.
    pub(super) refuses_node: Option<&'static str>,
    /// Arguments of the tool calls that the model makes in each turn, one round each.
    pub(super) rounds: Vec<Value>,
    /// Characters of a tool result.
    pub(super) result: usize,
    /// Number of refusals.
    pub(super) refusals: usize,
    /// Messages and tokens of each request that was answered, with its node.
    pub(super) received: Vec<(String, Vec<Message>, u64)>,
}

impl Default for Simulated {
    fn default() -> Self {
        Self {
            window: 8_000,
            attachments: usize::MAX,
            refusal: FaultKind::ContextExceeded { context_tokens: Some(8_000) },
            refuses_node: None,
            rounds: vec![json!({"path": "notes.txt"})],
            result: 600,
            refusals: 0,
            received: Vec::new(),
        }
    }
}

impl Simulated {
    pub(super) fn answer(
        &mut self,
        thread: &dyn DynThread,
        due: &PendingRequest,
    ) -> Result<(Response, Option<Usage>), Fault> {
        match &due.request {
            Request::Chat { system, .. } => {
                let messages = thread.messages_of(&due.request).into_owned();
                let node = thread.node().unwrap();
                let schema = thread.schema().map_or(0, |schema| schema.to_string().len());
                let bytes: usize =
                    messages.iter().map(|message| serde_json::to_string(message).unwrap().len()).sum();
                let tokens = ((bytes + system.len() + schema) / 4) as u64;
                let attachments: usize = messages.iter().map(|message| message.attachments.len()).sum();
                let is_refused = self.refuses_node == Some(node.as_str());
                if self.window < tokens || self.attachments < attachments || is_refused {
                    self.refusals += 1;
                    return Err(Fault::new("too long", self.refusal));
                }
                let reply = self.reply(&node, thread, &messages);
                let usage = Usage {
                    model: "model".to_owned(),
                    input_tokens: tokens,
                    output_tokens: (reply.content.len() / 4 + 1) as u64,
                    micro_usd: Some(tokens),
                    ..Usage::default()
                };
                self.received.push((node, messages, tokens));
                Ok((Response::Reply(reply), Some(usage)))
            }
            Request::ListTools { .. } => Ok((Response::Tools { tools: tools() }, None)),
            Request::CallTool { .. } => {
                let text: String =
                    (0..).map(|nth| format!("line {nth} of the file\n")).take(self.result / 12).collect();
                let text = text.chars().take(self.result).collect();
                Ok((Response::Output(ToolOutput::Ok(text)), None))
            }
            other => panic!("{other}"),
        }
    }

    fn reply(&self, node: &str, thread: &dyn DynThread, messages: &[Message]) -> Reply {
        let text = |content: String| Reply { content, ..Reply::default() };
        match node {
            SUMMARISE_NODE => {
                text(format!("The person asks about files. {}", "It was answered. ".repeat(40)))
            }
            "plan" => text(
                json!({"decision": "replace", "plan": [{"expert": "files", "task": "read"}], "next_task": 0})
                    .to_string(),
            ),
            "orchestrate" => {
                let own = thread.messages().iter().rposition(|message| message.role == Role::User).unwrap();
                let round =
                    thread.messages()[own..].iter().filter(|message| !message.tool_calls.is_empty()).count();
                let Some(arguments) = self.rounds.get(round) else { return text("It is read.".to_owned()) };
                let name = if arguments.get("from").is_some() { "read_more" } else { "read" };
                let id = format!("call_{}_{round}", thread.messages().len());
                let tool_calls = vec![ToolCall { id, name: name.to_owned(), arguments: arguments.clone() }];
                Reply { tool_calls, ..Reply::default() }
            }
            "assess" => {
                let done = messages.last().is_some_and(|message| message.role == Role::Assistant)
                    || self.rounds.len() == 1;
                text(json!({"is_completed": done, "explanation": "", "confidence": 0.9}).to_string())
            }
            "respond" => text("The file has lines, and this is what they say. ".repeat(8)),
            other => panic!("{other}"),
        }
    }
}

fn tools() -> Vec<Tool> {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    vec![serde_json::from_value(json!({"name": "read", "description": "Reads a file.", "parameters": parameters, "safety": "read"})).unwrap()]
}
