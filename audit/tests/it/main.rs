//! The second look, on real stores and at the fixtures of every strategy.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must panic")]

mod attacks;
mod bisect;
mod bundle;
mod cost;
mod diff;
mod fixtures;
mod golden;
mod replay;
mod scene;
mod why;
mod witness;
