//! Puts the messages of a request into an order that the endpoint accepts.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Rules of an endpoint for the messages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageRules {
    /// Order of the roles.
    pub(super) order: MessageOrder,
    /// True if a message of the assistant may hold several calls.
    pub(super) parallel_calls: bool,
    /// True if ids of calls must have 9 letters or digits.
    pub(super) short_call_ids: bool,
    /// True if a conversation with calls must declare tools, even if none may be called.
    pub(super) declares_called_tools: bool,
    /// True if calls must carry a signature of the model's reasoning.
    pub(super) signs_calls: bool,
    /// True if the content beside calls may be null. Otherwise it is an empty text.
    pub(super) null_content: bool,
}

/// Order of the roles of messages. Each accepts what the next accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageOrder {
    /// Any order, and any number of system messages.
    Any,
    /// One system message at the beginning, then a message of the user. The last message is the user's or a tool's, and
    /// no two messages of one role follow each other.
    UserFirst,
    /// The same, and a message of the user never follows a tool's.
    Alternating,
}

impl MessageOrder {
    /// Returns the order as text, for people.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Any => "in any order",
            Self::UserFirst => "one system message, then user first",
            Self::Alternating => "one system message, then user first; assistant after tool",
        }
    }
}

impl MessageRules {
    /// The rules of OpenAI.
    pub(super) const FREE: Self = Self {
        order: MessageOrder::Any,
        parallel_calls: true,
        short_call_ids: false,
        declares_called_tools: false,
        signs_calls: false,
        null_content: true,
    };

    /// The order of messages that nearly all endpoints accept.
    pub(super) const STRICT: Self = Self { order: MessageOrder::UserFirst, ..Self::FREE };
}

/// Message of the user where an endpoint requires one and the conversation has none.
const CUE: &str = "Follow your instructions.";

/// Message of the assistant between a tool's result and the user, where an endpoint requires one.
const ACKNOWLEDGEMENT: &str = "I have read the result.";

/// Text of an empty message, which many endpoints refuse.
const EMPTY: &str = "(empty)";

/// Signature that Google documents for calls whose own signature is unknown.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Number of characters of a short id.
const SHORT_ID_LEN: usize = 9;

/// Brings messages into the form that `rules` describe.
pub(super) fn normalised(mut messages: Vec<Value>, rules: MessageRules) -> Vec<Value> {
    if !rules.parallel_calls {
        messages = with_single_calls(messages);
    }
    if MessageOrder::Any < rules.order {
        messages = ordered(messages, rules.order);
    }
    for message in &mut messages {
        if !rules.null_content && message["content"].is_null() {
            message["content"] = "".into();
        }
        if let Some(id) = message.get_mut("tool_call_id").filter(|_| rules.short_call_ids) {
            *id = short_id(id);
        }
        for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            if rules.short_call_ids {
                call["id"] = short_id(&call["id"]);
            }
            if rules.signs_calls {
                call["extra_content"] = json!({ "google": { "thought_signature": UNSIGNED } });
            }
        }
    }
    messages
}

/// Orders the roles: later system messages become the user's, neighbours of one role are joined, and what an endpoint
/// requires is added.
fn ordered(messages: Vec<Value>, order: MessageOrder) -> Vec<Value> {
    let mut ordered: Vec<Value> = Vec::with_capacity(messages.len() + 2);
    for mut message in messages {
        let begins = ordered.iter().all(|message| message["role"] == "system");
        if message["role"] == "system" && !begins {
            message["role"] = "user".into();
        }
        let has_calls = message["tool_calls"].is_array();
        if message["role"] == "assistant" && !has_calls && is_empty(&message["content"]) {
            continue;
        }
        if !has_calls && is_empty(&message["content"]) {
            message["content"] = EMPTY.into();
        }
        if begins && message["role"] != "system" && message["role"] != "user" {
            ordered.push(json!({ "role": "user", "content": CUE }));
        }
        match ordered.last_mut() {
            Some(last) if may_join(last, &message) => join(last, message),
            Some(last)
                if order == MessageOrder::Alternating
                    && last["role"] == "tool"
                    && message["role"] == "user" =>
            {
                ordered.push(json!({ "role": "assistant", "content": ACKNOWLEDGEMENT }));
                ordered.push(message);
            }
            Some(_) | None => ordered.push(message),
        }
    }
    if ordered.last().is_none_or(|message| message["role"] != "user" && message["role"] != "tool") {
        ordered.push(json!({ "role": "user", "content": CUE }));
    }
    ordered
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Returns true if two neighbours have the same role and can be one message.
fn may_join(one: &Value, other: &Value) -> bool {
    one["role"] == other["role"] && one["role"] != "tool" && !one["tool_calls"].is_array()
}

/// Adds the content and the calls of `other` to a message of the same role.
fn join(message: &mut Value, mut other: Value) {
    let content = match (message["content"].take(), other["content"].take()) {
        (one, other) if is_empty(&other) => one,
        (one, other) if is_empty(&one) => other,
        (Value::String(one), Value::String(other)) => Value::from(format!("{one}\n\n{other}")),
        (one, other) => parts(one).into_iter().chain(parts(other)).collect(),
    };
    message["content"] = content;
    if other["tool_calls"].is_array() {
        message["tool_calls"] = other["tool_calls"].take();
    }
}

fn parts(content: Value) -> Vec<Value> {
    if let Value::Array(parts) = content {
        return parts;
    }
    vec![json!({ "type": "text", "text": content })]
}

/// Writes parallel calls as calls one after another, each followed by its result.
fn with_single_calls(messages: Vec<Value>) -> Vec<Value> {
    let mut single: Vec<Value> = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.len() < 2 {
            single.push(message);
            continue;
        }
        let mut results: Vec<Value> = Vec::new();
        while let Some(result) = messages.next_if(|message| message["role"] == "tool") {
            results.push(result);
        }
        for call in calls {
            let result = results.iter().position(|message| message["tool_call_id"] == call["id"]);
            message["tool_calls"] = json!([call]);
            single.push(message.clone());
            single.extend(result.map(|at| results.remove(at)));
            message["content"] = Value::Null;
        }
        single.append(&mut results);
    }
    single
}

