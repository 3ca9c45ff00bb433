//! Audits of real stores, and of the fixtures of every strategy.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must panic")]

mod approvals;
mod attacks;
mod audit_test;
mod bisect;
mod bundle;
mod checkpoints;
mod cost;
mod diff;
mod explain;
mod fixtures;
mod golden;
mod keys;
mod mistyped;
mod replay;
mod times;
mod vectors;
mod whatif;
