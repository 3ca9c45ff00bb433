//! Schedules, and the task that submits what they name.
//!
//! ```text
//!   POST /v1/schedules ─▶ row      due ─▶ POST /v1/turns or /v1/batches with the key schedule-ID-TIME ─▶ the next time
//! ```
//!
//! **Invariant:** a firing is a request to a route of the API in the same process, with the rights that the key of the schedule
//! has at that time. Several processes may send it, and one that is killed sends it again; its key makes it one turn.

mod catch_up;
pub(crate) mod routes;
pub(crate) mod scheduler;
mod timetable;
mod view;
