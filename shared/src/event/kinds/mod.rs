//! Payload of each kind of event.
//!
//! Released payloads are stable: fields may be added with a default, but are never renamed or removed.

mod caller;
mod decision;
mod doubt;
mod forked;
mod input;
mod interrupt;
mod opened;
mod rated;
mod requests;
mod turn;

pub use self::{
    caller::CallerId,
    decision::{Decided, Failed, Goto, Retried, Summarised},
    doubt::{InDoubt, Reading, Reconciled, Verdict},
    forked::Forked,
    input::{InputProvided, InputRequired},
    interrupt::{Interrupt, InterruptKind},
    opened::{DEFAULT_TENANT, Opened},
    rated::{RATING_NOTE_MAX, Rated, Rating},
    requests::{Abandoned, Answered, Asked, AttemptFailed, Attempted, TaskStarted, WriteEnded, WriteEnding},
    turn::{Cancelled, TakenOver, TurnKind, TurnStarted},
};
