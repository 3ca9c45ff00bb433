//! Tests of the command line: one binary, a file for each part.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among many")]

mod attachments;
mod audit;
mod batch;
mod book;
mod books;
mod bulk;
mod clocks;
mod command_line;
mod config;
mod connections;
mod console;
mod distance;
mod disturbed;
mod door;
mod endings;
mod engine;
mod failover;
mod fair;
mod first_minutes;
mod fixture;
mod follow;
mod guide;
mod hostile_text;
mod inbox;
mod index;
mod llm;
mod local;
mod looks;
#[cfg(feature = "milvus")]
mod milvus;
mod models;
mod new_strategy;
mod openai_batches;
mod openai_clients;
mod operator;
mod ops;
mod person;
mod pins;
mod poison;
mod queue;
mod real_servers;
mod redrive;
mod results;
mod secrets;
mod soak;
mod starts;
mod streaming;
mod submissions;
mod tour;
mod upkeep;
mod waiting;
mod whose;
mod words;
