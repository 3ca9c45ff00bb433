//! Shortens long messages to head and tail, and reads on in a result that was shortened.

use serde_json::json;

use super::tokens::{in_parts, parts};
use crate::message::{Message, Role, Safety, Tool, ToolCall, ToolOutput};

/// Name of the engine's tool by which a model reads on in a tool result.
pub const READ_MORE: &str = "read_more";

/// Tokens that the notice in a shortened message takes at most.
const NOTICE_TOKENS: u64 = 80;

/// Returns the engine's tool by which a model reads on in a tool result.
pub(crate) fn read_more_tool() -> Tool {
    Tool {
        name: READ_MORE.to_owned(),
        description: "Read on in a tool result that is shown shortened. The notice in it names its number."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "result": { "type": "integer", "description": "Number of the result." },
                "from": { "type": "integer", "description": "Position of the first character to read." },
            },
            "required": ["result", "from"],
            "additionalProperties": false,
        }),
        safety: Safety::Read,
        max_repeats: None,
        read_back: None,
    }
}

/// Returns `text` with at most `tokens`: two thirds from its beginning and one third from its end, and between them a
/// notice of the characters left out. `None` if it has no more tokens than that.
///
/// With `result`, the number of the message, the notice says how to read on with [`READ_MORE`].
pub(crate) fn shortened(text: &str, tokens: u64, result: Option<usize>) -> Option<String> {
    if prefix(text, tokens).len() == text.len() {
        return None;
    }
    let shown = tokens.saturating_sub(NOTICE_TOKENS);
    let head = prefix(text, shown - shown / 3);
    let tail = suffix(&text[head.len()..], shown / 3);
    let left_out = text.chars().count() - head.chars().count() - tail.chars().count();
    let all = text.chars().count();
    let how = result.map_or(String::new(), |number| {
        let from = head.chars().count();
        format!(" To read on, call {READ_MORE} with result {number} and from {from}.")
    });
    Some(format!("{head}\n\n[{left_out} of {all} characters are left out here.{how}]\n\n{tail}"))
}

/// Answers a call of [`READ_MORE`] from the messages of the thread, with at most `tokens`.
pub(crate) fn read_more(messages: &[Message], call: &ToolCall, tokens: u64) -> ToolOutput {
    let number = |name: &str| {
        let value = &call.arguments[name];
        match value.as_str() {
            Some(text) => text.trim().parse().ok(),
            None => value.as_u64().and_then(|number| usize::try_from(number).ok()),
        }
    };
    let (Some(result), Some(from)) = (number("result"), number("from")) else {
        return ToolOutput::Error(format!("{READ_MORE} needs two numbers, result and from"));
    };
    let Some(message) = messages.get(result).filter(|message| message.role == Role::Tool) else {
        return ToolOutput::Error(format!("there is no tool result {result}"));
    };
    let all = message.content.chars().count();
    let Some((start, _)) = message.content.char_indices().nth(from) else {
        return ToolOutput::Error(format!("result {result} has {all} characters, so nothing follows {from}"));
    };
    let text = prefix(&message.content[start..], tokens.saturating_sub(NOTICE_TOKENS));
    let to = from + text.chars().count();
    let rest = if to < all { format!(" Read on from {to}.") } else { String::new() };
    ToolOutput::Ok(format!("[Characters {from} to {to} of {all} of result {result}.{rest}]\n{text}"))
}

/// Returns the longest beginning of `text` that has at most `tokens`.
fn prefix(text: &str, tokens: u64) -> &str {
    let (mut left, max) = (0, in_parts(tokens));
    let over = text.char_indices().find(|(at, _)| {
        left += parts(text.as_bytes()[*at]);
        max < left
    });
    &text[..over.map_or(text.len(), |(at, _)| at)]
}

