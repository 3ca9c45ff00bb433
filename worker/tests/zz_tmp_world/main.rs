//! Temporary.
mod world;
