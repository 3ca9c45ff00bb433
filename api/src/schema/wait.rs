//! What turns wait for, as an operator sees it.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::turn::Priority;

/// Why a turn does not run right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitCause {
    /// A worker must have a slot free, and those before it have their turn.
    Worker,
    /// A limit has no room for it.
    Limit,
    /// Its strategy, its tenant or its model is paused.
    Paused,
    /// Something faltered, and is tried again later.
    Retry,
    /// Nobody has rung for it yet; the workers' sweep will.
    Unrung,
    /// Another turn of its thread comes first, or a person whom its thread waits for.
    Behind,
    /// It is not to be heard before a time that was said.
    NotDue,
    /// It asked a person.
    Person,
}

/// Turns that wait for the same.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WaitGroup {
    /// What for.
    pub(crate) cause: WaitCause,
    /// The same in words, where there is more to say.
    #[schema(examples("model openai/gpt-4o is at its 20 requests at once"))]
    pub(crate) why: Option<String>,
    /// How many.
    pub(crate) turns: u64,
    /// Since when the first of them waits (RFC 3339).
    pub(crate) since: String,
    /// When the first of them may go on (RFC 3339), where that is known.
    pub(crate) until: Option<String>,
    /// The first and the last of their places in their lane, of those that wait for a worker.
    pub(crate) places: Option<(u64, u64)>,
}

/// A turn that waits.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WaitLine {
    /// Which.
    pub(crate) turn_id: Uuid,
    /// The thread that hears it.
    pub(crate) thread_id: Uuid,
    /// Whom that belongs to.
    pub(crate) tenant: String,
    /// The thread's strategy.
    pub(crate) strategy: String,
    /// How urgent it is.
    pub(crate) priority: Priority,
    /// What it waits for.
    pub(crate) cause: WaitCause,
    /// The same in words, where there is more to say.
    pub(crate) why: Option<String>,
    /// Its place in its lane, if it waits for a worker; 1 is the first.
    pub(crate) place: Option<u64>,
    /// Since when (RFC 3339): that it was submitted, heard, or asked.
    pub(crate) since: String,
    /// When it may go on (RFC 3339), where that is known.
    pub(crate) until: Option<String>,
}

/// What turns wait for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitPage {
    /// All of them, counted by what they wait for.
    pub(crate) groups: Vec<WaitGroup>,
    /// Turns that could go on, of which nobody knows why they do not, because there are so many, or a node of a Redis Cluster is
    /// away: they are in no group.
    pub(crate) not_looked_at: u64,
    /// Some of them, in the order of the groups.
    pub(crate) data: Vec<WaitLine>,
    /// Whether there are more than these.
    pub(crate) has_more: bool,
}
