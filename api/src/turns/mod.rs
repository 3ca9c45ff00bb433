//! Turns: submit, list, show, cancel, retry and rate.

pub(crate) mod bounds;
pub(crate) mod cancel_retry;
pub(crate) mod client_calls;
pub(crate) mod content;
pub(crate) mod failures;
pub(crate) mod lookup;
pub(crate) mod multitask;
pub(crate) mod opening;
pub(crate) mod pending;
mod pending_reason;
pub(crate) mod prices;
pub(crate) mod rating;
pub(crate) mod reply_options;
pub(crate) mod routes;
pub(crate) mod submit;
pub(crate) mod timeline;
