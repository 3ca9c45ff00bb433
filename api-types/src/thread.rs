//! Threads: status, state, and the requests that act on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{Budget, OutcomeKind as Outcome, RunStatus, ThreadStatus};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Interrupt, Message, Usage};

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThreadSummary {
    /// Id of the thread.
    pub id: Uuid,
    /// Tenant that owns the thread.
    #[schema(examples("default"))]
    pub tenant: String,
    /// Strategy of the thread.
    #[schema(examples("probe"))]
    pub strategy: String,
    /// Status of the thread.
    pub status: ThreadStatus,
    /// Time of creation (RFC 3339).
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub created_at: String,
    /// Time of the last status change (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub updated_at: String,
}

/// A thread in a list, with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedThread {
    /// Id, strategy, status and times.
    #[serde(flatten)]
    pub summary: ThreadSummary,
    /// Beginning of the first turn's input, at most 200 characters; null if no turn was submitted.
    #[schema(examples("Book a call with Hugo on Friday"))]
    pub input: Option<String>,
    /// Beginning of the last turn's error, question or reply, at most 200 characters; null if it has none yet.
    #[schema(examples("Done. The call is on Friday at ten."))]
    pub result: Option<String>,
    /// Outcome of the last turn; null unless it completed.
    pub outcome: Option<Outcome>,
    /// Usage of all turns; null until the last one has ended.
    pub usage: Option<Usage>,
}

/// A thread with its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Thread {
    /// The fields of the list of threads.
    #[serde(flatten)]
    pub summary: ThreadSummary,
    /// Status according to the log.
    pub log_status: LogStatus,
    /// Question to a person; null unless the thread is waiting for an answer.
    pub interrupt: Option<Interrupt>,
    /// Error that stopped the thread; null unless it failed.
    pub error: Option<String>,
    /// Node that runs next or failed; null if no turn is in progress.
    #[schema(examples("step"))]
    pub node: Option<String>,
    /// Id of the current or last turn; null if there was none.
    pub turn_id: Option<Uuid>,
    /// Outcome of the last turn; null unless it completed.
    pub outcome: Option<Outcome>,
    /// Causes of the outcome, joined by `; `; null if the turn was answered.
    pub cause: Option<String>,
    /// Index of the first message in `messages`. If it is not 0, there are earlier ones.
    pub first_message: u64,
    /// The last messages of the conversation, oldest first.
    pub messages: Vec<Message>,
    /// Usage of all turns.
    pub usage: Usage,
    /// Number of events in the log.
    pub events: u64,
    /// Origin of the fork; null if the thread is not a fork.
    pub forked: Option<ForkOrigin>,
}

/// Log that a forked thread's log starts with a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForkOrigin {
    /// Id of the source thread.
    pub thread_id: Uuid,
    /// Last event that was copied.
    pub seq: u64,
    /// Hash of that event in the source log, in hex.
    pub hash: String,
}

impl From<&shared::Forked> for ForkOrigin {
    fn from(forked: &shared::Forked) -> Self {
        Self { thread_id: forked.thread, seq: forked.seq, hash: forked.hash.clone() }
    }
}

/// Request to fork a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"at": 13, "config": {"model": "openai/gpt-4o-mini"}}), json!({"at": 6, "answer": "green"})))]
pub struct ForkRequest {
    /// Last event to copy. Default: the last event of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Changes to the configuration in effect at that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// Budget of the fork and of each of its turns; replaces the budget in effect and is capped by the operator's budget.
    /// Usage of the copied turns counts: `{"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Budget>,
    /// New system prompts by node. `{prompt}` is replaced by the node's own prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// Facts that change the strategy's state, in the format of `facts` in its decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub facts: Vec<Value>,
    /// First message of the fork. It is the answer if the thread is waiting for one at that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Status of a thread according to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogStatus {
    /// It is ready for the next message.
    Idle,
    /// It has work to do.
    Busy,
    /// It asked a person and has no answer yet.
    Waiting,
    /// A node failed.
    Failed,
}

impl From<&RunStatus> for LogStatus {
    fn from(status: &RunStatus) -> Self {
        match status {
            RunStatus::Idle => LogStatus::Idle,
            RunStatus::Busy => LogStatus::Busy,
            RunStatus::Waiting(_) => LogStatus::Waiting,
            RunStatus::Failed { .. } => LogStatus::Failed,
        }
    }
}

/// State of a thread directly after an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadState {
    /// Position of the event.
    pub seq: u64,
    /// State of the strategy.
    pub state: Value,
    /// Index of the first message in `messages`. If it is not 0, there are earlier ones.
    pub first_message: u64,
    /// The last messages of the conversation, oldest first.
    pub messages: Vec<Message>,
    /// Status of the thread.
    pub log_status: LogStatus,
    /// Question to a person; null unless the thread was waiting for an answer.
    pub interrupt: Option<Interrupt>,
    /// Node that would run next; null if no turn was in progress.
    pub node: Option<String>,
    /// Configuration in effect, including defaults.
    pub config: Value,
}

/// Request to answer a thread's open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The answer. If the question has options: the text of one of them, or its number, counted from 1. A number that is
    /// the text of an option chooses that option.
    #[schema(examples("green"))]
    pub text: String,
}

/// Request to settle a call that is in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}}),
    json!({"slot": 0, "verdict": "did_not_happen"})
))]
pub struct Reconcile {
    /// Index of the node's request.
    pub slot: usize,
    /// Outcome of the call.
    pub verdict: Verdict,
}

/// Outcome of a call that was in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Verdict {
    /// The call took effect.
    Happened {
        /// Result that the tool returned or would have returned.
        #[schema(examples("sent"))]
        result: String,
    },
    /// The call did not take effect and may be attempted again.
    DidNotHappen,
    /// The outcome is unknown, and the call must not be attempted again.
    Skip,
}

impl From<Verdict> for shared::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Happened { result } => shared::Verdict::Happened { result },
            Verdict::DidNotHappen => shared::Verdict::DidNotHappen,
            Verdict::Skip => shared::Verdict::Skip,
        }
    }
}
