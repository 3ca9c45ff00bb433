//! Integration tests, in one binary.

#![expect(clippy::disallowed_methods, reason = "fixtures are files, and cargo is a program")]

mod budgets;
mod fixtures;
mod fork;
mod laws;
mod pauses;
mod prompts;
mod purity;
mod replay;
mod upcasts;
