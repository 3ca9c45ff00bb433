//! Recognizes refusals of requests that have more tokens, images or files than the model takes.

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
const CODES: [&str; 6] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context_window_exceeded",
    "string_above_max_length",
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
];

/// Words of such errors, in lower case.
const WORDS: [&str; 24] = [
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
    "`inputs` must have less than",
    "maximum prompt length",
    "prompt exceeds max length",
    "model token limit",
    "range of input length should be",
    "prompt token count",
    "input tokens exceed",
    "exceed context limit",
    "exceeds context limit",
    "request body too large for",
    "please reduce your message size",
];

/// Patterns of the number of tokens that the model takes, in lower case. The first that matches counts.
static LIMITS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"(\d[\d,_]*) maximum context length",
        r"maximum prompt length\D{1,40}?(\d[\d,_]*)",
        r"range of input length should be \[\d+, ?(\d[\d,_]*)\]",
        r"must have less than (\d[\d,_]*) tokens",
        r"exceeds? context limit: [\d,_]+ ?\+ ?[\d,_]+ ?> ?(\d[\d,_]*)",
        r"max size: (\d[\d,_]*) tokens",
        r"only supports up to (\d[\d,_]*)",
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
        let is_one = names_code(&body["code"])
            || names_code(&body["type"])
            || WORDS.iter().any(|words| message.contains(words));
        // The length of a text is counted in characters.
        let in_characters = message.contains("string too long");
        is_one.then(|| Self {
            tokens: body["n_ctx"].as_u64().or_else(|| limit(&message)).filter(|_| !in_characters),
        })
    }
}

fn limit(message: &str) -> Option<u64> {
    let window = |regex: &Regex| {
        let found = regex.captures(message)?;
        // "Exceeded by 300 tokens" names the difference.
        let is_difference = found.get(0)?.as_str().contains(" by ");
        found.get(1).filter(|_| !is_difference)
    };
    number(LIMITS.iter().find_map(window)?.as_str())
}

fn number(digits: &str) -> Option<u64> {
    digits.replace([',', '_'], "").parse().ok()
}

/// A refusal because of the number or the size of images and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttachmentsExceeded {
    /// Maximum number of them in one request, if the endpoint names it.
    pub(super) max: Option<u64>,
}

/// Names of images and files, in lower case.
const ATTACHMENTS: &str = r"(?:images?|pictures?|photos?|attachments?|media|documents?|pdfs?|files?)\b";

/// Pattern of a refusal for images and files: the excess before them, or after.
static EXCESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let excess = r"(?:too many|too much|too large|too big|more than|at most|up to|maximum|exceeds?|exceeded|limit of|larger than)";
    Regex::new(&format!(r"\b{excess}\b.{{0,40}}\b{ATTACHMENTS}|\b{ATTACHMENTS}.{{0,40}}\b{excess}\b")).ok()
});

/// Patterns of the number of images and files that a model takes.
static MOST: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        format!(
            r"(?:at most|up to|more than|maximum(?: of)?|max(?: of)?|limit of|only) (\d+) (?:\w+ )?{ATTACHMENTS}"
        ),
        format!(r"(?:maximum|max|limit)(?: number of)? {ATTACHMENTS}\D{{1,30}}?(\d+)\b"),
        format!(
            r"{ATTACHMENTS}.{{1,40}}?(?:maximum|max|limit|limited to|at most|up to)(?: is| of|:)? (\d+)\b(?: ?(?:images?|$|[.,;)]))"
        ),
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

impl AttachmentsExceeded {
    /// Reads the refusal from the message of an error, if it is one.
    pub(super) fn of(message: &str) -> Option<Self> {
        let message = message.to_lowercase();
        if !EXCESS.as_ref()?.is_match(&message) {
            return None;
        }
        let most = MOST.iter().find_map(|regex| regex.captures(&message)?.get(1));
        Some(Self { max: most.and_then(|found| number(found.as_str())) })
    }
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
            // Groq, with status 413: more tokens than a minute allows
            (
                "Request too large for model `llama-3.1-8b-instant` in organization `org-1` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.",
                Some(6_000),
            ),
            // xAI
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                Some(131_072),
            ),
            // Moonshot
            (
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 275000)",
                Some(262_144),
            ),
            // DashScope
            (
                "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
                Some(98_304),
            ),
            // TGI
            ("Input validation error: `inputs` must have less than 4095 tokens. Given: 5000", Some(4_095)),
            // Anthropic, the sum
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
                Some(200_000),
            ),
            // GitHub Models
            ("Request body too large for gpt-4o model. Max size: 8000 tokens.", Some(8_000)),
            // Copilot
            ("prompt token count of 134000 exceeds the limit of 128000", Some(128_000)),
            // SGLang
            ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", Some(4_096)),
            // Vertex
            (
                "Unable to submit request because the input token count is 36035 but model only supports up to 32768. Reduce the input token count and try again.",
                Some(32_768),
            ),
            // Z.ai
            ("Prompt exceeds max length", None),
            // MiniMax
            ("invalid params, context window exceeds limit (2013)", None),
            // Ollama
            ("prompt too long; exceeded max context length by 1290 tokens", None),
            // OpenAI, responses
            (
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                None,
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

    #[test]
    fn refusals_for_images_and_files_are_recognized_with_the_number_they_name() {
        for (message, max) in [
            ("Too many images in the request: 6. This model supports up to 5 images per request.", Some(5)),
            // vLLM
            ("At most 1 image(s) may be provided in one request.", Some(1)),
            // OpenAI
            ("Invalid content: a request may have no more than 50 images.", Some(50)),
            // Anthropic
            (
                "messages.0.content.20.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
                None,
            ),
            ("messages.8.content: Too much media: 21 document pages + 90 images > 100", None),
            ("A maximum of 100 PDF pages may be provided.", Some(100)),
            // Groq
            ("Too many images provided. This model supports up to 5 images", Some(5)),
            // Gemini
            ("The total size of the media exceeds the limit of 20 MB.", None),
        ] {
            assert_eq!(AttachmentsExceeded::of(message), Some(AttachmentsExceeded { max }), "{message}");
        }
        for message in [
            "This model does not support image input.",
            "Invalid image URL",
            "Request too large: payload exceeds 8 MB.",
            "No endpoints found that support image input",
            "max_tokens is too large: 100000",
            "",
        ] {
            assert_eq!(AttachmentsExceeded::of(message), None, "{message}");
        }
    }
}
