//! Recognizes refusals of requests that have more tokens than the model takes.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// A refusal because of the length of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextExceeded {
    /// Context window of the model in tokens, if the endpoint names it.
    pub(super) tokens: Option<u64>,
}

/// Codes and types of such errors.
const CODES: [&str; 4] =
    ["context_length_exceeded", "exceed_context_size", "context_window_exceeded", "string_above_max_length"];

/// Words of such errors, in lower case.
const WORDS: [&str; 13] = [
    "maximum context length",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "too many tokens",
    "input token count",
    "maximum number of tokens allowed",
    "reduce the length of the messages",
    "`max_new_tokens` must be",
];

/// Patterns of the number of tokens that the model takes, in lower case. The first that matches counts.
static LIMITS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"(\d[\d,_]*) maximum context length",
        r"maximum context length\D{1,40}?(\d[\d,_]*)",
        r"> (\d[\d,_]*) maximum",
        r"maximum number of tokens allowed\D{0,10}?(\d[\d,_]*)",
        r"context (?:length|window|size)\D{1,40}?(\d[\d,_]*)\)? ?tokens",
        r"(?:must be <=|cannot exceed|limit(?: is| of)?:?) (\d[\d,_]*)",
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

impl ContextExceeded {
    /// Reads the refusal from an error, if it is one. `body` is the error as JSON, if it is.
    pub(super) fn of(message: &str, body: &Value) -> Option<Self> {
        let message = message.to_lowercase();
        let names_code =
            |value: &Value| value.as_str().is_some_and(|text| CODES.iter().any(|code| text.contains(code)));
        // A request that alone has more tokens than a minute allows never succeeds either.
        let larger_than_a_minute =
            message.contains("request too large") && message.contains("must be reduced");
        let is_one = names_code(&body["code"])
            || names_code(&body["type"])
            || larger_than_a_minute
            || WORDS.iter().any(|words| message.contains(words));
        // The length of a text is counted in characters.
        let in_characters = message.contains("string too long");
        is_one.then(|| Self {
            tokens: body["n_ctx"].as_u64().or_else(|| limit(&message)).filter(|_| !in_characters),
        })
    }
}

fn limit(message: &str) -> Option<u64> {
    let found = LIMITS.iter().find_map(|regex| regex.captures(message)?.get(1))?;
    found.as_str().replace([',', '_'], "").parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wordings_of_endpoints_are_recognized_with_the_number_they_name() {
        for (message, tokens) in [
            // OpenAI, Azure, vLLM, DeepSeek
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9021 tokens. Please reduce the length of the messages.",
                Some(8_192),
            ),
            (
                "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion).",
                Some(65_536),
            ),
            // OpenRouter
            (
                "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens",
                Some(131_072),
            ),
            // Anthropic
            ("prompt is too long: 213462 tokens > 200000 maximum", Some(200_000)),
            // Google
            (
                "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            // Mistral
            (
                "Prompt contains 9021 tokens and 0 draft tokens, too large for model with 8192 maximum context length",
                Some(8_192),
            ),
            // TGI
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
                Some(4_096),
            ),
            // Cohere
            (
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000",
                Some(4_081),
            ),
            // LM Studio
            (
                "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
                Some(4_096),
            ),
            // SGLang
            (
                "Requested token count exceeds the model's maximum context length of 32,768 tokens.",
                Some(32_768),
            ),
            // llama.cpp
            ("the request exceeds the available context size (4096 tokens), try increasing it", Some(4_096)),
            // Groq
            ("Please reduce the length of the messages or completion.", None),
            // Bedrock
            ("Input is too long for requested model.", None),
            // OpenAI, more tokens than a minute allows
            (
                "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 31000. The input or output tokens must be reduced in order to run successfully.",
                Some(30_000),
            ),
        ] {
            assert_eq!(
                ContextExceeded::of(message, &Value::Null),
                Some(ContextExceeded { tokens }),
                "{message}"
            );
        }
        let code = |body| ContextExceeded::of("", &body).map(|exceeded| exceeded.tokens);
        assert_eq!(code(json!({"code": "context_length_exceeded"})), Some(None));
        assert_eq!(code(json!({"type": "exceed_context_size_error", "n_ctx": 4096})), Some(Some(4_096)));
        let long =
            "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576";
        let body = json!({"code": "string_above_max_length"});
        assert_eq!(ContextExceeded::of(long, &body), Some(ContextExceeded { tokens: None }), "characters");
    }

    #[test]
    fn other_refusals_are_not_taken_for_it() {
        for message in [
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
            "Invalid schema for response_format 'Plan'",
            "The model `gpt-9` does not exist",
            "messages: roles must alternate between user and assistant",
            "",
        ] {
            assert_eq!(ContextExceeded::of(message, &json!({"code": 400})), None, "{message}");
        }
    }
}
