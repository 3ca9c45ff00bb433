//! Tests of the command line: one binary, a file for each part.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test matches one variant among many")]

mod actors;
mod analysis;
mod attachments;
mod audit;
mod batch;
mod book;
mod bulk;
mod clocks;
mod command_line;
mod config;
mod connections;
mod console;
mod demo_under_faults;
mod engine;
mod errors;
mod failover;
mod failures;
mod fair;
mod first_minutes;
mod fixture;
mod fixtures_on_servers;
mod follow;
mod guide;
mod hostile_text;
mod inbox;
mod index;
mod keys_and_addresses;
mod ledgers;
mod llm;
mod local;
mod maintenance;
#[cfg(feature = "milvus")]
mod milvus;
mod models;
mod new_strategy;
mod openai_batches;
mod openai_clients;
mod operator;
mod ops;
mod own_crate;
mod pins;
mod poison;
mod queue;
mod real_servers;
mod redrive;
mod results;
mod secrets;
mod soak;
mod startup;
mod streaming;
mod submissions;
mod tenants;
mod tour;
mod waiting;
