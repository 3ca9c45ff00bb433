//! Integration tests of the store on SQLite, PostgreSQL and Milvus; those that must hold on every database are in [`conformance`].

mod conformance;
mod distribution;
mod failover;
mod index;
mod log;
#[cfg(feature = "milvus")]
mod milvus;
mod pins;
mod plans;
mod plans_at_size;
mod postgres;
mod search_at_size;
