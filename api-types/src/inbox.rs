//! Open questions to people, in the format of LangGraph's agent inbox, and their answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::InterruptKind;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{InterruptKindSchema, message::ProposedCall, thread::Verdict};

/// An open question of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "thread_id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d",
    "turn_id": "019aa7f0-7d5f-7000-8000-3f6c1a2b4c5d",
    "seq": 6,
    "strategy": "probe",
    "asked_at": "2026-11-21T22:57:01.000000Z",
    "interrupt": {
        "action_request": {"action": "choice", "args": {"question": "Which colour?", "options": ["red", "green"]}},
        "config": {"allow_accept": false, "allow_edit": false, "allow_respond": true, "allow_ignore": true},
        "description": "Which colour?"
    },
    "kind": "choice",
    "question": "Which colour?",
    "options": ["red", "green"]
})))]
pub struct InboxItem {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// Id of the turn that asked.
    pub turn_id: Option<Uuid>,
    /// Length of the log when the question was asked. It identifies the question.
    pub seq: u64,
    /// Strategy of the thread.
    #[schema(examples("probe"))]
    pub strategy: String,
    /// Id of the batch whose line opened the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(examples("batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    pub batch_id: Option<String>,
    /// Time at which the question was asked (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub asked_at: String,
    /// The question in the format of agent inboxes.
    pub interrupt: HumanInterrupt,
    /// Kind of the question.
    #[schema(value_type = InterruptKindSchema)]
    pub kind: InterruptKind,
    /// Text of the question.
    #[schema(examples("Which colour?"))]
    pub question: String,
    /// Accepted answers, by text or, except for an approval, by number counted from 1. The text comes first: 2 means the
    /// option `2` if there is one. Empty if any text is accepted.
    pub options: Vec<String>,
    /// True if any text is accepted in addition to the options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_ended: bool,
    /// Calls that a person is asked to approve. Only with the kind `approval`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProposedCall>,
    /// JSON Schema of the form. Only with the kind `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
    /// Page to visit instead of filling in a form. Only with the kind `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Index of the node's request that is in doubt. Only with the kind `in_doubt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
    /// Server of the call in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(examples("calendar"))]
    pub server: Option<String>,
    /// Tool of the call in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(examples("book"))]
    pub tool: Option<String>,
}

/// Request to settle several calls in doubt of one tool with one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "server": "helpdesk",
    "tool": "create_ticket",
    "verdict": "did_not_happen",
    "doubts": [{"thread_id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "seq": 12, "slot": 0}]
})))]
pub struct SettleRequest {
    /// Server of the calls.
    pub server: String,
    /// Tool of the calls.
    pub tool: String,
    /// Outcome of every one of the calls.
    pub verdict: Verdict,
    /// The calls, as the inbox lists them: 1 to 200. A call that is not named is not settled.
    #[schema(min_items = 1, max_items = 200)]
    pub doubts: Vec<DoubtRef>,
}

/// A call in doubt, as the inbox lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoubtRef {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// `seq` of the question.
    pub seq: u64,
    /// Index of the node's request.
    pub slot: usize,
}

/// Result of settling several calls in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// Number of calls that have this verdict now, those of an earlier, equal request included.
    pub settled: u64,
    /// Calls that were not settled.
    pub refused: Vec<NotSettled>,
}

/// A call in doubt that was not settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotSettled {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// Index of the node's request.
    pub slot: usize,
    /// Kind of the problem, as in the `type` of a problem.
    #[schema(examples("urn:turnfold:problem:stale"))]
    #[serde(rename = "type")]
    pub kind: String,
    /// Description of the problem.
    #[schema(examples("another question is open in this thread, or none"))]
    pub detail: String,
}

/// A question in the format of agent inboxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HumanInterrupt {
    /// Subject of the question.
    pub action_request: ActionRequest,
    /// Accepted kinds of answer.
    pub config: AnswerConfig,
    /// Text of the question.
    pub description: String,
}

/// Subject of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionRequest {
    /// Name of the tool whose call is in doubt; otherwise the kind of the question.
    #[schema(examples("choice"))]
    pub action: String,
    /// Arguments of that call, fields of a tool's form, or the question and its options.
    #[schema(value_type = Object)]
    pub args: Value,
}

/// Kinds of answer that a question accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerConfig {
    /// True if `accept` is allowed: for approvals, calls in doubt, and forms with their default values.
    pub allow_accept: bool,
    /// True if `edit` is allowed: for questions without options.
    pub allow_edit: bool,
    /// True if `respond` is allowed.
    pub allow_respond: bool,
    /// True if `ignore` is allowed.
    pub allow_ignore: bool,
}

impl AnswerConfig {
    /// Reports whether an answer of this kind is accepted.
    pub fn allows(self, kind: AnswerKind) -> bool {
        match kind {
            AnswerKind::Accept => self.allow_accept,
            AnswerKind::Edit => self.allow_edit,
            AnswerKind::Respond => self.allow_respond,
            AnswerKind::Ignore => self.allow_ignore,
        }
    }

    /// Returns the names of the accepted kinds.
    pub fn names(self) -> Vec<&'static str> {
        let all = [AnswerKind::Accept, AnswerKind::Edit, AnswerKind::Respond, AnswerKind::Ignore];
        all.into_iter().filter(|kind| self.allows(*kind)).map(AnswerKind::name).collect()
    }
}

/// Request to answer a question of the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"type": "accept"}),
    json!({"type": "respond", "args": "green"}),
    json!({"type": "edit", "args": {"city": "Rome"}}),
    json!({"type": "respond", "args": {"slot": 0, "verdict": "did_not_happen"}}),
    json!({"type": "ignore"})
))]
pub struct InboxAnswer {
    /// Kind of answer.
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    /// Content of the answer. `accept`: nothing, or the result of a call in doubt if it is known. `edit`: a text, or JSON
    /// whose text is the answer. `respond`: a text or the number of an option; for a call in doubt, one of the options or
    /// `{"verdict": …, "slot": …}` as in a reconcile request, where `slot` defaults to the request in question. `ignore`:
    /// nothing.
    #[serde(default)]
    pub args: Value,
    /// Id of the turn that asked. If the thread's open question is from another turn, the answer is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<Uuid>,
    /// `seq` of the question. If the thread has another open question, even from the same turn, the answer is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// Kind of answer to a question of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Yes. For a call in doubt: it took effect.
    Accept,
    /// A text or JSON written by the person.
    Edit,
    /// A text. Alias: `response`.
    #[serde(alias = "response")]
    Respond,
    /// No answer. The turn is cancelled, or the tool that requested input continues without it.
    Ignore,
}

impl AnswerKind {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            AnswerKind::Accept => "accept",
            AnswerKind::Edit => "edit",
            AnswerKind::Respond => "respond",
            AnswerKind::Ignore => "ignore",
        }
    }
}
