//! One file a node, in the order a thread meets them.

mod describe;
mod index;
mod report;

pub(super) use self::{describe::Describe, index::Index, report::Report};
