//! Tests of requests to models, MCP servers, commands and the index, and of every dialect.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among many")]

mod dialects;
mod world;
