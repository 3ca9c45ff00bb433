//! Token counts of a reply, in the many forms in which endpoints report them.

use serde_json::Value;
use shared::Usage;

/// Largest count that is believed. Sums of usage up to it are exact.
const MAX_COUNT: f64 = 1e12;

/// Names of the tokens read, cached ones included unless a provider counts them beside.
const PROMPT: [&str; 4] = ["/prompt_tokens", "/input_tokens", "/promptTokenCount", "/inputTokens"];

/// Names of the tokens written.
const COMPLETION: [&str; 4] =
    ["/completion_tokens", "/output_tokens", "/candidatesTokenCount", "/outputTokens"];

/// Names of the sum of all tokens.
const TOTAL: [&str; 3] = ["/total_tokens", "/totalTokenCount", "/totalTokens"];

/// Names of the tokens of reasoning.
const REASONING: [&str; 4] = [
    "/completion_tokens_details/reasoning_tokens",
    "/output_tokens_details/reasoning_tokens",
    "/reasoning_tokens",
    "/thoughtsTokenCount",
];

/// Names of the tokens read from a cache.
const CACHED: [&str; 7] = [
    "/prompt_tokens_details/cached_tokens",
    "/input_tokens_details/cached_tokens",
    "/cached_tokens",
    "/prompt_cache_hit_tokens",
    "/cache_read_input_tokens",
    "/cacheReadInputTokens",
    "/cachedContentTokenCount",
];

/// Names of the tokens written to a cache.
const CACHE_WRITE: [&str; 4] = [
    "/cache_creation_input_tokens",
    "/prompt_tokens_details/cache_write_tokens",
    "/prompt_tokens_details/cache_creation_tokens",
    "/cacheWriteInputTokens",
];

/// The largest counts that the chunks of a reply report.
///
/// ## Why the largest
///
/// Some endpoints count in every chunk, some in the first and the last, and some send a last count of zeros. No count
/// that was reported is taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    prompt: u64,
    completion: u64,
    total: u64,
    reasoning: u64,
    cached: u64,
    cache_write: u64,
    /// True if the tokens of the cache have Anthropic's names beside Anthropic's name of the input.
    is_anthropic: bool,
}

impl TokenCounts {
    /// Adds the counts in a chunk, wherever they stand.
    pub(super) fn add(&mut self, chunk: &Value) {
        let of_chunk = ["/usage", "/x_groq/usage", "/usageMetadata"];
        let of_choice = ["/usage", "/delta/usage", "/message/usage"];
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let in_choices = choices.flat_map(|choice| of_choice.map(|place| choice.pointer(place)));
        for usage in of_chunk.map(|place| chunk.pointer(place)).into_iter().chain(in_choices).flatten() {
            self.add_usage(usage);
        }
    }

    fn add_usage(&mut self, usage: &Value) {
        for (count, names) in [
            (&mut self.prompt, PROMPT.as_slice()),
            (&mut self.completion, &COMPLETION),
            (&mut self.total, &TOTAL),
            (&mut self.reasoning, &REASONING),
            (&mut self.cached, &CACHED),
            (&mut self.cache_write, &CACHE_WRITE),
        ] {
            *count = names.iter().filter_map(|name| number(usage.pointer(name)?)).fold(*count, u64::max);
        }
        let has = |name: &str| usage.get(name).is_some_and(|value| !value.is_null());
        self.is_anthropic |= has("input_tokens")
            && !has("prompt_tokens")
            && (has("cache_read_input_tokens") || has("cache_creation_input_tokens"));
    }

    /// Returns true if the tokens of the cache are counted beside the prompt and not as part of it.
    fn is_cache_beside(&self) -> bool {
        let Self { prompt, completion, total, cached, cache_write, is_anthropic, .. } = *self;
        let (cache, all) = (cached + cache_write, prompt + completion);
        prompt < cache || (is_anthropic && total != all) || (0 < cache && total == all + cache)
    }

