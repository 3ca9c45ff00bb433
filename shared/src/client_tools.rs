//! Tools of a client: offered to the model, and carried out by the client, which sends the results with the next turn.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    context::READ_MORE,
    effect::UnexpectedResponse,
    json_schema::misfit,
    message::{Message, Reply, Role, Safety, Tool, ToolCall},
    reply_options::{InvalidReplyOption, check_description, check_name, check_schema, invalid},
};

/// Maximum number of tools of a client.
pub const CLIENT_TOOLS_MAX: usize = 128;

/// Maximum size of all tools of a client, as JSON in bytes.
pub const CLIENT_TOOLS_BYTES_MAX: usize = 256 << 10;

/// A tool of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientTool {
    /// A function.
    Function {
        /// Name, purpose and parameters.
        function: ClientFunction,
    },
}

/// A function of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFunction {
    /// Name of the function: letters, digits, `_` and `-`.
    pub name: String,
    /// Purpose of the function, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// True if the provider enforces the schema. Passed on as it was sent; arguments are checked in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// Demand on the use of tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool is called.
    None,
    /// At least one tool is called.
    Required,
    /// This function of the client is called.
    Function(String),
}

/// Use of tools in one request to a model, where it is not left to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolUse {
    /// Demand on the use of tools.
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// True if the model may make several calls at once. Absent: as its endpoint has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
}

impl ClientTool {
    /// Returns the function.
    pub fn function(&self) -> &ClientFunction {
        let Self::Function { function } = self;
        function
    }

    /// Returns the tool as models are offered it.
    pub fn tool(&self) -> Tool {
        let ClientFunction { name, description, parameters, strict: _ } = self.function().clone();
        let description = description.unwrap_or_default();
        Tool { name, description, parameters, safety: Safety::Read, max_repeats: None, read_back: None }
    }
}

impl ToolChoice {
    pub(crate) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

impl TryFrom<Value> for ToolChoice {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match (value.as_str(), value["type"].as_str(), value["function"]["name"].as_str()) {
            (Some("auto"), ..) => Ok(Self::Auto),
            (Some("none"), ..) => Ok(Self::None),
            (Some("required"), ..) => Ok(Self::Required),
            (None, Some("function"), Some(name)) => Ok(Self::Function(name.to_owned())),
            _ => Err("it must be \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}"
                .to_owned()),
        }
    }
}

impl From<ToolChoice> for Value {
    fn from(choice: ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Required => "required".into(),
            ToolChoice::Function(name) => json!({ "type": "function", "function": { "name": name } }),
        }
    }
}

/// Checks names, sizes and schemas of tools, and that the demand names one of them.
pub(crate) fn check_tools(tools: &[ClientTool], choice: &ToolChoice) -> Result<(), InvalidReplyOption> {
    if CLIENT_TOOLS_MAX < tools.len() {
        let why = format!("there are {}, and there may be {CLIENT_TOOLS_MAX}", tools.len());
        return Err(invalid("tools", why, "offer fewer"));
    }
    let size = serde_json::to_string(tools).map_or(0, |text| text.len());
    if CLIENT_TOOLS_BYTES_MAX < size {
        let why = format!("they have {size} bytes as JSON, and may have {CLIENT_TOOLS_BYTES_MAX}");
        return Err(invalid("tools", why, "offer fewer"));
    }
    let mut names = BTreeSet::new();
    for (nth, tool) in tools.iter().enumerate() {
        let (place, function) = (format!("tools[{nth}].function"), tool.function());
        check_name(&format!("{place}.name"), &function.name)?;
        if function.name == READ_MORE || !names.insert(&function.name) {
            let why = format!("the name {:?} is taken", function.name);
            return Err(invalid(&format!("{place}.name"), why, "choose another name"));
        }
        check_description(&format!("{place}.description"), function.description.as_deref())?;
        check_schema(&format!("{place}.parameters"), &function.parameters)?;
    }
    match choice {
        ToolChoice::Auto | ToolChoice::None => Ok(()),
        ToolChoice::Required if tools.is_empty() => {
            Err(invalid("tool_choice", "there are no tools", "send `tools` as well"))
        }
        ToolChoice::Function(name) if !names.contains(name) => {
            let why = format!("there is no tool called {name:?}");
            Err(invalid("tool_choice", why, "name one of `tools`"))
        }
        ToolChoice::Required | ToolChoice::Function(_) => Ok(()),
    }
}

