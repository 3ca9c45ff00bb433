//! One file per node, in the order in which a thread visits them.

mod describe;
mod index;
mod report;

pub(super) use self::{describe::Describe, index::Index, report::Report};
