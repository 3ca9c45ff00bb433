//! Which parameters of OpenAI's chat completions mean what here.

use serde_json::{Map, Value, json};

use crate::problem::{Kind, Problem};

/// What has a meaning here.
const HEARD: [&str; 7] = ["model", "messages", "stream", "stream_options", "metadata", "user", "turnfold"];

/// What is accepted and without effect: how a strategy asks its models is the operator's, or `turnfold.config`'s.
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

/// Refuses what would be expected to have an effect and has none.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), Problem> {
    for (name, value) in body {
        let (name, known) = (name.as_str(), |list: &[&str]| list.contains(&name.as_str()));
        if known(&HEARD) || known(&WITHOUT_EFFECT) {
            continue;
        }
        let Some((idle, mend)) = unsupported(name) else {
            let words = format!("{name}: there is no such parameter");
            return Err(Kind::Unsupported.because(words).mend("leave it out").about(name));
        };
        if !idle.contains(value) {
            let only = match idle.first() {
                Some(only) => format!("{name}: only {only} is supported"),
                None => format!("{name}: not supported"),
            };
            return Err(Kind::Unsupported.because(only).mend(mend).about(name));
        }
    }
    Ok(())
}

/// The values of an unsupported parameter that ask for nothing, and what to do instead.
fn unsupported(name: &str) -> Option<(Vec<Value>, &'static str)> {
    const TOOLS: &str =
        "leave it out: an agent's tools are the operator's MCP servers, and it calls them itself";
    Some(match name {
        "n" => (vec![json!(1)], "send the request as often as you want answers"),
        "logprobs" => (vec![json!(false)], "leave it out: an agent's answer has none"),
        "top_logprobs" => (vec![json!(0)], "leave it out: an agent's answer has none"),
        "tools" | "functions" => (vec![json!([])], TOOLS),
        "tool_choice" | "function_call" => (vec![json!("none"), json!("auto")], TOOLS),
        "response_format" => (vec![json!({"type": "text"})], "say in words how the answer should look"),
        "modalities" => (vec![json!(["text"])], "leave it out: answers are text"),
        "audio" => (vec![], "leave it out: answers are text"),
        "web_search_options" => (vec![], "leave it out: use the model turnfold/research"),
        _ => return None,
    })
}
