//! Attributes the time of turns: each moment has exactly one use, and the log alone decides which.
//!
//! ## Known to the log, and not
//!
//! Responses have exact durations, and events the times of their appends. Between a request and its answer, what the duration does
//! not cover was before the request was sent. Nothing delays a request but a limit, a pause, or a provider, so this is their time,
//! unless it is so short that the engine itself explains it. A thread whose next step is not a request leaves its worker only for
//! the queue, so a gap there is the wait for a slot.

mod open_request;
mod partition;
mod requests;
mod timekeeper;

pub use api_types::TimeKind;

pub use self::{
    partition::{Segment, TurnTime},
    requests::Attempt,
    timekeeper::Timekeeper,
};
