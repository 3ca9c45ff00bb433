//! Messages from a model to the strategy instead of a server: calls of tools that only the strategy handles, or, for
//! models that avoid such calls, tags in the text.

use serde_json::{Value, json};
use shared::{Reply, Safety, Tool};

/// Tool that a model calls to tell the strategy one thing.
pub(super) struct ControlTool<M> {
    pub(super) name: &'static str,
    /// Description of the situation in which the model should call it.
    pub(super) about: &'static str,
    /// Name of the text argument.
    pub(super) argument: &'static str,
    /// Tags that models write in the text instead of calling the tool.
    pub(super) tags: &'static [&'static str],
    /// Text to use if the model gives none.
    pub(super) otherwise: &'static str,
    /// Conversion of the text into the strategy's own type.
    pub(super) means: fn(String) -> M,
}

impl<M> ControlTool<M> {
    /// Returns the tool's definition for the model.
    pub(super) fn tool(&self) -> Tool {
        Tool {
            name: self.name.to_owned(),
            description: self.about.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { self.argument: { "type": "string" } },
                "required": [self.argument],
                "additionalProperties": false,
            }),
            safety: Safety::Read,
            max_repeats: None,
            read_back: None,
        }
    }

    fn called(&self, reply: &Reply) -> Option<M> {
        let call = reply.tool_calls.iter().find(|call| call.name == self.name)?;
        Some(self.mean(words(&call.arguments).unwrap_or(&reply.content)))
    }

    fn written(&self, reply: &Reply) -> Option<M> {
        without(&reply.content, self.tags).map(|words| self.mean(&words))
    }

    fn mean(&self, words: &str) -> M {
        let words = words.trim();
        (self.means)(if words.is_empty() { self.otherwise } else { words }.to_owned())
    }
}

/// Creates the control tool by which a model asks the person.
pub(super) const fn asking<M>(about: &'static str, means: fn(String) -> M) -> ControlTool<M> {
    ControlTool {
        name: "ask_user",
        about,
        argument: "question",
        tags: &["[ask]", "[ask user]", "[ask_user]"],
        otherwise: "What else should I know?",
        means,
    }
}

/// Returns the message of a reply to the strategy, if there is one: from the first of these controls that the reply
/// calls, or, if the reply calls nothing at all, from the first whose tag it contains.
///
/// A control call takes precedence over other calls. They are not carried out, and the model can request them again.
pub(super) fn parse_control<M>(reply: &Reply, controls: &[&ControlTool<M>]) -> Option<M> {
    let called = controls.iter().find_map(|control| control.called(reply));
    let written = || controls.iter().find_map(|control| control.written(reply));
    called.or_else(|| reply.tool_calls.is_empty().then(written).flatten())
}

/// Returns the text of a call, whatever the name of its one argument, and even if the arguments are not an object.
fn words(arguments: &Value) -> Option<&str> {
    let said = match arguments {
        Value::Object(fields) => fields.values().find_map(Value::as_str),
        Value::String(text) => Some(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    said.filter(|text| !text.trim().is_empty())
}

/// Returns the text with the first of `tags` removed, or `None` if it contains none. Ignores the case and position of
/// the tag.
fn without(words: &str, tags: &[&str]) -> Option<String> {
    let lower = words.to_ascii_lowercase();
    let (at, tag) = tags.iter().find_map(|tag| Some((lower.find(tag)?, tag)))?;
    Some(format!("{}{}", &words[..at], &words[at + tag.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::ToolCall;

    const STOP: ControlTool<(char, String)> = ControlTool {
        name: "stop",
        about: "",
        argument: "reason",
        tags: &["[stop]", "[full stop]"],
        otherwise: "no reason",
        means: |words| ('s', words),
    };
    const ASK: ControlTool<(char, String)> = asking("", |words| ('a', words));

    fn says(content: &str, calls: &[(&str, Value)]) -> Option<(char, String)> {
        let call = |(name, arguments): &(&str, Value)| ToolCall {
            id: "c1".to_owned(),
            name: (*name).to_owned(),
            arguments: arguments.clone(),
        };
        let tool_calls = calls.iter().map(call).collect();
        parse_control(&Reply { content: content.to_owned(), tool_calls, ..Reply::default() }, &[&ASK, &STOP])
    }

    fn is(control: char, words: &str) -> Option<(char, String)> {
        Some((control, words.to_owned()))
    }

    #[test]
    fn a_called_control_tool_takes_precedence_in_the_reply() {
        let (ask, stop) = (("ask_user", json!({"question": "Who?"})), ("stop", json!({"reason": " late "})));
        assert_eq!(says("", &[("add", json!({})), stop.clone()]), is('s', "late"));
        assert_eq!(says("[stop] here", &[stop, ask.clone()]), is('a', "Who?"), "the first of the controls");
        assert_eq!(says("[stop] here", &[ask]), is('a', "Who?"));
    }

    #[test]
    fn the_text_of_a_control_tool_is_found_under_any_field_name() {
        for arguments in [json!({"text": "Who?"}), json!("Who?")] {
            assert_eq!(says("beside", &[("ask_user", arguments)]), is('a', "Who?"));
        }
        for arguments in [json!({}), json!({"question": " "}), json!(""), json!(["Who?"]), Value::Null] {
            assert_eq!(says(" beside ", &[("ask_user", arguments.clone())]), is('a', "beside"));
            assert_eq!(says(" ", &[("ask_user", arguments)]), is('a', "What else should I know?"));
        }
    }

    #[test]
    fn a_tag_is_recognized_anywhere_unless_the_reply_has_calls() {
        assert_eq!(says("[Full Stop] It is late.", &[]), is('s', "It is late."));
        assert_eq!(says("Who? [ASK_USER]", &[]), is('a', "Who?"));
        assert_eq!(says("[ask user]", &[]), is('a', "What else should I know?"));
        assert_eq!(says("[stop] Who? [ask]", &[]), is('a', "[stop] Who?"), "the first of the controls");
        assert_eq!(says("[stop] late", &[("add", json!({}))]), None);
        assert_eq!(says("stop", &[]), None);
    }
}
