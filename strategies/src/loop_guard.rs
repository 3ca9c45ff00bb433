//! Guards against a model that repeats a call although its result stays the same: refuses a further repetition, then
//! stops the loop.
//!
//! ## Why
//!
//! A weak model often requests a result again that it already has, and would continue until a budget runs out. Repeating a
//! call is no loop in itself: the next page, a job that is not finished yet and a counter are all read or moved by the same
//! call. So only results that stay the same count, as many in a row as the tool's `max_repeats`, and calls of tools that
//! change something with every call do not count at all unless that is set.

use shared::{Message, Role, SKIPPED, Safety, Tool, ToolCall, ToolOutput};

/// Maximum repetitions of a call with the same result, if the tool does not set it.
const MAX_REPEATS: u32 = 3;

/// Answer to a call that is not repeated, in place of its result.
const REPEATED: &str = "this very call was answered before and its result did not change: use that result, call something \
                        else, or answer";

/// Calls of the last message, and the tools that they mean.
pub(super) struct RequestedCalls<'a, F> {
    before: &'a [Message],
    calls: &'a [ToolCall],
    tool: F,
}

impl<'a, F: Fn(&ToolCall) -> Option<&'a Tool>> RequestedCalls<'a, F> {
    /// Returns the calls of the last of these messages. `tool` finds the tool of a call.
    pub(super) fn of(messages: &'a [Message], tool: F) -> Self {
        match messages.split_last() {
            Some((last, before)) => Self { before, calls: &last.tool_calls, tool },
            None => Self { before: &[], calls: &[], tool },
        }
    }

    /// Returns the calls that are to be carried out.
    pub(super) fn fresh(&self) -> impl Iterator<Item = &'a ToolCall> {
        self.calls.iter().filter(move |call| self.refusal(call).is_none())
    }

    /// Returns the results of all calls. `outcome` supplies those of the calls that were carried out.
    ///
    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    pub(super) fn answered(&self, mut outcome: impl FnMut(&ToolCall) -> Option<ToolOutput>) -> Vec<Message> {
        let answer = |call| {
            let output = self.refusal(call).or_else(|| outcome(call))?;
            Some(Message::tool(call, output.model_text()))
        };
        self.calls.iter().filter_map(answer).collect()
    }

    /// Returns the refusal of a call that was repeated often enough, or `None` if the call is to be carried out.
    fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        let refused = repeated().model_text();
        let never_again = ToolOutput::Error(SKIPPED.to_owned()).model_text();
        let earlier = earlier(self.before, call);
        let is_settled = || earlier.iter().any(|result| *result == never_again);
        let is_refused = || latest(self.before, call) == Some(&*refused);
        (is_settled() || is_refused() || self.is_repeated_enough(call)).then(repeated)
    }

    fn is_repeated_enough(&self, call: &ToolCall) -> bool {
        let limit = match (self.tool)(call) {
            Some(Tool { max_repeats: Some(limit), .. }) => *limit,
            Some(Tool { safety: Safety::Write, .. }) => return false,
            Some(_) | None => MAX_REPEATS,
        };
        limit < self.same_results(call)
    }

    /// Counts the latest results of the same call that are the same, since the person's last message and since the last
    /// call of another tool that may have changed something.
    fn same_results(&self, call: &ToolCall) -> u32 {
        let refused = repeated().model_text();
        let changes = |call: &ToolCall| (self.tool)(call).is_some_and(|tool| tool.safety != Safety::Read);
        let (mut count, mut latest) = (0, None);
        for (earlier, result) in results(self.before).filter(|(_, result)| **result != refused) {
            if !is_same(earlier, call) {
                if changes(earlier) {
                    break;
                }
            } else if *latest.get_or_insert(result) == result {
                count += 1;
            } else {
                break;
            }
        }
        count
    }
}

/// Returns the reason to stop, if every one of these calls repeats one that was just refused as a repetition.
pub(super) fn exhausted(before: &[Message], calls: &[ToolCall]) -> Option<String> {
    let refused = |call: &ToolCall| latest(before, call) == Some(&repeated().model_text());
    let name = &calls.first().filter(|_| calls.iter().all(refused))?.name;
    Some(format!("the model repeated its call of {name} although the result was there"))
}

fn repeated() -> ToolOutput {
    ToolOutput::Refused(REPEATED.to_owned())
}

fn is_same(a: &ToolCall, b: &ToolCall) -> bool {
    a.name == b.name && a.arguments == b.arguments
}

/// Returns the calls since the person's last message with their results, the latest first.
fn results(before: &[Message]) -> impl Iterator<Item = (&ToolCall, &String)> {
    let since = before.iter().rposition(|message| message.role == Role::User).map_or(0, |at| at + 1);
    let said = (since..before.len()).rev();
    said.flat_map(move |at| {
        let answers = before[at + 1..].iter().take_while(|message| message.role == Role::Tool);
        let result = move |call: &ToolCall| {
            answers
                .clone()
                .find(|message| message.tool_call_id.as_ref() == Some(&call.id))
                .map(|message| &message.content)
        };
        before[at].tool_calls.iter().rev().filter_map(move |call| Some((call, result(call)?)))
    })
}

/// Returns the results of the same call since the person's last message.
fn earlier<'a>(before: &'a [Message], call: &ToolCall) -> Vec<&'a str> {
    results(before).filter(|(earlier, _)| is_same(earlier, call)).map(|(_, result)| result.as_str()).collect()
}

