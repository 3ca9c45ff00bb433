//! Export of traces: afterwards from the log, and live.

mod collector;
mod live;
mod traces;

pub(crate) use self::{
    collector::Collector,
    live::LiveExport,
    traces::{SPANS_MAX, Traces, peers},
};
