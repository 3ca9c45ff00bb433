//! Arguments of the tools.

use api_types::{AnswerKind, InboxAnswer};
use rmcp::model::JsonObject;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use shared::InterruptKind;
use uuid::Uuid;

use crate::server::{
    extract::deserialize,
    problem::{ApiError, Kind},
};

/// Time that a call waits for the end of its turn by default, in seconds. Most clients give up after a minute.
const WAIT: u64 = 50;

/// Argument with the time to wait.
const WAIT_NAME: &str = "wait_seconds";

/// Hint of an error in the arguments.
const HINT: &str = "tools/list describes the arguments";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {
    pub(super) turn_id: Uuid,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitingArguments {
    kind: Option<InterruptKind>,
    after: Option<Uuid>,
    limit: Option<u64>,
}

impl WaitingArguments {
    pub(super) fn path(&self) -> String {
        let kind = self.kind.map(|kind| format!("kind={}", kind.name()));
        let after = self.after.map(|after| format!("after={after}"));
        with_query("/v1/inbox", [kind, after, self.limit.map(limit)])
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsArguments {
    thread_id: Uuid,
    after: Option<u64>,
    limit: Option<u64>,
}

impl EventsArguments {
    pub(super) fn path(&self) -> String {
        let path = format!("/v1/threads/{}/events", self.thread_id);
        with_query(&path, [self.after.map(|after| format!("after={after}")), self.limit.map(limit), None])
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArguments {
    pub(super) thread_id: Uuid,
    #[serde(rename = "type")]
    kind: Option<AnswerKind>,
    #[serde(default)]
    answer: Value,
    form: Option<JsonObject>,
    turn_id: Option<Uuid>,
    seq: Option<u64>,
}

impl TryFrom<AnswerArguments> for InboxAnswer {
    type Error = ApiError;

    fn try_from(arguments: AnswerArguments) -> Result<Self, ApiError> {
        let AnswerArguments { thread_id: _, kind, answer, form, turn_id, seq } = arguments;
        let args = match form {
            None => answer,
            Some(form) if answer.is_null() => Value::Object(form),
            Some(_) => {
                let error = Kind::Invalid.because("form: there is an answer too");
                return Err(error.hint("give one of them").with_param("form"));
            }
        };
        Ok(Self { kind: kind.unwrap_or(AnswerKind::Respond), args, turn_id, seq })
    }
}

fn limit(limit: u64) -> String {
    format!("limit={limit}")
}

fn with_query(path: &str, parts: [Option<String>; 3]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

/// Parses the arguments of a tool.
///
/// # Errors
///
/// An error that names the argument at fault.
pub(super) fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ApiError> {
    deserialize("", Value::Object(arguments)).map_err(|error| error.hint(HINT))
}

/// Takes the time to wait out of the arguments, in seconds.
pub(super) fn take_wait(arguments: &mut JsonObject) -> Result<u64, ApiError> {
    let Some(wait) = arguments.remove(WAIT_NAME).filter(|wait| !wait.is_null()) else { return Ok(WAIT) };
    let detail = format!("{WAIT_NAME}: it must be a number of seconds from 0 to 60");
    wait.as_u64()
        .filter(|wait| *wait <= 60)
        .ok_or_else(|| Kind::Invalid.because(detail).with_param(WAIT_NAME))
}
