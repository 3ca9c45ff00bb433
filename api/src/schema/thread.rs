//! A thread, what it remembers, and what a person does to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{Budget, Standing};
use store::time::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Interrupt, Message, Took};

/// Where a thread stands, as the list of threads has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThreadStatus {
    /// A person may speak.
    Idle,
    /// It can move.
    Busy,
    /// A person is asked.
    Interrupted,
    /// A node gave up: an operator may retry, a person may say something new.
    Error,
}

impl From<store::ThreadStatus> for ThreadStatus {
    fn from(it: store::ThreadStatus) -> Self {
        match it {
            store::ThreadStatus::Idle => ThreadStatus::Idle,
            store::ThreadStatus::Busy => ThreadStatus::Busy,
            store::ThreadStatus::Interrupted => ThreadStatus::Interrupted,
            store::ThreadStatus::Error => ThreadStatus::Error,
        }
    }
}

impl From<ThreadStatus> for store::ThreadStatus {
    fn from(it: ThreadStatus) -> Self {
        match it {
            ThreadStatus::Idle => store::ThreadStatus::Idle,
            ThreadStatus::Busy => store::ThreadStatus::Busy,
            ThreadStatus::Interrupted => store::ThreadStatus::Interrupted,
            ThreadStatus::Error => store::ThreadStatus::Error,
        }
    }
}

/// A thread in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadLine {
    /// Which.
    pub(crate) id: Uuid,
    /// Whom it belongs to.
    #[schema(examples("default"))]
    pub(crate) tenant: String,
    /// Its strategy.
    #[schema(examples("probe"))]
    pub(crate) strategy: String,
    /// Where it stands.
    pub(crate) status: ThreadStatus,
    /// When it was opened (RFC 3339).
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub(crate) created_at: String,
    /// When its status last changed (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub(crate) updated_at: String,
}

impl From<store::Thread> for ThreadLine {
    fn from(it: store::Thread) -> Self {
        Self {
            id: it.id,
            tenant: it.tenant,
            strategy: it.strategy,
            status: it.status.into(),
            created_at: rfc3339(it.created_at),
            updated_at: rfc3339(it.updated_at),
        }
    }
}

/// A thread, and what its log says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadView {
    #[serde(flatten)]
    pub(crate) line: ThreadLine,
    /// Where its log says that it stands.
    pub(crate) standing: StandingName,
    /// What it asks, if it waits for a person.
    pub(crate) interrupt: Option<Interrupt>,
    /// Why it failed, if it did.
    pub(crate) error: Option<String>,
    /// The node that control is at, if a turn is under way.
    #[schema(examples("step"))]
    pub(crate) node: Option<String>,
    /// The turn that is under way, or was last.
    pub(crate) turn_id: Option<Uuid>,
    /// The conversation so far.
    pub(crate) messages: Vec<Message>,
    /// What all its turns took of the world.
    pub(crate) took: Took,
    /// How many events its log has.
    pub(crate) events: u64,
    /// What its log begins with a copy of, if it was forked.
    pub(crate) forked: Option<Origin>,
}

/// What the log of a forked thread begins with a copy of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Origin {
    /// The thread.
    pub(crate) thread_id: Uuid,
    /// The last of its events that was copied.
    pub(crate) seq: u64,
    /// The hash of that event in the log of that thread, in hex.
    pub(crate) hash: String,
}

impl From<&shared::Forked> for Origin {
    fn from(it: &shared::Forked) -> Self {
        Self { thread_id: it.thread, seq: it.seq, hash: it.hash.clone() }
    }
}

/// What a fork changes, and where it is taken.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"at": 13, "config": {"model": "openai/gpt-4o-mini"}}), json!({"at": 6, "answer": "green"})))]
pub(crate) struct Fork {
    /// The last event that is copied; the last there is, if nobody says.
    #[serde(default)]
    pub(crate) at: Option<u64>,
    /// Tunes the strategy from there on, over what was in force.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) config: Option<Map<String, Value>>,
    /// What it and each of its turns may take from there on, instead of the budget in force and within what the operator
    /// allows; what the copied turns took counts: `{"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) budget: Option<Budget>,
    /// What a model is told first from there on, by node; `{prompt}` stands for the node's own words.
    #[serde(default)]
    pub(crate) prompts: BTreeMap<String, String>,
    /// Facts that the strategy takes for concluded, as its decisions have them under `learned`: what it remembers, changed.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub(crate) learned: Vec<Value>,
    /// What the new thread hears first: the answer, if a person is asked there.
    #[serde(default)]
    pub(crate) answer: Option<String>,
}

