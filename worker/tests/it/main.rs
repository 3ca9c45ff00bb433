//! Tests of the worker against real endpoints, servers and files.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among many")]

mod ahead;
mod counted;
mod crash;
mod deaths;
mod dialects;
mod fair;
mod forked;
mod killed;
mod late_answers;
mod limits;
mod lived;
mod noted;
mod pauses;
mod rebuilt;
mod refusals;
mod sim;
mod stops;
mod world;
