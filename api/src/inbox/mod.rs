//! The inbox: all open questions to people, and one request to answer any of them.
//!
//! The inbox adds no operation of its own. An answer becomes a turn, a verdict reconciles a call in doubt, and ignoring a
//! question cancels its turn.

mod action;
pub(crate) mod routes;
pub(crate) mod settle;