/// Returns an id of 9 letters or digits for an id. The same id always gets the same.
fn short_id(id: &Value) -> Value {
    let text = id.as_str().unwrap_or_default();
    if text.len() == SHORT_ID_LEN && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.clone();
    }
    hex::encode(Sha256::digest(text))[..SHORT_ID_LEN].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> Value {
        json!({ "role": role, "content": content })
    }

    fn calls(ids: &[&str]) -> Value {
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| json!({ "id": id, "function": { "name": "f", "arguments": "{}" } }))
            .collect();
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    }

    fn result(id: &str) -> Value {
        json!({ "role": "tool", "content": "r", "tool_call_id": id })
    }

    fn roles(messages: &[Value]) -> Vec<&str> {
        messages.iter().filter_map(|message| message["role"].as_str()).collect()
    }

    #[test]
    fn orders_that_only_openai_accepts_are_put_right() {
        let strict = |messages: Vec<Value>| normalised(messages, MessageRules::STRICT);
        let no_user = strict(vec![message("system", "s"), calls(&["a"]), result("a")]);
        assert_eq!(roles(&no_user), ["system", "user", "assistant", "tool"]);
        assert_eq!(no_user[1]["content"], CUE);
        let assistant_last =
            strict(vec![message("system", "s"), message("user", "u"), message("assistant", "a")]);
        assert_eq!(roles(&assistant_last), ["system", "user", "assistant", "user"]);
        let alone = strict(vec![message("system", "s")]);
        assert_eq!(roles(&alone), ["system", "user"]);
        let systems = strict(vec![
            message("system", "one"),
            message("system", "two"),
            message("user", "u"),
            message("system", "three"),
        ]);
        assert_eq!(systems, [message("system", "one\n\ntwo"), message("user", "u\n\nthree")]);
        let after_tool = vec![message("user", "u"), calls(&["a"]), result("a"), message("system", "wrong")];
        assert_eq!(roles(&strict(after_tool.clone())), ["user", "assistant", "tool", "user"]);
        let rules = MessageRules { order: MessageOrder::Alternating, ..MessageRules::STRICT };
        assert_eq!(roles(&normalised(after_tool, rules)), ["user", "assistant", "tool", "assistant", "user"]);
    }

    #[test]
    fn neighbours_of_one_role_become_one_message() {
        let image = json!({ "role": "user", "content": [{ "type": "image_url" }] });
        let joined = normalised(
            vec![
                message("user", "a"),
                image,
                message("assistant", "x"),
                message("assistant", ""),
                calls(&["a"]),
                result("a"),
                message("assistant", "y"),
                message("user", ""),
            ],
            MessageRules::STRICT,
        );
        assert_eq!(roles(&joined), ["user", "assistant", "tool", "assistant", "user"]);
        assert_eq!(joined[0]["content"], json!([{ "type": "text", "text": "a" }, { "type": "image_url" }]));
        assert_eq!(
            (&joined[1]["content"], joined[1]["tool_calls"][0]["id"].as_str()),
            (&json!("x"), Some("a"))
        );
        assert_eq!(joined[4]["content"], EMPTY);
    }

    #[test]
    fn calls_get_the_form_that_an_endpoint_requires() {
        let parallel =
            || vec![message("user", "u"), calls(&["call_1_0", "b"]), result("b"), result("call_1_0")];
        assert_eq!(normalised(parallel(), MessageRules::FREE), parallel());
        let rules = MessageRules { parallel_calls: false, ..MessageRules::FREE };
        let single = normalised(parallel(), rules);
        assert_eq!(roles(&single), ["user", "assistant", "tool", "assistant", "tool"]);
        assert_eq!(
            (&single[1]["tool_calls"][0]["id"], &single[2]["tool_call_id"]),
            (&json!("call_1_0"), &json!("call_1_0"))
        );
        let rules = MessageRules { short_call_ids: true, signs_calls: true, ..MessageRules::FREE };
        let short = normalised(parallel(), rules);
        let id = &short[1]["tool_calls"][0]["id"];
        assert_eq!((id.as_str().unwrap().len(), id), (9, &short[3]["tool_call_id"]));
        let rules = MessageRules { null_content: false, ..MessageRules::FREE };
        assert_eq!(normalised(parallel(), rules)[1]["content"], "");
        assert_eq!(short[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"], UNSIGNED);
    }
}