/// Where a log says that its thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StandingName {
    /// A person may speak.
    Idle,
    /// It can move.
    Busy,
    /// A person is asked.
    Waiting,
    /// A node gave up.
    Failed,
}

impl From<&Standing> for StandingName {
    fn from(it: &Standing) -> Self {
        match it {
            Standing::Idle => StandingName::Idle,
            Standing::Busy => StandingName::Busy,
            Standing::Waiting(_) => StandingName::Waiting,
            Standing::Failed { .. } => StandingName::Failed,
        }
    }
}

/// What a thread had become after some event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StateView {
    /// The number of that event.
    pub(crate) seq: u64,
    /// What the strategy remembered.
    pub(crate) state: Value,
    /// The conversation.
    pub(crate) messages: Vec<Message>,
    /// Where it stood.
    pub(crate) standing: StandingName,
    /// What it asked, if it waited for a person.
    pub(crate) interrupt: Option<Interrupt>,
    /// The node that control was at, if a turn was under way.
    pub(crate) node: Option<String>,
    /// The configuration in force: what the thread opened with, completed by the defaults.
    pub(crate) config: Value,
}

/// What an audit of a thread says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verification {
    /// Whether the chain is intact and today's code would have decided as the log says; a prompt that is worded otherwise
    /// counts if prompts are asked for.
    pub(crate) ok: bool,
    /// How many events were looked at.
    pub(crate) events: u64,
    /// Whether the stored bytes are those that were appended.
    pub(crate) chain: ChainView,
    /// At how many events today's code would have decided otherwise.
    pub(crate) diverged: u64,
    /// How many prompts would be worded otherwise, and nothing else with them.
    pub(crate) reworded: u64,
    /// Where: decisions first, then prompts if they are asked for; the first thousand.
    pub(crate) divergences: Vec<Divergence>,
    /// Why today's code cannot read the log, if it cannot.
    pub(crate) unreadable: Option<String>,
}

/// Whether the stored bytes of a log are those that were appended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainView {
    /// Whether they are.
    pub(crate) intact: bool,
    /// The hash of the last event, in hex, if they are. Compare it with one kept elsewhere to know that nothing was
    /// cut off.
    pub(crate) head: Option<String>,
    /// The first number at which they are not.
    pub(crate) broken_at: Option<u64>,
    /// What is wrong there.
    pub(crate) problem: Option<String>,
}

/// Where the code of today parts from the log of then.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Divergence {
    /// The number of the event.
    pub(crate) seq: usize,
    /// The node that decided it.
    pub(crate) node: String,
    /// What of the decision differs, the gravest thing if there are many: `event`, `to`, `state.…`, `said.…`, `why` of what
    /// is decided; `requests.…` of what is asked of the world, `requests.0.system` being the words of a prompt.
    #[schema(examples("state.plan.steps.2"))]
    pub(crate) field: String,
    /// What it was then.
    pub(crate) then: String,
    /// What it would be today.
    pub(crate) today: String,
}

impl From<shared::Divergence> for Divergence {
    fn from(it: shared::Divergence) -> Self {
        let shared::Divergence { seq, node, field, then, today } = it;
        Self { seq, node, field: field.to_string(), then, today }
    }
}

/// The answer to what a thread asks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// The words: an option by its words or its number from 1, where there are options.
    #[schema(examples("green"))]
    pub(crate) text: String,
}

/// What had become of a call in doubt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"slot": 0, "verdict": {"happened": {"result": "sent"}}}),
    json!({"slot": 0, "verdict": "did_not"})
))]
pub(crate) struct Reconcile {
    /// Which of the node's requests.
    pub(crate) slot: usize,
    /// What had become of it.
    pub(crate) verdict: Verdict,
}

/// What had become of a call in doubt.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Verdict {
    /// It happened, with this result.
    Happened {
        /// What the tool would have said.
        #[schema(examples("sent"))]
        result: String,
    },
    /// It did not happen: it may be attempted.
    DidNot,
    /// Nobody knows, and it shall not be attempted again.
    Skip,
}

impl From<Verdict> for shared::Verdict {
    fn from(it: Verdict) -> Self {
        match it {
            Verdict::Happened { result } => shared::Verdict::Happened { result },
            Verdict::DidNot => shared::Verdict::DidNot,
            Verdict::Skip => shared::Verdict::Skip,
        }
    }
}
