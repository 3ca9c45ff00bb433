//! Requests to models, MCP servers and the index, and their responses, as recorded in the log.

mod description;
mod display;
mod fault;
mod kinds;
mod model;
mod response;
mod search;
mod simulation;

pub(crate) use self::display::{arguments, json, quoted};
pub use self::{
    description::{Description, Hit},
    fault::{Fault, FaultKind, Oversize},
    kinds::{COMMANDS, Request},
    model::{ModelParameters, WebSearch},
    response::Response,
    search::{Metric, SearchOptions, matches_pattern},
    simulation::Simulation,
};