/// Returns the result of the same call, if it is among the most recent results.
fn latest<'a>(before: &'a [Message], call: &ToolCall) -> Option<&'a str> {
    let said = before.iter().rposition(|message| message.role != Role::Tool)?;
    results(&before[said..]).find(|(earlier, _)| is_same(earlier, call)).map(|(_, result)| result.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments }
    }

    fn tools() -> [Tool; 5] {
        let tool = |name: &str, safety, max_repeats| Tool {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
            safety,
            max_repeats,
            read_back: None,
        };
        [
            tool("find", Safety::Read, None),
            tool("set", Safety::Idempotent, None),
            tool("increment", Safety::Write, None),
            tool("poll", Safety::Read, Some(6)),
            tool("book", Safety::Write, Some(0)),
        ]
    }

    /// A conversation in which each call got its result.
    fn after(said: &[(&str, &str)]) -> Vec<Message> {
        let round = |(name, result): &(&str, &str)| {
            let call = call(name, json!({"who": "Ann", "by": 1}));
            [
                Message { tool_calls: vec![call.clone()], ..Message::assistant("") },
                Message::tool(&call, *result),
            ]
        };
        std::iter::once(Message::user("Find Ann")).chain(said.iter().flat_map(round)).collect()
    }

    /// Verdict on a further call of `name` with the same arguments: true if it is carried out.
    fn goes(mut messages: Vec<Message>, name: &str) -> bool {
        let again = call(name, json!({"by": 1, "who": "Ann"}));
        messages.push(Message { tool_calls: vec![again], ..Message::assistant("") });
        let tools = tools();
        RequestedCalls::of(&messages, |call| tools.iter().find(|tool| tool.name == call.name)).fresh().count()
            == 1
    }

    #[test]
    fn a_call_is_refused_at_its_limit_and_then_the_loop_is_over() {
        for (name, limit) in [("find", 3), ("set", 3), ("unknown", 3), ("poll", 6), ("book", 0)] {
            assert!(goes(after(&vec![(name, "1"); limit]), name), "{name} is repeated {limit} times");
            assert!(!goes(after(&vec![(name, "1"); limit + 1]), name), "{name} is repeated no more");
        }
        assert!(goes(after(&[("increment", "ok"); 20]), "increment"), "it was asked to change something");

        let refused = repeated().model_text();
        assert!(refused.starts_with("error: not carried out, this very call"), "{refused}");
        let find = call("find", json!({"who": "Ann", "by": 1}));
        let mut said = vec![("find", "1"); 4];
        assert_eq!(exhausted(&after(&said), std::slice::from_ref(&find)), None, "it is told once");
        said.push(("find", &refused));
        assert!(!goes(after(&said), "find"), "it stays refused");
        assert!(exhausted(&after(&said), std::slice::from_ref(&find)).unwrap().contains("find"));
        assert_eq!(
            exhausted(&after(&said), &[find.clone(), call("add", json!({}))]),
            None,
            "another is tried"
        );
        assert_eq!(exhausted(&after(&said), &[]), None);
        said.push(("other", "2"));
        assert_eq!(exhausted(&after(&said), &[find]), None, "something was done since");
        assert!(!goes(after(&said), "find"), "a refusal is no other result");
    }

    #[test]
    fn calls_that_make_progress_are_carried_out() {
        assert!(
            goes(after(&[("find", "1"), ("find", "1"), ("find", "1"), ("find", "2")]), "find"),
            "another page"
        );
        assert!(goes(after(&[("find", "1"), ("find", "2"), ("find", "1"), ("find", "2")]), "find"));
        let twice = [("find", "1"), ("find", "1")];
        let with = |other| after(&[&twice[..], &[(other, "ok")], &twice[..]].concat());
        assert!(goes(with("set"), "find"), "the world may have changed");
        assert!(goes(with("increment"), "find"), "the world may have changed");
        assert!(!goes(with("poll"), "find"), "nothing has changed");
        let mut messages = after(&[("find", "1"); 4]);
        messages.push(Message::user("Look once more"));
        assert!(goes(messages, "find"), "the person asked for it");
        assert!(goes(Vec::new(), "find"));
        let other = ToolCall { arguments: json!({"who": "Ann", "by": 2}), ..call("find", Value::Null) };
        let mut messages = after(&[("find", "1"); 4]);
        messages.push(Message { tool_calls: vec![other], ..Message::assistant("") });
        assert_eq!(RequestedCalls::of(&messages, |_| None).fresh().count(), 1, "other arguments");
    }

    #[test]
    fn an_equal_error_counts_as_a_result_and_a_call_in_doubt_is_never_repeated() {
        assert!(goes(after(&[("find", "error: busy"); 3]), "find"));
        assert!(!goes(after(&[("find", "error: busy"); 4]), "find"));
        let skipped = ToolOutput::Error(SKIPPED.to_owned()).model_text();
        assert!(!goes(after(&[("increment", &skipped)]), "increment"));
        assert!(!goes(after(&[("increment", &skipped), ("find", "1")]), "increment"), "whatever came since");
    }

    /// Weak models give all their calls the same id.
    #[test]
    fn a_result_belongs_to_the_call_that_it_follows() {
        let calls = ["find", "poll"].map(|name| call(name, json!({"who": "Ann", "by": 1})));
        let messages = after(&[("find", "1"), ("poll", "2"), ("find", "3")]);
        let found: Vec<_> =
            results(&messages).map(|(call, result)| (call.name.as_str(), result.as_str())).collect();
        assert_eq!(found, [("find", "3"), ("poll", "2"), ("find", "1")]);
        assert_eq!(latest(&messages, &calls[0]), Some("3"));
        assert_eq!(latest(&messages, &calls[1]), None, "it is not the most recent");
    }
}
