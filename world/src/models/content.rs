//! Text of a reply, with the model's reasoning apart from it.

use serde_json::Value;

use super::{
    json_text::{ends_in_half, join_halves},
    thinking::{self, ThinkingFilter},
};
use crate::text::truncate;

/// Maximum characters of reasoning that are kept.
const MAX_REASONING_CHARS: usize = 100_000;

/// Text and reasoning received so far.
pub(super) struct Content {
    /// Text of the answer.
    pub(super) text: String,
    /// First half of a character whose second half has not arrived.
    half: String,
    thinking: ThinkingFilter,
    /// Reasoning that the endpoint itself keeps apart.
    reasoning: String,
    bytes: usize,
}

impl Content {
    /// Begins a text. `unopened` is true for a model that begins in the middle of its reasoning.
    pub(super) fn new(unopened: bool) -> Self {
        Self {
            text: String::new(),
            half: String::new(),
            thinking: ThinkingFilter::new(unopened),
            reasoning: String::new(),
            bytes: 0,
        }
    }

    /// Bytes of text and reasoning so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds text and reasoning, and returns the text that is part of the answer.
    pub(super) fn add(&mut self, delta: &Value) -> String {
        let mut text = String::new();
        match &delta["content"] {
            Value::String(content) => text.push_str(content),
            Value::Array(parts) => parts.iter().for_each(|part| self.add_part(part, &mut text)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => (),
        }
        // Some endpoints send the same reasoning under both names.
        let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|key| delta[*key].as_str());
        self.add_reasoning(reasoning.unwrap_or(""));
        self.bytes += text.len();
        let mut text = std::mem::take(&mut self.half) + &text;
        if ends_in_half(&text) {
            self.half.extend(text.pop());
        }
        let visible = self.thinking.add(&join_halves(&text));
        self.text.push_str(&visible);
        visible
    }

    fn add_part(&mut self, part: &Value, text: &mut String) {
        match part["type"].as_str() {
            Some("thinking" | "reasoning") => {
                let inner = ["thinking", "reasoning", "text"]
                    .iter()
                    .map(|key| &part[*key])
                    .find(|value| !value.is_null());
                match inner {
                    Some(Value::String(text)) => self.add_reasoning(text),
                    Some(Value::Array(parts)) => {
                        parts
                            .iter()
                            .filter_map(|part| part["text"].as_str())
                            .for_each(|part| self.add_reasoning(part));
                    }
                    Some(_) | None => (),
                }
            }
            _ => text.push_str(part.as_str().or_else(|| part["text"].as_str()).unwrap_or("")),
        }
    }

    fn add_reasoning(&mut self, text: &str) {
        self.bytes += text.len();
        self.reasoning.push_str(text);
    }

    /// Ends the text, and returns the part of it that was still held back.
    pub(super) fn end(&mut self) -> String {
        let half = std::mem::take(&mut self.half);
        let mut rest = self.thinking.add(&join_halves(&half));
        rest.push_str(&self.thinking.end());
        self.text.push_str(&rest);
        rest
    }

    /// Moves reasoning without an opening mark out of the text. Returns true if there was any.
    pub(super) fn take_unopened_reasoning(&mut self) -> bool {
        let thought = thinking::take_unopened(&mut self.text);
        self.reasoning.push_str(thought.as_deref().unwrap_or(""));
        thought.is_some()
    }

    /// Returns the text of the answer, and the reasoning.
    pub(super) fn into_parts(self) -> (String, String) {
        let reasoning = self.reasoning + &self.thinking.reasoning;
        (self.text, truncate(join_halves(&reasoning).trim(), MAX_REASONING_CHARS))
    }
}
