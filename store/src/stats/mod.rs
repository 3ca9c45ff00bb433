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
//! A process that is killed loses the counts of its last second. Another process finds its row in `count_writers` and adds what
//! the logs have more than the tables, two to three minutes later. A rebuild counts everything again from the logs.

mod compare;
mod intervals;
mod lost;
mod prompts;
mod query;
mod tally;
mod uses;
mod write;
mod writers;

use shared::status;

pub(crate) use tally::UnwrittenCounts;
pub(crate) use write::insert as add_counts;

pub use compare::LowCounts;
pub use intervals::{Intervals, Resolution};
pub use lost::LostCounts;
pub use prompts::PromptUse;
pub use query::{CauseCount, EndedCount, OpenTurns, Stats, UsageCount, UsageShare};
pub use tally::{Counted, ModelResponse, Tally};
pub use uses::{AskedModel, Ratings};

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
        /// A call is in doubt. The turn goes on once that is settled, and ends again.
        InDoubt = "in_doubt",
        /// A node failed permanently.
        Failed = "failed",
        /// Cancelled before it ended.
        Cancelled = "cancelled",
    }
}
