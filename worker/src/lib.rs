//! The worker: claims jobs, runs the nodes of their threads, and appends the results to the event log.
//!
//! ```text
//!   queue ──claim──▶ Worker ──spawn──▶ JobExecutor ──▶ StepRunner::step: next · perform · append
//!                      │                    └─▶ continue in place, re-enqueue, or acknowledge
//!                      └─ renews leases, runs the sweeper, drains on shutdown
//! ```

#![warn(missing_docs)]

mod admission;
mod admitted;
mod answer_stream;
mod backoff;
mod blocked;
mod conclude;
mod executor;
mod forgotten_models;
mod in_flight;
mod late_answers;
mod learned_limits;
mod limit_warnings;
mod ownership;
mod patience;
mod pauses;
mod perform;
mod registration;
mod request_metrics;
mod resumed_models;
mod retry_policy;
mod running_turns;
mod shutdown;
mod step;
mod suspects;
mod sweeper;
mod takeover;
#[cfg(feature = "testing")]
pub mod testing;
mod thread_cache;
mod turn_limits;
mod version_skew;
mod worker;

pub use admission::RequestAdmission;
pub use backoff::Backoff;
pub use registration::host;
pub use retry_policy::{RetryPolicies, RetryPolicy};
pub use running_turns::MaxRunningTurns;
pub use shutdown::Shutdown;
pub use step::{StepOutcome, StepRunner};
pub use sweeper::{MissingJob, enqueue_missing_jobs, find_missing_jobs};
pub use turn_limits::TurnLimits;
pub use worker::{Worker, WorkerConfig};
