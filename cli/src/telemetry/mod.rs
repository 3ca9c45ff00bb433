//! Export of traces: afterwards from the log, and live.

mod collector;
mod live;
mod traces;

pub(crate) use self::{
    collector::{Collector, DEFAULT_ENDPOINT},
    live::LiveExport,
    traces::{Traces, requests},
};
