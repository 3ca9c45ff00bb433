//! What a model says to the strategy and to no server: as a call of a tool that only the strategy knows, or, if the model would
//! rather not, with a tag among its words.

use serde_json::{Value, json};

use crate::{Reply, Safety, Tool};

/// A tool that a model calls to say one thing.
pub(super) struct Control<M> {
    pub(super) name: &'static str,
    /// When it is to be called.
    pub(super) about: &'static str,
    /// What its words are called.
    pub(super) argument: &'static str,
    /// What models write instead.
    pub(super) tags: &'static [&'static str],
    /// Its words, if the model gives none.
    pub(super) otherwise: &'static str,
    /// What the words mean.
    pub(super) means: fn(String) -> M,
}

impl<M> Control<M> {
    /// As models are told of it.
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
        }
    }

    fn called(&self, reply: &Reply) -> Option<M> {
        let call = reply.tool_calls.iter().find(|it| it.name == self.name)?;
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

/// What a reply says to the strategy, if anything: by the first of these controls that it calls, or, if it calls nothing at all,
/// by the first whose tag it holds.
///
/// A control call wins over other calls: what was asked for beside it has not happened and is asked for again.
pub(super) fn heard<M>(reply: &Reply, controls: &[&Control<M>]) -> Option<M> {
    let called = controls.iter().find_map(|it| it.called(reply));
    let written = || controls.iter().find_map(|it| it.written(reply));
    called.or_else(|| reply.tool_calls.is_empty().then(written)?)
}

/// The words of a call, whatever its one argument is called and even if it is no object.
fn words(arguments: &Value) -> Option<&str> {
    let said = match arguments {
        Value::Object(fields) => fields.values().find_map(Value::as_str),
        Value::String(text) => Some(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    said.filter(|it| !it.trim().is_empty())
}

/// The words around the first of `tags` that is there, whatever its case and wherever it stands.
fn without(words: &str, tags: &[&str]) -> Option<String> {
    let lower = words.to_ascii_lowercase();
    let (at, tag) = tags.iter().find_map(|tag| Some((lower.find(tag)?, tag)))?;
    Some(format!("{}{}", &words[..at], &words[at + tag.len()..]))
}

/// By which a model asks the person.
pub(super) const fn asking<M>(about: &'static str, means: fn(String) -> M) -> Control<M> {
    Control {
        name: "ask_user",
        about,
        argument: "question",
        tags: &["[ask]", "[ask user]", "[ask_user]"],
        otherwise: "What else should I know?",
        means,
    }
}