/// Returns the longest end of `text` that has at most `tokens`.
fn suffix(text: &str, tokens: u64) -> &str {
    let (mut left, max) = (0, in_parts(tokens));
    let fitting = text.char_indices().rev().take_while(|(at, _)| {
        left += parts(text.as_bytes()[*at]);
        left <= max
    });
    &text[fitting.last().map_or(text.len(), |(at, _)| at)..]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::context::estimated_tokens;

    fn numbered(lines: usize) -> String {
        (0..lines).map(|nth| format!("line {nth} äöü 語 🙂\n")).collect()
    }

    #[test]
    fn a_shortened_text_has_at_most_the_tokens_and_names_the_rest() {
        let text = numbered(2_000);
        for tokens in [MIN, 300, 1_000, 5_000] {
            let short = shortened(&text, tokens, Some(17)).unwrap();
            assert!(estimated_tokens(&short) <= tokens, "{} > {tokens}", estimated_tokens(&short));
            assert!(
                estimated_tokens(&short) >= tokens * 4 / 5 || tokens < 1_000,
                "{}",
                estimated_tokens(&short)
            );
            assert!(short.starts_with("line 0 äöü") && short.ends_with("🙂\n"), "{short}");
            let (head, rest) = short.split_once("\n\n[").unwrap();
            let tail = rest.split_once("]\n\n").unwrap().1;
            let all = text.chars().count();
            let left_out = all - head.chars().count() - tail.chars().count();
            assert!(
                rest.starts_with(&format!("{left_out} of {all} characters are left out here.")),
                "{rest}"
            );
            let how = format!("call read_more with result 17 and from {}.", head.chars().count());
            assert!(rest.contains(&how), "{rest}");
        }
        let tokens = estimated_tokens(&text);
        assert_eq!(shortened(&text, tokens, None), None, "it fits exactly");
        assert!(!shortened(&text, tokens - 1, None).unwrap().contains(READ_MORE));
    }

    const MIN: u64 = crate::context::MIN_SHOWN_TOKENS;

    #[test]
    fn reading_a_result_in_parts_returns_all_of_it() {
        let call = |arguments| ToolCall { id: "c".to_owned(), name: READ_MORE.to_owned(), arguments };
        let text = numbered(500);
        let messages = [Message::user("?"), Message::tool(&call(Value::Null), text.clone())];
        let (mut read, mut from) = (String::new(), 0);
        loop {
            let output = read_more(&messages, &call(json!({"result": 1, "from": from})), 700);
            let ToolOutput::Ok(answer) = output else { panic!("{output:?}") };
            assert!(estimated_tokens(&answer) <= 700);
            let (notice, part) = answer.split_once("]\n").unwrap();
            read.push_str(part);
            let Some((_, next)) = notice.split_once("Read on from ") else { break };
            from = next.trim_end_matches('.').parse::<usize>().unwrap();
        }
        assert_eq!(read, text);
    }

    #[test]
    fn a_call_that_names_no_result_is_an_error() {
        let call = |arguments| ToolCall { id: "c".to_owned(), name: READ_MORE.to_owned(), arguments };
        let messages = [Message::user("?"), Message::tool(&call(Value::Null), "äb")];
        let read = |arguments| read_more(&messages, &call(arguments), 500);
        assert_eq!(
            read(json!({"result": "1", "from": "1"})),
            ToolOutput::Ok("[Characters 1 to 2 of 2 of result 1.]\nb".to_owned())
        );
        for (arguments, error) in [
            (json!({"result": 0, "from": 0}), "there is no tool result 0"),
            (json!({"result": 9, "from": 0}), "there is no tool result 9"),
            (json!({"result": 1, "from": 2}), "result 1 has 2 characters, so nothing follows 2"),
            (json!({"result": 1}), "read_more needs two numbers, result and from"),
            (json!({"result": -1, "from": 0}), "read_more needs two numbers, result and from"),
            (json!("read it"), "read_more needs two numbers, result and from"),
        ] {
            assert_eq!(read(arguments), ToolOutput::Error(error.to_owned()));
        }
    }
}
