//! Support of the parameters of OpenAI's chat completions.

use serde_json::{Map, Value, json};

use crate::server::problem::{ApiError, Kind};

/// Parameters of a request that have an effect.
const SUPPORTED: [&str; 7] =
    ["model", "messages", "stream", "stream_options", "metadata", "user", "turnfold"];

/// Parameters that are accepted without effect: the strategy's configuration decides how models are called.
const WITHOUT_EFFECT: [&str; 20] = [
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "temperature",
    "top_k",
    "top_p",
    "verbosity",
];

/// Rejects parameters that would be expected to have an effect and have none.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), ApiError> {
    for (name, value) in body {
        let (name, known) = (name.as_str(), |list: &[&str]| list.contains(&name.as_str()));
        if known(&SUPPORTED) || known(&WITHOUT_EFFECT) {
            continue;
        }
        let Some((neutral, hint)) = unsupported(name) else {
            let detail = format!("{name}: unknown parameter");
            return Err(Kind::Unsupported.because(detail).hint("remove it").with_param(name));
        };
        if !neutral.contains(value) {
            let only = match neutral.first() {
                Some(only) => format!("{name}: only {only} is supported"),
                None => format!("{name}: not supported"),
            };
            return Err(Kind::Unsupported.because(only).hint(hint).with_param(name));
        }
    }
    Ok(())
}

/// Returns the values of an unsupported parameter that request nothing, and a hint.
fn unsupported(name: &str) -> Option<(Vec<Value>, &'static str)> {
    const TOOLS: &str = "remove it: agents use the operator's MCP servers as tools";
    Some(match name {
        "n" => (vec![json!(1)], "send one request for each answer"),
        "logprobs" => (vec![json!(false)], "remove it: completions have no log probabilities"),
        "top_logprobs" => (vec![json!(0)], "remove it: completions have no log probabilities"),
        "tools" | "functions" => (vec![json!([])], TOOLS),
        "tool_choice" | "function_call" => (vec![json!("none"), json!("auto")], TOOLS),
        "response_format" => (vec![json!({"type": "text"})], "describe the format in the messages"),
        "modalities" => (vec![json!(["text"])], "remove it: completions are text"),
        "audio" => (vec![], "remove it: completions are text"),
        "web_search_options" => (vec![], "remove it and use the model turnfold/research"),
        _ => return None,
    })
}
