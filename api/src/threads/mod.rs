//! Threads: list, show, answer, fork, explain, verify, hold and delete.

pub(crate) mod answer;
pub(crate) mod attachments;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod list;
pub(crate) mod listed;
pub(crate) mod page;
pub(crate) mod prompt;
mod redacted;
pub(crate) mod retention;
pub(crate) mod routes;
mod states;
pub(crate) mod view;
