//! Threads: list, show, answer, fork, explain and verify.

pub(crate) mod answer;
pub(crate) mod attachments;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod routes;
pub(crate) mod view;
