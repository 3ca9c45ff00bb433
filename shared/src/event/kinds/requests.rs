//! Events of the requests of a node: from the first attempt to an answer, or to none.

use serde::{Deserialize, Serialize};

use crate::{
    request::{Request, Response},
    tool_content::ResponseExtras,
    usage::Usage,
};

/// A node issued requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Name of the node.
    pub node: String,
    /// Requests of the node. The idempotency key of each is `thread:seq:slot`, where `seq` is the position of this
    /// event.
    pub requests: Vec<Request>,
}

/// A request that may change the outside world is about to be sent.
///
/// The append is the fence: two workers cannot both start the same attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempted {
    /// Index of the request within its node.
    pub slot: usize,
    /// Id of the worker that makes the attempt.
    #[serde(default)]
    pub worker: String,
}

/// A request was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Index of the request within its node.
    pub slot: usize,
    /// Response as recorded in the log.
    pub response: Response,
    /// Tokens, cost and time of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tool content other than text, and the id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extras: Option<Box<ResponseExtras>>,
}

impl Answered {
    /// Returns the response, with its extras merged in, and its usage.
    pub fn outcome(self) -> (Response, Option<Usage>) {
        match (self.response, self.extras) {
            (Response::Output(output), Some(extras)) => {
                (Response::OutputWithExtras { output, extras }, self.usage)
            }
            (response, Some(_) | None) => (response, self.usage),
        }
    }
}

/// An attempt failed, or its response did not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptFailed {
    /// Index of the request within its node.
    pub slot: usize,
    /// Error of the failed attempt.
    pub error: String,
    /// Delay before the next attempt, in milliseconds after this event. Without it, the request is not retried
    /// automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The request was sent and its response was lost. It may have taken effect, and is safe to repeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Usage of the failed attempt. Unusable responses are billed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model or server takes no request for now, so the request waits and this is not counted as an attempt. Further
    /// refusals of a request that changes nothing are not recorded: it waits until the next event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Configured number of attempts of the request, if it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// The server offers other tools than its pin, so nothing was sent to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin_changed: bool,
    /// Context window of the model in tokens, learned from its refusal. Later requests of the thread to this model are
    /// made to fit into it, and the node issues its requests anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Number of images and files that the model takes in one request, learned from its refusal like `context_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_max: Option<u64>,
    /// The refusal named no limit, so `context_tokens` or `attachments_max` is a guess. It is kept if the model answers the
    /// smaller request, and forgotten otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// The attempt was a read-back of the request, and not the request itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_back: bool,
}

impl AttemptFailed {
    /// Returns true if the request was refused for its size, and its node issues a smaller one.
    pub fn is_too_large(&self) -> bool {
        self.context_tokens.is_some() || self.attachments_max.is_some()
    }
}

/// A request was given up. Its node continues without a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abandoned {
    /// Index of the request within its node.
    pub slot: usize,
    /// Reason, for the model and for people.
    pub reason: String,
}

/// A server carries a call out as a task. The call is not sent again: the task is asked for its result until it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStarted {
    /// Index of the request within its node.
    pub slot: usize,
    /// Id of the task at the server.
    pub task: String,
}

/// A call that may change something was under way when its turn was cancelled, and has ended. The cancellation is not undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteEnded {
    /// Number of the last `attempted` event of the call.
    pub attempted: u64,
    /// Ending of the call.
    pub ending: WriteEnding,
    /// Result or error of the call, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Ending of a call whose turn was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEnding {
    /// The call was made.
    Made,
    /// The call was made, and its result is an error.
    Failed,
    /// The call was not made.
    NotMade,
    /// The answer was lost. The call may have been made, or still be made.
    Unknown,
}
