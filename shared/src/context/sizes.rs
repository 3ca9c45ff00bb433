//! Sizes of the messages of a thread, kept while it is folded.

use std::ops::Range;

use super::tokens::{estimated_tokens, value_tokens};
use crate::message::{Message, Role, Tool, ToolCall};

/// Tokens of a message beyond its text: its role and its marks.
const MESSAGE_TOKENS: u64 = 6;

/// Tokens of an image or a file of a message. Their true number is the model's secret; a refusal corrects it.
const ATTACHMENT_TOKENS: u64 = 1_500;

/// Tokens of the note that stands for the images and files of a message that are not shown.
const OMITTED_TOKENS: u64 = 20;

/// Tokens of a tool call or of a tool beyond its texts.
const CALL_TOKENS: u64 = 12;

/// Minimum size to which a message is shortened, in tokens.
pub(crate) const MIN_SHOWN_TOKENS: u64 = 200;

/// Sizes of all messages, so that the size of a range is known without reading the messages again.
#[derive(Clone, Default)]
pub(crate) struct Sizes {
    /// Sum of the tokens of all messages up to and including each.
    sums: Vec<u64>,
    /// Messages with images or files: index, and the number of images and files up to and including this message.
    attached: Vec<(usize, u64)>,
    /// Tool results that can be shortened: index, and tokens of the text.
    long_results: Vec<(usize, u64)>,
}

impl Sizes {
    /// Adds the next message.
    pub(crate) fn add(&mut self, message: &Message) {
        let content = estimated_tokens(&message.content);
        let attached = message.attachments.len() as u64;
        if 0 < attached {
            let before = self.attached.last().map_or(0, |(_, count)| *count);
            self.attached.push((self.sums.len(), before + attached));
        }
        if message.role == Role::Tool && MIN_SHOWN_TOKENS < content {
            self.long_results.push((self.sums.len(), content));
        }
        let tokens = MESSAGE_TOKENS + content + attached * ATTACHMENT_TOKENS + calls_tokens(message);
        self.sums.push(self.before(self.sums.len()) + tokens);
    }

    /// Forgets all messages but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.sums.truncate(count);
        self.attached.retain(|(at, _)| *at < count);
        self.long_results.retain(|(at, _)| *at < count);
    }

    /// Returns the tokens of the messages in `range`, with tool results of at most `result_tokens`.
    pub(crate) fn of(&self, range: &Range<usize>, result_tokens: u64) -> u64 {
        let shortened: u64 =
            self.long_results_in(range).map(|(_, tokens)| tokens.saturating_sub(result_tokens)).sum();
        self.before(range.end).saturating_sub(self.before(range.start)).saturating_sub(shortened)
    }

    /// Returns the number of images and files of the messages in `range`.
    pub(crate) fn attachments(&self, range: &Range<usize>) -> u64 {
        let before = |index: usize| {
            let from = self.attached.partition_point(|(at, _)| *at < index);
            from.checked_sub(1).map_or(0, |last| self.attached[last].1)
        };
        before(range.end).saturating_sub(before(range.start))
    }

    /// Returns the tokens of one message.
    pub(crate) fn of_message(&self, index: usize) -> u64 {
        self.before(index + 1).saturating_sub(self.before(index))
    }

    /// Returns true if a tool result in `range` has more than `result_tokens`.
    pub(crate) fn has_longer_result(&self, range: &Range<usize>, result_tokens: u64) -> bool {
        self.long_results_in(range).any(|(_, tokens)| result_tokens < tokens)
    }

    fn long_results_in<'a>(&'a self, range: &'a Range<usize>) -> impl Iterator<Item = (usize, u64)> + 'a {
        let first = self.long_results.partition_point(|(index, _)| *index < range.start);
        self.long_results[first..].iter().copied().take_while(|(index, _)| *index < range.end)
    }

    fn before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |index| self.sums.get(index).copied().unwrap_or_default())
    }
}

/// Returns the tokens that a request saves if this many images and files are not shown.
pub(crate) fn omitted_attachment_tokens(count: u64) -> u64 {
    count.saturating_mul(ATTACHMENT_TOKENS - OMITTED_TOKENS)
}

fn calls_tokens(message: &Message) -> u64 {
    let call = |call: &ToolCall| CALL_TOKENS + estimated_tokens(&call.name) + value_tokens(&call.arguments);
    message.tool_calls.iter().map(call).sum()
}

/// Estimates the tokens of a tool as a model receives it.
pub(crate) fn tool_tokens(tool: &Tool) -> u64 {
    let Tool { name, description, parameters, safety: _, max_repeats: _, read_back: _ } = tool;
    CALL_TOKENS + estimated_tokens(name) + estimated_tokens(description) + value_tokens(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_range_is_the_sum_of_its_messages_with_long_results_shortened() {
        let call = ToolCall { id: "a".to_owned(), name: "read".to_owned(), arguments: serde_json::json!({}) };
        let long = "word ".repeat(1_000);
        let messages = [
            Message::user(long.clone()),
            Message { tool_calls: vec![call.clone()], ..Message::assistant("") },
            Message::tool(&call, long),
            Message::tool(&call, "short"),
        ];
        let mut sizes = Sizes::default();
        messages.iter().for_each(|message| sizes.add(message));
        let each: Vec<u64> = (0..4).map(|nth| sizes.of_message(nth)).collect();
        assert_eq!(sizes.of(&(0..4), u64::MAX), each.iter().sum::<u64>());
        assert!(MESSAGE_TOKENS + CALL_TOKENS < each[1] && each[3] < 10, "{each:?}");
        assert_eq!(sizes.of(&(1..3), u64::MAX), each[1] + each[2]);
        assert_eq!(sizes.of(&(2..2), u64::MAX), 0);
        let shown = each[0] + each[1] + MESSAGE_TOKENS + 500 + each[3];
        assert_eq!(sizes.of(&(0..4), 500), shown, "only the result of the tool");
        let text = each[2] - MESSAGE_TOKENS;
        assert!(sizes.has_longer_result(&(0..4), text - 1) && !sizes.has_longer_result(&(0..4), text));
        assert!(!sizes.has_longer_result(&(0..2), 500) && !sizes.has_longer_result(&(3..4), 1));
    }
}
