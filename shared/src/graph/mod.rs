//! A strategy without its types, for the API, the workers and the auditor, and its diagram.

mod erased;
mod progress;
mod ranges;
mod thread;
mod topology;

pub use self::{
    erased::Graph,
    thread::DynThread,
    topology::{NodeInfo, Topology, Walked, map},
};
