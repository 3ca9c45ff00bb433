//! Guards against a model that repeats a call right after its result: refuses the first repetition, then stops the
//! loop.
//!
//! ## Why
//!
//! A weak model often requests a result again that it already has, and would continue until a budget runs out. A write
//! would be carried out each time. A call that failed may succeed later, so repeating it is allowed.

use crate::{Message, Role, ToolCall, ToolOutput, progress::SKIPPED};

/// Answer to a repeated call, in place of the same result.
const REPEATED: &str =
    "this very call was just answered, and its result stands above: use it, call something else, or answer";

/// Calls of the last message.
pub(super) struct RequestedCalls<'a> {
    before: &'a [Message],
    calls: &'a [ToolCall],
}

impl<'a> RequestedCalls<'a> {
    /// Returns the calls of the last of these messages.
    pub(super) fn of(messages: &'a [Message]) -> Self {
        match messages.split_last() {
            Some((last, before)) => Self { before, calls: &last.tool_calls },
            None => Self { before: &[], calls: &[] },
        }
    }

    /// Returns the calls that are to be carried out.
    pub(super) fn fresh(self) -> impl Iterator<Item = &'a ToolCall> {
        self.calls.iter().filter(move |it| refusal(self.before, it).is_none())
    }

    /// Returns the results of all calls. `outcome` supplies those of the calls that were carried out.
    ///
    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    pub(super) fn answered(self, mut outcome: impl FnMut(&ToolCall) -> Option<ToolOutput>) -> Vec<Message> {
        let answer = |call| {
            let output = refusal(self.before, call).or_else(|| outcome(call))?;
            Some(Message::tool(call, output.model_text()))
        };
        self.calls.iter().filter_map(answer).collect()
    }
}

/// Returns the refusal of a call that repeats one of the most recent results, or `None` if the call is to be carried
/// out.
fn refusal(before: &[Message], call: &ToolCall) -> Option<ToolOutput> {
    let failed = ToolOutput::Error(String::new()).model_text();
    let settled = |result: &str| {
        result.strip_prefix(&failed).is_none_or(|why| why == SKIPPED) || result == repeated().model_text()
    };
    result(before, call).filter(|it| settled(it)).map(|_| repeated())
}

/// Returns the reason to stop, if every one of these calls repeats one that was just refused as a repetition.
pub(super) fn exhausted(before: &[Message], calls: &[ToolCall]) -> Option<String> {
    let refused = |it: &ToolCall| result(before, it) == Some(&repeated().model_text());
    let name = &calls.first().filter(|_| calls.iter().all(refused))?.name;
    Some(format!("the model repeated its call of {name} although the result was there"))
}

fn repeated() -> ToolOutput {
    ToolOutput::Refused(REPEATED.to_owned())
}

/// Returns the result of the same call with the same arguments, if it is among the most recent results.
fn result<'a>(before: &'a [Message], call: &ToolCall) -> Option<&'a str> {
    let said = before.iter().rposition(|it| it.role != Role::Tool)?;
    let same = |it: &&ToolCall| it.name == call.name && it.arguments == call.arguments;
    let earlier = before[said].tool_calls.iter().find(same)?;
    let answer = before[said..].iter().find(|it| it.tool_call_id.as_ref() == Some(&earlier.id))?;
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
        vec![Message::user("Find Ann"), said, Message::tool(&call, output.model_text())]
    }

    #[test]
    fn the_same_call_right_after_its_result_is_refused_and_then_exhausted() {
        let again = call("c2", "find", json!({"by": 1, "who": "Ann"}));
        let mut messages = called(ToolOutput::Ok("ann@example.org".to_owned()));
        let refused = refusal(&messages, &again).unwrap();
        assert!(refused.model_text().starts_with("error: not carried out, this very call"), "{refused:?}");
        assert_eq!(exhausted(&messages, std::slice::from_ref(&again)), None, "it is told once");

        messages.push(Message { tool_calls: vec![again.clone()], ..Message::assistant("") });
        messages.push(Message::tool(&again, refused.model_text()));
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
