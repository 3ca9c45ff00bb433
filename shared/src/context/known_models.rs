//! Context windows of models whose providers publish them.
//!
//! ## Why open models are missing
//!
//! Their window depends on the server that runs them: Ollama and llama.cpp serve a fraction of it unless told otherwise.
//! It is configured, or learned from a refusal.

/// Context windows in tokens, by the beginning of the model's name. The first match counts.
const CONTEXT_TOKENS: &[(&str, u64)] = &[
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("chatgpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-1106", 128_000),
    ("gpt-4-0125", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4", 8_192),
    ("gpt-3.5-turbo-instruct", 4_096),
    ("gpt-3.5-turbo", 16_385),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("claude-", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-", 1_048_576),
];

/// Returns the context window of a known model in tokens. The provider, a vendor before a slash and the mark of a
/// fine-tuned model do not matter.
pub fn known_context_tokens(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let known = |prefix: &str| {
        let rest = name.strip_prefix(prefix)?;
        // `o1` is not the beginning of `o10`.
        (prefix.ends_with('-') || !rest.starts_with(|char: char| char.is_ascii_alphanumeric())).then_some(())
    };
    CONTEXT_TOKENS.iter().find(|(prefix, _)| known(prefix).is_some()).map(|(_, tokens)| *tokens)
}

#[test]
fn a_model_is_known_by_the_beginning_of_its_name() {
    for (model, tokens) in [
        ("openai/gpt-4o", Some(128_000)),
        ("azure/gpt-4o-mini-2024-07-18", Some(128_000)),
        ("openrouter/anthropic/claude-3.5-sonnet", Some(200_000)),
        ("openai/ft:gpt-4o-mini:acme::9x", Some(128_000)),
        ("openai/gpt-4", Some(8_192)),
        ("openai/gpt-4.1-nano", Some(1_047_576)),
        ("openai/o1", Some(200_000)),
        ("openai/o10", None),
        ("local/gpt-oss", None),
        ("local/llama3.1", None),
        ("scripted/model", None),
    ] {
        assert_eq!(known_context_tokens(model), tokens, "{model}");
    }
}
