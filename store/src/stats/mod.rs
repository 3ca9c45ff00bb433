//! Counts of ended turns and of model responses over time, for the whole deployment.
//!
//! ## Why they have tables of their own
//!
//! The rows of turns have no index by the end of a turn: in PostgreSQL, it would make each turn that ends a new row version
//! in every index. Tokens and cost are in events, which have no index by time either. Each process therefore counts in
//! memory what it appends, and adds its counts to the tables every second. The cost of a query depends on the number
//! of intervals, not on the number of turns.
//!
//! ## Why nothing is lost for long
//!
//! Nothing depends on these counts. A process that is killed loses those of its last second, and
//! a rebuild counts them again from the logs.

mod intervals;
mod query;
mod tally;
mod write;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{UnknownStatus, log::status::status};

pub(crate) use tally::UnwrittenCounts;

pub use intervals::{Intervals, Resolution};
pub use query::{CauseCount, EndedCount, OpenTurns, Stats, UsageCount, UsageShare};
pub use tally::{Counted, ModelResponse, Tally};

status! {
    /// End of a turn, as it is counted.
    CountedEnd {
        /// Completed with an answer.
        Answered = "answered",
        /// Completed with a partial outcome.
        Partial = "partial",
        /// Completed, and its request was declined.
        Declined = "declined",
        /// Asked a person.
        Interrupted = "interrupted",
        /// A node failed permanently.
        Failed = "failed",
        /// Cancelled before it ended.
        Cancelled = "cancelled",
    }
}
