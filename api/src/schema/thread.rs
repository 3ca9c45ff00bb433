//! A thread, what it remembers, and what a person does to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::Standing;
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
    /// Whether the chain is intact and today's code would have decided as the log says.
    pub(crate) ok: bool,
    /// How many events were looked at.
    pub(crate) events: u64,
    /// Whether the stored bytes are those that were appended.
    pub(crate) chain: ChainView,
    /// Where today's code would have decided otherwise.
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
    /// What was decided then.
    pub(crate) then: String,
    /// What would be decided today.
    pub(crate) today: String,
}

impl From<shared::Divergence> for Divergence {
    fn from(it: shared::Divergence) -> Self {
        Self { seq: it.seq, then: it.then, today: it.today }
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
