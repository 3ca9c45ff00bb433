//! Tests of the worker against real endpoints, servers and files.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among many")]

mod buffered_decisions;
mod counts;
mod crash;
mod deaths;
mod early_answers;
mod fairness;
mod forked;
mod job_notes;
mod killed;
mod late_answers;
mod limits;
mod pauses;
mod read_back;
mod rebuilt;
mod recording_queue;
mod refusals;
mod sample;
mod sim;
mod stops;
mod transcripts;