    /// Writes the counts into the usage of the reply, as the provider bills them.
    ///
    /// Some providers count reasoning beside the completion. Then only the total, or the reasoning itself, shows what was
    /// written.
    pub(super) fn fill(&self, usage: &mut Usage) {
        let Self { prompt, completion, total, reasoning, cached, cache_write, .. } = *self;
        let mut input = if self.is_cache_beside() { prompt + cached + cache_write } else { prompt };
        let written = if completion < reasoning { completion + reasoning } else { completion };
        if input == 0 {
            input = total.saturating_sub(written);
        }
        usage.input_tokens = input;
        usage.output_tokens = written.max(total.saturating_sub(input));
        (usage.cached_input_tokens, usage.cache_write_tokens) = (cached, cache_write);
        usage.reasoning_tokens = reasoning.min(usage.output_tokens);
    }
}

/// Reads a count. Some endpoints write it as a text or as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts out of range are left out"
)]
fn number(value: &Value) -> Option<u64> {
    let float = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let count = float.round();
    (0.0..=MAX_COUNT).contains(&count).then_some(count as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the tokens read, written, cached and written to the cache.
    fn counted(chunks: &[Value]) -> [u64; 4] {
        let (mut counts, mut usage) = (TokenCounts::default(), Usage::default());
        chunks.iter().for_each(|chunk| counts.add(chunk));
        counts.fill(&mut usage);
        [usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.cache_write_tokens]
    }

    fn counted_of(usage: &Value) -> [u64; 4] {
        counted(&[json!({ "choices": [], "usage": usage })])
    }

    #[test]
    fn reasoning_beside_the_completion_is_output() {
        for usage in [
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 2050,
                "completion_tokens_details": { "reasoning_tokens": 1000 } }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 2050 }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50,
                "completion_tokens_details": { "reasoning_tokens": 1000 } }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 1050, "total_tokens": 2050,
                "completion_tokens_details": { "reasoning_tokens": 1000 } }),
            json!({ "promptTokenCount": 1000, "candidatesTokenCount": 50, "thoughtsTokenCount": 1000,
                "totalTokenCount": 2050 }),
            json!({ "input_tokens": 1000, "output_tokens": 1050, "total_tokens": 2050,
                "output_tokens_details": { "reasoning_tokens": 1000 } }),
        ] {
            assert_eq!(counted_of(&usage), [1000, 1050, 0, 0], "{usage}");
        }
    }

    #[test]
    fn the_largest_usage_counts_wherever_it_stands() {
        let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050 });
        let zeros = json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 });
        for chunks in [
            vec![json!({ "usage": usage }), json!({ "usage": zeros })],
            vec![json!({ "usage": usage }), json!({ "usage": {} }), json!({ "usage": { "cost": "0" } })],
            vec![json!({ "usage": usage }), json!({ "usage": null }), json!({ "choices": [] })],
            vec![json!({ "choices": [{ "usage": usage }], "usage": zeros })],
            vec![json!({ "choices": [{ "delta": { "usage": usage } }] })],
            vec![json!({ "choices": [{ "message": { "usage": usage } }] })],
            vec![json!({ "x_groq": { "usage": usage } })],
            vec![
                json!({ "usage": { "prompt_tokens": 1000, "completion_tokens": 1 } }),
                json!({ "usage": { "prompt_tokens": 0, "completion_tokens": 50 } }),
            ],
            vec![
                json!({ "usage": { "prompt_tokens": "1000", "completion_tokens": 50.0, "total_tokens": "1050.0" } }),
            ],
            vec![json!({ "usage": { "prompt_tokens": 0, "input_tokens": 1000, "output_tokens": 50 } })],
            vec![json!({ "usage": { "prompt_tokens": 1000, "total_tokens": 1050 } })],
            vec![json!({ "usage": { "completion_tokens": 50, "total_tokens": 1050 } })],
        ] {
            assert_eq!(counted(&chunks), [1000, 50, 0, 0], "{chunks:?}");
        }
    }

    #[test]
    fn counts_that_cannot_be_are_left_out() {
        for count in [json!(-5), json!(1e300), json!(u64::MAX), json!("many"), json!(null), json!([7])] {
            let usage = json!({ "prompt_tokens": count, "completion_tokens": 50 });
            assert_eq!(counted_of(&usage), [0, 50, 0, 0], "{count}");
        }
        assert_eq!(counted_of(&json!({ "total_tokens": 1050 })), [1050, 0, 0, 0]);
        assert_eq!(counted_of(&json!("usage")), [0; 4]);
    }

    #[test]
    fn cached_tokens_are_part_of_the_input_or_beside_it() {
        for usage in [
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                "prompt_tokens_details": { "cached_tokens": 900 } }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "cached_tokens": 900 }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50,
                "prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100 }),
            json!({ "input_tokens": 1000, "output_tokens": 50, "input_tokens_details": { "cached_tokens": 900 } }),
            json!({ "promptTokenCount": 1000, "candidatesTokenCount": 50, "cachedContentTokenCount": 900 }),
            json!({ "input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 900 }),
            json!({ "prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
                "cache_read_input_tokens": 900 }),
        ] {
            assert_eq!(counted_of(&usage), [1000, 50, 900, 0], "{usage}");
        }
        let beside = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1450,
            "prompt_tokens_details": { "cached_tokens": 400 } });
        assert_eq!(counted_of(&beside), [1400, 50, 400, 0], "the total tells");
        for usage in [
            json!({ "input_tokens": 100, "output_tokens": 50,
                "cache_read_input_tokens": 60, "cache_creation_input_tokens": 840 }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                "prompt_tokens_details": { "cached_tokens": 60 }, "cache_creation_input_tokens": 840 }),
            json!({ "prompt_tokens": 1000, "completion_tokens": 50,
                "prompt_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 840 } }),
        ] {
            assert_eq!(counted_of(&usage), [1000, 50, 60, 840], "{usage}");
        }
    }

    /// Usage that public reports show, with the repository and number of each.
    #[test]
    fn usage_of_public_reports_is_counted_as_it_is_billed() {
        let counted_of = |usage: Value| counted_of(&usage);
        let reasoning = |tokens: u64| json!({ "reasoning_tokens": tokens });
        // InftyAI/alphatrion#264: reasoning beside the completion.
        let usage = json!({ "prompt_tokens": 3891, "completion_tokens": 1532, "total_tokens": 11738,
            "completion_tokens_details": reasoning(6315) });
        assert_eq!(counted_of(usage), [3891, 7847, 0, 0]);
        // hugalafutro/model-hotel#991: reasoning within the completion.
        let usage = json!({ "prompt_tokens": 2008, "completion_tokens": 266, "total_tokens": 2274,
            "completion_tokens_details": reasoning(261) });
        assert_eq!(counted_of(usage), [2008, 266, 0, 0]);
        // Clarifai/clarifai-python#978: only the total shows what a model of Google thought.
        let usage = json!({ "prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 1016 });
        assert_eq!(counted_of(usage), [20, 996, 0, 0]);
        // BerriAI/litellm#6215: cached tokens within the prompt.
        let usage = json!({ "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
            "prompt_tokens_details": { "cached_tokens": 1920 }, "completion_tokens_details": reasoning(0) });
        assert_eq!(counted_of(usage), [2006, 300, 1920, 0]);
        // SamSaffron/term-llm#424: the prompt without its cached part, and a total with what was written to the cache.
        let usage = json!({ "prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 190,
            "prompt_tokens_details": { "cached_tokens": 900, "cache_write_tokens": 40 } });
        assert_eq!(counted_of(usage), [1040, 50, 900, 40]);
        // decolua/9router#2209: Anthropic's counts exclude the cache.
        let usage = json!({ "input_tokens": 12, "output_tokens": 136,
            "cache_read_input_tokens": 5402, "cache_creation_input_tokens": 300 });
        assert_eq!(counted_of(usage), [5714, 136, 5402, 300]);
        // theopenco/llmgateway#3486: a total that has the reasoning twice cannot be told from reasoning beside the reply.
        let usage = json!({ "prompt_tokens": 64, "completion_tokens": 135, "total_tokens": 277,
            "completion_tokens_details": reasoning(78) });
        assert_eq!(counted_of(usage), [64, 213, 0, 0]);
        let of = |prompt: u64, completion: u64| json!({ "usage": { "prompt_tokens": prompt, "completion_tokens": completion } });
        for chunks in [
            // router-for-me/CLIProxyAPI#3173 and #2762: nothing and zeros before the count.
            vec![json!({ "usage": null }), json!({ "usage": {} }), of(0, 0), of(900, 30)],
            // cline/cline#11304: a count so far in every chunk.
            vec![of(900, 1), of(900, 2), of(900, 17), of(900, 30)],
            // The count first, then zeros and nothing.
            vec![of(900, 30), of(0, 0), json!({ "usage": null })],
        ] {
            assert_eq!(counted(&chunks), [900, 30, 0, 0], "{chunks:?}");
        }
    }
}
