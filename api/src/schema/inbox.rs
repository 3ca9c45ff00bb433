//! A question to a person, and its answer, in the form that agent inboxes speak.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{InterruptKind, Request};
use utoipa::ToSchema;
use uuid::Uuid;

/// A thread that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(examples(json!({
    "thread_id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d",
    "turn_id": "019aa7f0-7d5f-7000-8000-3f6c1a2b4c5d",
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
pub(crate) struct InboxItem {
    /// Which.
    pub(crate) thread_id: Uuid,
    /// The turn that waits.
    pub(crate) turn_id: Option<Uuid>,
    /// How many events its log had when it asked: names the question.
    pub(crate) seq: u64,
    /// The thread's strategy.
    #[schema(examples("probe"))]
    pub(crate) strategy: String,
    /// Since when it waits (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub(crate) asked_at: String,
    /// The question in the form that agent inboxes show.
    pub(crate) interrupt: HumanInterrupt,
    /// What kind of decision is wanted.
    pub(crate) kind: AskedKind,
    /// The words.
    #[schema(examples("Which colour?"))]
    pub(crate) question: String,
    /// What may be chosen, by its words or its number from 1; anything, if empty.
    pub(crate) options: Vec<String>,
    /// The JSON Schema of what is to be filled in; only with `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) schema: Option<Value>,
    /// The page to visit instead; only with `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// Which of the node's requests is in doubt; only with `in_doubt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<usize>,
}

/// A question in the form that agent inboxes show.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HumanInterrupt {
    /// What is to be decided on.
    action_request: ActionRequest,
    /// In which ways it may be answered.
    config: Ways,
    /// The words.
    description: String,
}

/// What is to be decided on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActionRequest {
    /// The tool whose call is in doubt, or else the kind of decision.
    #[schema(examples("choice"))]
    action: String,
    /// The arguments of that call, or the fields of a tool's form, or else the question and its options.
    #[schema(value_type = Object)]
    args: Value,
}

/// In which ways a question may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Ways {
    /// With yes: an approval, a call in doubt that happened, or a tool's form as it is.
    allow_accept: bool,
    /// With a text or JSON of one's own: whatever has no options.
    allow_edit: bool,
    /// With words.
    allow_respond: bool,
    /// Not at all: the turn is called off, or a tool that wants input does without.
    allow_ignore: bool,
}

impl HumanInterrupt {
    /// `doubted` is the request that is in doubt, if any is.
    pub(crate) fn new(it: &shared::Interrupt, doubted: Option<&Request>) -> Self {
        let action_request = match doubted {
            // An inbox lets its fields be changed, and sends them back.
            None if it.form.is_some() => ActionRequest {
                action: it.kind.name().to_owned(),
                args: it.form.as_ref().map(|it| it.blank()).unwrap_or_default(),
            },
            Some(Request::CallTool { call, .. }) => {
                ActionRequest { action: call.name.clone(), args: call.arguments.clone() }
            }
            Some(request) => ActionRequest {
                action: it.kind.name().to_owned(),
                // What was read from JSON can be written as JSON.
                args: serde_json::to_value(request).unwrap_or_default(),
            },
            None => ActionRequest {
                action: it.kind.name().to_owned(),
                args: json!({"question": it.question, "options": it.options}),
            },
        };
        Self { action_request, config: Ways::of(it), description: it.question.clone() }
    }
}

impl Ways {
    /// Those of this question.
    pub(crate) fn of(it: &shared::Interrupt) -> Self {
        let (accept, edit) = match it.kind {
            InterruptKind::InDoubt => (true, false),
            InterruptKind::Input => (true, true),
            InterruptKind::Approval => (true, it.options.is_empty()),
            InterruptKind::Clarification
            | InterruptKind::SlotFill
            | InterruptKind::Choice
            | InterruptKind::Ambiguity => (false, it.options.is_empty()),
        };
        Self { allow_accept: accept, allow_edit: edit, allow_respond: true, allow_ignore: true }
    }

    /// Whether this is one of them.
    pub(crate) fn allow(self, way: Way) -> bool {
        match way {
            Way::Accept => self.allow_accept,
            Way::Edit => self.allow_edit,
            Way::Respond => self.allow_respond,
            Way::Ignore => self.allow_ignore,
        }
    }

    /// Their names.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let all = [Way::Accept, Way::Edit, Way::Respond, Way::Ignore];
        all.into_iter().filter(|it| self.allow(*it)).map(Way::name).collect()
    }
}

/// What a person does about a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"type": "accept"}),
    json!({"type": "respond", "args": "green"}),
    json!({"type": "edit", "args": {"city": "Rome"}}),
    json!({"type": "respond", "args": {"slot": 0, "verdict": "did_not"}}),
    json!({"type": "ignore"})
))]
pub(crate) struct InboxAnswer {
    /// In which way it is answered.
    #[serde(rename = "type")]
    pub(crate) way: Way,
    /// With what. `accept`: nothing; in doubt, what the call had said, if that is known. `edit`: a text, or JSON whose
    /// text is the answer. `respond`: a text, or the number of an option; in doubt, one of the options, or
    /// `{"verdict": …, "slot": …}` as for reconcile, without `slot` the one asked about. `ignore`: nothing.
    #[serde(default)]
    pub(crate) args: Value,
    /// The turn whose question this answers: if another is asked by now, nothing is done.
    #[serde(default)]
    pub(crate) turn_id: Option<Uuid>,
    /// The `seq` of the question that this answers: if another is asked by now, also by the same turn, nothing is done.
    #[serde(default)]
    pub(crate) seq: Option<u64>,
}

/// In which way a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Yes; in doubt: it happened.
    Accept,
    /// With a text or JSON of one's own.
    Edit,
    /// With words. `response` says the same.
    #[serde(alias = "response")]
    Respond,
    /// Not at all: the turn is called off.
    Ignore,
}

impl Way {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Accept => "accept",
            Way::Edit => "edit",
            Way::Respond => "respond",
            Way::Ignore => "ignore",
        }
    }
}

/// What kind of decision is wanted of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskedKind {
    /// What is meant?
    Clarification,
    /// A value that is missing.
    SlotFill,
    /// One of several.
    Choice,
    /// May this be done?
    Approval,
    /// Which of several readings?
    Ambiguity,
    /// Did this happen?
    InDoubt,
    /// What does a tool want to hear?
    Input,
}

impl From<InterruptKind> for AskedKind {
    fn from(it: InterruptKind) -> Self {
        match it {
            InterruptKind::Clarification => AskedKind::Clarification,
            InterruptKind::SlotFill => AskedKind::SlotFill,
            InterruptKind::Choice => AskedKind::Choice,
            InterruptKind::Approval => AskedKind::Approval,
            InterruptKind::Ambiguity => AskedKind::Ambiguity,
            InterruptKind::InDoubt => AskedKind::InDoubt,
            InterruptKind::Input => AskedKind::Input,
        }
    }
}
