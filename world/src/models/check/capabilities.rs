//! The checks of single capabilities, each by one request.

use serde_json::{Value, json};
use shared::{Message, ModelParameters, Role, Safety, Tool, ToolCall};

use super::{
    CapabilityCheck,
    CapabilityVerdict::{Missing, WorkedAround, Works},
    Check, Pieces, failed, result,
};
use crate::{
    models::{
        Prompt, dialect::Features, messages::MessageOrder, prompt::ResponseSchema,
        stream::is_fixable_by_model, structured_output::OutputMode,
    },
    text::truncate,
};

/// Maximum characters of a reply in a result.
const MAX_REPLY_CHARS: usize = 60;

/// Largest reply that the check of the length limit allows, in tokens.
const LIMIT_TOKENS: u32 = 16;

impl Check<'_> {
    /// Reply, streaming, token counts and reasoning, all by one request.
    pub(super) async fn check_reply(&self, initial: Features) -> Vec<CapabilityCheck> {
        let pieces = Pieces::default();
        let asked = [Message::user("Count from one to ten in words.")];
        let (reply, usage) = match self.endpoint.chat(self.model, &self.prompt(&asked), &pieces).await {
            Ok(replied) => replied,
            Err(fault) => return vec![failed("reply", &fault)],
        };
        let known = self.endpoint.known(self.model).features;
        let text = truncate(reply.content.trim(), MAX_REPLY_CHARS);
        let stream = match pieces.0.into_inner() {
            _ if initial.streams && !known.streams => {
                (WorkedAround, "refused: replies arrive in one piece".to_owned())
            }
            0 | 1 => (WorkedAround, "replies arrive in one piece".to_owned()),
            pieces => (Works, format!("{pieces} pieces")),
        };
        let tokens = match (usage.input_tokens, usage.output_tokens) {
            (0, 0) if initial.stream_options && !known.stream_options => {
                (Missing, "stream_options is refused; with `stream = false` they may be reported".to_owned())
            }
            (0, 0) => {
                (Missing, "not reported: budgets of tokens and costs do not count its replies".to_owned())
            }
            (input, output) if initial.stream_options && !known.stream_options => {
                (WorkedAround, format!("stream_options is refused; {input} + {output} reported without"))
            }
            (input, output) => (Works, format!("{input} + {output}")),
        };
        let reasoning = match reply.reasoning.chars().count() {
            0 => "none in this reply".to_owned(),
            count => format!("{count} characters, kept apart from the reply"),
        };
        vec![
            result(
                "reply",
                if text.is_empty() { (Missing, "empty".to_owned()) } else { (Works, format!("{text:?}")) },
            ),
            result("streaming", stream),
            result("token counts", tokens),
            result("reasoning", (Works, reasoning)),
        ]
    }

    pub(super) async fn check_system(&self) -> CapabilityCheck {
        let asked = [Message::user("What is the capital of France?")];
        let system = "Whatever you are asked, reply with the one word: banana";
        let prompt = Prompt { system, ..self.prompt(&asked) };
        self.judged("system message", &prompt, |reply, _| {
            match reply.content.to_lowercase().contains("banana") {
                true => (Works, "obeyed".to_owned()),
                false => {
                    (Missing, format!("not obeyed: {:?}", truncate(reply.content.trim(), MAX_REPLY_CHARS)))
                }
            }
        })
        .await
    }

    /// Messages in an order that OpenAI accepts: two system messages, and no message of the user.
    pub(super) async fn check_order(&self, initial: Features) -> CapabilityCheck {
        let asked = [
            Message::new(Role::System, "Be brief."),
            Message::assistant("Shall I greet you?"),
            Message::new(Role::System, "Say hello."),
            Message::assistant("I am about to say hello."),
        ];
        let prompt = self.prompt(&asked);
        self.judged("order of messages", &prompt, |_, known| {
            match (known.messages.order == initial.messages.order, known.messages.order) {
                (true, MessageOrder::Any) => (Works, "any".to_owned()),
                (true, order) => (WorkedAround, format!("rearranged: {}", order.about())),
                (false, order) => (WorkedAround, format!("refused, then rearranged: {}", order.about())),
            }
        })
        .await
    }

    pub(super) async fn check_tools(&self) -> CapabilityCheck {
        let asked = [Message::user("Use the tool to look up the weather in Paris.")];
        let prompt = Prompt { tools: vec![weather()], ..self.prompt(&asked) };
        self.judged("tool calls", &prompt, |reply, _| match &reply.tool_calls[..] {
            [] => (Missing, format!("no call: {:?}", truncate(reply.content.trim(), MAX_REPLY_CHARS))),
            [call, ..] if call.arguments.is_object() => (Works, called(call)),
            [call, ..] => (Missing, format!("the arguments are no object: {}", called(call))),
        })
        .await
    }

    pub(super) async fn check_parallel_tools(&self) -> CapabilityCheck {
        let asked = [Message::user(
            "Look up the weather in Paris and in Rome. Call the tool twice, for both cities at once.",
        )];
        let prompt = Prompt { tools: vec![weather()], ..self.prompt(&asked) };
        self.judged("parallel tool calls", &prompt, |reply, _| match reply.tool_calls.len() {
            0 | 1 => (WorkedAround, "one call at a time".to_owned()),
            count => (Works, format!("{count} calls in one reply")),
        })
        .await
    }

    /// A conversation with parallel calls and their results, in which no tool may be called any more.
    pub(super) async fn check_tool_results(&self, initial: Features) -> CapabilityCheck {
        let call = |id: &str, city: &str| ToolCall {
            id: id.to_owned(),
            name: WEATHER.to_owned(),
            arguments: json!({ "city": city }),
        };
        let (paris, rome) = (call("call_1_0", "Paris"), call("call_1_1", "Rome"));
        let asked = [
            Message::user("Where is it warmer, in Paris or in Rome?"),
            Message { tool_calls: vec![paris.clone(), rome.clone()], ..Message::assistant("") },
            Message::tool(&paris, "12 degrees"),
            Message::tool(&rome, "19 degrees"),
        ];
        self.judged("tool results", &self.prompt(&asked), |reply, known| {
            let (before, now) = (initial.messages, known.messages);
            let changes: Vec<&str> = [
                (before.parallel_calls && !now.parallel_calls, "one call a message"),
                (!before.short_call_ids && now.short_call_ids, "ids of 9 characters"),
                (!before.declares_called_tools && now.declares_called_tools, "called tools are declared"),
                (!before.signs_calls && now.signs_calls, "calls carry a signature"),
                (before.null_content && !now.null_content, "empty text beside calls"),
            ]
            .into_iter()
            .filter_map(|(is_so, text)| is_so.then_some(text))
            .collect();
            match reply.content.contains("Rome") {
                _ if !changes.is_empty() => (WorkedAround, changes.join(", ")),
                true => (Works, "read".to_owned()),
                false => {
                    (Missing, format!("not used: {:?}", truncate(reply.content.trim(), MAX_REPLY_CHARS)))
                }
            }
        })
        .await
    }

    pub(super) async fn check_structured(&self, first: OutputMode) -> CapabilityCheck {
        let asked = [Message::user("Which country is Paris in?")];
        let schema = json!({
            "type": "object",
            "properties": { "city": { "type": "string" }, "country": { "type": "string" } },
            "required": ["city", "country"],
        });
        let shape = Some(ResponseSchema { name: "Place", schema, format: None });
        let prompt = Prompt { shape, ..self.prompt(&asked) };
        let replied = self.endpoint.chat(self.model, &prompt, &Pieces::default()).await;
        let capability = "structured answers";
        match replied {
            Err(fault) => failed(capability, &fault),
            Ok((reply, usage)) => {
                let object: Value = serde_json::from_str(&reply.content).unwrap_or_default();
                let mode = &usage.response_format;
                let fits = object["city"].is_string() && object["country"].is_string();
                result(
                    capability,
                    match fits {
                        true if mode == first.name() => (Works, format!("by {mode}")),
                        true => (WorkedAround, format!("by {mode}: {} is refused", first.name())),
                        false => (
                            Missing,
                            format!(
                                "by {mode}, of another shape: {:?}",
                                truncate(&reply.content, MAX_REPLY_CHARS)
                            ),
                        ),
                    },
                )
            }
        }
    }

    pub(super) async fn check_limit(&self, initial: Features) -> CapabilityCheck {
        let asked = [Message::user("Tell a story of 300 words.")];
        let parameters = ModelParameters { max_tokens: Some(LIMIT_TOKENS), ..ModelParameters::default() };
        let prompt = Prompt { parameters: Some(&parameters), ..self.prompt(&asked) };
        let replied = self.endpoint.chat(self.model, &prompt, &Pieces::default()).await;
        let known = self.endpoint.known(self.model).features;
        let field = known.token_limit.name();
        let capability = "length limit";
        match replied {
            // A model that reasons may use up the limit before it writes a word.
            Err(fault) if is_fixable_by_model(&fault.error) => {
                result(capability, (Works, format!("{field} is obeyed and reported")))
            }
            Err(fault) => failed(capability, &fault),
            Ok((reply, _)) if !reply.cut_off => result(
                capability,
                (Missing, format!("{field} is ignored, or a reply that it cuts is not marked")),
            ),
            Ok(_) if known.token_limit != initial.token_limit => result(
                capability,
                (WorkedAround, format!("by {field}: {} is refused", initial.token_limit.name())),
            ),
            Ok(_) => result(capability, (Works, format!("{field} is obeyed and reported"))),
        }
    }
}

/// Name of the tool that models are offered.
const WEATHER: &str = "get_weather";

fn weather() -> Tool {
    Tool {
        name: WEATHER.to_owned(),
        description: "Looks up the weather in a city.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
        safety: Safety::Read,
        max_repeats: None,
        read_back: None,
    }
}

fn called(call: &ToolCall) -> String {
    truncate(&format!("{}({})", call.name, call.arguments), MAX_REPLY_CHARS)
}
