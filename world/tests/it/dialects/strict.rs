//! The checks of each endpoint, with the words of its refusals as far as they matter. Taken from documentation and
//! reports of users.

use async_openai::types::chat::CreateChatCompletionRequest;
use serde_json::{Map, Value};
use world::Dialect;

use crate::world::strictness;

/// Checks that the endpoint would accept the request. The error is the reason for the refusal.
pub(super) fn check(dialect: Dialect, body: &Value) -> Result<(), String> {
    // Every request is one of OpenAI's API, by its published types.
    serde_json::from_value::<CreateChatCompletionRequest>(body.clone()).map_err(|error| error.to_string())?;
    let messages = body["messages"].as_array().ok_or("no messages")?;
    strictness::check_calls(messages)?;
    match dialect {
        Dialect::OpenAi => openai(body),
        Dialect::Azure => azure(body),
        Dialect::Anthropic => anthropic(body, messages),
        Dialect::Vllm => qwen_template(messages).and(arguments_are_objects(messages)),
        Dialect::LlamaCpp => llama_template(messages).and(arguments_are_objects(messages)),
        Dialect::Ollama => arguments_are_objects(messages),
        Dialect::Gemini => gemini(body, messages).and(arguments_are_objects(messages)),
        Dialect::Mistral => {
            refuse(body.get("stream_options").is_some(), "stream_options: Extra inputs are not permitted")?;
            mistral(messages).and(arguments_are_objects(messages))
        }
        Dialect::Groq => groq(body),
        Dialect::OpenRouter => mistral_order(messages),
        Dialect::Compatible => everything(body, messages),
    }
}

fn refuse(is_so: bool, why: impl Into<String>) -> Result<(), String> {
    if is_so { Err(why.into()) } else { Ok(()) }
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["role"].as_str()).collect()
}

fn openai(body: &Value) -> Result<(), String> {
    refuse(
        body.get("max_tokens").is_some(),
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    )?;
    // The recorded models search the web whatever their names.
    let mut body = body.clone();
    body.as_object_mut().unwrap().remove("web_search_options");
    strictness::check(&body)
}

/// An older version of the API.
fn azure(body: &Value) -> Result<(), String> {
    refuse(body.get("stream_options").is_some(), "Unrecognized request argument supplied: stream_options")?;
    refuse(
        body.get("max_completion_tokens").is_some(),
        "Unrecognized request argument supplied: max_completion_tokens",
    )
}

fn anthropic(body: &Value, messages: &[Value]) -> Result<(), String> {
    let calls = messages.iter().any(|message| message["tool_calls"].is_array());
    refuse(calls && body.get("tools").is_none(), "Requests which include tool calls must define tools.")?;
    let spoken: Vec<&str> = roles(messages).into_iter().filter(|role| *role != "system").collect();
    refuse(spoken.is_empty(), "messages: at least one message is required")?;
    refuse(
        spoken.last() == Some(&"assistant"),
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )?;
    non_empty(messages)
}

fn non_empty(messages: &[Value]) -> Result<(), String> {
    let is_empty = |message: &Value| {
        message["content"] == "" || (message["content"].is_null() && !message["tool_calls"].is_array())
    };
    refuse(messages.iter().any(is_empty), "messages: text content blocks must be non-empty")
}

/// The template of Qwen's models.
fn qwen_template(messages: &[Value]) -> Result<(), String> {
    let roles = roles(messages);
    refuse(roles.iter().skip(1).any(|role| *role == "system"), "System message must be at the beginning.")?;
    refuse(!roles.contains(&"user"), "No user query found in messages.")
}

