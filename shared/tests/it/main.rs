//! Integration tests, in one binary.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among many")]
#![expect(clippy::disallowed_methods, reason = "fixtures are files, and cargo is a program")]

mod approvals;
mod bounds;
mod budgets;
mod context;
mod fixtures;
mod fork;
mod late_answers;
mod laws;
mod nodes;
mod outcomes;
mod pauses;
mod prompts;
mod purity;
mod replay;
mod tasks;
mod upcasts;
mod user_message;
