//! Integration tests: every implementation against the same checks, and the Redis ones against failures of Redis.

mod conformance;
mod redis;