/// Checks that a reply makes the call that the client demands. A demanded function is typed output: its arguments must fit.
pub(crate) fn check_calls(
    choice: &ToolChoice,
    tools: &[ClientTool],
    reply: &Reply,
) -> Result<(), UnexpectedResponse> {
    let refused = |why: String| Err(UnexpectedResponse::Schema(why));
    match choice {
        ToolChoice::Auto | ToolChoice::None => Ok(()),
        ToolChoice::Required if reply.tool_calls.is_empty() => refused("no tool was called".to_owned()),
        ToolChoice::Required => Ok(()),
        ToolChoice::Function(name) => {
            let Some(call) = reply.tool_calls.iter().find(|call| call.name == *name) else {
                return refused(format!("{name} was not called"));
            };
            if !call.arguments.is_object() {
                return refused(format!("the arguments of {name} are not one JSON object"));
            }
            let tool = tools.iter().find(|tool| tool.function().name == *name);
            match tool.and_then(|tool| misfit(&tool.function().parameters, &call.arguments)) {
                None => Ok(()),
                Some(why) => refused(format!("the arguments of {name}: {why}")),
            }
        }
    }
}

/// Returns the calls of the last message of the assistant that have no result. After a turn has ended, they are the client's.
pub fn open_calls(messages: &[Message]) -> Vec<&ToolCall> {
    let Some(last) = messages.iter().rposition(|message| message.role == Role::Assistant) else {
        return Vec::new();
    };
    let has_result = |call: &&ToolCall| {
        messages[last..].iter().any(|message| message.tool_call_id.as_ref() == Some(&call.id))
    };
    messages[last].tool_calls.iter().filter(|call| !has_result(call)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_options::ReplyOptions;

    fn refusal(options: Value) -> String {
        let options: ReplyOptions = serde_json::from_value(options).unwrap();
        options.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "required": ["a"]}}})
    }

    #[test]
    fn tools_that_cannot_be_offered_are_refused_by_their_key() {
        let many: Vec<Value> = (0..=CLIENT_TOOLS_MAX).map(|n| function(&format!("f{n}"))).collect();
        let forced = |name: &str| json!({"type": "function", "function": {"name": name}});
        for (options, key) in [
            (json!({"tools": [function("f")], "tool_choice": forced("f"), "parallel_tool_calls": false}), ""),
            (
                json!({"tools": [function("f"), function("f")]}),
                "tools[1].function.name: the name \"f\" is taken",
            ),
            (
                json!({"tools": [function("read_more")]}),
                "tools[0].function.name: the name \"read_more\" is taken",
            ),
            (json!({"tools": [function("a b")]}), "tools[0].function.name: it must have 1 to 64"),
            (json!({"tools": many}), "tools: there are 129"),
            (json!({"tools": [], "tool_choice": "required"}), "tool_choice: there are no tools"),
            (
                json!({"tools": [function("f")], "tool_choice": forced("g")}),
                "tool_choice: there is no tool called \"g\"",
            ),
        ] {
            let refusal = refusal(options.clone());
            assert!(refusal.starts_with(key) && refusal.is_empty() == key.is_empty(), "{options}: {refusal}");
        }
    }

    #[test]
    fn a_demanded_function_is_called_with_arguments_that_fit() {
        let tools: Vec<ClientTool> = serde_json::from_value(json!([function("f"), function("g")])).unwrap();
        let reply = |name: &str, arguments: Value| Reply {
            tool_calls: vec![ToolCall { id: "c".to_owned(), name: name.to_owned(), arguments }],
            ..Reply::default()
        };
        let forced = ToolChoice::Function("f".to_owned());
        for (choice, reply, why) in [
            (&forced, reply("f", json!({"a": 1})), ""),
            (&forced, reply("f", json!({})), "the arguments of f: a is missing"),
            (&forced, reply("f", json!("{")), "the arguments of f are not one JSON object"),
            (&forced, reply("g", json!({"a": 1})), "f was not called"),
            (&ToolChoice::Required, Reply::default(), "no tool was called"),
            (&ToolChoice::Required, reply("g", json!({})), ""),
            (&ToolChoice::Auto, Reply::default(), ""),
        ] {
            let refused = check_calls(choice, &tools, &reply)
                .map_or_else(|error| error.to_string(), |()| String::new());
            assert!(refused.ends_with(why) && refused.is_empty() == why.is_empty(), "{choice:?}: {refused}");
        }
    }
}
