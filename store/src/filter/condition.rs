//! A condition on turns, and the fields that conditions compare.

use queue::Priority;
use shared::{OutcomeKind, Rating, TurnStatus};
use uuid::Uuid;

use crate::{QueryWords, log::short_ids::PartOfId};

/// A single condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Text {
        field: TextField,
        how: How,
        value: String,
    },
    Status {
        is: Is,
        value: TurnStatus,
    },
    Outcome {
        is: Is,
        value: OutcomeKind,
    },
    Priority {
        is: Is,
        value: Priority,
    },
    Thread {
        is: Is,
        value: Uuid,
    },
    /// A thread by a part of its id.
    ThreadPart {
        is: Is,
        part: PartOfId,
    },
    Time {
        field: TimeField,
        side: Side,
        at: i64,
    },
    /// The turn was submitted later, or its thread was made later, in microseconds since the Unix epoch.
    Since(i64),
    /// An event of the turn has these words.
    Words(QueryWords),
    /// The turn has this tool, model, prompt or worker.
    Indexed {
        field: IndexedField,
        is: Is,
        value: String,
    },
    /// The last rating of the turn by a person. A turn without a rating has another one.
    Rated {
        is: Is,
        value: Rating,
    },
    /// Cost in millionths of a US dollar, tokens, or time in microseconds.
    Amount {
        field: AmountField,
        side: Side,
        value: i64,
    },
    /// The turn ran for a line of a batch whose id has this part.
    Batch {
        is: Is,
        part: PartOfId,
    },
    /// The turn ran for a line of a batch with this custom id.
    CustomId {
        is: Is,
        value: String,
    },
}

/// Field that is compared as text; a missing value compares as an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextField {
    Strategy,
    Tenant,
    Author,
    Error,
    Cause,
    /// Metadata from the client, under this key.
    Metadata(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeField {
    Created,
    Updated,
}

/// Field that the search index has by its exact value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexedField {
    /// A tool that was called: `server.tool`, or the tool alone.
    Tool,
    /// A model that was asked: `provider/model`, or the model alone.
    Model,
    /// A prompt, by the beginning of its hash.
    Prompt,
    /// A worker that attempted a call, took a turn over, or lost one.
    Worker,
}

/// Field that is compared as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmountField {
    /// Cost of the turn so far.
    MicroUsd,
    /// Tokens of the turn so far.
    Tokens,
    /// Time from the submission to the end.
    Took,
}

/// Comparison of two texts, case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Is,
    IsNot,
    Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Is,
    IsNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}