/// The template of Llama's models, which also knows only one call at a time.
fn llama_template(messages: &[Value]) -> Result<(), String> {
    let roles = roles(messages);
    refuse(
        roles.iter().skip(1).any(|role| *role == "system"),
        "Jinja Exception: System message must be at the beginning.",
    )?;
    let parallel = |message: &Value| message["tool_calls"].as_array().is_some_and(|calls| 1 < calls.len());
    refuse(
        messages.iter().any(parallel),
        "Jinja Exception: This model only supports single tool-calls at once!",
    )?;
    let alternates = roles.windows(2).all(|pair| pair[0] != pair[1] || pair[0] == "tool");
    refuse(!alternates, "Jinja Exception: Conversation roles must alternate user/assistant")?;
    refuse(roles.last() == Some(&"assistant"), "Assistant message prefill is incompatible with this template")
}

fn gemini(body: &Value, messages: &[Value]) -> Result<(), String> {
    let spoken: Vec<&Value> = messages.iter().filter(|message| message["role"] != "system").collect();
    refuse(spoken.is_empty(), "GenerateContentRequest.contents: contents is not specified")?;
    for (nth, message) in spoken.iter().enumerate().filter(|(_, message)| message["tool_calls"].is_array()) {
        let before = nth.checked_sub(1).map(|before| &spoken[before]["role"]);
        refuse(
            before.is_none_or(|role| role != "user" && role != "tool"),
            "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        )?;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let signature = &call["extra_content"]["google"]["thought_signature"];
            refuse(
                !signature.is_string(),
                "Function call is missing a thought_signature in functionCall parts.",
            )?;
        }
    }
    refuse(
        spoken.last().is_some_and(|message| message["role"] == "assistant"),
        "Please ensure that single turn requests end with a user role",
    )?;
    let forced = body["response_format"].is_object() && body["tools"].is_array();
    refuse(forced, "Function calling with a response mime type: 'application/json' is unsupported")
}

fn mistral(messages: &[Value]) -> Result<(), String> {
    mistral_order(messages)?;
    let calls = messages
        .iter()
        .filter_map(|message| message["tool_calls"].as_array())
        .flatten()
        .map(|call| &call["id"]);
    for id in calls.chain(
        messages.iter().filter(|message| message["role"] == "tool").map(|message| &message["tool_call_id"]),
    ) {
        let is_short = id
            .as_str()
            .is_some_and(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        refuse(!is_short, format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."))?;
    }
    Ok(())
}

fn mistral_order(messages: &[Value]) -> Result<(), String> {
    let roles = roles(messages);
    for (one, other) in roles.iter().zip(roles.iter().skip(1)) {
        let is_wrong = matches!(
            (*one, *other),
            ("tool", "user" | "system") | ("user", "system" | "tool") | ("assistant", "assistant" | "system")
        );
        refuse(is_wrong, format!("Unexpected role '{other}' after role '{one}'"))?;
    }
    let last = roles.last().copied().unwrap_or("nobody");
    refuse(
        !["user", "tool"].contains(&last),
        format!("Expected last role User or Tool for serving but got {last}"),
    )?;
    non_empty(messages)
}

fn groq(body: &Value) -> Result<(), String> {
    let formats = body["response_format"].is_object();
    refuse(
        formats && body["stream"] == true,
        "response_format json_schema and streaming cannot be combined",
    )?;
    refuse(formats && body["tools"].is_array(), "json mode cannot be combined with tool/function calling")
}

/// An endpoint of no known dialect, which refuses what any of the others refuses, as long as it is one at a time.
fn everything(body: &Value, messages: &[Value]) -> Result<(), String> {
    refuse(body.get("stream_options").is_some(), "unknown field `stream_options`")?;
    refuse(body["response_format"].is_object(), "unknown field `response_format`")?;
    refuse(body["tool_choice"].is_object(), "tool_choice: only auto is supported")?;
    qwen_template(messages)?;
    mistral(messages)?;
    arguments_are_objects(messages)
}

fn arguments_are_objects(messages: &[Value]) -> Result<(), String> {
    for call in messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or("");
        let is_object = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
        refuse(!is_object, format!("invalid tool call arguments: {arguments}"))?;
    }
    Ok(())
}
