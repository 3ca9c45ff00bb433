//! Tests of the command line: one binary, a file for each part.

mod config;
mod disturbed;
mod distance;
mod endings;
mod engine;
mod first_minutes;
mod words;
