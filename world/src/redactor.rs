//! Removal of configured secrets from what models, servers and commands answer, before it is recorded.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use regex::Regex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use shared::{Fault, Response};

use crate::world::Outcome;

/// Minimum length of a secret in bytes. Shorter ones appear in ordinary text.
const MIN_SECRET_LEN: usize = 8;

/// Error if a secret cannot be removed from a response.
const IN_FORMAT: &str =
    "the response has the value of a configured secret as a part of its format; hint: use another secret";

/// Replaces the values of secrets by the names of their settings.
///
/// A server that repeats its key in a result would otherwise write it into a log that is never changed, and show it to
/// the model.
#[derive(Default)]
pub struct Redactor(RwLock<Option<Arc<Secrets>>>);

struct Secrets {
    any: Regex,
    /// Names of the settings, by the value of their secret.
    settings: HashMap<String, String>,
}

impl Redactor {
    /// Redacts every text in `value`. Returns the number of redacted texts.
    pub(super) fn json(&self, value: &mut Value) -> usize {
        self.secrets().map_or(0, |secrets| secrets.value(value))
    }

    /// Creates a redactor of these secrets, each with the name of its setting. Secrets below 8 bytes are ignored.
    pub fn new(secrets: impl IntoIterator<Item = (String, SecretString)>) -> Self {
        let redactor = Self::default();
        redactor.add(secrets);
        redactor
    }

    /// Adds secrets. The ones before are removed from texts as before.
    pub fn add(&self, secrets: impl IntoIterator<Item = (String, SecretString)>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = current.iter().flat_map(|known| known.settings.clone());
        let added = secrets
            .into_iter()
            .map(|(setting, secret)| (secret.expose_secret().trim().to_owned(), setting))
            .filter(|(secret, _)| MIN_SECRET_LEN <= secret.len());
        let settings: HashMap<String, String> = before.chain(added).collect();
        let mut longest_first: Vec<&String> = settings.keys().collect();
        longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let pattern: Vec<String> = longest_first.into_iter().map(|secret| regex::escape(secret)).collect();
        let any = (!pattern.is_empty()).then(|| Regex::new(&pattern.join("|")).ok()).flatten();
        *current = any.map(|any| Arc::new(Secrets { any, settings }));
    }

    fn secrets(&self) -> Option<Arc<Secrets>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Redacts a response or an error.
    ///
    /// # Errors
    ///
    /// The [`Fault`] of the outcome, or that of a response which cannot be redacted.
    pub fn outcome(&self, outcome: Outcome) -> Outcome {
        let Some(secrets) = self.secrets() else { return outcome };
        match outcome {
            Ok((response, usage)) => Ok((secrets.response(response)?, usage)),
            Err(fault) => Err(Fault { error: secrets.text(&fault.error).unwrap_or(fault.error), ..fault }),
        }
    }
}

impl Secrets {
    fn response(&self, response: Response) -> Result<Response, Fault> {
        let Ok(mut value) = serde_json::to_value(&response) else { return Ok(response) };
        match self.value(&mut value) {
            0 => Ok(response),
            _ => serde_json::from_value(value).map_err(|_| Fault::permanent(IN_FORMAT)),
        }
    }

    /// Redacts every text in `value`. Returns the number of redacted texts.
    fn value(&self, value: &mut Value) -> usize {
        match value {
            Value::String(text) => self.text(text).map(|redacted| *text = redacted).into_iter().count(),
            Value::Array(items) => items.iter_mut().map(|item| self.value(item)).sum(),
            Value::Object(fields) => {
                let named: Vec<String> =
                    fields.keys().filter(|key| self.any.is_match(key)).cloned().collect();
                for name in &named {
                    if let (Some(redacted), Some(value)) = (self.text(name), fields.remove(name)) {
                        fields.insert(redacted, value);
                    }
                }
                named.len() + fields.values_mut().map(|value| self.value(value)).sum::<usize>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }

    /// Returns `text` without secrets, or nothing if it contains none.
    fn text(&self, text: &str) -> Option<String> {
        let setting = |found: &regex::Captures<'_>| format!("[{}]", self.settings[&found[0]]);
        self.any.is_match(text).then(|| self.any.replace_all(text, setting).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        let secret = |setting: &str, value: &str| (setting.to_owned(), value.into());
        Redactor::new([
            secret("providers.a.api_key", "sk-1234.5678"),
            secret("providers.b.api_key", "sk-1234.5678-long\n"),
            secret("mcp.c.env.PIN", "1234"),
        ])
    }

    #[test]
    fn secrets_are_replaced_wherever_a_response_holds_text() {
        let response: Response = serde_json::from_value(json!({
            "response": "reply",
            "content": "my key is sk-1234.5678, hers is sk-1234.5678-long, PIN 1234, not sk-1234x5678",
            "tool_calls": [{"id": "c", "name": "send", "arguments": {"sk-1234.5678": ["a sk-1234.5678"], "n": 1234}}],
        }))
        .unwrap();
        let (redacted, _) = redactor().outcome(Ok((response, None))).unwrap();
        let redacted = serde_json::to_value(redacted).unwrap();
        assert_eq!(
            redacted["content"],
            "my key is [providers.a.api_key], hers is [providers.b.api_key], PIN 1234, not sk-1234x5678"
        );
        assert_eq!(
            redacted["tool_calls"][0]["arguments"],
            json!({"[providers.a.api_key]": ["a [providers.a.api_key]"], "n": 1234})
        );
    }

    #[test]
    fn secrets_that_are_added_are_redacted_beside_the_ones_before() {
        let redactor = redactor();
        redactor.add([("providers.a.api_key".to_owned(), "sk-8765.4321".into())]);
        let fault =
            redactor.outcome(Err(Fault::permanent("old sk-1234.5678, new sk-8765.4321"))).unwrap_err();
        assert_eq!(fault.error, "old [providers.a.api_key], new [providers.a.api_key]");
    }

    #[test]
    fn errors_are_redacted_too() {
        let fault = redactor().outcome(Err(Fault::permanent("bad key sk-1234.5678"))).unwrap_err();
        assert_eq!(fault.error, "bad key [providers.a.api_key]");
        let fault = Redactor::default().outcome(Err(Fault::permanent("bad key sk-1234.5678"))).unwrap_err();
        assert_eq!(fault.error, "bad key sk-1234.5678");
    }
}
