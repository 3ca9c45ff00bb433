//! Progress of a thread: folds its log, determines the next step, and turns the outcomes of requests into events.

mod accept;
mod asking;
mod budget_end;
mod decide;
mod empty_reply;
mod fit;
mod fold;
mod folded;
mod invalid_log;
mod limits;
mod next;
mod offer;
mod offers;
mod open_calls;
mod oversize;
mod phase;
mod read_back;
mod receive;
mod rollback;
mod slot;
mod status;
mod stop;
mod unended;
mod unoffered;
mod window;

pub(crate) use self::phase::name;
pub use self::{
    accept::MessageRejected,
    empty_reply::EMPTY_REPLY,
    fit::SUMMARISE_PROMPT,
    folded::Progress,
    invalid_log::InvalidLog,
    next::{Next, PendingRequest},
    phase::SUMMARISE_NODE,
    receive::{Attempt, INPUT_ROUNDS_MAX},
    slot::{ATTEMPTS_MAX, OpenTask, SKIPPED},
    status::RunStatus,
    stop::says_stop,
    unended::UnendedWrite,
    unoffered::STRAY_CALLS,
};
