//! The hands: takes a job, lets one node happen in the world of models and MCP servers, appends what happened.
//!
//! ```text
//!   queue ──take──▶ Worker ──spawn──▶ Job::work: read the log · next · perform · append ──▶ ring again, or rest
//!                     │ renews leases, sweeps, drains
//! ```

mod backoff;
mod job;
mod sweep;
mod worker;
pub mod world;

pub use backoff::Backoff;
pub use job::{Done, Hands};
pub use worker::{Limits, Stop, Worker};
