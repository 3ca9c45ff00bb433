//! The one test binary of the crate.

mod fixtures;
mod laws;
mod purity;
