//! The row of a turn.

use queue::Priority;
use serde_json::Value;
use shared::{CallerId, Message, OutcomeKind, Policy, ReplyOptions, TurnStatus};

use crate::{
    Error,
    log::{
        caller_column::caller_of,
        ids::{ThreadId, TurnId, corrupt, unsigned},
        reply_options_column::options_of,
        tables::turns,
    },
};

/// A turn in the read model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Position in the queue; among equal priorities, the lowest starts first.
    pub position: i64,
    /// Id of the turn.
    pub id: TurnId,
    /// Id of the thread.
    pub thread: ThreadId,
    /// Status in the read model.
    pub status: TurnStatus,
    /// Tenant of the thread.
    pub tenant: String,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Treatment of the messages.
    pub policy: Policy,
    /// Messages as submitted.
    pub messages: Vec<Message>,
    /// Demands of the client on the reply, as submitted. `None`: none, or in an answer those of the turn that asked.
    pub reply_options: Option<Box<ReplyOptions>>,
    /// JSON object of the client.
    pub metadata: Value,
    /// Name of the submitter.
    pub author: String,
    /// Authenticated submitter; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Number of the event that started the turn.
    pub started_seq: Option<u64>,
    /// Number of the event that ended the turn or left it waiting for a person.
    pub ended_seq: Option<u64>,
    /// Error of a failed turn.
    pub error: Option<String>,
    /// Outcome of a completed turn.
    pub outcome: Option<OutcomeKind>,
    /// Reason that the turn failed or ended without a full answer. It is the error without the parts that differ between
    /// occurrences, or the causes of the outcome, so that turns can be counted by it.
    pub cause: Option<String>,
    /// Length of the log that ends with the question which this turn answers; it starts at no other length.
    pub answers_seq: Option<u64>,
    /// Earliest start in microseconds since the Unix epoch; `None` starts at once.
    pub due_at: Option<i64>,
    /// Time of submission, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last change, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

impl TryFrom<turns::Model> for Turn {
    type Error = Error;

    fn try_from(row: turns::Model) -> Result<Self, Error> {
        let id = row.id;
        let unread = |what: &str, error: &dyn std::fmt::Display| {
            corrupt(row.thread_id, format_args!("turn {id}: {what}: {error}"))
        };
        Ok(Self {
            position: row.position,
            id,
            thread: row.thread_id,
            status: row.status.parse().map_err(|error| unread("its status", &error))?,
            tenant: row.tenant,
            priority: Priority::from_rank(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            policy: row.policy.parse().map_err(|error| unread("its policy", &error))?,
            messages: serde_json::from_str(&row.input).map_err(|error| unread("its words", &error))?,
            reply_options: options_of(row.reply_options.as_deref())
                .map_err(|error| unread("its reply options", &error))?,
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
            author: row.author,
            caller: caller_of(row.caller.as_deref()).map_err(|error| unread("its caller", &error))?,
            started_seq: row.started_seq.map(unsigned).transpose()?,
            ended_seq: row.ended_seq.map(unsigned).transpose()?,
            error: row.error,
            outcome: row
                .outcome
                .map(|text| outcome_of(&text))
                .transpose()
                .map_err(|error| unread("its outcome is unknown", &error))?,
            cause: row.cause,
            answers_seq: row.answers_seq.map(unsigned).transpose()?,
            due_at: row.due_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Returns the outcome of this name.
///
/// # Errors
///
/// The name, if it is unknown.
pub(crate) fn outcome_of(text: &str) -> Result<OutcomeKind, String> {
    OutcomeKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| text.to_owned())
}
