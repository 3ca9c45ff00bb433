//! Support of the parameters of OpenAI's chat completions.

use serde_json::{Map, Value, json};

use crate::server::problem::{ApiError, Kind};

/// Parameters of a request that have an effect.
const SUPPORTED: [&str; 11] = [
    "messages",
    "metadata",
    "model",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
    "turnfold",
    "user",
];

/// Parameters of the strategy `chat` that its configuration has as well, by their names there. Others are called as they are configured.
const CONFIGURED: [(&str, &str); 4] = [
    ("max_completion_tokens", "max_tokens"),
    ("max_tokens", "max_tokens"),
    ("reasoning_effort", "reasoning_effort"),
    ("temperature", "temperature"),
];

/// Parameters that the strategy `chat` passes to the model's endpoint unchanged.
const PASSED_ON: [&str; 9] = [
    "frequency_penalty",
    "logit_bias",
    "presence_penalty",
    "seed",
    "service_tier",
    "stop",
    "top_k",
    "top_p",
    "verbosity",
];

/// Parameters that are accepted without effect.
const WITHOUT_EFFECT: [&str; 6] = [
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
];

/// Returns the parameters of the model in the names of the configuration.
pub(super) fn configured(body: &Map<String, Value>) -> Map<String, Value> {
    // The first name of a limit that is sent wins: `max_completion_tokens` is the newer one.
    let mut named = Map::new();
    for (name, key) in CONFIGURED {
        if let Some(value) = body.get(name) {
            named.entry(key).or_insert_with(|| value.clone());
        }
    }
    named
}

/// Returns the parameters that are passed to the endpoint unchanged.
pub(super) fn passed_on(body: &Map<String, Value>) -> Map<String, Value> {
    PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone()))).collect()
}

/// Rejects parameters that would be expected to have an effect and have none.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), ApiError> {
    for (name, value) in body {
        let (name, known) = (name.as_str(), |list: &[&str]| list.contains(&name.as_str()));
        let configured = CONFIGURED.iter().any(|(known, _)| *known == name);
        if configured || known(&SUPPORTED) || known(&PASSED_ON) || known(&WITHOUT_EFFECT) {
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
    const TOOLS: &str = "send `tools` and `tool_choice`";
    Some(match name {
        "n" => (vec![json!(1)], "send one request for each answer"),
        "logprobs" => (vec![json!(false)], "remove it: completions have no log probabilities"),
        "top_logprobs" => (vec![json!(0)], "remove it: completions have no log probabilities"),
        "functions" => (vec![json!([])], TOOLS),
        "function_call" => (vec![json!("none"), json!("auto")], TOOLS),
        "modalities" => (vec![json!(["text"])], "remove it: completions are text"),
        "audio" => (vec![], "remove it: completions are text"),
        "web_search_options" => (vec![], "remove it and use the model turnfold/research"),
        _ => return None,
    })
}

/// The document describes the parameters that have an effect, and no other.
#[test]
fn every_parameter_with_an_effect_is_described() {
    use std::collections::BTreeSet;
    use utoipa::PartialSchema as _;

    let schema = serde_json::to_value(api_types::ChatCompletionBody::schema()).unwrap();
    let described: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let configured = CONFIGURED.map(|(name, _)| name);
    let taken = SUPPORTED.iter().chain(&configured).chain(&PASSED_ON).copied().collect();
    assert_eq!(described, taken);
}
