//! A call that a model makes again right after its result: refused with words once, and then no longer waited out.
//!
//! ## Why
//!
//! A weak model that has a result before it often asks for it again, and would until a budget runs out; and a write
//! would be done as often. A call that was tried and failed may go better next time, so it is no repetition.

use crate::{Message, Role, ToolCall, ToolOutput, progress::SKIPPED};

/// What the model hears instead of the same result.
const REPEATED: &str =
    "this very call was just answered, and its result stands above: use it, call something else, or answer";

/// The calls of the last message.
pub(super) struct Wanted<'a> {
    before: &'a [Message],
    calls: &'a [ToolCall],
}

impl<'a> Wanted<'a> {
    /// Those of the last of these messages.
    pub(super) fn of(messages: &'a [Message]) -> Self {
        match messages.split_last() {
            Some((last, before)) => Self { before, calls: &last.tool_calls },
            None => Self { before: &[], calls: &[] },
        }
    }

    /// Those that are to be carried out.
    pub(super) fn fresh(self) -> impl Iterator<Item = &'a ToolCall> {
        self.calls.iter().filter(move |it| refusal(self.before, it).is_none())
    }

    /// What each call is answered; `outcome` tells it of those that were to be carried out.
    ///
    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    pub(super) fn answered(self, mut outcome: impl FnMut(&ToolCall) -> Option<ToolOutput>) -> Vec<Message> {
        let answer = |call| {
            let output = refusal(self.before, call).or_else(|| outcome(call))?;
            Some(Message::tool(call, output.heard()))
        };
        self.calls.iter().filter_map(answer).collect()
    }
}

/// What a call is answered that repeats one whose result is the last that was said; none if it is to be carried out.
fn refusal(before: &[Message], call: &ToolCall) -> Option<ToolOutput> {
    let failed = ToolOutput::Error(String::new()).heard();
    let settled = |result: &str| {
        result.strip_prefix(&failed).is_none_or(|why| why == SKIPPED) || result == repeated().heard()
    };
    result(before, call).filter(|it| settled(it)).map(|_| repeated())
}

/// Why nothing more comes of these calls, if each was just refused as a repetition.
pub(super) fn exhausted(before: &[Message], calls: &[ToolCall]) -> Option<String> {
    let refused = |it: &ToolCall| result(before, it) == Some(&repeated().heard());
    let name = &calls.first().filter(|_| calls.iter().all(refused))?.name;
    Some(format!("the model repeated its call of {name} although the result was there"))
}

fn repeated() -> ToolOutput {
    ToolOutput::Refused(REPEATED.to_owned())
}

/// The result of the same call with the same arguments, if it is among the last things that were said.
fn result<'a>(before: &'a [Message], call: &ToolCall) -> Option<&'a str> {
    let said = before.iter().rposition(|it| it.role != Role::Tool)?;
    let same = |it: &&ToolCall| it.name == call.name && it.arguments == call.arguments;
    let earlier = before[said].tool_calls.iter().find(same)?;
    let answer = before[said..].iter().find(|it| it.answers.as_ref() == Some(&earlier.id))?;
    Some(&answer.content)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: id.to_owned(), name: name.to_owned(), arguments }
    }

    fn called(output: ToolOutput) -> Vec<Message> {
        let call = call("c1", "find", json!({"who": "Ann", "by": 1}));
        let said = Message { tool_calls: vec![call.clone()], ..Message::assistant("") };
        vec![Message::user("Find Ann"), said, Message::tool(&call, output.heard())]
    }

    #[test]
    fn the_same_call_right_after_its_result_is_refused_and_then_exhausted() {
        let again = call("c2", "find", json!({"by": 1, "who": "Ann"}));
        let mut messages = called(ToolOutput::Ok("ann@example.org".to_owned()));
        let refused = refusal(&messages, &again).unwrap();
        assert!(refused.heard().starts_with("error: not carried out, this very call"), "{refused:?}");
        assert_eq!(exhausted(&messages, std::slice::from_ref(&again)), None, "it is told once");

        messages.push(Message { tool_calls: vec![again.clone()], ..Message::assistant("") });
        messages.push(Message::tool(&again, refused.heard()));
        let third = call("c3", "find", again.arguments.clone());
        assert!(exhausted(&messages, std::slice::from_ref(&third)).unwrap().contains("find"));
        let other = call("c4", "add", json!({}));
        assert_eq!(exhausted(&messages, &[third, other]), None, "something else is still tried");
        assert_eq!(exhausted(&messages, &[]), None);
    }

    #[test]
    fn what_is_no_repetition_is_carried_out() {
        let messages = called(ToolOutput::Ok("ann@example.org".to_owned()));
        assert_eq!(refusal(&messages, &call("c2", "find", json!({"who": "Ann", "by": 2}))), None);
        assert_eq!(refusal(&messages, &call("c2", "add", json!({"who": "Ann", "by": 1}))), None);
        let mut later = messages.clone();
        later.push(Message::user("Look once more"));
        let again = call("c2", "find", json!({"who": "Ann", "by": 1}));
        assert_eq!(refusal(&later, &again), None, "something was said since");
        assert_eq!(refusal(&[], &again), None);
    }

    #[test]
    fn what_failed_may_be_tried_again_but_not_what_cannot_go_otherwise() {
        let again = call("c2", "find", json!({"who": "Ann", "by": 1}));
        let after = |output| refusal(&called(output), &again);
        assert_eq!(after(ToolOutput::Error("the line is busy".to_owned())), None);
        assert!(after(ToolOutput::Error(SKIPPED.to_owned())).is_some(), "nobody may repeat it");
        assert!(after(repeated()).is_some(), "it stays refused");
    }
}
