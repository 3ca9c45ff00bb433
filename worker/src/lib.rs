//! The hands: takes a job, lets its nodes happen in the world of models and MCP servers, appends what happened.
//!
//! ```text
//!   queue ──take──▶ Worker ──spawn──▶ Hands::step: next · perform · append ──▶ go on, ring again, or rest
//!                     │ renews leases, sweeps, drains, keeps threads warm
//! ```

mod backoff;
mod bounds;
mod desk;
mod flights;
mod job;
mod others;
mod pauses;
mod strange;
mod sweep;
mod warm;
mod worker;
pub mod world;

pub use backoff::Backoff;
pub use bounds::Bounds;
pub use job::{Done, Hands};
pub use sweep::{Unrung, ring, unrung};
pub use worker::{Limits, Stop, Worker};
