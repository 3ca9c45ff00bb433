//! Reasons for which a reply ended.

/// Reasons of whole replies.
const WHOLE: [&str; 22] = [
    "stop",
    "stop_sequence",
    "stop_token",
    "stop_string",
    "stopped",
    "tool_calls",
    "tool_call",
    "tool_use",
    "function_call",
    "function_calls",
    "end_turn",
    "end",
    "eos",
    "eos_token",
    "eot",
    "eot_token",
    "complete",
    "completed",
    "done",
    "finish",
    "finished",
    "normal",
];

/// Reasons of replies that are cut off at the length limit.
const LENGTH: [&str; 9] = [
    "length",
    "max_tokens",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "model_length",
    "token_limit",
    "model_context_window_exceeded",
];

/// Reasons of replies that a filter withheld.
const WITHHELD: [&str; 13] = [
    "content_filter",
    "content_filtered",
    "content-filter",
    "content_policy",
    "safety",
    "image_safety",
    "recitation",
    "prohibited_content",
    "blocklist",
    "spii",
    "sensitive",
    "refusal",
    "guardrail_intervened",
];

/// Reason why a reply ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finish {
    Whole,
    Length,
    Withheld,
    /// The endpoint gave up, and says so in this word.
    Failed(String),
}

impl Finish {
    /// Reads the reason; endpoints have several words for each. An empty word is none.
    ///
    /// A word that is not known is a failure: what came with it may be the text of an error.
    pub(super) fn of(word: &str) -> Option<Self> {
        let lower = word.trim().to_ascii_lowercase();
        let is_in = |words: &[&str]| words.contains(&lower.as_str());
        if is_in(&["", "null", "none"]) {
            None
        } else if is_in(&WHOLE) {
            Some(Self::Whole)
        } else if is_in(&LENGTH) {
            Some(Self::Length)
        } else if is_in(&WITHHELD) {
            Some(Self::Withheld)
        } else {
            Some(Self::Failed(word.to_owned()))
        }
    }
}
